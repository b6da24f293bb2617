package interop.store;

import org.apache.rocketmq.broker.BrokerController;
import org.apache.rocketmq.broker.BrokerStartup;

/**
 * BrokerStartup, and after "boot success" one more registration, told by a line "registered".
 * The one in BrokerController.start is skipped without a word when the client of the name servers
 * has not connected yet (NettyRemotingClient.getAvailableNameSrvList), and the next one comes 10 s
 * later.
 */
public final class RegisteredBroker {
    private RegisteredBroker() {
    }

    public static void main(String[] words) throws Exception {
        BrokerController broker = BrokerStartup.start(BrokerStartup.createBrokerController(words));
        while (broker.getBrokerOuterAPI().getRemotingClient().getAvailableNameSrvList().isEmpty()) {
            Thread.sleep(10);
        }
        broker.registerBrokerAll(true, false, true);
        System.out.println("registered");
    }
}
