package pyrmq.spark;

/** Texts of files and users, as a terminal and a log may have them. */
final class Escape {
  /** Of a value in an error. */
  private static final int MOST = 200;

  private Escape() {}

  /** With the codes of characters that are hidden instead of them. */
  static String escaped(String text) {
    StringBuilder out = new StringBuilder(text.length());
    text.codePoints()
        .forEach(
            c -> {
              if (isHidden(c)) {
                out.append(String.format("\\u%04x", c));
              } else {
                out.appendCodePoint(c);
              }
            });
    return out.toString();
  }

  /** A value that a user gave, for an error: in quotes, and cut if it is long. */
  static String quoted(String text) {
    String shown = text.codePointCount(0, text.length()) <= MOST
        ? text
        : text.substring(0, text.offsetByCodePoints(0, MOST)) + "...";
    return "'" + escaped(shown) + "'";
  }

  /** Whether a terminal or a log would not show it as itself: it could hide or forge a line. */
  private static boolean isHidden(int c) {
    return switch (Character.getType(c)) {
      case Character.CONTROL,
              Character.FORMAT,
              Character.LINE_SEPARATOR,
              Character.PARAGRAPH_SEPARATOR,
              Character.SURROGATE ->
          true;
      default -> false;
    };
  }
}
