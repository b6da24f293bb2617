"""Trace context in properties: what is written, what is left out, and what of others is read."""

from __future__ import annotations

import logging

import pytest
from opentelemetry import baggage, propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import TextMapPropagator
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

from pyrmq import Message
from pyrmq.client.checks import encode_properties
from pyrmq.model.properties import MAX_PROPERTIES, SYSTEM_PROPERTIES
from pyrmq.otel import context_of
from pyrmq.otel.propagation import RESERVED, span_context_of, with_context

TRACE, SPAN = 0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331
PARENT = f"00-{TRACE:032x}-{SPAN:016x}-01"


def context(state: TraceState | None = None) -> Context:
    span = SpanContext(TRACE, SPAN, False, TraceFlags(1), state)
    return trace.set_span_in_context(NonRecordingSpan(span), Context())


def message(**properties: str) -> Message:
    return Message("T", b"body", properties=properties)


def read(**properties: str) -> SpanContext | None:
    return span_context_of(context_of(message(**properties)))


def test_a_copy_gets_the_context() -> None:
    original = message(mine="1")
    sent = with_context(original, context(TraceState([("a", "b")])))
    assert sent.properties == {"mine": "1", "traceparent": PARENT, "tracestate": "a=b"}
    assert original.properties == {"mine": "1"}
    assert (sent.topic, sent.body) == (original.topic, original.body)


def test_without_a_span_nothing_is_copied() -> None:
    original = message()
    assert with_context(original, Context()) is original


def test_what_was_written_is_read() -> None:
    given = baggage.set_baggage("user", "alice", context(TraceState([("a", "b")])))
    found = context_of(with_context(message(), given))
    span = span_context_of(found)
    assert span is not None
    assert (span.trace_id, span.span_id, span.is_remote) == (TRACE, SPAN, True)
    assert span.trace_state.get("a") == "b"
    assert baggage.get_baggage("user", found) == "alice"


@pytest.mark.parametrize("names", [0, 1, 40])
@pytest.mark.parametrize("wide", ["x", "é", "字"])
def test_properties_at_the_limit_are_sent_without_context(names: int, wide: str) -> None:
    """Whatever is left free, all properties can be sent."""
    own = "".join(f"n{i}v" for i in range(names))
    for left in (0, 1, 54, 66, 67, 68, 600, RESERVED, RESERVED + 66, RESERVED + 68, 9000):
        properties = {f"n{i}": "v" for i in range(names)}
        size = len(own) + 2 * names
        count = (MAX_PROPERTIES - left - size - 200) // len(wide.encode())
        properties["big"] = wide * count
        original = Message("T", b"b", properties=properties)
        sent = with_context(original, context(TraceState([("a", "b" * 200)])))
        encode_properties(sent.all_properties())
        if left < RESERVED - 200:
            assert sent is original


def test_a_context_that_does_not_fit_goes_without_its_state() -> None:
    room = RESERVED + 2000
    original = message(big="x" * (MAX_PROPERTIES - room))
    state = TraceState([(f"k{i}", "v" * 250) for i in range(16)])
    sent = with_context(original, context(state))
    assert sent.properties.keys() == {"big", "traceparent"}
    assert "tracestate" in with_context(message(), context(state)).properties


@pytest.mark.parametrize("many", ["tags", "keys", "list", "key"])
def test_tags_and_keys_take_room(many: str) -> None:
    text = "x" * (MAX_PROPERTIES - RESERVED)
    more = None
    original = Message("T", b"b")
    if many == "tags":
        original.tags = text
    elif many == "keys":
        original.keys = text
    elif many == "list":
        original.keys = [text, "second"]
    else:
        more = text
    assert with_context(original, context(), more) is original


class Odd(TextMapPropagator):
    """Writes what no message can have."""

    @property
    def fields(self) -> set[str]:
        return set(SYSTEM_PROPERTIES)

    def extract(self, carrier, context=None, getter=None):  # type: ignore[no-untyped-def]
        raise ValueError("cannot read")

    def inject(self, carrier, context=None, setter=None):  # type: ignore[no-untyped-def]
        carrier |= {"UNIQ_KEY": "1", "a\x01": "b", "b": "c\x02", "c": "", "": "d", "e": "\ud800"}
        carrier |= {"n": 1, "fine": "yes"}


class Raises(Odd):
    def inject(self, carrier, context=None, setter=None):  # type: ignore[no-untyped-def]
        raise ValueError("cannot write")


@pytest.mark.parametrize(("one", "sent"), [(Odd(), {"fine": "yes"}), (Raises(), {})])
def test_other_propagators(
    one: TextMapPropagator, sent: dict[str, str], request: pytest.FixtureRequest
) -> None:
    before = propagate.get_global_textmap()
    request.addfinalizer(lambda: propagate.set_global_textmap(before))
    propagate.set_global_textmap(one)
    assert with_context(message(), context()).properties == sent
    assert context_of(message(traceparent=PARENT)) == Context()


BAD = [
    "",
    "x",
    "00",
    PARENT[:-1],
    PARENT + "0",
    PARENT.upper(),
    PARENT.replace("00-0", "ff-0", 1),
    f"00-{0:032x}-{SPAN:016x}-01",
    f"00-{TRACE:032x}-{0:016x}-01",
    f"00-{TRACE:032x}-{SPAN:016x}-zz",
    f"00-{'g' * 32}-{SPAN:016x}-01",
    "００-" + PARENT[3:],
    "\x00" + PARENT,
    PARENT + "\n",
    PARENT * 500,
    "00-" + "1" * 32_000,
]


@pytest.mark.parametrize("text", BAD)
def test_a_bad_traceparent_is_ignored(text: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert read(traceparent=text) is None
    assert not caplog.records


@pytest.mark.parametrize(
    "state",
    [
        "a=" + "b" * 8192,
        ",".join(f"k{i}=v" for i in range(2000)),
        "no equals sign",
        "a=b\x00",
        "a=ü",
        "A=b",
        "a=b\nINFO forged",
    ],
)
def test_a_bad_tracestate_is_left_out(state: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    found = read(traceparent=PARENT, tracestate=state)
    assert found is not None
    assert (found.trace_id, len(found.trace_state)) == (TRACE, 0)
    assert not caplog.records


@pytest.mark.parametrize("text", ["=", "a=" + "b" * 5000, "a=b\nforged", "%" * 4000])
def test_bad_baggage_is_left_out(text: str) -> None:
    found = context_of(message(traceparent=PARENT, baggage=text))
    assert span_context_of(found) is not None
    assert not baggage.get_all(found)
