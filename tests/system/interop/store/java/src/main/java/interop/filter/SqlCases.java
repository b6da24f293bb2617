package interop.filter;

import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.Base64;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.filter.SqlFilter;
import org.apache.rocketmq.filter.expression.Expression;

/**
 * What Apache RocketMQ's own filter makes of expressions and messages. The file that is named holds
 * a line for each expression: the expression, and property strings, all in base64 and separated by
 * blanks. A line is printed for each: C if it does not compile, otherwise a letter for each property
 * string: T, F, N for null, E for an exception.
 */
public final class SqlCases {
    private SqlCases() {
    }

    public static void main(String[] words) throws IOException {
        SqlFilter filter = new SqlFilter();
        try (BufferedReader cases = Files.newBufferedReader(Paths.get(words[0]), StandardCharsets.US_ASCII);
             BufferedWriter answers = new BufferedWriter(
                 new OutputStreamWriter(new FileOutputStream(FileDescriptor.out), StandardCharsets.US_ASCII))) {
            String line;
            while ((line = cases.readLine()) != null) {
                answers.write(answer(filter, line.split(" ", -1)));
                answers.write('\n');
            }
        }
    }

    private static String answer(SqlFilter filter, String[] words) {
        Expression expression;
        try {
            expression = filter.compile(text(words[0]));
        } catch (Throwable refused) {
            return "C";
        }
        StringBuilder found = new StringBuilder(words.length - 1);
        for (int i = 1; i < words.length; i++) {
            found.append(value(expression, text(words[i])));
        }
        return found.toString();
    }

    private static char value(Expression expression, String properties) {
        try {
            Object value = expression.evaluate(
                new MessageEvaluationContext(MessageDecoder.string2messageProperties(properties)));
            return value == null ? 'N' : Boolean.TRUE.equals(value) ? 'T' : 'F';
        } catch (Exception failure) {
            return 'E';
        }
    }

    private static String text(String word) {
        return new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8);
    }
}
