package pyrmq.spark;

import com.fasterxml.jackson.databind.JsonNode;

/** What a task has read so far: records examined and their bytes, rows given, damage left out. */
record ScanStats(long records, long recordBytes, long rows, long damagedParts, long skippedBytes) {
  static final ScanStats NOTHING = new ScanStats(0, 0, 0, 0, 0);

  static ScanStats of(JsonNode node) {
    return new ScanStats(
        node.path("records").asLong(),
        node.path("recordBytes").asLong(),
        node.path("rows").asLong(),
        node.path("damagedParts").asLong(),
        node.path("skippedBytes").asLong());
  }
}
