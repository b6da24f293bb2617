"""What is done with messages: dead letters, pending transactions, sending."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from pyrmq.admin.api import Admin
from pyrmq.admin.dead_letters import Selection
from pyrmq.admin.outcome import Outcome, Outcomes
from pyrmq.admin.resend import ResentState
from pyrmq.admin.resent_message import To
from pyrmq.errors import ClientError, PyrmqError
from pyrmq.mcp.arguments import Argument, Asked
from pyrmq.mcp.shown import MAX_PROBLEMS, problems
from pyrmq.mcp.tool import GROUP, TOPIC, ChangeTool, Prepared
from pyrmq.model.message import Message

MAX_BODY = 65_536


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


CHANGES = (
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
)  # fmt: skip
