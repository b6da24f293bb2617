"""Pulls that were granted are answered by the session, and only those."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.engine import Listener, PullGrants, Session, Store, java_hash
from tests.net.unit.session.exchange import new_session
from tests.support.client import PULL_COMMIT, PULL_SUBSCRIPTION, pull_command, pulled, send_command
from tests.support.wire import BINARY, JSON, Command, FrameReader, encode

NOW = 1_000_000
Setup = tuple[Store, Session, PullGrants]


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Setup]:
    """A session of a broker with a topic T of two queues, five messages in the first."""
    grants = PullGrants()
    sizes = {"commit_log_file_size": 1 << 20, "consume_queue_file_size": 2000}
    store = Store(tmp_path, **sizes)
    try:
        store.set_topic("T", read_queues=2, write_queues=2)
        session = new_session(Listener(store.native, pulls=grants))
        for n in range(5):
            tag = {"TAGS": "even" if n % 2 == 0 else "odd"}
            feed(session, send_command("T", b"%d" % n, properties=tag))
        yield store, session, grants
    finally:
        store.close()


def feed(session: Session, command: Command) -> list[Command]:
    return FrameReader().feed(session.feed_bytes(encode(command), NOW) or b"")


def grant(session: Session, command: Command, tags: list[int] | None = None) -> None:
    """Has the pull be a command, and grants those like it."""
    assert feed(session, command) == []
    taken = session.next_command()
    assert taken is not None
    queue_id = int(command.ext["queueId"])
    session.grant_pull(taken, "T", "G", queue_id, array("i", tags or []))


def is_answered(session: Session, command: Command) -> bool:
    answers = feed(session, command)
    taken = session.next_command()
    assert bool(answers) != (taken is not None), "one or the other"
    return bool(answers)


@pytest.mark.parametrize("serialize", [JSON, BINARY])
def test_the_answer(setup: Setup, serialize: int) -> None:
    store, session, _ = setup
    grant(session, pull_command("T", 0, 0, serialize=serialize))
    command = pull_command("T", 0, 1, maximum=3, serialize=serialize)
    command.opaque = 77
    (answer,) = feed(session, command)
    assert (answer.opaque, answer.code, answer.remark) == (77, 0, "FOUND")
    assert answer.ext == {
        "maxOffset": "5", "minOffset": "0", "nextBeginOffset": "4", "suggestWhichBrokerId": "0",
    }  # fmt: skip
    assert [record.body for record in pulled(answer).records] == [b"1", b"2", b"3"]
    assert answer.body == b"".join(bytes(s) for s in store.get("T", 0, 1, 3).slices)


def test_tags_select(setup: Setup) -> None:
    _, session, _ = setup
    grant(session, pull_command("T", 0, 0, subscription="odd"), [java_hash("odd")])
    (answer,) = feed(session, pull_command("T", 0, 0, subscription="odd"))
    assert [record.body for record in pulled(answer).records] == [b"1", b"3"]
    assert pulled(answer).next_offset == 5


@pytest.mark.parametrize(
    "other",
    [
        pull_command("T", 1, 0),
        pull_command("T2", 0, 0),
        pull_command("T", 0, 0, group="other"),
        pull_command("T", 0, 0, subscription="odd"),
        pull_command("T", 0, 0, sys_flag=PULL_SUBSCRIPTION | PULL_COMMIT),
        pull_command("T", 0, 0, change={"subVersion": "1"}),
        pull_command("T", 0, 0, change={"expressionType": "SQL92"}),
        pull_command("T", 0, 0, change={"expressionType": None}),
        pull_command("T", 0, 0, change={"maxMsgNums": None}),
        pull_command("T", 0, 0, change={"maxMsgNums": "many"}),
        pull_command("T", 0, 0, change={"maxMsgNums": str(2**31)}),
        pull_command("T", 0, 0, change={"queueOffset": ""}),
        pull_command("T", 0, 5),
        pull_command("T", 0, 6),
        pull_command("T", 0, -1),
    ],
    ids=lambda command: f"{command.ext}"[-60:],
)
def test_others_are_commands(setup: Setup, other: Command) -> None:
    _, session, grants = setup
    grant(session, pull_command("T", 0, 0))
    assert not is_answered(session, other)
    assert grants.drain() == []
    assert is_answered(session, pull_command("T", 0, 0)), "the grant is as good as before"


def test_fields_do_not_run_into_each_other(setup: Setup) -> None:
    _, session, _ = setup
    grant(session, pull_command("T", 0, 0, group="ab", subscription="c"))
    assert not is_answered(session, pull_command("T", 0, 0, group="a", subscription="bc"))


def test_a_oneway_or_lite_pull_is_a_command(setup: Setup) -> None:
    _, session, _ = setup
    grant(session, pull_command("T", 0, 0))
    oneway, lite = pull_command("T", 0, 0), pull_command("T", 0, 0)
    oneway.flag, lite.code = 2, 361
    assert not is_answered(session, oneway)
    assert not is_answered(session, lite)


def test_revoked(setup: Setup) -> None:
    _, session, grants = setup
    grant(session, pull_command("T", 0, 0))
    assert is_answered(session, pull_command("T", 0, 0))
    before = grants.generation()
    grants.revoke()
    assert grants.generation() != before, "parked pulls learn of it from this"
    assert not is_answered(session, pull_command("T", 0, 0))
    grant(session, pull_command("T", 0, 0))
    assert is_answered(session, pull_command("T", 0, 0))


def test_what_was_done_is_told_once(setup: Setup) -> None:
    _, session, grants = setup
    commits = {"sys_flag": PULL_SUBSCRIPTION | PULL_COMMIT}
    grant(session, pull_command("T", 0, 0, **commits))
    grant(session, pull_command("T", 0, 0))
    assert grants.drain() == [], "what became a command is the broker's to count"
    size = 0
    for offset, commit in ((0, "1"), (2, "2"), (4, "-1")):
        command = pull_command(
            "T", 0, offset, maximum=2, change={"commitOffset": commit}, **commits
        )
        (answer,) = feed(session, command)
        size += len(answer.body)
    assert is_answered(session, pull_command("T", 0, 0, maximum=1, change={"commitOffset": "4"}))
    assert grants.drain() == [
        ("T", "G", 0, 1, None, 1, 1, len(answer.body)),
        ("T", "G", 0, 5, 2, 3, 5, size),
    ]
    assert grants.drain() == []


def test_large_answers_are_commands(setup: Setup) -> None:
    """They go to the socket from the log's mapping, without a copy."""
    _, session, _ = setup
    for _ in range(3):
        feed(session, send_command("T", bytes(40_000), queue_id=1))
    grant(session, pull_command("T", 1, 0))
    assert not is_answered(session, pull_command("T", 1, 0))
    assert is_answered(session, pull_command("T", 1, 0, maximum=1))


