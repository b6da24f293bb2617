package interop.store;

import com.alibaba.fastjson.JSON;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import org.apache.rocketmq.common.BrokerConfig;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExtBrokerInner;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.store.DefaultMessageStore;
import org.apache.rocketmq.store.PutMessageResult;
import org.apache.rocketmq.store.config.FlushDiskType;
import org.apache.rocketmq.store.config.MessageStoreConfig;
import org.apache.rocketmq.store.stats.BrokerStatsManager;

/**
 * Drives DefaultMessageStore for records that no client of a broker can bring about: 16-byte store
 * hosts, prepared and rolled-back transactions, a checksum among the properties. Writes a store to
 * the folder given and stops it cleanly; each put is told as a line of JSON.
 */
public final class Writer {
    private static final InetSocketAddress V4 = new InetSocketAddress("192.0.2.1", 40001);
    private static final InetSocketAddress V6 = new InetSocketAddress("2001:db8::17", 40002);
    private static final InetSocketAddress STORE_V4 = new InetSocketAddress("127.0.0.1", 10911);
    private static final InetSocketAddress STORE_V6 = new InetSocketAddress("::1", 10911);

    private Writer() {
    }

    public static void main(String[] words) throws Exception {
        MessageStoreConfig config = new MessageStoreConfig();
        config.setStorePathRootDir(words[0]);
        config.setStorePathCommitLog(words[0] + "/commitlog");
        config.setMappedFileSizeCommitLog(4096);
        config.setMappedFileSizeConsumeQueue(10 * 20);
        config.setMaxHashSlotNum(16);
        config.setMaxIndexNum(12);
        config.setHaListenPort(0);
        config.setTimerWheelEnable(false);
        config.setFlushDiskType(FlushDiskType.ASYNC_FLUSH);
        config.setEnabledAppendPropCRC(words.length > 1 && words[1].equals("crc"));
        BrokerConfig broker = new BrokerConfig();
        ConcurrentMap<String, TopicConfig> topics = new ConcurrentHashMap<>();
        DefaultMessageStore store = new DefaultMessageStore(config, new BrokerStatsManager(broker), null, broker,
            topics);
        if (!store.load()) {
            throw new IllegalStateException("not loaded");
        }
        store.start();
        int none = MessageSysFlag.TRANSACTION_NOT_TYPE;
        put(store, "Hosts", none, V4, STORE_V4, 1);
        put(store, "Hosts", none, V6, STORE_V4, 2);
        put(store, "Hosts", none, V4, STORE_V6, 3);
        put(store, "Hosts", none, V6, STORE_V6, 4);
        long half = put(store, "Types", MessageSysFlag.TRANSACTION_PREPARED_TYPE, V4, STORE_V4, 5);
        put(store, "Types", MessageSysFlag.TRANSACTION_COMMIT_TYPE, V4, STORE_V4, 6, half);
        put(store, "Types", MessageSysFlag.TRANSACTION_ROLLBACK_TYPE, V4, STORE_V4, 7, half);
        put(store, "Types", none, V4, STORE_V4, 8);
        while (store.dispatchBehindBytes() > 0) {
            Thread.sleep(10);
        }
        store.shutdown();
        Runtime.getRuntime().halt(0);
    }

    private static long put(DefaultMessageStore store, String topic, int sysFlag, InetSocketAddress born,
                            InetSocketAddress host, int number, long... prepared) throws Exception {
        MessageExtBrokerInner message = new MessageExtBrokerInner();
        message.setTopic(topic);
        message.setQueueId(0);
        message.setFlag(number * 1000);
        message.setBody(("number " + number).getBytes(StandardCharsets.UTF_8));
        message.setSysFlag(sysFlag);
        message.setBornTimestamp(1700000000000L + number);
        message.setBornHost(born);
        message.setStoreHost(host);
        message.setReconsumeTimes(number % 3);
        message.setPreparedTransactionOffset(prepared.length > 0 ? prepared[0] : 0);
        message.setTags("T" + number);
        message.setKeys("key-" + number);
        MessageAccessor.putProperty(message, "UNIQ_KEY", String.format("%032X", number));
        message.setPropertiesString(MessageDecoder.messageProperties2String(message.getProperties()));
        message.setTagsCode(MessageExtBrokerInner.tagsString2tagsCode(null, message.getTags()));
        PutMessageResult result = store.putMessage(message);
        if (!result.isOk()) {
            throw new IllegalStateException(result.toString());
        }
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("number", number);
        line.put("topic", topic);
        line.put("physicalOffset", result.getAppendMessageResult().getWroteOffset());
        line.put("size", result.getAppendMessageResult().getWroteBytes());
        line.put("queueOffset", result.getAppendMessageResult().getLogicsOffset());
        line.put("storeTimestamp", result.getAppendMessageResult().getStoreTimestamp());
        line.put("msgId", result.getAppendMessageResult().getMsgId());
        line.put("properties", message.getPropertiesString());
        System.out.println(JSON.toJSONString(line));
        return result.getAppendMessageResult().getWroteOffset();
    }
}
