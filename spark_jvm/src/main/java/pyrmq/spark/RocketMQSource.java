package pyrmq.spark;

import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SQLContext;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.sources.BaseRelation;
import org.apache.spark.sql.sources.CreatableRelationProvider;
import org.apache.spark.sql.sources.DataSourceRegister;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The data source `rocketmq`. Spark makes one for each frame, table and write. */
public final class RocketMQSource
    implements TableProvider, DataSourceRegister, CreatableRelationProvider {
  private final PythonSource python = new PythonSource();

  @Override
  public String shortName() {
    return "rocketmq";
  }

  /** A user may give a schema; when a query is planned, the engine checks it. */
  @Override
  public boolean supportsExternalMetadata() {
    return true;
  }

  /** The columns of a read without a schema; also the first place where a typo can be reported. */
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap given) {
    Options options = options(given.asCaseSensitiveMap());
    if (options.readByPython()) {
      return python.schema(options);
    }
    String schema = Engine.options(options.given(), null, null).path("schema").toString();
    return (StructType) DataType.fromJson(schema);
  }

  @Override
  public Transform[] inferPartitioning(CaseInsensitiveStringMap given) {
    options(given.asCaseSensitiveMap());
    return new Transform[0];
  }

  @Override
  public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> given) {
    return new MessageTable(schema, options(given), given, python);
  }

  /** A write in any mode but those that ask what is there already. */
  @Override
  public BaseRelation createRelation(
      SQLContext context,
      SaveMode mode,
      scala.collection.immutable.Map<String, String> given,
      Dataset<Row> rows) {
    SparkLine.check();
    if (mode == SaveMode.Overwrite || mode == SaveMode.Ignore) {
      throw PythonWrite.refused(mode.name().toLowerCase(Locale.ROOT));
    }
    PythonWrite.send(rows, Options.of(Internals.java(given)).given(), false);
    return Internals.relation(context, rows.schema());
  }

  private static Options options(Map<String, String> given) {
    SparkLine.check(); // not when Spark makes this object, as it does for every format that it looks up
    if (!Options.isTable(given)) {
      return Options.of(given);
    }
    Options options = Options.ofTable(given);
    options.checkTable();
    return options;
  }
}
