"""Who has to be done with a message before it may be deleted early."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from pyrmq.broker.reclaim_rules import ALL, OTHERS, Known, Row, is_retry_of

Offsets = dict[tuple[str, str], dict[int, int]]
"""By topic and group."""
TABLE = "tables"


def known(
    offsets: Offsets,
    *,
    without_table: Collection[str] = (),
    waiting: Mapping[str, Collection[str]] | None = None,
    delays: Sequence[int] = (),
) -> Known:
    return Known(
        TABLE,
        without_table,
        lambda topic: sorted(group for t, group in offsets if t == topic),
        lambda topic, group: offsets.get((topic, group), {}),
        waiting or {},
        delays,
    )


def done(rows: Sequence[Row], queue_id: int) -> int:
    """How far a queue is done with, as the engine takes the rows."""
    by_id = {queue: offset for _, queue, offset in rows}
    return by_id.get(queue_id, by_id[OTHERS])


def test_a_table_and_all_groups() -> None:
    found = known({("T", TABLE): {0: 50, 1: 60}, ("T", "a"): {0: 40, 1: 70}})
    rows = found.rows("T")
    assert [done(rows, queue) for queue in (0, 1, 2)] == [40, 60, 0]
    assert found.why("T", 0) == "topic T, queue 0: group a, which has not consumed it"
    assert found.why("T", 1) == "topic T, queue 1: no table has it yet (group tables)"


def test_a_topic_without_a_table_is_kept_unless_it_is_named() -> None:
    offsets: Offsets = {("T", "a"): {0: 40}}
    assert done(known(offsets).rows("T"), 0) == 0
    assert done(known(offsets, without_table=["T"]).rows("T"), 0) == 40
    assert done(known(offsets, without_table=["T"]).rows("T"), 1) == 0, "a has read none of it"
    assert done(known({}, without_table=["%DLQ%*"]).rows("%DLQ%a"), 7) == ALL
    assert done(known({}, without_table=["%DLQ%*"]).rows("T"), 0) == 0


def test_a_queue_that_a_group_has_no_offset_in_is_new_to_it() -> None:
    rows = known({("T", TABLE): {0: 50, 1: 60}, ("T", "a"): {0: 50}}).rows("T")
    assert (done(rows, 0), done(rows, 1)) == (50, 0)


def test_who_is_connected_and_has_committed_nothing() -> None:
    offsets: Offsets = {("T", TABLE): {0: 50}}
    assert done(known(offsets, waiting={"T": ["a"]}).rows("T"), 0) == 0
    offsets["T", "a"] = {0: 50}
    assert done(known(offsets, waiting={"T": ["a"]}).rows("T"), 0) == 50
    assert done(known(offsets, waiting={"T": [TABLE, "TOOLS_CONSUMER"]}).rows("T"), 0) == 50


def test_messages_to_retry_are_those_of_their_group() -> None:
    topic = "%RETRY%a"
    assert done(known({}).rows(topic), 0) == 0
    assert done(known({(topic, "b"): {0: 9}}).rows(topic), 0) == 0, "b is another group"
    assert done(known({(topic, "a"): {0: 9}}).rows(topic), 0) == 9
    assert done(known({(topic, "a"): {0: 9}, (topic, "b"): {0: 3}}).rows(topic), 0) == 3
    assert done(known({("%RETRY%a+T", "a"): {0: 9}}).rows("%RETRY%a+T"), 0) == 9
    assert is_retry_of("%RETRY%a_T", "a")
    assert not is_retry_of("%RETRY%ab", "a")


def test_the_topics_of_the_broker_itself() -> None:
    own = "CID_RMQ_SYS_TRANS"
    half, op = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
    offsets: Offsets = {(half, own): {0: 5}, (half, TABLE): {0: 99}, (half, "x"): {0: 99}}
    assert done(known(offsets).rows(half), 0) == 5
    assert done(known(offsets).rows(op), 0) == 0
    delayed = known({}, delays=[3, 0, 8]).rows("SCHEDULE_TOPIC_XXXX")
    assert [done(delayed, queue) for queue in range(4)] == [3, 0, 8, 0]
    revive = "rmq_sys_REVIVE_LOG_C"
    rows = known({(revive, "CID_RMQ_SYS_REVIVE_GROUP"): {0: 7}}).rows(revive)
    assert (done(rows, 0), done(rows, 1)) == (7, 0)
    assert done(known({}).rows("rmq_sys_wheel_timer"), 0) == ALL, "the engine says that"
    assert done(known({}).rows("RMQ_SYS_TRACE_TOPIC"), 0) == 0


_TOPICS = ["T", "U", "%DLQ%a", "%RETRY%a", "%RETRY%b"]
_GROUPS = ["a", "b", TABLE, "TOOLS_CONSUMER"]
_OFFSETS = st.dictionaries(
    st.tuples(st.sampled_from(_TOPICS), st.sampled_from(_GROUPS)),
    st.dictionaries(st.integers(0, 2), st.integers(0, 6), min_size=1),
)


@given(
    _OFFSETS,
    st.sets(st.sampled_from(["U", "%DLQ%*", "%RETRY%*"])),
    st.dictionaries(st.sampled_from(_TOPICS), st.lists(st.sampled_from(_GROUPS), unique=True)),
)
def test_a_message_goes_only_if_everybody_is_done_with_it(
    offsets: Offsets, without_table: set[str], waiting: dict[str, list[str]]
) -> None:
    found = known(offsets, without_table=without_table, waiting=waiting)
    for topic in _TOPICS:
        rows = found.rows(topic)
        for queue in range(4):
            to = done(rows, queue)
            for message in range(7):
                assert (message < to) == _is_done(
                    offsets, without_table, waiting, topic, queue, message
                )


def _is_done(
    offsets: Offsets,
    without_table: set[str],
    waiting: dict[str, list[str]],
    topic: str,
    queue: int,
    message: int,
) -> bool:
    """The same for one message, in the words of the documentation."""

    def has_read(group: str) -> bool:
        return message < offsets.get((topic, group), {}).get(queue, 0)

    consumers = {g for t, g in offsets if t == topic} | set(waiting.get(topic, ()))
    consumers -= {TABLE, "TOOLS_CONSUMER"}
    if not all(map(has_read, consumers)):
        return False
    prefix = topic[: topic.rindex("%") + 1] if "%" in topic else ""
    if topic in without_table or f"{prefix}*" in without_table:
        return True
    if topic.startswith("%RETRY%"):
        return (topic, topic.removeprefix("%RETRY%")) in offsets
    return has_read(TABLE)