def test_one_feed_answers_so_much_only(setup: Setup) -> None:
    _, session, _ = setup
    feed(session, send_command("T", bytes(60_000), queue_id=1))
    grant(session, pull_command("T", 1, 0))
    stream = b"".join(encode(pull_command("T", 1, 0)) for _ in range(20))
    answers = FrameReader().feed(session.feed_bytes(stream, NOW) or b"")
    assert len(answers) == 5, "a bit more than 256 KiB"
    assert session.commands == 15


def test_so_much_memory_is_kept(setup: Setup) -> None:
    """Others make room, a few at a time: one queue too many costs little."""
    _, session, _ = setup
    for n in range(3000):
        grant(session, pull_command("T", 0, 0, group=f"G{n}"))
    assert is_answered(session, pull_command("T", 0, 0, group="G2999"))
    kept = [n for n in range(3000) if is_answered(session, pull_command("T", 0, 0, group=f"G{n}"))]
    assert 1000 < len(kept) < 2999


def test_what_was_revoked_makes_room_first(setup: Setup) -> None:
    _, session, grants = setup
    for n in range(1000):
        grant(session, pull_command("T", 0, 0, group=f"old{n}"))
    grants.revoke()
    for n in range(1000):
        grant(session, pull_command("T", 0, 0, group=f"new{n}"))
    for n in range(1000):
        assert is_answered(session, pull_command("T", 0, 0, group=f"new{n}"))


def test_many_tags_are_not_kept(setup: Setup) -> None:
    _, session, _ = setup
    grant(session, pull_command("T", 0, 0), list(range(257)))
    assert not is_answered(session, pull_command("T", 0, 0))
    grant(session, pull_command("T", 0, 0), [java_hash("even"), *range(255)])
    assert is_answered(session, pull_command("T", 0, 0))


def test_nothing_is_answered_behind_a_command_of_the_same_feed(setup: Setup) -> None:
    """It may change what the pull gets, or commit another offset."""
    _, session, _ = setup
    grant(session, pull_command("T", 0, 0))
    stream = encode(pull_command("T", 0, 0)) + encode(Command(35)) + encode(pull_command("T", 0, 0))
    assert len(FrameReader().feed(session.feed_bytes(stream, NOW) or b"")) == 1
    taken = [session.next_command(), session.next_command()]
    assert [command.code for command in taken if command is not None] == [35, 11]
    assert is_answered(session, pull_command("T", 0, 0))


def test_one_feed_answers_so_many_only(setup: Setup) -> None:
    _, session, _ = setup
    grant(session, pull_command("T", 0, 0))
    stream = b"".join(encode(pull_command("T", 0, 0)) for _ in range(100))
    answers = FrameReader().feed(session.feed_bytes(stream, NOW) or b"")
    assert (len(answers), session.commands) == (64, 36)


def test_the_last_commit_comes_last(setup: Setup) -> None:
    """Also where several grants are of one queue and group."""
    _, session, grants = setup
    commits = {"sys_flag": PULL_SUBSCRIPTION | PULL_COMMIT}
    grant(session, pull_command("T", 0, 0, subscription="a", **commits))
    grant(session, pull_command("T", 0, 0, subscription="b", **commits))
    for tag, commit in (("a", "5"), ("b", "7"), ("a", "9")):
        change = {"commitOffset": commit}
        assert is_answered(
            session, pull_command("T", 0, 0, subscription=tag, change=change, **commits)
        )
    assert [row[4] for row in grants.drain()] == [7, 9]


def test_a_topic_that_is_gone(setup: Setup) -> None:
    """The engine looks the queue up by name each time."""
    _, session, _ = setup
    assert feed(session, pull_command("T", 0, 0)) == []
    taken = session.next_command()
    assert taken is not None
    session.grant_pull(taken, "Nowhere", "G", 0, array("i"))
    assert not is_answered(session, pull_command("T", 0, 0))


def test_a_session_without_a_store_grants_nothing() -> None:
    session = new_session(Listener())
    grant(session, pull_command("T", 0, 0))
    assert not is_answered(session, pull_command("T", 0, 0))
