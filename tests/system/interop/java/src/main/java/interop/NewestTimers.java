package interop;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Timer messages, recalls and priorities. plan=NAME:STEP,STEP;NAME:... with the steps sec=N, ms=N,
 * in=MILLISECONDS (a moment, that far away), level=N, priority=N, key=SHARDING KEY, recall, twice
 * (recalls it once more). Each message is a "sent" line, with its `handle` and `due`; each recall a
 * "recalled" line with the id that was answered, or the code and text of the refusal.
 */
final class NewestTimers {
    private NewestTimers() {
    }

    static void run(Args args, Out out, Map<String, Object> summary) throws Exception {
        DefaultMQProducer producer = Producers.start(args);
        int index = 0;
        for (String entry : args.need("plan").split(";")) {
            String name = entry.split(":")[0];
            Message message = new Message(args.topic(), "TagA", name, name.getBytes(StandardCharsets.UTF_8));
            message.putUserProperty("index", String.valueOf(index));
            int recalls = 0;
            long due = System.currentTimeMillis();
            for (String step : (entry + ":").split(":")[1].split(",")) {
                String[] words = step.split("=");
                switch (words[0]) {
                    case "sec":
                        message.setDelayTimeSec(Long.parseLong(words[1]));
                        due += Long.parseLong(words[1]) * 1000;
                        break;
                    case "ms":
                        message.setDelayTimeMs(Long.parseLong(words[1]));
                        due += Long.parseLong(words[1]);
                        break;
                    case "in":
                        due += Long.parseLong(words[1]);
                        message.setDeliverTimeMs(due);
                        break;
                    case "level": message.setDelayTimeLevel(Integer.parseInt(words[1])); break;
                    case "priority": message.setPriority(Integer.parseInt(words[1])); break;
                    case "key": message.putUserProperty("key", words[1]); break;
                    case "recall": recalls = 1; break;
                    case "twice": recalls = 2; break;
                    case "plain": break;
                    default: throw new IllegalArgumentException("step " + step);
                }
            }
            SendResult result = producer.send(message);
            Map<String, Object> line = Out.content("sent", message);
            line.put("name", name);
            line.put("due", due);
            line.put("msgId", result.getMsgId());
            line.put("queueId", result.getMessageQueue().getQueueId());
            line.put("handle", result.getRecallHandle());
            out.write(line);
            for (int i = 0; i < recalls; i++) {
                recall(producer, args.topic(), name, result.getRecallHandle(), out);
            }
            index++;
        }
        producer.shutdown();
        summary.put("sent", index);
    }

    private static void recall(DefaultMQProducer producer, String topic, String name, String handle, Out out)
        throws Exception {
        try {
            out.event("recalled", "name", name, "msgId", producer.recallMessage(topic, handle));
        } catch (MQBrokerException refused) {
            out.event("recalled", "name", name, "code", refused.getResponseCode(), "text",
                refused.getErrorMessage());
        }
    }
}
