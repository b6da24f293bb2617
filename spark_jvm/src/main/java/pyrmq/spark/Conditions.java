package pyrmq.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * WHERE as the engine's filters: of each column either a set of values or a range. All have to hold.
 *
 * <p>A predicate that cannot be said so exactly stays with Spark; where it still bounds what matches,
 * the engine gets the bound.
 */
final class Conditions {
  /** Values of an IN that go to the engine, with each task. */
  private static final int MAX_VALUES = 10_000;

  private enum Kind {
    TEXT,
    /** Text that may be null. */
    OPTIONAL_TEXT,
    QUEUE,
    LONG,
    TIME
  }

  /** Columns and the engine's names of their filters. */
  private enum Field {
    topic("topics", Kind.TEXT),
    brokerName("brokers", Kind.TEXT),
    tags("tags", Kind.OPTIONAL_TEXT),
    keys("keys", Kind.OPTIONAL_TEXT),
    queueId("queues", Kind.QUEUE),
    queueOffset("queue_offsets", Kind.LONG),
    commitLogOffset("commit_log_offsets", Kind.LONG),
    storeTimestamp("store_times", Kind.TIME),
    bornTimestamp("born_times", Kind.TIME);

    final String filter;
    final Kind kind;

    Field(String filter, Kind kind) {
      this.filter = filter;
      this.kind = kind;
    }

    static Field of(Expression expression) {
      if (!(expression instanceof NamedReference)) {
        return null;
      }
      String[] parts = ((NamedReference) expression).fieldNames();
      String name = parts.length == 1 ? Columns.own(parts[0]) : null;
      for (Field field : values()) {
        if (field.name().equals(name)) {
          return field;
        }
      }
      return null;
    }

    /** The name of the filter by a range. */
    String range() {
      return kind == Kind.QUEUE ? "queue_ids" : filter;
    }

    boolean mayBeNull() {
      return kind == Kind.OPTIONAL_TEXT;
    }
  }

  /** What a predicate says of one column: {@code exact} if it says nothing else. */
  private record Condition(Field field, Set<Object> values, long from, long before, boolean exact) {
    static Condition of(Field field, Collection<?> values) {
      return new Condition(field, new HashSet<>(values), 0, 0, true);
    }

    static Condition range(Field field, long from, long before, boolean exact) {
      return new Condition(field, null, from, before, exact);
    }

    static Condition nothing(Field field) {
      return field.kind == Kind.LONG || field.kind == Kind.TIME
          ? range(field, 0, 0, true)
          : of(field, Set.of());
    }
  }

  private final Map<Field, Set<Object>> sets = new HashMap<>();
  private final Map<Field, long[]> ranges = new HashMap<>();

  Conditions() {}

  Conditions(Conditions others) {
    others.sets.forEach((field, values) -> sets.put(field, new HashSet<>(values)));
    others.ranges.forEach((field, range) -> ranges.put(field, range.clone()));
  }

  /**
   * Takes over what it can of all predicates, which have to hold together. Returns those that Spark
   * still has to check; {@code taken} gets the others.
   */
  Predicate[] take(Predicate[] predicates, Collection<Predicate> taken) {
    List<Predicate> left = new ArrayList<>();
    List<Predicate> notNull = new ArrayList<>();
    for (Predicate predicate : predicates) {
      if (isNotNull(predicate)) {
        notNull.add(predicate);
        continue;
      }
      List<Condition> found = new ArrayList<>();
      if (!read(predicate, found)) {
        left.add(predicate);
        continue;
      }
      boolean exact = true;
      for (Condition condition : found) {
        exact &= condition.exact;
        add(condition);
      }
      (exact ? taken : left).add(predicate);
    }
    for (Predicate predicate : notNull) {
      Field field = Field.of(predicate.children()[0]);
      Set<Object> values = field.mayBeNull() ? sets.get(field) : Set.of();
      if (values == null) {
        left.add(predicate);
      } else {
        if (field.mayBeNull()) {
          values.remove(null);
        }
        taken.add(predicate);
      }
    }
    return left.toArray(new Predicate[0]);
  }

  /** Whether they may narrow where is to be read, not only which rows come out. */
  boolean narrow() {
    return !sets.isEmpty() || ranges.keySet().stream().anyMatch(field -> field != Field.bornTimestamp);
  }

  /** The struct Filters of the engine. */
  ObjectNode json() {
    ObjectNode out = Json.object();
    sets.forEach(
        (field, values) -> {
          ArrayNode list = out.putArray(field.filter);
          values.stream()
              .sorted(Comparator.comparing(String::valueOf))
              .forEach(
                  value -> {
                    if (value instanceof Integer number) {
                      list.add(number);
                    } else {
                      list.add((String) value);
                    }
                  });
        });
    ranges.forEach(
        (field, range) -> out.putArray(field.range()).add(range[0]).add(Math.max(range[0], range[1])));
    return out;
  }

  private static boolean isNotNull(Predicate predicate) {
    return predicate.name().equals("IS_NOT_NULL") && Field.of(predicate.children()[0]) != null;
  }

  private void add(Condition condition) {
    if (condition.values == null) {
      ranges.merge(
          condition.field,
          new long[] {condition.from, condition.before},
          (a, b) -> new long[] {Math.max(a[0], b[0]), Math.min(a[1], b[1])});
      return;
    }
    Set<Object> values = sets.get(condition.field);
    if (values == null) {
      sets.put(condition.field, condition.values);
    } else {
      values.retainAll(condition.values);
    }
  }

