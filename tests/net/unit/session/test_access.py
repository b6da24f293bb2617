"""With access control a session answers what was granted to who signed it, and nothing else."""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyrmq.engine import (
    ACCESS_END,
    ACCESS_SEND,
    Keyring,
    Listener,
    PullGrants,
    RecvBuffer,
    Session,
    Store,
    Transactions,
)
from tests.net.unit.session.exchange import Exchange, exchanges, new_session, serving
from tests.net.unit.session.signing import NOW, SECRETS, feed, sign, subjects
from tests.net.unit.session.test_pieces import GARBAGE, cut
from tests.store.tools import data
from tests.support import scratch
from tests.support.client import SEND_MESSAGE, batch_command, pull_command, send_command
from tests.support.records import decode_records
from tests.support.thorough import examples
from tests.support.transactions import COMMIT, ROLLBACK, end_command, half_command, stored_half
from tests.support.wire import BINARY, FLAG_ONEWAY, JSON, Command, FrameReader, encode


@dataclass
class Rig:
    store: Store
    transactions: Transactions
    keyring: Keyring
    pulls: PullGrants
    session: Session

    def bodies(self, topic: str = "T") -> list[bytes]:
        found = []
        for name, queue_id, low, high in self.store.queues():
            while name == topic and low < high:
                result = self.store.get(topic, queue_id, low, 256)
                found += [record.body for record in decode_records(data(result))]
                low = result.next_offset
        return found

    def is_answered(self, command: Command) -> bool:
        """Whether the session deals with it by itself."""
        answers = feed(self.session, command)
        left = subjects(self.session)
        assert len(answers) + len(left) == 1
        assert all(answer.code == 0 for answer in answers)
        return bool(answers)


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    """A broker with the topics A, B and T of four queues."""
    sizes = {"commit_log_file_size": 4 << 20, "consume_queue_file_size": 20_000}
    store = Store(tmp_path, **sizes)
    try:
        for topic in ("A", "B", "T", "%RETRY%G"):
            store.set_topic(topic, read_queues=4, write_queues=4)
        transactions, keyring, pulls = Transactions(store.native), Keyring(), PullGrants()
        keyring.replace(SECRETS)
        listener = Listener(store.native, transactions=transactions, pulls=pulls, keyring=keyring)
        yield Rig(store, transactions, keyring, pulls, new_session(listener))
    finally:
        store.close()


def batch(topic: str) -> Command:
    return batch_command(topic, [(b"one", {}), (b"two", {})])


def delayed(topic: str) -> Command:
    return send_command(topic, properties={"DELAY": "3"})


