package interop;

import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;

/**
 * Push consumers whose queues the broker assigns: they pop where the broker has that mode for topic
 * and group. invisible=MILLISECONDS, pops=N messages at a time.
 */
final class NewestPops {
    private NewestPops() {
    }

    private static DefaultMQPushConsumer create(Args args) throws Exception {
        DefaultMQPushConsumer consumer = PushConsumers.create(args, null);
        consumer.setClientRebalance(false);
        consumer.setPopInvisibleTime(args.number("invisible", 60_000));
        consumer.setPopBatchNums(args.number("pops", 32));
        return consumer;
    }

    static void concurrent(Args args, Out out, Map<String, Object> summary) throws Exception {
        PushConsumers.concurrent(create(args), args, out, summary);
    }

    static void orderly(Args args, Out out, Map<String, Object> summary) throws Exception {
        PushConsumers.orderly(create(args), args, out, summary);
    }
}