  /** The conditions of a predicate; false if it is none of ours. */
  private static boolean read(Expression expression, List<Condition> out) {
    if (!(expression instanceof Predicate predicate)) {
      return false;
    }
    Expression[] children = predicate.children();
    Condition found =
        switch (predicate.name()) {
          case "AND" -> null;
          case "OR" -> either(children[0], children[1]);
          case "ALWAYS_FALSE" -> Condition.nothing(Field.topic);
          case "IS_NULL" -> isNull(Field.of(children[0]));
          case "IN" -> in(Field.of(children[0]), children);
          case "=", "<", "<=", ">", ">=" -> compared(predicate.name(), children[0], children[1]);
          default -> null;
        };
    if (predicate.name().equals("AND")) {
      return read(children[0], out) && read(children[1], out);
    }
    return found != null && out.add(found);
  }

  /** One of two sets of values of the same column. */
  private static Condition either(Expression left, Expression right) {
    List<Condition> both = new ArrayList<>();
    if (!read(left, both) || both.size() != 1 || !read(right, both) || both.size() != 2) {
      return null;
    }
    Condition one = both.get(0);
    Condition other = both.get(1);
    if (one.field != other.field || one.values == null || other.values == null) {
      return null;
    }
    one.values.addAll(other.values);
    return one;
  }

  private static Condition isNull(Field field) {
    if (field == null || !field.mayBeNull()) {
      return field == null ? null : Condition.nothing(field);
    }
    Set<Object> onlyNull = new HashSet<>();
    onlyNull.add(null);
    return new Condition(field, onlyNull, 0, 0, true);
  }

  private static Condition in(Field field, Expression[] children) {
    if (field == null) {
      return null;
    }
    Set<Object> values = new HashSet<>();
    for (int at = 1; at < children.length; at++) {
      if (children[at] instanceof Literal<?> literal && literal.value() == null) {
        continue; // no row is equal to it
      }
      Object value = value(field, children[at]);
      if (value == null) {
        return null;
      }
      values.add(value);
    }
    boolean many = values.size() > MAX_VALUES;
    if (field.kind != Kind.LONG && field.kind != Kind.TIME && !(many && field.kind == Kind.QUEUE)) {
      return many ? null : Condition.of(field, values);
    }
    Condition hull = values.isEmpty() ? Condition.nothing(field) : null;
    for (Object value : values) {
      Condition one = range(field, "=", ((Number) value).longValue());
      if (one == null) {
        return null;
      }
      if (hull == null || hull.from >= hull.before) {
        hull = one;
      } else if (one.from < one.before) {
        long from = Math.min(hull.from, one.from);
        hull = Condition.range(field, from, Math.max(hull.before, one.before), false);
      }
    }
    return hull;
  }

  private static Condition compared(String sign, Expression left, Expression right) {
    Field field = Field.of(left);
    if (field == null) {
      return Field.of(right) == null ? null : compared(turned(sign), right, left);
    }
    Object value = value(field, right);
    if (value == null) {
      return null;
    }
    boolean equal = sign.equals("=");
    return switch (field.kind) {
      case TEXT, OPTIONAL_TEXT -> equal ? Condition.of(field, Set.of(value)) : null;
      case QUEUE ->
          equal
              ? Condition.of(field, Set.of(value))
              : range(field, sign, ((Integer) value).longValue());
      case LONG, TIME -> range(field, sign, (Long) value);
    };
  }

  private static String turned(String sign) {
    return switch (sign) {
      case "<" -> ">";
      case "<=" -> ">=";
      case ">" -> "<";
      case ">=" -> "<=";
      default -> sign;
    };
  }

  /** Null where a bound is beyond the numbers that there are. */
  private static Condition range(Field field, String sign, long value) {
    boolean time = field.kind == Kind.TIME;
    // The column has microseconds, the engine milliseconds: the first at or behind the value, and
    // the first behind it.
    long at = time ? -Math.floorDiv(-value, 1000) : value;
    long behind = time ? Math.floorDiv(value, 1000) + 1 : value + 1;
    if (value == Long.MAX_VALUE || value == Long.MIN_VALUE) {
      return null;
    }
    return switch (sign) {
      case "=" -> Condition.range(field, at, behind, true);
      case ">=" -> Condition.range(field, at, Long.MAX_VALUE, true);
      case ">" -> Condition.range(field, behind, Long.MAX_VALUE, true);
      case "<" -> Condition.range(field, Long.MIN_VALUE, at, true);
      case "<=" -> Condition.range(field, Long.MIN_VALUE, behind, true);
      default -> null;
    };
  }

  /** The value that a column is compared with; null if it is none of its type. */
  private static Object value(Field field, Expression expression) {
    if (!(expression instanceof Literal<?> literal) || literal.value() == null) {
      return null;
    }
    Object value = literal.value();
    return switch (field.kind) {
      case TEXT, OPTIONAL_TEXT -> value instanceof UTF8String text ? exact(text) : null;
      // By class: of an IN with many values Spark says another type.
      case QUEUE -> value instanceof Integer ? value : null;
      case LONG, TIME -> value instanceof Long ? value : null;
    };
  }

  /** As Java's text; null if it is no UTF-8. */
  private static String exact(UTF8String text) {
    String out = text.toString();
    return UTF8String.fromString(out).equals(text) ? out : null;
  }
}
