package interop;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Single questions to the broker: pulls with their raw answers, messages by id, offsets. */
@SuppressWarnings("deprecation")
final class Lookups {
    private static final int PULL_MESSAGE = 11;
    private static final int LITE_PULL_MESSAGE = 361;

    private Lookups() {
    }

    /** Keeps the tags that the broker put on the wire, before the client filters once more. */
    private static final class WireTags implements RPCHook {
        final AtomicReference<List<String>> last = new AtomicReference<>(new ArrayList<>());

        @Override
        public void doBeforeRequest(String address, RemotingCommand request) {
        }

        @Override
        public void doAfterResponse(String address, RemotingCommand request, RemotingCommand response) {
            if (request.getCode() != PULL_MESSAGE && request.getCode() != LITE_PULL_MESSAGE) {
                return;
            }
            List<String> tags = new ArrayList<>();
            if (response != null && response.getBody() != null) {
                for (MessageExt message : MessageDecoder.decodes(ByteBuffer.wrap(response.getBody()))) {
                    tags.add(message.getTags());
                }
            }
            last.set(tags);
        }
    }

    /**
     * For every queue: pull with the filter from the start until the broker has no more, then with a
     * filter that nothing matches, at the end, beyond it and below the start. A "pull" line each.
     */
    static void pull(Args args, Out out, Map<String, Object> summary) throws Exception {
        WireTags wire = new WireTags();
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(args.group(), wire);
        consumer.setNamesrvAddr(args.namesrv());
        consumer.setMqClientApiTimeout(30_000);
        consumer.start();
        String filter = args.get("filter", "*");
        for (MessageQueue mq : new TreeSet<>(consumer.fetchSubscribeMessageQueues(args.topic()))) {
            long offset = 0;
            PullResult result;
            do {
                result = one("scan", consumer, mq, filter, offset, args.number("batch", 32), wire, out);
                offset = result.getNextBeginOffset();
            } while (result.getPullStatus() == PullStatus.FOUND || result.getPullStatus() == PullStatus.NO_MATCHED_MSG);
            long max = consumer.maxOffset(mq);
            one("unmatched", consumer, mq, "NoSuchTag", 0, 32, wire, out);
            one("at-end", consumer, mq, "*", max, 32, wire, out);
            one("beyond", consumer, mq, "*", max + 10, 32, wire, out);
        }
        consumer.shutdown();
    }

    private static PullResult one(String step, DefaultMQPullConsumer consumer, MessageQueue mq, String filter,
                                  long offset, int batch, WireTags wire, Out out) throws Exception {
        wire.last.set(new ArrayList<>());
        PullResult result = consumer.pull(mq, filter, offset, batch);
        List<MessageExt> found = result.getMsgFoundList() == null ? new ArrayList<>() : result.getMsgFoundList();
        out.event("pull", "step", step, "queueId", mq.getQueueId(), "offset", offset, "status",
            result.getPullStatus().name(), "nextBeginOffset", result.getNextBeginOffset(), "minOffset",
            result.getMinOffset(), "maxOffset", result.getMaxOffset(), "wireTags", wire.last.get());
        for (MessageExt message : found) {
            out.write(Out.received("pulled", "pull", message));
        }
        return result;
    }

    /** ids=ID,ID,...: each message by its offsetMsgId, a "viewed" line each. */
    static void view(Args args, Out out, Map<String, Object> summary) throws Exception {
        DefaultMQProducer producer = Producers.start(args);
        int viewed = 0;
        for (String id : args.need("ids").split(",")) {
            Map<String, Object> line = Out.received("viewed", "view", producer.viewMessage(args.topic(), id));
            line.put("asked", id);
            out.write(line);
            viewed++;
        }
        producer.shutdown();
        summary.put("viewed", viewed);
    }

    /**
     * For every queue its ends, the store time of each message, and what searchOffset says for each
     * of these times, for 0, and for an hour from now: one "offsets" line each.
     */
    static void offsets(Args args, Out out, Map<String, Object> summary) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(args.group(), Credentials.hook(args));
        consumer.setNamesrvAddr(args.namesrv());
        consumer.setMqClientApiTimeout(30_000);
        consumer.start();
        for (MessageQueue mq : new TreeSet<>(consumer.fetchSubscribeMessageQueues(args.topic()))) {
            long min = consumer.minOffset(mq);
            long max = consumer.maxOffset(mq);
            Map<Long, Long> times = new TreeMap<>();
            for (long offset = min; offset < max; ) {
                PullResult result = consumer.pull(mq, "*", offset, 32);
                if (result.getPullStatus() != PullStatus.FOUND) {
                    throw new IllegalStateException(mq + " at " + offset + ": " + result);
                }
                for (MessageExt message : result.getMsgFoundList()) {
                    times.put(message.getQueueOffset(), message.getStoreTimestamp());
                }
                offset = result.getNextBeginOffset();
            }
            Map<Long, Long> searches = new LinkedHashMap<>();
            for (long time : new TreeSet<>(times.values())) {
                searches.put(time, consumer.searchOffset(mq, time));
            }
            out.event("offsets", "queueId", mq.getQueueId(), "minOffset", min, "maxOffset", max, "storeTimestamps",
                times, "searches", searches, "searchZero", consumer.searchOffset(mq, 0L), "searchFuture",
                consumer.searchOffset(mq, System.currentTimeMillis() + 3_600_000L));
        }
        consumer.shutdown();
    }
}
