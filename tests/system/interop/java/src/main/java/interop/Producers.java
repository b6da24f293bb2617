package interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/** The sending sub-commands. Every message is told as a "sent" line with where it was stored. */
final class Producers {
    static final String[] TAGS = {"TagA", "TagB", "TagC"};

    private Producers() {
    }

    static DefaultMQProducer start(Args args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(args.group(), Credentials.hook(args));
        producer.setNamesrvAddr(args.namesrv());
        producer.setSendMsgTimeout(30_000);
        producer.setMqClientApiTimeout(30_000);
        producer.setRetryTimesWhenSendFailed(args.number("retries", 2));
        producer.start();
        return producer;
    }

    /** Message number i of a run: tags in turn, one or two keys, properties with awkward characters. */
    static Message message(Args args, int i) {
        String[] tags = args.get("tags", String.join(",", TAGS)).split(",");
        Message message = new Message(args.topic(), tags[i % tags.length], "key-" + i, body(args, i));
        if (i % 5 == 0) {
            message.setKeys(Arrays.asList("key-" + i, "second-" + i));
        }
        if (args.number("delay", 0) != 0) {
            message.setDelayTimeLevel(args.number("delay", 0));
        }
        message.putUserProperty("index", String.valueOf(i));
        message.putUserProperty("greeting", "h\u00e9llo w\u00f6rld \u2013 \u4f60\u597d \ud83d\ude80");
        message.putUserProperty("quotes", "say \"hi\" \\ {a:1}\n= next");
        message.putUserProperty("\u540d\u524d", "non-ASCII name");
        return message;
    }

    /** Mostly short text; number 1 compresses well, number 2 is binary, 3 is one byte, 4 may be large. */
    private static byte[] body(Args args, int i) {
        if (i == 1) {
            StringBuilder text = new StringBuilder();
            while (text.length() < 6000) {
                text.append("a line that compresses well, number ").append(text.length()).append('\n');
            }
            return text.toString().getBytes(StandardCharsets.UTF_8);
        }
        if (i == 2 || (i == 4 && args.number("large", 0) > 0)) {
            byte[] noise = new byte[i == 2 ? 2000 : args.number("large", 0)];
            new Random(i).nextBytes(noise);
            return noise;
        }
        if (i == 3) {
            return new byte[] {'x'};
        }
        return ("message " + i + " \u2603 of " + args.get("label", "run")).getBytes(StandardCharsets.UTF_8);
    }

    static void told(Out out, int index, Message message, byte[] body, SendResult result) {
        out.write(stored(index, message, body, result, result.getMsgId(), result.getOffsetMsgId(),
            result.getQueueOffset()));
    }

    private static Map<String, Object> stored(int index, Message message, byte[] body, SendResult result,
                                              String msgId, String offsetMsgId, long queueOffset) {
        Map<String, Object> line = Out.content("sent", message);
        line.put("body", Base64.getEncoder().encodeToString(body));
        line.put("index", index);
        line.put("msgId", msgId);
        line.put("offsetMsgId", offsetMsgId);
        line.put("brokerName", result.getMessageQueue().getBrokerName());
        line.put("queueId", result.getMessageQueue().getQueueId());
        line.put("queueOffset", queueOffset);
        line.put("sendStatus", result.getSendStatus().name());
        return line;
    }

    /**
     * count messages from number start on, one after the other; with last=TAG one more with that
     * tag to every queue: who has received those has been offered everything before them.
     */
    static void produce(Args args, Out out, Map<String, Object> summary) throws Exception {
        DefaultMQProducer producer = start(args);
        int sent = 0;
        int first = args.number("start", 0);
        for (int i = first; i < first + args.number("count", 30); i++, sent++) {
            Message message = message(args, i);
            byte[] body = message.getBody();
            told(out, i, message, body, producer.send(message));
        }
        String last = args.get("last", "");
        if (!last.isEmpty()) {
            for (MessageQueue mq : producer.fetchPublishMessageQueues(args.topic())) {
                Message message = new Message(args.topic(), last, "last-" + mq.getQueueId(),
                    ("last of queue " + mq.getQueueId()).getBytes(StandardCharsets.UTF_8));
                told(out, -1, message, message.getBody(), producer.send(message, mq));
                sent++;
            }
        }
        producer.shutdown();
        summary.put("sent", sent);
    }

