package interop.store;

import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.namesrv.NamesrvStartup;

/**
 * A name server, a broker, a client and admin tools in one JVM, which ends as soon as each has done
 * something: what loads the classes that an archive of them is to hold. Arguments: the files of the
 * name server and of the broker, and the address of the first.
 */
public final class AllClasses {
    private AllClasses() {
    }

    public static void main(String[] words) throws Exception {
        NamesrvStartup.main(new String[] {"-c", words[0]});
        RegisteredBroker.main(new String[] {"-c", words[1]});
        StringBuilder questions = new StringBuilder();
        for (String line : new String[] {
            "clusterList", "updateTopic -c DefaultCluster -t T", "sendMessage -t T -p body", "printMsg -t T",
            "topicStatus -t T", "consumerProgress", "statsAll"}) {
            questions.append("{\"do\":\"command\",\"namesrv\":\"").append(words[2]).append("\",\"words\":[\"")
                .append(line.replace(" ", "\",\"")).append("\"]}\n");
        }
        System.setIn(new ByteArrayInputStream(questions.toString().getBytes(StandardCharsets.UTF_8)));
        Tool.main(new String[0]);
    }
}
