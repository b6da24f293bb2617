package interop;

import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Requests to a consumer that replies: a "request" line each, with the reply, and one that times out. */
final class RequestReply {
    private RequestReply() {
    }

    static void run(Args args, Out out, Map<String, Object> summary) throws Exception {
        DefaultMQProducer replier = new DefaultMQProducer(args.group() + "-replier", Credentials.hook(args));
        replier.setNamesrvAddr(args.namesrv());
        replier.setSendMsgTimeout(30_000);
        replier.setMqClientApiTimeout(30_000);
        replier.setInstanceName("replier");
        replier.start();
        replier.send(request(args, "makes the topic", -1)); // so that the consumer finds its queues
        DefaultMQPushConsumer consumer = PushConsumers.create(args, "replier");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                reply(replier, message, out);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        DefaultMQProducer asker = new DefaultMQProducer(args.group() + "-asker", Credentials.hook(args));
        asker.setNamesrvAddr(args.namesrv());
        asker.setSendMsgTimeout(30_000);
        asker.setMqClientApiTimeout(30_000);
        asker.setInstanceName("asker");
        asker.start();
        int count = args.number("count", 3);
        for (int i = 0; i < count; i++) {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("event", "request");
            line.put("index", i);
            try {
                Message reply = answered(asker, request(args, "ask " + i, i));
                line.put("reply", new String(reply.getBody(), StandardCharsets.UTF_8));
                line.put("properties", reply.getProperties());
            } catch (Exception failure) {
                line.put("error", failure.toString());
            }
            out.write(line);
        }
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", "unanswered");
        try {
            asker.request(request(args, "silence", count), 2_000);
            line.put("timeout", false);
        } catch (RequestTimeoutException expected) {
            line.put("timeout", true);
        }
        out.write(line);
        consumer.shutdown();
        asker.shutdown();
        replier.shutdown();
        summary.put("requests", count);
    }

    /** A broker loses replies to a client that it does not know yet, and the first heartbeat may come late. */
    private static Message answered(DefaultMQProducer asker, Message message) throws Exception {
        for (int tries = 1; ; tries++) {
            try {
                return asker.request(message, 10_000);
            } catch (RequestTimeoutException late) {
                if (tries == 3) {
                    throw late;
                }
            }
        }
    }

    private static Message request(Args args, String text, int index) {
        Message message = new Message(args.topic(), "", text.getBytes(StandardCharsets.UTF_8));
        message.putUserProperty("index", String.valueOf(index));
        return message;
    }

    private static void reply(DefaultMQProducer replier, MessageExt message, Out out) {
        String text = new String(message.getBody(), StandardCharsets.UTF_8);
        if (text.equals("silence") || message.getProperty("CORRELATION_ID") == null) {
            return;
        }
        StringBuilder body = new StringBuilder("answer to " + text);
        while (text.endsWith("1") && body.length() < 10_000) {
            body.append(", and that is compressed"); // the second reply
        }
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("event", "replied");
        try {
            Message reply = MessageUtil.createReplyMessage(message, body.toString().getBytes(StandardCharsets.UTF_8));
            line.put("topic", reply.getTopic());
            SendResult result = replier.send(reply, 10_000);
            line.put("sendStatus", result.getSendStatus().name());
            line.put("offsetMsgId", result.getOffsetMsgId());
        } catch (Exception failure) {
            line.put("error", failure.toString());
        }
        out.write(line);
    }
}
