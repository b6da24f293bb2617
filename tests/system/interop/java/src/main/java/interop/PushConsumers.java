package interop;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Push consumption: each delivery is a "received" line, in the order of the listener's calls. */
final class PushConsumers {
    private PushConsumers() {
    }

    /** What was delivered so far, counted without repeats, and how far each queue got. */
    static final class Seen {
        final Set<String> places = new HashSet<>();
        final Map<String, Map<Integer, Long>> next = new TreeMap<>();
        int deliveries;

        synchronized void add(MessageExt message) {
            deliveries++;
            String place = message.getTopic() + ":" + message.getQueueId() + ":" + message.getQueueOffset();
            places.add(message.getStoreHost() + ":" + place);
            next.computeIfAbsent(message.getTopic(), topic -> new TreeMap<>())
                .merge(message.getQueueId(), message.getQueueOffset() + 1, Math::max);
        }

        synchronized int distinct() {
            return places.size();
        }

        synchronized Map<Integer, Long> positions(String topic) {
            return new TreeMap<>(next.getOrDefault(topic, new TreeMap<>()));
        }
    }

    static boolean await(int seconds, BooleanSupplier condition) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() > end) {
                return false;
            }
            Thread.sleep(20);
        }
        return true;
    }

    static DefaultMQPushConsumer create(Args args, String instance) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args.group(), Credentials.hook(args),
            new AllocateMessageQueueAveragely());
        consumer.setNamesrvAddr(args.namesrv());
        consumer.setMqClientApiTimeout(30_000);
        String name = instance != null ? instance : args.get("instance", null);
        if (name != null) {
            consumer.setInstanceName(name);
        }
        // A broker refuses pulls (SUBSCRIPTION_NOT_LATEST) whose subscription version is newer than
        // that of the last heartbeat. Seen against Apache RocketMQ 5.3.3: right after the first
        // rebalance, and with the default interval of 30 s it lasted for 20 s.
        consumer.setHeartbeatBrokerInterval(2_000);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        for (String topic : args.topic().split(",")) {
            if (args.get("sql", null) != null) {
                consumer.subscribe(topic, MessageSelector.bySql(args.get("sql", null)));
            } else {
                consumer.subscribe(topic, args.get("filter", "*"));
            }
        }
        // One thread takes the messages of a queue in the order in which they were pulled.
        consumer.setConsumeThreadMin(args.number("threads", 1));
        consumer.setConsumeThreadMax(args.number("threads", 1));
        if (args.number("broadcast", 0) != 0) {
            broadcast(consumer);
            // Offsets are in a file of the client id: one of its own begins anew.
            consumer.setInstanceName("broadcast-" + System.nanoTime());
        }
        if (args.number("max", -1) >= 0) {
            consumer.setMaxReconsumeTimes(args.number("max", -1));
        }
        return consumer;
    }

    /** MessageModel is in other packages in 4.9 and 5.x. */
    @SuppressWarnings({"unchecked", "rawtypes"})
    private static void broadcast(DefaultMQPushConsumer consumer) throws Exception {
        for (Method method : DefaultMQPushConsumer.class.getMethods()) {
            if (method.getName().equals("setMessageModel")) {
                method.invoke(consumer, Enum.valueOf((Class) method.getParameterTypes()[0], "BROADCASTING"));
            }
        }
    }

    /** What a listener does with a message beside telling of it: work=MILLISECONDS. */
    private static void work(Args args) {
        try {
            Thread.sleep(args.number("work", 0));
        } catch (InterruptedException leaving) {
            throw new IllegalStateException("the consumer leaves", leaving);
        }
    }

    /** Whether the listener fails on a message: it does on its first deliveries, fail=N. */
    private static boolean fails(Args args, MessageExt message) {
        return message.getReconsumeTimes() < args.number("fail", 0);
    }

    static MessageListenerConcurrently listener(String name, Seen seen, Out out) {
        return (messages, context) -> {
            for (MessageExt message : messages) {
                out.write(Out.received("received", name, message));
                seen.add(message);
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        };
    }

    /** The queues of the topic, or of several separated by commas, that a consumer holds. */
    static Set<MessageQueue> held(DefaultMQPushConsumer consumer, String topic) {
        Set<MessageQueue> held = new TreeSet<>();
        for (MessageQueue mq : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl()
            .getProcessQueueTable().keySet()) {
            if (Arrays.asList(topic.split(",")).contains(mq.getTopic())) {
                held.add(mq);
            }
        }
        return held;
    }

    static void concurrent(Args args, Out out, Map<String, Object> summary) throws Exception {
        concurrent(create(args, null), args, out, summary);
    }

    static void concurrent(DefaultMQPushConsumer consumer, Args args, Out out, Map<String, Object> summary)
        throws Exception {
        Seen seen = new Seen();
        MessageListenerConcurrently listener = listener("one", seen, out);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            listener.consumeMessage(messages, context);
            work(args);
            return fails(args, messages.get(0)) ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        run(args, consumer, seen, summary);
    }

    static void orderly(Args args, Out out, Map<String, Object> summary) throws Exception {
        orderly(create(args, null), args, out, summary);
    }

    static void orderly(DefaultMQPushConsumer consumer, Args args, Out out, Map<String, Object> summary)
        throws Exception {
        Seen seen = new Seen();
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            for (MessageExt message : messages) {
                out.write(Out.received("received", "one", message));
                seen.add(message);
            }
            work(args);
            return fails(args, messages.get(0)) ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
                : ConsumeOrderlyStatus.SUCCESS;
        });
        run(args, consumer, seen, summary);
    }

    /**
     * Consumes until count different messages came, or so many deliveries if deliveries=N says so, or
     * the time is up, then leaves in good order. With deliveries=N some may have failed: it stays for
     * two seconds more, for what becomes of the last ones, and for deliveries that are too many. With
     * stay=1 it stays until its stdin ends.
     */
    private static void run(Args args, DefaultMQPushConsumer consumer, Seen seen, Map<String, Object> summary)
        throws Exception {
        int count = args.number("count", 1);
        int deliveries = args.number("deliveries", 0);
        consumer.start();
        if (args.number("stay", 0) != 0) {
            while (System.in.read() >= 0) {
                continue;
            }
            consumer.shutdown();
            summary.put("deliveries", seen.deliveries);
            return;
        }
        boolean complete = await(args.timeout() - 10, () -> deliveries > 0
            ? seen.deliveries >= deliveries : seen.distinct() >= count);
        if (deliveries > 0) {
            Thread.sleep(2_000);
        }
        Set<MessageQueue> held = held(consumer, args.topic());
        List<Object> queues = new ArrayList<>();
        for (MessageQueue mq : held) {
            queues.add(Out.queue(mq));
        }
        // The offset of a message is recorded after the listener has returned.
        boolean settled = complete && deliveries == 0 && await(5, () -> {
            for (MessageQueue mq : held) {
                Long position = seen.positions(mq.getTopic()).get(mq.getQueueId());
                if (position != null && consumer.getDefaultMQPushConsumerImpl().getOffsetStore()
                    .readOffset(mq, ReadOffsetType.READ_FROM_MEMORY) < position) {
                    return false;
                }
            }
            return true;
        });
        consumer.shutdown();
        summary.put("received", seen.distinct());
        summary.put("deliveries", seen.deliveries);
        summary.put("queues", queues);
        summary.put("settled", settled);
        if (!complete) {
            throw new Driver.Incomplete("received " + seen.distinct() + " of " + count);
        }
    }
}
