package pyrmq.spark;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.types.DataType;

/**
 * A topic of {@link RocketMQCatalog}. SELECT * gives the columns that a read has by itself, and the
 * properties; a query may name all others.
 */
final class CatalogTable extends MessageTable implements SupportsMetadataColumns {
  private final String title;

  CatalogTable(String title, Options options) {
    super(
        Columns.schema(Columns.all().subList(0, Columns.WITH_PROPERTIES), "map"),
        options.with(Map.of("properties", "map")),
        Map.of(
            TableCatalog.PROP_PROVIDER,
            "rocketmq",
            TableCatalog.PROP_LOCATION,
            options.get("path"),
            TableCatalog.OPTION_PREFIX + "topic",
            options.get("topic")),
        new PythonSource());
    this.title = title;
  }

  @Override
  public String name() {
    return title;
  }

  @Override
  public MetadataColumn[] metadataColumns() {
    List<String> names = Columns.all();
    return names.subList(Columns.WITH_PROPERTIES, names.size()).stream()
        .map(name -> new Further(name, Columns.type(name, "map")))
        .toArray(MetadataColumn[]::new);
  }

  @Override
  public Set<TableCapability> capabilities() {
    return Set.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ);
  }

  private record Further(String name, DataType dataType) implements MetadataColumn {}
}
