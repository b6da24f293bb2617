package pyrmq.spark;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/** The columns that there are, and Spark's types for them. The engine checks a user's schema. */
final class Columns {
  private static final DataType MAP =
      DataTypes.createMapType(DataTypes.StringType, DataTypes.StringType, true);

  /** All of them, in the order of the documentation. */
  private static final Map<String, DataType> TYPES = new LinkedHashMap<>();

  private static final Map<String, String> OWN = new LinkedHashMap<>();

  /** Those of a read that names none and has properties; the others are asked for by name. */
  static final int WITH_PROPERTIES = 12;

  static {
    for (String name : List.of("topic", "flag", "body", "properties", "brokerName", "queueId")) {
      TYPES.put(name, DataTypes.StringType);
    }
    TYPES.put("flag", DataTypes.IntegerType);
    TYPES.put("body", DataTypes.BinaryType);
    TYPES.put("properties", MAP);
    TYPES.put("queueId", DataTypes.IntegerType);
    TYPES.put("queueOffset", DataTypes.LongType);
    TYPES.put("bornTimestamp", DataTypes.TimestampType);
    TYPES.put("storeTimestamp", DataTypes.TimestampType);
    TYPES.put("tags", DataTypes.StringType);
    TYPES.put("keys", DataTypes.StringType);
    TYPES.put("commitLogOffset", DataTypes.LongType);
    for (String name : List.of("bodyLength", "sysFlag", "storeSize", "bodyCRC", "reconsumeTimes")) {
      TYPES.put(name, DataTypes.IntegerType);
    }
    TYPES.put("preparedTransactionOffset", DataTypes.LongType);
    for (String name :
        List.of("msgId", "transactionId", "bornHost", "storeHost", "propertiesRaw")) {
      TYPES.put(name, DataTypes.StringType);
    }
    for (String name : TYPES.keySet()) {
      OWN.put(name.toLowerCase(Locale.ROOT), name);
    }
  }

  private Columns() {}

  static List<String> all() {
    return new ArrayList<>(TYPES.keySet());
  }

  /** Our name of a column that a user may write in any case; null if there is none. */
  static String own(String given) {
    return OWN.get(given.toLowerCase(Locale.ROOT));
  }

  /** Our name of the column that an expression is; null if it is something else. */
  static String own(Expression expression) {
    return expression instanceof NamedReference reference && reference.fieldNames().length == 1
        ? own(reference.fieldNames()[0])
        : null;
  }

  /** Our names of the columns of a schema that the engine has checked. */
  static List<String> own(StructType schema) {
    List<String> out = new ArrayList<>();
    for (StructField field : schema.fields()) {
      String name = own(field.name());
      if (name == null) {
        throw new IllegalArgumentException("no column " + field.name());
      }
      out.add(name);
    }
    return out;
  }

  static StructType schema(Iterable<String> names, String properties) {
    StructType out = new StructType();
    for (String name : names) {
      out = out.add(name, type(name, properties), true);
    }
    return out;
  }

  static DataType type(String name, String properties) {
    boolean text = properties.equals("json") || properties.equals("raw");
    return name.equals("properties") && text ? DataTypes.StringType : TYPES.get(name);
  }
}
