"""Messages that groups have not consumed, and that a topic with fewer queues to read would hide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyrmq.admin import values
from pyrmq.admin.consume_stats import GroupProgress
from pyrmq.admin.link import AdminLink
from pyrmq.admin.outcome import Outcome
from pyrmq.errors import ClientError, RequestCodeNotSupportedError, ResponseError
from pyrmq.model.codes import RequestCode, ResponseCode
from pyrmq.model.topic import TopicConfig
from pyrmq.net import fastjson

MOST_TOLD = 8
"""Most groups in the text of an error."""


@dataclass(frozen=True, slots=True)
class Hidden:
    """Messages in queues of a topic that would no longer be read."""

    topic: str
    broker: str
    """The broker's name, or its address if the name is unknown."""
    group: str | None
    """The group that has not consumed them; None: no group has consumed the topic at all."""
    messages: int
    queues: int
    """The number of their queues."""

    @property
    def text(self) -> str:
        who = f"group {self.group}" if self.group else "no group has consumed the topic:"
        return f"{who} {self.messages} messages of topic {self.topic} on {self.broker}"


class UnreadQueuesError(ClientError):
    """A topic would have fewer queues to read, and messages in the others are not consumed.
    `hidden`: those messages. Nothing was changed."""

    def __init__(self, hidden: Sequence[Hidden] = ()) -> None:
        self.hidden = list(hidden)
        told = "; ".join(h.text for h in self.hidden[:MOST_TOLD])
        more = f"; {len(hidden) - MOST_TOLD} more" if len(hidden) > MOST_TOLD else ""
        super().__init__(
            f"fewer queues to read would hide messages that are not consumed: {told}{more}. "
            "Nothing was changed. Take away the queues to write first, and those to read when "
            "the groups are through"
        )


async def hidden_by(
    link: AdminLink, address: str, name: str, before: TopicConfig | None, now: TopicConfig
) -> list[Hidden]:
    """What `now` would hide at one broker, which has the topic as it was `before` (None: it has
    not). `name`: the broker's. [GET_TOPIC_STATS_INFO, QUERY_TOPIC_CONSUME_BY_WHO,
    GET_CONSUME_STATS]"""
    kept = now.read_queue_nums
    if before is None or before.read_queue_nums <= kept:
        return []
    topic = now.topic_name
    stats = await link.ask_json(address, RequestCode.GET_TOPIC_STATS_INFO, {"topic": topic})
    stored = {
        queue.queue_id: (values.number(row, "minOffset"), values.number(row, "maxOffset"))
        for queue, row in values.by_queue(values.table(stats, "offsetTable"))
        if isinstance(row, dict) and kept <= queue.queue_id < before.read_queue_nums
    }
    full = {q: high - max(low, 0) for q, (low, high) in stored.items() if high > max(low, 0)}
    if not full:
        return []
    answer = await link.ask(address, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": topic})
    listed = fastjson.loads_object(answer.body).get("groupList")
    groups = sorted({str(g) for g in listed}) if isinstance(listed, list) else []
    if not groups:
        return [Hidden(topic, name, None, sum(full.values()), len(full))]
    found = []
    for group in groups:
        progress = await GroupProgress(link).stats_of_broker(address, group, topic)
        unread = {
            q.queue.queue_id: q.diff - (q.gone or 0)
            for q in progress.queues
            if q.queue.topic == topic and q.queue.queue_id in full
        }
        left = [n for n in unread.values() if n > 0]
        if left:
            found.append(Hidden(topic, name, group, sum(left), len(left)))
    return found


async def config_before(link: AdminLink, address: str, topic: str) -> TopicConfig | None:
    """The configuration of a topic on a broker; None if the broker does not have the topic, or does
    not know the request. [GET_TOPIC_CONFIG]"""
    try:
        found = await link.ask_json(address, RequestCode.GET_TOPIC_CONFIG, {"topic": topic})
    except RequestCodeNotSupportedError:
        return None
    except ResponseError as e:
        if e.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        raise
    return TopicConfig.from_json(topic, found)


def refuse_hidden(outcomes: Sequence[Outcome[list[Hidden]]]) -> None:
    """Raises UnreadQueuesError if one of several brokers would hide messages."""
    hidden = [h for o in outcomes for h in o.value or ()]
    if hidden:
        raise UnreadQueuesError(hidden)
