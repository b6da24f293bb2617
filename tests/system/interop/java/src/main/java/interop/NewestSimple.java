package interop;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AckResult;
import org.apache.rocketmq.client.consumer.PopResult;
import org.apache.rocketmq.client.impl.mqclient.DoNothingClientRemotingProcessor;
import org.apache.rocketmq.client.impl.mqclient.MQClientAPIExt;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.protocol.header.AckMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ChangeInvisibleTimeRequestHeader;
import org.apache.rocketmq.remoting.protocol.header.ExtraInfoUtil;
import org.apache.rocketmq.remoting.protocol.header.PopMessageRequestHeader;
import org.apache.rocketmq.remoting.protocol.route.BrokerData;

/**
 * Pops, acknowledges and changes the invisible time by hand, as RocketMQ's proxy does for its simple
 * consumers. Until count messages are acknowledged: each delivery is a "received" line. The first
 * fail=N deliveries of each message whose number is a multiple of each=M are not acknowledged but
 * given back in nack=MILLISECONDS, or left to lapse without nack. fifo=1 pops in order. batch=1
 * acknowledges what came together with one request. wait=MILLISECONDS polls that long.
 */
final class NewestSimple {
    private static final int TIMEOUT = 30_000;
    private final Args args;
    private final Out out;
    private final MQClientAPIExt client;
    private final String address;
    private final String broker;

    private NewestSimple(Args args, Out out) throws Exception {
        this.args = args;
        this.out = out;
        ClientConfig config = new ClientConfig();
        config.setNamesrvAddr(args.namesrv());
        client = new MQClientAPIExt(config, new NettyClientConfig(), new DoNothingClientRemotingProcessor(null),
            Credentials.hook(args));
        client.start();
        client.updateNameServerAddressList();
        BrokerData first = client.getTopicRouteInfoFromNameServer(args.topic(), TIMEOUT).getBrokerDatas().get(0);
        address = first.selectBrokerAddr();
        broker = first.getBrokerName();
    }

    static void run(Args args, Out out, Map<String, Object> summary) throws Exception {
        NewestSimple consumer = new NewestSimple(args, out);
        int count = args.number("count", 1);
        int acknowledged = 0;
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(args.timeout() - 10);
        while (acknowledged < count && System.nanoTime() < end) {
            acknowledged += consumer.round();
        }
        summary.put("acknowledged", acknowledged);
        consumer.client.shutdown();
        if (acknowledged < count) {
            throw new Driver.Incomplete("acknowledged " + acknowledged + " of " + count);
        }
    }

    private int round() throws Exception {
        PopMessageRequestHeader header = new PopMessageRequestHeader();
        header.setConsumerGroup(args.group());
        header.setTopic(args.topic());
        header.setQueueId(args.number("queue", -1));
        header.setMaxMsgNums(args.number("pops", 8));
        header.setInvisibleTime(args.number("invisible", 60_000));
        header.setPollTime(args.number("wait", 2_000));
        header.setBornTime(System.currentTimeMillis());
        header.setInitMode(0);
        header.setExpType("TAG");
        header.setExp(args.get("filter", "*"));
        header.setOrder(args.number("fifo", 0) != 0);
        header.setAttemptId(args.get("attempt", null));
        PopResult popped = client.popMessageAsync(address, broker, header, TIMEOUT).get();
        if (popped.getMsgFoundList() == null) {
            out.event("nothing", "status", popped.getPopStatus().name());
            return 0;
        }
        List<MessageExt> good = new ArrayList<>();
        for (MessageExt message : popped.getMsgFoundList()) {
            Map<String, Object> line = Out.received("received", "one", message);
            line.put("popHandle", message.getProperty(MessageConst.PROPERTY_POP_CK));
            out.write(line);
            int number = Integer.parseInt(message.getProperties().getOrDefault("index", "1"));
            boolean fails = number % args.number("each", 1) == 0
                && message.getReconsumeTimes() < args.number("fail", 0);
            if (!fails) {
                good.add(message);
            } else if (args.number("nack", -1) >= 0) {
                change(message, args.number("nack", -1));
            }
        }
        if (args.number("batch", 0) != 0 && !good.isEmpty()) {
            batch(good);
        } else {
            for (MessageExt message : good) {
                ack(message);
            }
        }
        return good.size();
    }

    private static String[] handle(MessageExt message) {
        return ExtraInfoUtil.split(message.getProperty(MessageConst.PROPERTY_POP_CK));
    }

    /** The topic that it was really popped from: its own, or a retry topic. */
    private String topic(MessageExt message) {
        return ExtraInfoUtil.getRealTopic(handle(message), message.getTopic(), args.group());
    }

    private void ack(MessageExt message) throws Exception {
        AckMessageRequestHeader header = new AckMessageRequestHeader();
        header.setConsumerGroup(args.group());
        header.setTopic(topic(message));
        header.setQueueId(ExtraInfoUtil.getQueueId(handle(message)));
        header.setOffset(ExtraInfoUtil.getQueueOffset(handle(message)));
        header.setExtraInfo(message.getProperty(MessageConst.PROPERTY_POP_CK));
        told("acked", message, client.ackMessageAsync(address, header, TIMEOUT).get());
    }

    private void batch(List<MessageExt> messages) throws Exception {
        List<String> handles = new ArrayList<>();
        for (MessageExt message : messages) {
            handles.add(message.getProperty(MessageConst.PROPERTY_POP_CK));
        }
        AckResult result = client.batchAckMessageAsync(address, args.topic(), args.group(), handles, TIMEOUT).get();
        told("acked", messages.get(0), result);
    }

    private void change(MessageExt message, long time) throws Exception {
        ChangeInvisibleTimeRequestHeader header = new ChangeInvisibleTimeRequestHeader();
        header.setConsumerGroup(args.group());
        header.setTopic(topic(message));
        header.setQueueId(ExtraInfoUtil.getQueueId(handle(message)));
        header.setOffset(ExtraInfoUtil.getQueueOffset(handle(message)));
        header.setExtraInfo(message.getProperty(MessageConst.PROPERTY_POP_CK));
        header.setInvisibleTime(time);
        told("changed", message, client.changeInvisibleTimeAsync(address, broker, header, TIMEOUT).get());
    }

    private void told(String event, MessageExt message, AckResult result) {
        out.event(event, "index", message.getProperties().get("index"), "status", result.getStatus().name());
    }
}
