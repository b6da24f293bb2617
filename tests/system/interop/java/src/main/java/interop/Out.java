package interop;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** JSON lines on the real stdout; whatever libraries print to System.out goes to stderr instead. */
final class Out {
    private final PrintStream stream;

    Out() {
        stream = new PrintStream(new FileOutputStream(FileDescriptor.out), false);
        System.setOut(System.err);
    }

    /** Writes one object as one line: name, value, name, value, ... */
    void event(String event, Object... pairs) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        for (int i = 0; i < pairs.length; i += 2) {
            line.put((String) pairs[i], pairs[i + 1]);
        }
        write(line);
    }

    synchronized void write(Map<String, Object> line) {
        StringBuilder text = new StringBuilder();
        json(text, line);
        byte[] bytes = text.append('\n').toString().getBytes(StandardCharsets.US_ASCII);
        stream.write(bytes, 0, bytes.length);
        stream.flush();
    }

    /** What a message holds for its user, the same names for sent and received ones; body is base64. */
    static Map<String, Object> content(String event, Message message) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", event);
        line.put("topic", message.getTopic());
        line.put("body", Base64.getEncoder().encodeToString(message.getBody()));
        line.put("tags", message.getTags());
        line.put("keys", message.getKeys());
        line.put("properties", new LinkedHashMap<>(message.getProperties()));
        return line;
    }

    static Map<String, Object> received(String event, String consumer, MessageExt message) {
        Map<String, Object> line = content(event, message);
        line.put("consumer", consumer);
        line.put("msgId", message.getMsgId());
        line.put("offsetMsgId", message instanceof MessageClientExt
            ? ((MessageClientExt) message).getOffsetMsgId() : null);
        line.put("transactionId", message.getTransactionId());
        line.put("queueId", message.getQueueId());
        line.put("queueOffset", message.getQueueOffset());
        line.put("commitLogOffset", message.getCommitLogOffset());
        line.put("sysFlag", message.getSysFlag());
        line.put("flag", message.getFlag());
        line.put("reconsumeTimes", message.getReconsumeTimes());
        line.put("bornTimestamp", message.getBornTimestamp());
        line.put("storeTimestamp", message.getStoreTimestamp());
        line.put("bornHost", message.getBornHostString());
        line.put("receivedAt", System.currentTimeMillis());
        return line;
    }

    static Map<String, Object> queue(MessageQueue mq) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("brokerName", mq.getBrokerName());
        line.put("queueId", mq.getQueueId());
        return line;
    }

    private static void json(StringBuilder to, Object value) {
        if (value == null || value instanceof Number || value instanceof Boolean) {
            to.append(value);
        } else if (value instanceof Map) {
            char before = '{';
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                to.append(before);
                quoted(to, String.valueOf(entry.getKey()));
                json(to.append(':'), entry.getValue());
                before = ',';
            }
            to.append(before == '{' ? "{}" : "}");
        } else if (value instanceof Iterable) {
            char before = '[';
            for (Object item : (Iterable<?>) value) {
                json(to.append(before), item);
                before = ',';
            }
            to.append(before == '[' ? "[]" : "]");
        } else {
            quoted(to, value.toString());
        }
    }

    private static void quoted(StringBuilder to, String text) {
        to.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                to.append('\\').append(c);
            } else if (c < 0x20 || c > 0x7e) {
                to.append(String.format("\\u%04x", (int) c));
            } else {
                to.append(c);
            }
        }
        to.append('"');
    }
}
