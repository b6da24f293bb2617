package pyrmq.spark;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column over native memory in Arrow's layout; nothing is copied.
 *
 * <p>{@link #bind} takes over one batch: it checks that every buffer has what that many rows need. That
 * offsets ascend and stay inside of their bytes is checked by the library before it gives their address.
 * The memory is the reader's: it goes with the next batch, as that of Spark's own off-heap vectors.
 */
abstract class Vector extends ColumnVector {
  private long validity;
  private int nulls;
  /** Rows, or values of a child. */
  protected int length;

  Vector(DataType type) {
    super(type);
  }

  /** The class for a type. */
  static Vector of(DataType type) {
    if (type instanceof StringType) {
      return new Text(type);
    } else if (type instanceof BinaryType) {
      return new Binary(type);
    } else if (type instanceof IntegerType || type instanceof DateType) {
      return new Ints(type);
    } else if (type instanceof LongType
        || type instanceof TimestampType
        || type instanceof TimestampNTZType) {
      return new Longs(type);
    } else if (type instanceof BooleanType) {
      return new Booleans(type);
    } else if (type instanceof DoubleType) {
      return new Doubles(type);
    } else if (type instanceof FloatType) {
      return new Floats(type);
    } else if (type instanceof ShortType) {
      return new Shorts(type);
    } else if (type instanceof ByteType) {
      return new Bytes(type);
    } else if (type instanceof DecimalType) {
      return new Decimals(type);
    } else if (type instanceof MapType map) {
      return new Pairs(map);
    } else if (type instanceof StructType struct) {
      return new Struct(struct);
    } else if (type instanceof ArrayType array) {
      return new Items(array);
    }
    throw new ScanException(
        "ConfigError", "a column of the type " + type.simpleString() + " is not supported",
        "use another type in the schema");
  }

  /** Takes over the next column of a batch, with at least so many values. */
  final void bind(BatchLayout layout, int values) {
    length = values;
    long stated = layout.take();
    layout.expect(buffers() + 1, "buffers");
    nulls = (int) Math.min(Integer.MAX_VALUE, Math.max(0, stated));
    validity = layout.buffer(nulls > 0 ? bits(values) : 0);
    bindBuffers(layout, values);
    layout.expect(children(), "children");
    bindChildren(layout, values);
  }

  /** Buffers besides that of the nulls. */
  int buffers() {
    return 1;
  }

  int children() {
    return 0;
  }

  abstract void bindBuffers(BatchLayout layout, int values);

  void bindChildren(BatchLayout layout, int values) {}

  static long bits(int values) {
    return (values + 7L) >>> 3;
  }

  static boolean bit(long address, int row) {
    return (Platform.getByte(null, address + (row >>> 3)) >>> (row & 7) & 1) != 0;
  }

  /** The reader frees the memory. */
  @Override
  public void close() {}

  @Override
  public boolean hasNull() {
    return nulls > 0;
  }

  @Override
  public int numNulls() {
    return nulls;
  }

  @Override
  public boolean isNullAt(int row) {
    return nulls > 0 && !bit(validity, row);
  }

  @Override
  public boolean getBoolean(int row) {
    throw other("boolean");
  }

  @Override
  public byte getByte(int row) {
    throw other("tinyint");
  }

  @Override
  public short getShort(int row) {
    throw other("smallint");
  }

  @Override
  public int getInt(int row) {
    throw other("int");
  }

  @Override
  public long getLong(int row) {
    throw other("bigint");
  }

  @Override
  public float getFloat(int row) {
    throw other("float");
  }

  @Override
  public double getDouble(int row) {
    throw other("double");
  }

  @Override
  public ColumnarArray getArray(int row) {
    throw other("array");
  }

  @Override
  public ColumnarMap getMap(int row) {
    throw other("map");
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    throw other("decimal");
  }

  @Override
  public UTF8String getUTF8String(int row) {
    throw other("string");
  }

  @Override
  public byte[] getBinary(int row) {
    throw other("binary");
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw other("struct");
  }

  private UnsupportedOperationException other(String asked) {
    return new UnsupportedOperationException(
        "a column of the type " + type.simpleString() + " is read as " + asked);
  }

  /** Values of a fixed size. */
  private abstract static class Fixed extends Vector {
    private final int width;
    protected long data;

    Fixed(DataType type, int width) {
      super(type);
      this.width = width;
    }

    @Override
    void bindBuffers(BatchLayout layout, int values) {
      data = layout.buffer((long) values * width);
    }
  }

  static final class Ints extends Fixed {
    Ints(DataType type) {
      super(type, 4);
    }

    @Override
    public int getInt(int row) {
      return Platform.getInt(null, data + 4L * row);
    }
  }

  static final class Longs extends Fixed {
    Longs(DataType type) {
      super(type, 8);
    }

    @Override
    public long getLong(int row) {
      return Platform.getLong(null, data + 8L * row);
    }
  }

  static final class Doubles extends Fixed {
    Doubles(DataType type) {
      super(type, 8);
    }

    @Override
    public double getDouble(int row) {
      return Platform.getDouble(null, data + 8L * row);
    }
  }

  static final class Floats extends Fixed {
    Floats(DataType type) {
      super(type, 4);
    }

    @Override
    public float getFloat(int row) {
      return Platform.getFloat(null, data + 4L * row);
    }
  }

  static final class Shorts extends Fixed {
    Shorts(DataType type) {
      super(type, 2);
    }

    @Override
    public short getShort(int row) {
      return Platform.getShort(null, data + 2L * row);
    }
  }

  static final class Bytes extends Fixed {
    Bytes(DataType type) {
      super(type, 1);
    }

    @Override
    public byte getByte(int row) {
      return Platform.getByte(null, data + row);
    }
  }

  /** Unscaled values of 16 bytes, the lowest first. */
  static final class Decimals extends Fixed {
    Decimals(DataType type) {
      super(type, 16);
    }

    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
      long low = Platform.getLong(null, data + 16L * row);
      long high = Platform.getLong(null, data + 16L * row + 8);
      if (high == low >> 63 && precision <= Decimal.MAX_LONG_DIGITS()) {
        return Decimal.createUnsafe(low, precision, scale);
      }
      byte[] bytes = ByteBuffer.allocate(16).putLong(high).putLong(low).array();
      return Decimal.apply(new BigDecimal(new BigInteger(bytes), scale), precision, scale);
    }
  }

  static final class Booleans extends Vector {
    private long data;

    Booleans(DataType type) {
      super(type);
    }

    @Override
    void bindBuffers(BatchLayout layout, int values) {
      data = layout.buffer(bits(values));
    }

    @Override
    public boolean getBoolean(int row) {
      return bit(data, row);
    }
  }

  /** Values of any size: offsets, and for texts and bytes what they lead to. */
  private abstract static class Variable extends Vector {
    private long offsets;

    Variable(DataType type) {
      super(type);
    }

    @Override
    void bindBuffers(BatchLayout layout, int values) {
      offsets = layout.buffer(4L * (values + 1L));
    }

    final int start(int row) {
      return Platform.getInt(null, offsets + 4L * row);
    }

    final int size(int row) {
      long at = offsets + 4L * row;
      return Platform.getInt(null, at + 4) - Platform.getInt(null, at);
    }

    /** How many values of a child, or bytes, all rows need. */
    final int total() {
      return start(length);
    }
  }

  private abstract static class InBytes extends Variable {
    protected long data;

    InBytes(DataType type) {
      super(type);
    }

    @Override
    int buffers() {
      return 2;
    }

    @Override
    void bindBuffers(BatchLayout layout, int values) {
      super.bindBuffers(layout, values);
      data = layout.buffer(total());
    }

    @Override
    public byte[] getBinary(int row) {
      byte[] out = new byte[size(row)];
      Platform.copyMemory(null, data + start(row), out, Platform.BYTE_ARRAY_OFFSET, out.length);
      return out;
    }
  }

  static final class Text extends InBytes {
    Text(DataType type) {
      super(type);
    }

    @Override
    public UTF8String getUTF8String(int row) {
      return UTF8String.fromAddress(null, data + start(row), size(row));
    }
  }

  static final class Binary extends InBytes {
    Binary(DataType type) {
      super(type);
    }
  }

  static final class Items extends Variable {
    private final Vector items;

    Items(ArrayType type) {
      super(type);
      items = Vector.of(type.elementType());
    }

    @Override
    int children() {
      return 1;
    }

    @Override
    void bindChildren(BatchLayout layout, int values) {
      items.bind(layout, total());
    }

    @Override
    public ColumnarArray getArray(int row) {
      return new ColumnarArray(items, start(row), size(row));
    }
  }

  static final class Pairs extends Variable {
    private final Vector keys;
    private final Vector values;

    Pairs(MapType type) {
      super(type);
      keys = Vector.of(type.keyType());
      values = Vector.of(type.valueType());
    }

    @Override
    int children() {
      return 1;
    }

    /** One child, a struct without nulls, whose children are keys and values. */
    @Override
    void bindChildren(BatchLayout layout, int rows) {
      int count = total();
      layout.expect(0, "nulls of entries");
      layout.expect(1, "buffers");
      layout.buffer(0);
      layout.expect(2, "children");
      keys.bind(layout, count);
      values.bind(layout, count);
    }

    @Override
    public ColumnarMap getMap(int row) {
      return new ColumnarMap(keys, values, start(row), size(row));
    }
  }

  static final class Struct extends Vector {
    private final Vector[] fields;

    Struct(StructType type) {
      super(type);
      fields = new Vector[type.size()];
      for (int i = 0; i < fields.length; i++) {
        fields[i] = Vector.of(type.fields()[i].dataType());
      }
    }

    @Override
    int buffers() {
      return 0;
    }

    @Override
    int children() {
      return fields.length;
    }

    @Override
    void bindBuffers(BatchLayout layout, int values) {}

    @Override
    void bindChildren(BatchLayout layout, int values) {
      for (Vector field : fields) {
        field.bind(layout, values);
      }
    }

    @Override
    public ColumnVector getChild(int ordinal) {
      return fields[ordinal];
    }
  }
}
