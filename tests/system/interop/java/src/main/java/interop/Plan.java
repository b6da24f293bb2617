package interop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageConst;

/**
 * A transactional message and what its listener says: NAME:EXECUTE[>CHECK>CHECK...][?OPTION=VALUE&...],
 * several of them separated by ";". A step is commit, rollback, unknown, throw, null, never (does
 * not return) or await-N-STEP (once the message was checked N times), and may be repeated:
 * unknown*3. The last check step goes on for ever; without one the answer is unknown. Options:
 * topic, tag, key (default: the name; empty: none), flag, size (of the body), immunity (seconds),
 * delay (level).
 */
final class Plan {
    final String name;
    final Map<String, String> options = new LinkedHashMap<>();
    final List<String> checks = new ArrayList<>();
    final String execute;
    private int checked;

    private Plan(String text) {
        int mark = text.indexOf('?');
        String head = mark < 0 ? text : text.substring(0, mark);
        if (mark >= 0) {
            for (String option : text.substring(mark + 1).split("&")) {
                String[] pair = option.split("=", 2);
                options.put(pair[0], pair[1]);
            }
        }
        int colon = head.indexOf(':');
        name = head.substring(0, colon);
        List<String> steps = new ArrayList<>();
        for (String step : head.substring(colon + 1).split(">")) {
            String[] pair = step.split("\\*", 2);
            for (int i = 0; i < (pair.length == 1 ? 1 : Integer.parseInt(pair[1])); i++) {
                steps.add(pair[0]);
            }
        }
        execute = steps.get(0);
        checks.addAll(steps.subList(1, steps.size()));
    }

    static List<Plan> parse(String text) {
        List<Plan> plans = new ArrayList<>();
        for (String one : text.split(";")) {
            if (!one.trim().isEmpty()) {
                plans.add(new Plan(one.trim()));
            }
        }
        return plans;
    }

    /** Whether executing takes long, so that others should not wait for it. */
    boolean slow() {
        return execute.startsWith("await-") || execute.equals("never");
    }

    /** What to say to a check; each call is one more. */
    synchronized String nextCheck() {
        int at = Math.min(checked++, checks.size() - 1);
        notifyAll();
        return at < 0 ? "unknown" : checks.get(at);
    }

    /** Whether every step of the script was needed. */
    synchronized boolean complete() {
        return checked >= checks.size();
    }

    private synchronized void awaitChecks(long count) {
        try {
            while (checked < count) {
                wait();
            }
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
        }
    }

    LocalTransactionState answer(String step) {
        switch (step) {
            case "commit": return LocalTransactionState.COMMIT_MESSAGE;
            case "rollback": return LocalTransactionState.ROLLBACK_MESSAGE;
            case "unknown": return LocalTransactionState.UNKNOW;
            case "null": return null;
            case "throw": throw new IllegalStateException("the plan says throw");
            case "never": awaitChecks(Long.MAX_VALUE); return null;
            default:
                String[] words = step.split("-", 3);
                if (words.length != 3 || !words[0].equals("await")) {
                    throw new IllegalArgumentException("no step of a plan: " + step);
                }
                awaitChecks(Long.parseLong(words[1]));
                return answer(words[2]);
        }
    }

    Message message(String topic) {
        StringBuilder body = new StringBuilder("half ").append(name).append(" \u2603\n");
        int size = Integer.parseInt(options.getOrDefault("size", "0"));
        while (body.length() < size) {
            body.append("a line that compresses well, number ").append(body.length()).append('\n');
        }
        Message message = new Message(options.getOrDefault("topic", topic), options.getOrDefault("tag", ""),
            options.getOrDefault("key", name), body.toString().getBytes(StandardCharsets.UTF_8));
        message.setFlag(Integer.parseInt(options.getOrDefault("flag", "0")));
        message.putUserProperty("name", name);
        message.putUserProperty("greeting", "h\u00e9llo w\u00f6rld \u2013 \u4f60\u597d \ud83d\ude80");
        if (options.containsKey("delay")) {
            message.setDelayTimeLevel(Integer.parseInt(options.get("delay")));
        }
        if (options.containsKey("immunity")) {
            message.putUserProperty(MessageConst.PROPERTY_CHECK_IMMUNITY_TIME_IN_SECONDS, options.get("immunity"));
        }
        return message;
    }
}
