package interop.store;

import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.protocol.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * The official client and admin tools behind stdin and stdout: one JSON object a line in, one out,
 * so that one JVM serves many questions. {"do":NAME,"namesrv":ADDRESS,...} is answered by
 * {"result":...} or {"error":TEXT}. The names are those of the methods below.
 */
public final class Tool {
    private Tool() {
    }

    public static void main(String[] words) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        System.setOut(System.err);
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = questions.readLine()) != null) {
            JSONObject answer = new JSONObject();
            try {
                answer.put("result", answer(JSON.parseObject(line)));
            } catch (Throwable failure) {
                failure.printStackTrace();
                answer.put("error", failure.toString());
            }
            answers.println(JSON.toJSONString(answer, SerializerFeature.DisableCircularReferenceDetect,
                SerializerFeature.BrowserCompatible));
        }
        Runtime.getRuntime().halt(0); // threads of the clients must not keep the process
    }

    /** mqadmin with these words: what it printed, and what it complained of. */
    private static Object command(JSONObject question) throws Exception {
        List<String> words = new ArrayList<>(question.getJSONArray("words").toJavaList(String.class));
        words.add("-n");
        words.add(question.getString("namesrv"));
        PrintStream out = System.out;
        PrintStream err = System.err;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        ByteArrayOutputStream complained = new ByteArrayOutputStream();
        System.setOut(new PrintStream(said, true, "UTF-8"));
        System.setErr(new PrintStream(complained, true, "UTF-8"));
        try {
            MQAdminStartup.main0(words.toArray(new String[0]), null);
        } finally {
            System.out.flush();
            System.err.flush();
            System.setOut(out);
            System.setErr(err);
        }
        List<String> both = new ArrayList<>();
        both.add(said.toString("UTF-8"));
        both.add(complained.toString("UTF-8"));
        return both;
    }

    private static Object answer(JSONObject question) throws Exception {
        if (question.getString("do").equals("read")) {
            return read(question);
        }
        if (question.getString("do").equals("command")) {
            return command(question);
        }
        DefaultMQAdminExt admin = new DefaultMQAdminExt(10_000);
        admin.setNamesrvAddr(question.getString("namesrv"));
        admin.setInstanceName("tool-" + System.nanoTime());
        admin.start();
        try {
            switch (question.getString("do")) {
                case "topic": return topic(admin, question);
                case "group": return group(admin, question);
                case "describe": return describe(admin, question);
                case "query": return query(admin, question);
                default: throw new IllegalArgumentException(question.toJSONString());
            }
        } finally {
            admin.shutdown();
        }
    }

    /** Creates or changes a topic: broker, topic, queues, attributes ({"+queue.type":"BatchCQ"}). */
    private static Object topic(DefaultMQAdminExt admin, JSONObject question) throws Exception {
        int queues = question.getIntValue("queues");
        TopicConfig config = new TopicConfig(question.getString("topic"), queues, queues);
        for (Map.Entry<String, Object> entry : question.getJSONObject("attributes").entrySet()) {
            config.getAttributes().put(entry.getKey(), entry.getValue().toString());
        }
        admin.createAndUpdateTopicConfig(question.getString("broker"), config);
        return null;
    }

    /** Creates or changes a group: broker, group, retryMaxTimes. */
    private static Object group(DefaultMQAdminExt admin, JSONObject question) throws Exception {
        SubscriptionGroupConfig config = new SubscriptionGroupConfig();
        config.setGroupName(question.getString("group"));
        config.setRetryMaxTimes(question.getIntValue("retryMaxTimes"));
        admin.createAndUpdateSubscriptionGroupConfig(question.getString("broker"), config);
        return null;
    }

    /** What the broker says about topics and groups: {"topics":{NAME:CONFIG},"groups":{...}}. */
    private static Object describe(DefaultMQAdminExt admin, JSONObject question) throws Exception {
        String broker = question.getString("broker");
        Map<String, Object> topics = new LinkedHashMap<>();
        for (Object topic : question.getJSONArray("topics")) {
            topics.put((String) topic, admin.examineTopicConfig(broker, (String) topic));
        }
        Map<String, Object> groups = new LinkedHashMap<>();
        for (Object group : question.getJSONArray("groups")) {
            groups.put((String) group, admin.examineSubscriptionGroupConfig(broker, (String) group));
        }
        Map<String, Object> found = new LinkedHashMap<>();
        found.put("topics", topics);
        found.put("groups", groups);
        return found;
    }

    /** Messages of a topic by key, as the client filters them, for each of the keys. */
    private static Object query(DefaultMQAdminExt admin, JSONObject question) throws Exception {
        Map<String, Object> answers = new LinkedHashMap<>();
        for (Object key : question.getJSONArray("keys")) {
            List<Object> found = new ArrayList<>();
            answers.put((String) key, found);
            try {
                for (MessageExt message : admin.queryMessage(question.getString("topic"), (String) key, 64, 0,
                    Long.MAX_VALUE).getMessageList()) {
                    found.add(told(message));
                }
            } catch (MQClientException none) {
                if (!String.valueOf(none.getMessage()).contains("no message")) {
                    throw none;
                }
            }
        }
        return answers;
    }

    /** Every message of every queue of the topics, in order of the queues. */
    private static Object read(JSONObject question) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("READER");
        consumer.setNamesrvAddr(question.getString("namesrv"));
        consumer.setInstanceName("read-" + System.nanoTime());
        consumer.start();
        try {
            JSONArray found = new JSONArray();
            for (Object topic : question.getJSONArray("topics")) {
                for (MessageQueue mq : new TreeSet<>(consumer.fetchSubscribeMessageQueues((String) topic))) {
                    long max = consumer.maxOffset(mq);
                    for (long offset = consumer.minOffset(mq); offset < max; ) {
                        PullResult result = consumer.pull(mq, "*", offset, 32);
                        if (result.getPullStatus() != PullStatus.FOUND) {
                            throw new IllegalStateException(mq + " at " + offset + " of " + max + ": " + result);
                        }
                        for (MessageExt message : result.getMsgFoundList()) {
                            found.add(told(message));
                        }
                        offset = result.getNextBeginOffset();
                    }
                }
            }
            return found;
        } finally {
            consumer.shutdown();
        }
    }

    private static Map<String, Object> told(MessageExt message) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("topic", message.getTopic());
        line.put("queueId", message.getQueueId());
        line.put("queueOffset", message.getQueueOffset());
        line.put("commitLogOffset", message.getCommitLogOffset());
        line.put("body", Base64.getEncoder().encodeToString(message.getBody()));
        line.put("tags", message.getTags());
        line.put("keys", message.getKeys());
        line.put("sysFlag", message.getSysFlag());
        line.put("bornTimestamp", message.getBornTimestamp());
        line.put("bornHost", message.getBornHostString());
        line.put("storeTimestamp", message.getStoreTimestamp());
        line.put("reconsumeTimes", message.getReconsumeTimes());
        line.put("properties", message.getProperties());
        return line;
    }
}
