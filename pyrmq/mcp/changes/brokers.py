"""Changes of brokers, and of the name servers' KV configuration."""

from __future__ import annotations

from pyrmq.admin.api import Admin
from pyrmq.config.secret_names import is_secret
from pyrmq.errors import ClientError, QueryNotFoundError
from pyrmq.mcp.arguments import Argument, Asked
from pyrmq.mcp.tool import BROKER, ChangeTool, Prepared


async def _broker_config(admin: Admin, asked: Asked) -> Prepared:
    key, value, broker = asked["key"], asked["value"], asked["broker"]
    if is_secret(key):
        raise ClientError(f"{key} is a secret: change it where no conversation has it")
    now = (await admin.brokers.config_of(broker)).get(key)
    return Prepared(
        f"Set {key}={value} on broker {broker}",
        {"key": key, "now": now, "new": value},
        lambda: admin.brokers.update_config(key, value, broker=broker),
    )


async def _drain(admin: Admin, asked: Asked) -> Prepared:
    broker = asked["broker"]
    state = await admin.draining.state(broker)
    if asked["back"]:
        says = f"Bring broker {state.broker_name} back: clients may write to it again"
        return Prepared(says, state, lambda: admin.draining.bring_back(broker))
    says = f"Drain broker {state.broker_name}: clients leave it, it takes no new messages"
    return Prepared(says, state, lambda: admin.draining.drain(broker, reads=asked["reads"]))


async def _kv(admin: Admin, asked: Asked) -> Prepared:
    namespace, key, value = asked["namespace"], asked["key"], asked["value"]
    try:
        now = await admin.namesrv.get(namespace, key)
    except QueryNotFoundError:
        now = None
    preview = {"namespace": namespace, "key": key, "now": now, "new": value}
    if value is None:
        says = f"Delete {key} of {namespace} from all name servers"
        return Prepared(says, preview, lambda: admin.namesrv.delete(namespace, key))
    says = f"Set {key} of {namespace} on all name servers"
    return Prepared(says, preview, lambda: admin.namesrv.put(namespace, key, value))


_BACK = Argument("back", "Bring it back instead.", "truth", default=False)
CHANGES = (
    ChangeTool(
        "broker_config_change", "Change a key of a broker",
        "Changes one key of a broker's configuration while it runs. Keys that need a restart are "
        "refused.",
        _broker_config,
        (BROKER, Argument("key", "The key.", required=True),
         Argument("value", "The new value.", required=True)),
        destructive=True,
    ),
    ChangeTool(
        "broker_drain", "Drain a broker, or bring it back",
        "Takes a broker out of the routes for writes (with `reads` also for reads), or brings it "
        "back.",
        _drain,
        (
            Argument("broker", "Its name or its address.", required=True),
            Argument("reads", "Also for reads.", "truth", default=False), _BACK,
        ),
        destructive=True,
    ),
    ChangeTool(
        "name_server_kv_change", "Change the KV configuration",
        "Sets a value of the name servers' KV configuration, or deletes it if no value is given.",
        _kv,
        (
            Argument("namespace", "Such as ORDER_TOPIC_CONFIG.", required=True),
            Argument("key", "The key.", required=True), Argument("value", "The new value."),
        ),
        destructive=True,
    ),
)  # fmt: skip