    /** count messages in batches of size; one "batch" line each, then one "sent" line a message. */
    static void batch(Args args, Out out, Map<String, Object> summary) throws Exception {
        DefaultMQProducer producer = start(args);
        int count = args.number("count", 30);
        int size = args.number("size", 10);
        for (int first = 0; first < count; first += size) {
            List<Message> batch = new ArrayList<>();
            for (int i = first; i < Math.min(first + size, count); i++) {
                batch.add(message(args, i));
            }
            SendResult result = producer.send(batch);
            String[] ids = result.getMsgId().split(",");
            String[] offsetIds = result.getOffsetMsgId().split(",");
            out.event("batch", "size", batch.size(), "msgIds", Arrays.asList(ids), "offsetMsgIds",
                Arrays.asList(offsetIds), "queueId", result.getMessageQueue().getQueueId(),
                "queueOffset", result.getQueueOffset(), "sendStatus", result.getSendStatus().name());
            if (ids.length != batch.size() || offsetIds.length != batch.size()) {
                throw new IllegalStateException("ids of a batch of " + batch.size() + ": " + result);
            }
            for (int k = 0; k < batch.size(); k++) {
                Message message = batch.get(k);
                Map<String, Object> line = stored(first + k, message, message.getBody(), result, ids[k],
                    offsetIds[k], result.getQueueOffset() + k);
                line.put("batch", true);
                out.write(line);
            }
        }
        producer.shutdown();
        summary.put("sent", count);
    }

    /** Nobody says where a oneway message went: its line has no queue and no offset. */
    static void oneway(Args args, Out out, Map<String, Object> summary) throws Exception {
        DefaultMQProducer producer = start(args);
        int count = args.number("count", 30);
        for (int i = 0; i < count; i++) {
            Message message = message(args, i);
            byte[] body = message.getBody();
            producer.sendOneway(message);
            Map<String, Object> line = Out.content("sent", message);
            line.put("body", Base64.getEncoder().encodeToString(body));
            line.put("index", i);
            line.put("msgId", message.getProperty("UNIQ_KEY"));
            out.write(line);
        }
        // A request on the same connection is answered after the oneway ones before it were read.
        for (MessageQueue mq : routeOf(producer, args.topic())) {
            producer.maxOffset(mq);
        }
        producer.shutdown();
        summary.put("sent", count);
    }

    /** Nobody answers oneway sends, so the topic that they make may reach the name server later. */
    private static List<MessageQueue> routeOf(DefaultMQProducer producer, String topic)
            throws Exception {
        long deadline = System.currentTimeMillis() + 10_000;
        while (true) {
            try {
                return producer.fetchPublishMessageQueues(topic);
            } catch (MQClientException e) {
                if (System.currentTimeMillis() > deadline) {
                    throw e;
                }
                Thread.sleep(20);
            }
        }
    }

    /** count messages of keys order keys in turn; all of one key go to one queue, numbered by step. */
    static void orderly(Args args, Out out, Map<String, Object> summary) throws Exception {
        DefaultMQProducer producer = start(args);
        int count = args.number("count", 60);
        int keys = args.number("keys", 6);
        for (int i = 0; i < count; i++) {
            String key = "order-" + i % keys;
            Message message = message(args, i);
            byte[] body = message.getBody();
            message.setKeys(key);
            message.putUserProperty("order", key);
            message.putUserProperty("step", String.valueOf(i / keys));
            SendResult result = producer.send(message,
                (queues, m, arg) -> queues.get(Math.floorMod(arg.hashCode(), queues.size())), key);
            told(out, i, message, body, result);
        }
        producer.shutdown();
        summary.put("sent", count);
    }
}
