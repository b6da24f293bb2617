import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;

/** The loads of loads.py with Apache's Java client. Prints CPU microseconds of one message. */
public final class Peer {
    private static final int WARM_UP = 20_000;
    private static final int IN_FLIGHT = 256;
    private static final OperatingSystemMXBean PROCESS =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    public static void main(String[] words) throws Exception {
        String namesrv = words[1], topic = words[2];
        int count = Integer.parseInt(words[3]);
        double micros = switch (words[0]) {
            case "send" -> send(namesrv, topic, count, false);
            case "send-collected" -> send(namesrv, topic, count, true);
            case "consume" -> consume(namesrv, topic, count, words[4]);
            default -> throw new IllegalArgumentException(words[0]);
        };
        System.out.printf("%.3f%n", micros);
        System.exit(0);
    }

    private static double send(String namesrv, String topic, int count, boolean collected) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("bench-client-java");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(60_000);
        producer.setAutoBatch(collected);
        producer.start();
        rounds(producer, topic, WARM_UP);
        long before = PROCESS.getProcessCpuTime();
        rounds(producer, topic, count);
        return (PROCESS.getProcessCpuTime() - before) / 1e3 / count;
    }

    private static void rounds(DefaultMQProducer producer, String topic, int count) throws Exception {
        byte[] body = new byte[128];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) i;
        }
        Semaphore room = new Semaphore(IN_FLIGHT);
        AtomicInteger failed = new AtomicInteger();
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                room.release();
            }

            @Override
            public void onException(Throwable error) {
                if (failed.incrementAndGet() == 1) {
                    error.printStackTrace();
                }
                room.release();
            }
        };
        for (int i = 0; i < count; i++) {
            room.acquire();
            producer.send(new Message(topic, body), callback);
        }
        room.acquire(IN_FLIGHT);
        if (failed.get() > 0) {
            throw new IllegalStateException(failed + " sends failed");
        }
    }

    private static double consume(String namesrv, String topic, int count, String group) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        AtomicInteger seen = new AtomicInteger();
        long[] began = new long[1];
        CountDownLatch done = new CountDownLatch(1);
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            int now = seen.addAndGet(messages.size());
            if (now == WARM_UP) {
                began[0] = PROCESS.getProcessCpuTime();
            }
            if (now == count + WARM_UP) {
                done.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        done.await();
        return (PROCESS.getProcessCpuTime() - began[0]) / 1e3 / count;
    }
}
