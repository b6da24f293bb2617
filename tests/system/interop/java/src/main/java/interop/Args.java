package interop;

import java.util.LinkedHashMap;
import java.util.Map;

/** The command line: a sub-command followed by name=value words. */
final class Args {
    final String command;
    private final Map<String, String> values = new LinkedHashMap<>();

    Args(String[] words) {
        if (words.length == 0) {
            throw new IllegalArgumentException("usage: COMMAND namesrv=HOST:PORT topic=T group=G [name=value ...]");
        }
        command = words[0];
        for (int i = 1; i < words.length; i++) {
            int eq = words[i].indexOf('=');
            if (eq <= 0) {
                throw new IllegalArgumentException("expected name=value, got " + words[i]);
            }
            values.put(words[i].substring(0, eq), words[i].substring(eq + 1));
        }
    }

    String need(String name) {
        String value = values.get(name);
        if (value == null || value.isEmpty()) {
            throw new IllegalArgumentException(command + " needs " + name + "=...");
        }
        return value;
    }

    String get(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    int number(String name, int otherwise) {
        String value = values.get(name);
        return value == null ? otherwise : Integer.parseInt(value);
    }

    String namesrv() {
        return need("namesrv");
    }

    String topic() {
        return need("topic");
    }

    String group() {
        return need("group");
    }

    /** Seconds the whole process may take. */
    int timeout() {
        return number("timeout", 60);
    }
}
