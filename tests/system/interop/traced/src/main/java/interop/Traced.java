package interop;

import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.Scope;
import io.opentelemetry.context.propagation.ContextPropagators;
import io.opentelemetry.instrumentation.rocketmqclient.v4_8.RocketMqTelemetry;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.trace.ReadWriteSpan;
import io.opentelemetry.sdk.trace.ReadableSpan;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.SpanProcessor;
import io.opentelemetry.sdk.trace.data.LinkData;
import io.opentelemetry.sdk.trace.data.SpanData;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Sends or consumes with OpenTelemetry's hooks; prints each span that ends as a line of JSON. */
public final class Traced {
    private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), false);

    private Traced() {
    }

    public static void main(String[] words) throws Exception {
        System.setOut(System.err);
        Map<String, String> values = new LinkedHashMap<>();
        for (int i = 1; i < words.length; i++) {
            int eq = words[i].indexOf('=');
            values.put(words[i].substring(0, eq), words[i].substring(eq + 1));
        }
        OpenTelemetrySdk sdk = OpenTelemetrySdk.builder()
            .setTracerProvider(SdkTracerProvider.builder().addSpanProcessor(new Printer()).build())
            .setPropagators(ContextPropagators.create(W3CTraceContextPropagator.getInstance()))
            .build();
        RocketMqTelemetry telemetry = RocketMqTelemetry.create(sdk);
        int count = Integer.parseInt(values.getOrDefault("count", "1"));
        boolean done = "produce".equals(words[0])
            ? produce(sdk, telemetry, values, count)
            : consume(telemetry, values, count);
        line("\"done\":" + done);
        System.exit(done ? 0 : 1);
    }

    private static boolean produce(
        OpenTelemetrySdk sdk, RocketMqTelemetry telemetry, Map<String, String> values, int count) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(values.get("group"));
        producer.setNamesrvAddr(values.get("namesrv"));
        producer.getDefaultMQProducerImpl().registerSendMessageHook(telemetry.newTracingSendMessageHook());
        producer.start();
        for (int i = 0; i < count; i++) {
            Span span = sdk.getTracer("app").spanBuilder("app").startSpan();
            try (Scope scope = span.makeCurrent()) {
                byte[] body = String.valueOf(i).getBytes(StandardCharsets.US_ASCII);
                producer.send(new Message(values.get("topic"), "TagA", body));
            } finally {
                span.end();
            }
        }
        producer.shutdown();
        return true;
    }

    private static boolean consume(
        RocketMqTelemetry telemetry, Map<String, String> values, int count) throws Exception {
        CountDownLatch left = new CountDownLatch(count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(values.get("group"));
        consumer.setNamesrvAddr(values.get("namesrv"));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.getDefaultMQPushConsumerImpl().registerConsumeMessageHook(telemetry.newTracingConsumeMessageHook());
        consumer.subscribe(values.get("topic"), "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                line("\"event\":\"received\",\"body\":\"" + new String(message.getBody(), StandardCharsets.US_ASCII)
                    + "\",\"traceparent\":\"" + message.getProperty("traceparent")
                    + "\",\"tracestate\":\"" + message.getProperty("tracestate") + "\"");
                left.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        boolean all = left.await(Integer.parseInt(values.getOrDefault("timeout", "60")), TimeUnit.SECONDS);
        consumer.shutdown();
        return all;
    }

    private static synchronized void line(String content) {
        byte[] bytes = ("{" + content + "}\n").getBytes(StandardCharsets.US_ASCII);
        OUT.write(bytes, 0, bytes.length);
        OUT.flush();
    }

    /** Prints a span when it ends. */
    private static final class Printer implements SpanProcessor {
        @Override
        public void onStart(Context parent, ReadWriteSpan span) {
        }

        @Override
        public boolean isStartRequired() {
            return false;
        }

        @Override
        public void onEnd(ReadableSpan ended) {
            SpanData span = ended.toSpanData();
            List<String> links = new ArrayList<>();
            for (LinkData link : span.getLinks()) {
                links.add("\"" + link.getSpanContext().getSpanId() + "\"");
            }
            line("\"event\":\"span\",\"name\":\"" + span.getName() + "\",\"kind\":\"" + span.getKind()
                + "\",\"traceId\":\"" + span.getTraceId() + "\",\"spanId\":\"" + span.getSpanId()
                + "\",\"parent\":\"" + span.getParentSpanId() + "\",\"remote\":"
                + span.getParentSpanContext().isRemote() + ",\"traceState\":"
                + span.getSpanContext().getTraceState().size() + ",\"links\":["
                + String.join(",", links) + "]");
        }

        @Override
        public boolean isEndRequired() {
            return true;
        }
    }
}
