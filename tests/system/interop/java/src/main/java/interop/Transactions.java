package interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.hook.SendMessageContext;
import org.apache.rocketmq.client.hook.SendMessageHook;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * TransactionMQProducer with a listener that follows plans. Lines: "executed" from within the local
 * transaction, "sent" with the result of the send, "checked" from within each check, "complete" when
 * the messages of a plan are sent and were checked as often as planned. Then every line on stdin is
 * one more plan; the end of stdin ends the command.
 */
final class Transactions implements TransactionListener {
    private final Args args;
    private final Out out;
    private final Map<String, Plan> plans = new ConcurrentHashMap<>();
    /** Where each half is, by UNIQ_KEY: TransactionSendResult does not tell. */
    private final Map<String, String> offsetIds = new ConcurrentHashMap<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final AtomicInteger sent = new AtomicInteger();
    private final AtomicInteger checked = new AtomicInteger();
    private TransactionMQProducer producer;

    private Transactions(Args args, Out out) {
        this.args = args;
        this.out = out;
    }

    /** plan=...: sends its messages and answers the checks. */
    static void produce(Args args, Out out, Map<String, Object> summary) throws Exception {
        new Transactions(args, out).run(true, summary);
    }

    /** plan=...: only answers the checks of messages that another producer of the group has sent. */
    static void answer(Args args, Out out, Map<String, Object> summary) throws Exception {
        new Transactions(args, out).run(false, summary);
    }

    private void run(boolean send, Map<String, Object> summary) throws Exception {
        producer = new TransactionMQProducer(args.group(), Credentials.hook(args));
        producer.setNamesrvAddr(args.namesrv());
        producer.setSendMsgTimeout(30_000);
        producer.setMqClientApiTimeout(30_000);
        producer.setHeartbeatBrokerInterval(1_000); // the first one comes before any broker is known
        producer.setTransactionListener(this);
        producer.setExecutorService(threads);
        producer.getDefaultMQProducerImpl().registerSendMessageHook(new SendMessageHook() {
            @Override
            public String hookName() {
                return "offset ids";
            }

            @Override
            public void sendMessageBefore(SendMessageContext context) {
            }

            @Override
            public void sendMessageAfter(SendMessageContext context) {
                if (context.getSendResult() != null) {
                    offsetIds.put(context.getSendResult().getMsgId(), context.getSendResult().getOffsetMsgId());
                }
            }
        });
        producer.start();
        if (!send) {
            // The client knows no broker, and none knows it, before it has sent something.
            follow(Plan.parse("here-" + System.nanoTime() + ":commit"), true);
            producer.getDefaultMQProducerImpl().getMqClientFactory().sendHeartbeatToAllBrokerWithLock();
            out.event("ready");
        }
        follow(Plan.parse(args.get("plan", "")), send);
        BufferedReader more = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = more.readLine(); line != null; line = more.readLine()) {
            follow(Plan.parse(line), true);
        }
        producer.shutdown();
        summary.put("sent", sent.get());
        summary.put("checked", checked.get());
    }

    private void follow(List<Plan> batch, boolean send) throws Exception {
        for (Plan plan : batch) {
            plans.put(plan.name, plan);
        }
        List<Future<?>> results = new ArrayList<>();
        for (Plan plan : batch) {
            if (!send) {
                continue;
            }
            Future<?> result = threads.submit(() -> {
                try {
                    send(plan);
                } catch (Exception failure) {
                    out.event("failed", "name", plan.name, "error", failure.toString());
                    throw failure;
                }
                return null;
            });
            if (!plan.slow()) {
                result.get();
            } else if (!plan.execute.equals("never")) {
                results.add(result);
            }
        }
        for (Future<?> result : results) {
            result.get();
        }
        if (!PushConsumers.await(args.timeout() - 5, () -> batch.stream().allMatch(Plan::complete))) {
            throw new Driver.Incomplete("not every message was checked as often as planned");
        }
        out.event("complete");
    }

    private void send(Plan plan) throws Exception {
        Message message = plan.message(args.topic());
        byte[] body = message.getBody();
        TransactionSendResult result = sendOnceRouted(message, plan);
        Map<String, Object> line = Out.content("sent", message);
        line.put("body", Base64.getEncoder().encodeToString(body));
        line.put("name", plan.name);
        line.put("flag", message.getFlag());
        line.put("msgId", result.getMsgId());
        line.put("offsetMsgId", offsetIds.get(result.getMsgId()));
        line.put("transactionId", result.getTransactionId());
        line.put("brokerName", result.getMessageQueue().getBrokerName());
        line.put("queueId", result.getMessageQueue().getQueueId());
        line.put("queueOffset", result.getQueueOffset());
        line.put("sendStatus", result.getSendStatus().name());
        line.put("localState", String.valueOf(result.getLocalTransactionState()));
        out.write(line);
        sent.incrementAndGet();
    }

    /** A client that is short of CPU gives up its first question for a route after 3 s. */
    private TransactionSendResult sendOnceRouted(Message message, Plan plan) throws Exception {
        long end = System.currentTimeMillis() + args.timeout() * 500L;
        while (true) {
            try {
                return producer.sendMessageInTransaction(message, plan);
            } catch (MQClientException failure) {
                boolean noRoute = String.valueOf(failure.getCause()).contains("No route info");
                if (!noRoute || System.currentTimeMillis() > end) {
                    throw failure;
                }
                Thread.sleep(100);
            }
        }
    }

    @Override
    public LocalTransactionState executeLocalTransaction(Message message, Object plan) {
        Map<String, Object> line = Out.content("executed", message);
        line.put("name", ((Plan) plan).name);
        line.put("transactionId", message.getTransactionId());
        out.write(line);
        return ((Plan) plan).answer(((Plan) plan).execute);
    }

    @Override
    public LocalTransactionState checkLocalTransaction(MessageExt message) {
        checked.incrementAndGet();
        String name = message.getUserProperty("name");
        Plan plan = name == null ? null : plans.get(name);
        String step = plan == null ? "unknown" : plan.nextCheck();
        Map<String, Object> line = Out.received("checked", "check", message);
        line.put("name", name);
        line.put("answer", step);
        out.write(line);
        return plan == null ? LocalTransactionState.UNKNOW : plan.answer(step);
    }
}
