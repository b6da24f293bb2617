package interop;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Two consumers of one group and a producer in one process. They share the queues; then the second
 * leaves and the first takes over. count messages are sent before, between and after.
 */
final class TwoConsumers {
    private TwoConsumers() {
    }

    static void run(Args args, Out out, Map<String, Object> summary) throws Exception {
        String topic = args.topic();
        int count = args.number("count", 20);
        int patience = args.number("patience", 45);
        PushConsumers.Seen seen = new PushConsumers.Seen();
        DefaultMQProducer producer = Producers.start(args);
        send(args, out, producer, 0, count);
        Set<MessageQueue> all = new HashSet<>(producer.fetchPublishMessageQueues(topic));

        DefaultMQPushConsumer one = PushConsumers.create(args, "one");
        DefaultMQPushConsumer two = PushConsumers.create(args, "two");
        one.registerMessageListener(PushConsumers.listener("one", seen, out));
        two.registerMessageListener(PushConsumers.listener("two", seen, out));
        one.start();
        two.start();

        boolean shared = PushConsumers.await(patience, () -> {
            Set<MessageQueue> mine = PushConsumers.held(one, topic);
            Set<MessageQueue> yours = PushConsumers.held(two, topic);
            Set<MessageQueue> both = new HashSet<>(mine);
            both.addAll(yours);
            return both.equals(all) && mine.size() + yours.size() == all.size()
                && Math.abs(mine.size() - yours.size()) <= 1;
        });
        assignment(out, shared ? "shared" : "not-shared", topic, one, two);
        if (!shared) {
            throw new Driver.Incomplete("the queues were not shared");
        }
        want(seen, count, patience);
        send(args, out, producer, count, count);
        want(seen, 2 * count, patience);

        two.shutdown();
        boolean taken = PushConsumers.await(patience, () -> PushConsumers.held(one, topic).equals(all));
        assignment(out, taken ? "taken-over" : "not-taken-over", topic, one, null);
        if (!taken) {
            throw new Driver.Incomplete("the queues of the consumer that left were not taken over");
        }
        send(args, out, producer, 2 * count, count);
        want(seen, 3 * count, patience);
        one.shutdown();
        producer.shutdown();
        summary.put("queues", all.size());
        summary.put("received", seen.distinct());
        summary.put("deliveries", seen.deliveries);
    }

    private static void send(Args args, Out out, DefaultMQProducer producer, int first, int count) throws Exception {
        for (int i = first; i < first + count; i++) {
            Message message = Producers.message(args, i);
            byte[] body = message.getBody();
            Producers.told(out, i, message, body, producer.send(message));
        }
    }

    private static void want(PushConsumers.Seen seen, int count, int patience) throws Exception {
        if (!PushConsumers.await(patience, () -> seen.distinct() >= count)) {
            throw new Driver.Incomplete("received " + seen.distinct() + " of " + count);
        }
    }

    private static void assignment(Out out, String event, String topic, DefaultMQPushConsumer one,
                                   DefaultMQPushConsumer two) {
        out.event(event, "one", queueIds(one, topic), "two", two == null ? null : queueIds(two, topic));
    }

    private static Set<Integer> queueIds(DefaultMQPushConsumer consumer, String topic) {
        Set<Integer> ids = new TreeSet<>();
        for (MessageQueue mq : PushConsumers.held(consumer, topic)) {
            ids.add(mq.getQueueId());
        }
        return ids;
    }
}
