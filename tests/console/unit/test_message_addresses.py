"""What the addresses of the rooms of messages may ask for."""

from __future__ import annotations

import pytest
from starlette.datastructures import QueryParams

from pyrmq.console import inputs
from pyrmq.console.messages.listing import MAX_CURSOR, decode_cursor, encode_cursor
from pyrmq.console.messages.names import MOST, suggested
from pyrmq.console.messages.one import copy_of, home_of, view_message, why_not_resent
from pyrmq.console.messages.waiting import TimerRow, newest_of_each, recall_handle
from pyrmq.console.pages.dead_letters import selection_of
from pyrmq.console.pages.transactions import Choice, chosen_of
from pyrmq.errors import ClientError, PyrmqError
from pyrmq.model.record import ReceivedMessage

NOW = 1_700_000_000_000


def test_times() -> None:
    def at(text: str) -> int | None:
        return inputs.moment({"t": text}, "t", now=NOW)

    assert at("") is None
    assert at("now") == NOW
    assert at(" 90s ") == NOW - 90_000
    assert at("2h") == NOW - 7_200_000
    assert at("1700000000001") == NOW + 1
    assert at("2026-01-31T12:00+00:00") == 1_769_860_800_000
    assert at("999999d") == 0
    for bad in ("soon", "1x", "-5m", "99999999999999999", "2026-13-01", "٣m", "x" * 600):
        with pytest.raises(ClientError):
            at(bad)


def test_numbers_and_texts() -> None:
    assert inputs.number({"n": " 7 "}, "n") == 7
    assert inputs.number({}, "n") is None
    for bad in ("-1", "1.5", "x", "٣", "1" * 30):
        with pytest.raises(ClientError):
            inputs.number({"n": bad}, "n")
    with pytest.raises(ClientError, match="say topic"):
        inputs.needed({"topic": "  "}, "topic")


def test_cursors() -> None:
    positions = {("a", 0): 12, ("a", 1): 0, ("b;:,.%", 3): 9_999_999_999}
    assert decode_cursor(encode_cursor(positions)) == positions
    assert decode_cursor("") == {}
    many = {("broker-a", n): 10**9 for n in range(256)}
    assert len(encode_cursor(many)) < MAX_CURSOR
    bad = ("x", "a:", "a:1", "a:1.", "a:.1", "a:1.x", "a:-1.2", "a:1.2;", "a:٣.1", "1" * 20_000)
    for text in bad:
        with pytest.raises(ClientError, match="begin with its first page"):
            decode_cursor(text)


def test_suggestions() -> None:
    names = sorted(["Orders", "orders-2", "my-orders", *(f"x{n}" for n in range(100))])
    assert suggested(names, "ORD") == ["Orders", "orders-2", "my-orders"]
    assert len(suggested(names, "x")) == MOST


def message(topic: str = "orders", **properties: str) -> ReceivedMessage:
    return ReceivedMessage(
        topic, b"body", 1, 2, 3, 7, 0, 4, "h:1", 5, "h:2", 0, 0, 90, 0, properties, "ID", "broker-a"
    )


def test_a_copy_has_what_the_sender_wrote() -> None:
    sent = message(
        TAGS="A", KEYS="k1 k2", UNIQ_KEY="U", own="1", DELAY="3", TIMER_OUT_MS="9", PGROUP="p",
        __SHARDINGKEY="s", TRAN_MSG="true", RETRY_TOPIC="r",
    )  # fmt: skip
    copied, sharding_key = copy_of(sent, b"unpacked")
    assert (copied.topic, copied.body, copied.tags, copied.keys) == (
        "orders", b"unpacked", "A", "k1 k2",
    )  # fmt: skip
    assert (copied.flag, copied.properties, sharding_key) == (7, {"own": "1"}, "s")


@pytest.mark.parametrize(
    "topic", ["%DLQ%g", "%RETRY%g", "SCHEDULE_TOPIC_XXXX", "rmq_sys_wheel_timer", "TBW102"]
)
def test_what_is_not_resent(topic: str) -> None:
    assert why_not_resent(message(topic))
    with pytest.raises(ClientError):
        copy_of(message(topic), b"x")


def test_where_a_message_is_at_home() -> None:
    assert home_of(message("orders", REAL_TOPIC="other")) == "orders"
    assert home_of(message("%DLQ%g", RETRY_TOPIC="orders")) == "orders"
    assert home_of(message("%DLQ%g")) == ""
    assert home_of(message("SCHEDULE_TOPIC_XXXX", REAL_TOPIC="later")) == "later"


def test_many_properties_are_cut() -> None:
    view = view_message(message(**{f"p{n:05}": "v" for n in range(8000)}, TAGS="A"))
    assert (view.property_count, view.own, len(view.properties)) == (8001, 8000, 200)
    assert view.properties[0] == ("p00000", "v", True)


def test_timers() -> None:
    wheel = "rmq_sys_wheel_timer"
    waits = message(wheel, REAL_TOPIC="later", TIMER_OUT_MS="5000", UNIQ_KEY="U")
    recall = message(
        wheel, REAL_TOPIC="later", TIMER_OUT_MS="5000", UNIQ_KEY="U", TIMER_DEL_UNIQKEY="later+U"
    )
    row, taken_back = TimerRow.of(waits), TimerRow.of(recall)
    assert (row.topic, row.due, row.recalls) == ("later", 5000, "")
    assert row.state(4000, set()) == "waits"
    assert row.state(6000, set()) == "over"
    assert row.state(4000, {"U"}) == "recalled"
    assert (taken_back.recalls, taken_back.state(0, set())) == ("U", "recall")
    assert newest_of_each([taken_back, row, row]) == [taken_back, row]
    handle = recall_handle(waits)
    assert (handle.topic, handle.broker_name, handle.deliver_ms, handle.key) == (
        "later", "broker-a", 5001, "U",
    )  # fmt: skip
    for bad in (recall, message(wheel, REAL_TOPIC="later", TIMER_OUT_MS="x", UNIQ_KEY="U")):
        with pytest.raises(ClientError, match="no timer message"):
            recall_handle(bad)


def test_chosen_letters() -> None:
    values = QueryParams([("chosen", "AB/30"), ("chosen", "CD/10"), ("key", "ignored")])
    selection = selection_of(values)
    assert (selection.begin, selection.end, selection.key) == (10, 31, None)
    assert selection.ids == {"AB", "CD"}
    by_filter = selection_of(QueryParams({"topic": "orders", "id": "a b", "begin": str(NOW)}))
    assert (by_filter.topic, by_filter.begin) == ("orders", NOW)
    assert by_filter.ids == {"a", "b"}
    assert selection_of(QueryParams()).is_all
    for bad in ("AB", "AB/", "/1", "A B/1", "AB/x", "A" * 200 + "/1"):
        with pytest.raises(PyrmqError):
            selection_of(QueryParams([("chosen", bad)]))
    with pytest.raises(PyrmqError, match="use the filter"):
        selection_of(QueryParams([("chosen", f"A{n}/1") for n in range(201)]))


def test_chosen_transactions() -> None:
    assert chosen_of(["h:1/A", "h:1/A", "h:2/7"]) == [Choice("h:1", "A"), Choice("h:2", "7")]
    for bad in ([], ["x"], ["/A"], ["h:1/"], [f"h:1/{n}" for n in range(101)]):
        with pytest.raises(PyrmqError):
            chosen_of(bad)