KINDS = {
    "v2": send_command,
    "v1": lambda topic: send_command(topic, code=SEND_MESSAGE),
    "binary": lambda topic: send_command(topic, serialize=BINARY),
    "batch": batch,
    "delayed": delayed,
    "half": half_command,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_send_of_each_kind_needs_the_right_to_its_topic(rig: Rig, kind: str) -> None:
    make = KINDS[kind]
    assert not rig.is_answered(make("A"))
    assert not rig.is_answered(sign(make("A")))
    rig.session.grant_access(ACCESS_SEND, "alice", "A")
    assert rig.is_answered(sign(make("A")))
    assert rig.is_answered(sign(make("A")))
    assert not rig.is_answered(make("A")), "not signed"
    assert not rig.is_answered(sign(make("A"), secret="guessed")), "signed wrongly"
    assert not rig.is_answered(sign(make("A"), "bob")), "of somebody else"
    assert not rig.is_answered(sign(make("B"))), "to another topic"
    changed = sign(make("B"))
    field = "topic" if kind == "v1" else "b"
    assert not rig.is_answered(replace(changed, ext=changed.ext | {field: "A"}))
    assert rig.is_answered(sign(make("A")))


def test_one_way_sends(rig: Rig) -> None:
    rig.session.grant_access(ACCESS_SEND, "alice", "T")
    command = replace(send_command("T", b"1"), flag=FLAG_ONEWAY)
    assert feed(rig.session, sign(command), command, sign(command, "bob")) == []
    assert subjects(rig.session) == [None, "bob"]
    assert rig.bodies() == [b"1"]


def test_rights_are_of_one_subject_on_one_connection(rig: Rig) -> None:
    rig.session.grant_access(ACCESS_SEND, "alice", "A")
    rig.session.grant_access(ACCESS_SEND, "bob", "B")
    for _ in range(3):
        commands = [
            sign(send_command(topic), who) for topic in ("A", "B") for who in ("alice", "bob")
        ]
        assert len(feed(rig.session, *commands)) == 2
        assert subjects(rig.session) == ["bob", "alice"]


def test_the_session_of_another_connection_has_no_rights(rig: Rig) -> None:
    rig.session.grant_access(ACCESS_SEND, "alice", "T")
    other = new_session(Listener(rig.store.native, keyring=rig.keyring))
    assert feed(other, sign(send_command("T"))) == []
    assert subjects(other) == ["alice"]


@pytest.mark.parametrize("change", ["revoke", "replace"])
def test_what_is_revoked_between_two_feeds_is_gone(rig: Rig, change: str) -> None:
    rig.session.grant_access(ACCESS_SEND, "alice", "T")
    assert rig.is_answered(sign(send_command("T")))
    if change == "revoke":
        rig.keyring.revoke()
    else:
        rig.keyring.replace(SECRETS)
    assert not rig.is_answered(sign(send_command("T")))
    rig.session.grant_access(ACCESS_SEND, "alice", "A")
    assert not rig.is_answered(sign(send_command("T"))), "another grant brings none back"
    rig.session.grant_access(ACCESS_SEND, "alice", "T")
    assert rig.is_answered(sign(send_command("T")))


def test_a_user_who_is_removed_while_connected(rig: Rig) -> None:
    rig.session.grant_access(ACCESS_SEND, "alice", "T")
    rig.keyring.replace({"bob": SECRETS["bob"]})
    rig.session.grant_access(ACCESS_SEND, "alice", "T")
    assert feed(rig.session, sign(send_command("T"))) == []
    assert subjects(rig.session) == [None]


def test_retry_topics_and_unknown_ones_are_the_brokers(rig: Rig) -> None:
    for topic in ("%RETRY%G", "Unknown"):
        rig.session.grant_access(ACCESS_SEND, "alice", topic)
        assert not rig.is_answered(sign(send_command(topic)))


def test_a_send_that_cannot_be_read_is_the_brokers(rig: Rig) -> None:
    """It says first whether its sender may send at all."""
    rig.session.grant_access(ACCESS_SEND, "alice", "T")
    assert not rig.is_answered(sign(send_command("T", change={"e": None})))
    assert not rig.is_answered(sign(send_command("T", change={"e": "x"})))


def test_a_topic_that_is_written_with_escapes(rig: Rig) -> None:
    rig.session.grant_access(ACCESS_SEND, "alice", "A")
    for topic, written in (("A", b"\\u0041"), ("B", b"\\u0042")):
        raw = encode(sign(send_command(topic)))
        header = raw[8:-5].replace(f'"b":"{topic}"'.encode(), b'"b":"' + written + b'"')
        assert written in header
        raw = (4 + len(header) + 5).to_bytes(4) + len(header).to_bytes(4) + header + raw[-5:]
        answers = FrameReader().feed(rig.session.feed_bytes(raw, NOW) or b"")
        assert (len(answers), subjects(rig.session)) == (
            (1, []) if topic == "A" else (0, ["alice"])
        )


@pytest.mark.parametrize("first", ["T", "New"])
def test_sends_that_the_broker_allows_keep_their_order(rig: Rig, first: str) -> None:
    """The first sends of a connection, and those behind them in the same feed and the next one."""
    sends = [sign(send_command(first, b"%d" % n), "bob") for n in range(150)]
    stream = b"".join(map(encode, sends))
    cut = len(stream) // 2 + 7
    answers = b""

    def decide() -> None:
        """As the broker does: command after command, each before the next feed."""
        nonlocal answers
        while (command := rig.session.next_command()) is not None:
            assert command.subject == "bob"
            assert command.frame is not None
            if first == "New":
                rig.store.set_topic("New", read_queues=4, write_queues=4)
            rig.session.grant_access(ACCESS_SEND, "bob", first)
            answers += rig.session.resend(command.frame, NOW) or b""

    by_itself = 0
    for piece in (stream[:cut], stream[cut:]):
        answers += rig.session.feed_bytes(piece, NOW) or b""
        while rig.session.commands or rig.session.more:
            decide()
            before = len(answers)
            answers += rig.session.feed_bytes(b"", NOW) or b""
            by_itself += len(FrameReader().feed(answers[before:]))
    assert rig.bodies(first) == [b"%d" % n for n in range(150)]
    assert {answer.code for answer in FrameReader().feed(answers)} == {0}
    assert len(FrameReader().feed(answers)) == 150
    assert by_itself > 0, "what follows the first commands is answered by the session"


def test_large_frames(rig: Rig) -> None:
    body = bytes(1_000_000)
    buffer = RecvBuffer(70_000)
    rig.session.grant_access(ACCESS_SEND, "alice", "T")
    for who in ("alice", "bob"):
        left = memoryview(encode(sign(send_command("T", body), who)))
        answer = b""
        while left:
            if (place := rig.session.space()) is not None:
                n = min(len(place), len(left))
                memoryview(place)[:n] = left[:n]
                rig.session.filled(n)
                taken = 0
            else:
                n = taken = min(len(left), 65_536)
                memoryview(buffer)[:n] = left[:n]
            left = left[n:]
            answer += rig.session.feed(buffer, taken, NOW) or b""
        assert bool(answer) == (who == "alice")
        assert subjects(rig.session) == ([] if who == "alice" else ["bob"])


def test_more_rights_than_a_session_keeps(rig: Rig) -> None:
    for n in range(3000):
        rig.session.grant_access(ACCESS_SEND, "alice", f"Topic{n}")
    rig.session.grant_access(ACCESS_SEND, "alice", "T")
    assert rig.is_answered(sign(send_command("T")))


def test_rights_that_are_none(rig: Rig) -> None:
    for rights in (0, 4, 7, 255):
        with pytest.raises(ValueError, match="rights"):
            rig.session.grant_access(rights, "alice", "T")
    with pytest.raises(ValueError, match="keyring"):
        new_session(Listener(rig.store.native)).grant_access(ACCESS_SEND, "alice", "T")


@pytest.mark.parametrize("serialize", [JSON, BINARY])
@pytest.mark.parametrize("state", [COMMIT, ROLLBACK])
def test_ends_of_transactions(rig: Rig, serialize: int, state: int) -> None:
    """Only if they name the topic of their message, and their signer has a right to it."""
    rig.session.grant_access(ACCESS_SEND, "alice", "A")
    rig.session.grant_access(ACCESS_SEND, "alice", "B")
    half = half_command("A", b"money")
    (answer,) = feed(rig.session, sign(half))
    stored = stored_half(half, answer)

    def ends(topic: str | None, who: str = "alice") -> bool:
        command = end_command(stored, state, serialize=serialize, change={"topic": topic})
        return rig.is_answered(sign(command, who))

    assert not ends("A"), "the right to send is no right to end"
    rig.session.grant_access(ACCESS_END, "alice", "B")
    rig.session.grant_access(ACCESS_END, "bob", "B")
    assert not ends("A")
    assert not ends("B"), "it names a topic that its message is not for"
    assert not ends("B", "bob")
    assert not ends(None)
    assert not rig.is_answered(end_command(stored, state, change={"topic": "B"}))
    assert rig.transactions.pending() == 1
    rig.session.grant_access(ACCESS_END, "alice", "A")
    assert not ends(None)
    assert not ends("A", "bob")
    assert rig.transactions.pending() == 1
    assert ends("A")
    assert rig.transactions.pending() == 0
    assert rig.bodies("A") == ([b"money"] if state == COMMIT else [])


def grant_pull(rig: Rig, command: Command) -> None:
    assert feed(rig.session, command) == []
    taken = rig.session.next_command()
    assert taken is not None
    rig.session.grant_pull(taken, "T", "G", 0, array("i"))
    assert rig.session.next_command() is None


def test_pulls_are_granted_to_their_signer(rig: Rig) -> None:
    rig.session.grant_access(ACCESS_SEND, "alice", "T")
    feed(rig.session, sign(send_command("T", b"x")))
    pull = pull_command("T", 0, 0)
    grant_pull(rig, sign(pull))
    assert rig.is_answered(sign(pull))
    assert rig.is_answered(sign(pull_command("T", 0, 0, maximum=7)))
    assert not rig.is_answered(pull)
    assert not rig.is_answered(sign(pull, "bob"))
    assert not rig.is_answered(sign(pull, secret="guessed"))
    grant_pull(rig, sign(pull, "bob"))
    assert rig.is_answered(sign(pull, "bob"))
    assert rig.is_answered(sign(pull))


@pytest.mark.parametrize("what", ["keyring", "keys", "pulls"])
def test_pulls_are_revoked_by_either(rig: Rig, what: str) -> None:
    rig.session.grant_access(ACCESS_SEND, "alice", "T")
    feed(rig.session, sign(send_command("T", b"x")))
    pull = sign(pull_command("T", 0, 0))
    grant_pull(rig, pull)
    assert rig.is_answered(pull)
    if what == "pulls":
        rig.pulls.revoke()
    elif what == "keys":
        rig.keyring.replace(SECRETS)
    else:
        rig.keyring.revoke()
    assert not rig.is_answered(pull)
    grant_pull(rig, pull)
    assert rig.is_answered(pull)


def test_a_pull_that_nobody_has_signed_is_granted_to_nobody(rig: Rig) -> None:
    rig.session.grant_access(ACCESS_SEND, "alice", "T")
    feed(rig.session, sign(send_command("T", b"x")))
    pull = pull_command("T", 0, 0)
    grant_pull(rig, pull)
    assert not rig.is_answered(pull)
    assert not rig.is_answered(sign(pull))


@settings(max_examples=examples(100), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    exchanges(),
    st.sets(st.integers(0, 11)),
    st.sampled_from([b"", b"", *GARBAGE.values()]),
    st.lists(st.integers(0, 1 << 20), max_size=10),
)
def test_without_rights_all_is_handed_over_as_it_came(
    frames: list[bytes], signed: set[int], garbage: bytes, places: list[int]
) -> None:
    """Of any stream, cut anywhere, also behind and in front of frames that break the protocol."""
    frames = [
        encode(sign(FrameReader().feed(frame)[0])) if n in signed else frame
        for n, frame in enumerate(frames)
    ]
    stream = b"".join(frames) + garbage
    with (
        tempfile.TemporaryDirectory(dir=scratch.place()) as folder,
        serving(Path(folder)) as (store, _),
    ):
        keyring = Keyring()
        keyring.replace(SECRETS)
        expected = Exchange(store, Listener())
        expected.feed(stream)
        for pieces in ([stream], cut(stream, places)):
            for as_server in (False, True):
                exchange = Exchange(store, Listener(store.native, keyring=keyring))
                if as_server:
                    exchange.feed_as_server(pieces)
                else:
                    for piece in pieces:
                        exchange.feed(piece)
                assert exchange.outcome() == expected.outcome()
        assert expected.outcome().stored == []
