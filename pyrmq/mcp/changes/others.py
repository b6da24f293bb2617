"""Changes of brokers, dead letters, transactions, KV configuration; and sending."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from pyrmq.admin.api import Admin
from pyrmq.admin.dead_letters import Selection
from pyrmq.admin.outcome import Outcome, Outcomes
from pyrmq.admin.resend import ResentState
from pyrmq.admin.resent_message import To
from pyrmq.config.secret_names import is_secret
from pyrmq.errors import ClientError, PyrmqError, QueryNotFoundError
from pyrmq.mcp.arguments import Argument, Asked
from pyrmq.mcp.shown import MAX_PROBLEMS, problems
from pyrmq.mcp.tool import BROKER, GROUP, TOPIC, ChangeTool, Prepared
from pyrmq.model.message import Message

MAX_BODY = 65_536


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


async def _resend(admin: Admin, asked: Asked) -> Prepared:
    chosen = Selection(
        asked["begin"], asked["end"], asked["key"], asked["topic"], frozenset(asked["ids"] or ())
    )
    to = To(asked["to"])
    plan = await admin.dead_letters.preview(asked["group"], to, chosen)

    async def resend() -> Any:
        counts = dict.fromkeys((state.value for state in ResentState), 0)
        failed: list[PyrmqError] = []
        async with aclosing(admin.dead_letters.resend(plan)) as found:
            async for one in found:
                counts[one.state.value] += 1
                if one.error is not None and len(failed) < MAX_PROBLEMS:
                    failed.append(one.error)
        return {**counts, **problems(failed)}

    return Prepared(
        f"Resend {plan.to_send} of {plan.letters} dead letters of group {plan.group} to "
        + ("its retry topic" if to is To.GROUP else "their topics"),
        {"rows": plan.rows, "running_members": plan.members, **problems(plan.failed)},
        resend,
    )


async def _decide(admin: Admin, asked: Asked) -> Prepared:
    names, decision = asked["ids"], asked["decision"]
    if not names:
        raise ClientError("name at least one transaction in ids")
    found = await admin.transactions.find(names)
    rows = [
        {"id": name, "topic": t.topic, "producer_group": t.group, "state": t.state}
        for name, several in found.transactions.items()
        for t in several
    ]

    async def decide() -> Any:
        work = getattr(admin.transactions, decision)
        outcomes: Outcomes[None] = Outcomes()
        for one in await work(names):
            error = one.error or (
                None if one.done else ClientError(f"the broker answered {one.answer}")
            )
            outcomes.append(Outcome(one.name, error=error))
        return outcomes

    says = f"{decision.capitalize()} {len(names)} transactions in their producers' place"
    return Prepared(says, {"transactions": rows, "problems": found.problems}, decide)


async def _send(admin: Admin, asked: Asked) -> Prepared:
    message = Message(
        asked["topic"], asked["body"].encode(), tags=asked["tag"], keys=asked["keys"] or None
    )
    await admin.link.route(asked["topic"])

    async def send() -> Any:
        sent = await admin.messages.send(message)
        queue = sent.queue
        return {
            "id": sent.msg_id,
            "broker_name": queue.broker_name,
            "queue": queue.queue_id,
            "offset": sent.queue_offset,
        }

    says = f"Send a message of {len(message.body)} bytes to topic {message.topic}"
    return Prepared(says, {"tag": message.tags, "keys": asked["keys"], "body": asked["body"]}, send)


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
        "dead_letter_resend", "Resend dead letters",
        "Sends dead letters of a group again. Those that were resent before are skipped.",
        _resend,
        (
            GROUP,
            Argument("to", "group: only the group gets them; topic: all groups of their topic do.",
                     default="group", choices=("group", "topic")),
            Argument("topic", "They came from this topic."),
            Argument("key", "They have this key."),
            Argument("ids", "Ids of the letters or of their originals.", "texts", longest=128),
            Argument("begin", "They died from this time on.", "time", longest=64),
            Argument("end", "They died before this time.", "time", longest=64),
        ),
        destructive=True, repeatable=False,
    ),
    ChangeTool(
        "transaction_decide", "Decide pending transactions",
        "Commits or rolls back transactions in their producer's place.",
        _decide,
        (
            Argument("ids", "Their ids: see transaction_pending.", "texts", required=True,
                     longest=128),
            Argument("decision", "What becomes of them.", required=True,
                     choices=("commit", "rollback", "resume")),
        ),
        destructive=True,
    ),
    ChangeTool(
        "message_send", "Send a message", "Sends one message with a text as its body.",
        _send,
        (
            TOPIC, Argument("body", "The body.", required=True, longest=MAX_BODY),
            Argument("tag", "Its tag."), Argument("keys", "Its keys.", "texts"),
        ),
        destructive=True, repeatable=False,
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
