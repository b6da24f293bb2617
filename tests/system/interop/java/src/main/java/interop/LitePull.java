package interop;

import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * DefaultLitePullConsumer: first as a member of the group, committing what it polled ("received"
 * lines); then a second one with queues of its own choice, which reads again from the middle of
 * each queue ("again" lines). The summary has what the broker holds as committed in between.
 */
@SuppressWarnings("deprecation")
final class LitePull {
    private LitePull() {
    }

    private static DefaultLitePullConsumer create(Args args, String instance) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(args.group(), Credentials.hook(args));
        consumer.setNamesrvAddr(args.namesrv());
        consumer.setMqClientApiTimeout(30_000);
        consumer.setInstanceName(instance);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        consumer.setHeartbeatBrokerInterval(2_000); // see PushConsumers.create
        return consumer;
    }

    static void run(Args args, Out out, Map<String, Object> summary) throws Exception {
        int count = args.number("count", 1);
        PushConsumers.Seen seen = new PushConsumers.Seen();
        DefaultLitePullConsumer member = create(args, "member");
        member.subscribe(args.topic(), args.get("filter", "*"));
        member.start();
        poll(member, "received", seen, count, args.timeout() / 2 - 5, out);
        member.commitSync();
        member.shutdown(); // only now are the offsets sent to the broker, oneway
        summary.put("received", seen.distinct());

        summary.put("committed", committed(args, seen.positions(args.topic())));

        DefaultLitePullConsumer chooser = create(args, "chooser");
        chooser.start();
        Collection<MessageQueue> queues = chooser.fetchMessageQueues(args.topic());
        chooser.assign(queues);
        Map<Integer, Long> middle = new HashMap<>();
        int rest = 0;
        for (MessageQueue mq : queues) {
            long end = seen.positions(args.topic()).getOrDefault(mq.getQueueId(), 0L);
            middle.put(mq.getQueueId(), end / 2);
            rest += (int) (end - end / 2);
            chooser.seek(mq, end / 2);
        }
        summary.put("middle", middle);
        PushConsumers.Seen again = new PushConsumers.Seen();
        poll(chooser, "again", again, rest, args.timeout() / 2 - 5, out);
        chooser.shutdown();
        summary.put("again", again.distinct());
    }

    /** What the broker says is committed, asked until it is what is expected, for at most 10 s. */
    private static Map<Integer, Long> committed(Args args, Map<Integer, Long> expected) throws Exception {
        DefaultMQPullConsumer reader = new DefaultMQPullConsumer(args.group(), Credentials.hook(args));
        reader.setNamesrvAddr(args.namesrv());
        reader.start();
        Collection<MessageQueue> queues = reader.fetchSubscribeMessageQueues(args.topic());
        Map<Integer, Long> found = new TreeMap<>();
        long end = System.currentTimeMillis() + 10_000;
        do {
            Thread.sleep(20);
            for (MessageQueue mq : queues) {
                found.put(mq.getQueueId(), reader.fetchConsumeOffset(mq, true));
            }
        } while (!found.equals(expected) && System.currentTimeMillis() < end);
        reader.shutdown();
        return found;
    }

    private static void poll(DefaultLitePullConsumer consumer, String event, PushConsumers.Seen seen, int count,
                             int seconds, Out out) throws Exception {
        long end = System.currentTimeMillis() + seconds * 1000L;
        while (seen.distinct() < count) {
            if (System.currentTimeMillis() > end) {
                throw new Driver.Incomplete("polled " + seen.distinct() + " of " + count);
            }
            for (MessageExt message : consumer.poll(500)) {
                out.write(Out.received(event, "lite", message));
                seen.add(message);
            }
        }
    }
}
