package interop;

import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** What requests are signed with: the words accessKey, secretKey and securityToken. */
final class Credentials {
    private Credentials() {
    }

    /** The client's own hook; null, as a client has it by itself, without an access key. */
    static RPCHook hook(Args args) {
        String key = args.get("accessKey", "");
        if (key.isEmpty()) {
            return null;
        }
        String token = args.get("securityToken", "");
        String secret = args.need("secretKey");
        return new AclClientRPCHook(token.isEmpty() ? new SessionCredentials(key, secret)
            : new SessionCredentials(key, secret, token));
    }
}
