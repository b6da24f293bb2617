package pyrmq.spark;

import java.util.Map;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkBuildInfo;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;

/** All that is Scala of Spark, or is not a documented interface: to look at with each new version. */
final class Internals {
  private Internals() {}

  /** Our error in the class that Spark's users catch; PySpark shows its text alone. */
  static RuntimeException shown(ScanException error) {
    throw Internals.<RuntimeException>unchecked(analysis(error));
  }

  static AnalysisException analysis(ScanException error) {
    return new AnalysisException(
        error.getMessage(),
        Option.empty(),
        Option.empty(),
        Option.apply(error),
        Option.empty(),
        Map$.MODULE$.empty(),
        new QueryContext[0]);
  }

  /** Throws an exception that its caller does not declare. */
  @SuppressWarnings("unchecked")
  static <E extends Throwable> RuntimeException unchecked(Throwable error) throws E {
    throw (E) error;
  }

  static Map<String, String> java(scala.collection.immutable.Map<String, String> given) {
    return CollectionConverters.asJava(given);
  }

  static String version() {
    return SparkBuildInfo.spark_version();
  }

  /** Spark's own table for a source in Python. */
  static PythonDataSourceV2 python(String name) {
    PythonDataSourceV2 out = new PythonDataSourceV2();
    out.setShortName(name);
    return out;
  }

  /** What a write of V1 answers: nobody reads it. */
  static BaseRelation relation(SQLContext context, StructType schema) {
    return new BaseRelation() {
      @Override
      public SQLContext sqlContext() {
        return context;
      }

      @Override
      public StructType schema() {
        return schema;
      }
    };
  }

  static CaseInsensitiveStringMap options(Map<String, String> given) {
    return new CaseInsensitiveStringMap(given);
  }

  /** Columns without comments, and with text that compares bytes as the type that is usual for that. */
  static StructType plain(StructType schema) {
    StructType out = new StructType();
    for (StructField field : schema.fields()) {
      out = out.add(field.name(), plain(field.dataType()), field.nullable());
    }
    return out;
  }

  private static DataType plain(DataType type) {
    if (type.equals(DataTypes.StringType)) {
      return DataTypes.StringType; // SHOW CREATE TABLE writes STRING COLLATE UTF8_BINARY
    }
    if (type instanceof MapType map) {
      return new MapType(plain(map.keyType()), plain(map.valueType()), map.valueContainsNull());
    }
    if (type instanceof ArrayType array) {
      return new ArrayType(plain(array.elementType()), array.containsNull());
    }
    if (type instanceof StructType struct) {
      return plain(struct);
    }
    return type;
  }
}
