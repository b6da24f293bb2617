package interop;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Drives the official Java client from a test: one sub-command, JSON lines on stdout, the last of
 * which has "done". Exit code 0 means everything asked for happened, 2 that messages were missing
 * when the time was up, 1 any other failure, 3 that the process as a whole took too long.
 */
public final class Driver {
    /** A sub-command; puts what it wants to say at the end into the summary. */
    interface Command {
        void run(Args args, Out out, Map<String, Object> summary) throws Exception;
    }

    /** Fewer messages than asked for. */
    static final class Incomplete extends Exception {
        Incomplete(String what) {
            super(what);
        }
    }

    private static Command find(String name) {
        switch (name) {
            case "produce": return Producers::produce;
            case "produce-batch": return Producers::batch;
            case "produce-oneway": return Producers::oneway;
            case "produce-orderly": return Producers::orderly;
            case "produce-transaction": return Transactions::produce;
            case "answer-transaction": return Transactions::answer;
            case "consume": return PushConsumers::concurrent;
            case "consume-orderly": return PushConsumers::orderly;
            case "consume-two": return TwoConsumers::run;
            case "request-reply": return RequestReply::run;
            case "pull-lite": return LitePull::run;
            case "pull": return Lookups::pull;
            case "view": return Lookups::view;
            case "offsets": return Lookups::offsets;
            case "consume-pop": return newest("NewestPops", "concurrent");
            case "consume-pop-orderly": return newest("NewestPops", "orderly");
            case "pop": return newest("NewestSimple", "run");
            case "produce-timers": return newest("NewestTimers", "run");
            default: throw new IllegalArgumentException("unknown command " + name);
        }
    }

    /** A sub-command of a class that is only built with the newest client. */
    private static Command newest(String type, String method) {
        return (args, out, summary) -> {
            Class<?> found = Class.forName("interop." + type);
            try {
                found.getDeclaredMethod(method, Args.class, Out.class, Map.class).invoke(null, args, out, summary);
            } catch (java.lang.reflect.InvocationTargetException failure) {
                if (failure.getCause() instanceof Exception) {
                    throw (Exception) failure.getCause();
                }
                throw failure;
            }
        };
    }

    public static void main(String[] words) {
        Out out = new Out();
        Map<String, Object> summary = new LinkedHashMap<>();
        int code = 1;
        try {
            Args args = new Args(words);
            summary.put("command", args.command);
            watch(args.timeout(), out);
            find(args.command).run(args, out, summary);
            summary.put("done", true);
            code = 0;
        } catch (Throwable failure) {
            failure.printStackTrace();
            summary.put("done", false);
            summary.put("error", failure.toString());
            code = failure instanceof Incomplete ? 2 : 1;
        }
        out.write(summary);
        Runtime.getRuntime().halt(code); // threads of the client must not keep the process
    }

    private static void watch(int seconds, Out out) {
        Thread watchdog = new Thread(() -> {
            try {
                Thread.sleep(seconds * 1000L);
            } catch (InterruptedException stop) {
                return;
            }
            for (Map.Entry<Thread, StackTraceElement[]> thread : Thread.getAllStackTraces().entrySet()) {
                System.err.println(thread.getKey());
                for (StackTraceElement frame : thread.getValue()) {
                    System.err.println("    at " + frame);
                }
            }
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("done", false);
            line.put("error", "not finished after " + seconds + " s");
            out.write(line);
            Runtime.getRuntime().halt(3);
        }, "watchdog");
        watchdog.setDaemon(true);
        watchdog.start();
    }
}
