"""Kill -9 of the broker at every step of a transaction, one after the other on one store.

After each kill the next process has to find what the log says: what was committed is delivered
exactly once, what was rolled back never, and what has no word yet is asked about. Two transactions
that nobody ever answers for are there all the time and must be asked about after every start.
Between two records of one native call nothing can be caught from outside: there the process is
killed behind the call, and the log is cut between the records, as a kill there would have left it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.operators import create_topic
from tests.support.records import Record
from tests.support.transactions import (
    COMMIT,
    GROUP,
    HALF_TOPIC,
    OVERFLOW_TOPIC,
    RESUME_CHECK_HALF_MESSAGE,
    ROLLBACK,
    UNKNOWN,
    Half,
    delivered,
    end,
    end_command,
)
from tests.support.waiting import eventually
from tests.support.wire import FLAG_ONEWAY, Command, encode
from tests.system.crash.transactions import (
    SYSTEM_BUSY,
    TOPIC,
    DyingServer,
    Story,
    cut,
    group_of,
    without_last_op,
)

CONF = """\
transactionTimeOut=5
transactionCheckInterval=15
transactionCheckMax={checks}
flushConsumerOffsetInterval=100
mappedFileSizeCommitLog=4194304
mappedFileSizeConsumeQueue=20000
maxHashSlotNum=500
maxIndexNum=1500
"""

ANY = 0
AGAIN = -1
"""The check count of one that was asked about before."""
Run = Iterator[str]
"""Yields the step to be armed for the next life, and goes on in that life. What a step has left is
checked at the begin of the next one."""

pytestmark = pytest.mark.skipif(
    "PYRMQ_TEST_SERVER" in os.environ, reason="wraps the server of this checkout"
)


class Steps:
    """The steps; each runs in a life of its own and ends with the kill."""

    def __init__(self, story: Story) -> None:
        self.s = story
        self.asked: dict[str, int] = {}
        """Transactions that are to be asked about after the kill, with the first check count."""

    def expect(self, key: str, *, asked: int | None, committed: int) -> None:
        """asked: the check count with which its producer is asked first, None: it is not."""
        if asked is not None:
            self.asked[key] = asked
        self.s.expected[key] += committed

    # Halves.

    def half_received(self) -> Run:
        yield "feed before half_received"
        self.s.post_half("half_received", COMMIT)
        self.s.killed()
        self.expect("half_received", asked=None, committed=0)

    def half_stored(self) -> Run:
        yield "feed after half_stored"
        self.s.post_half("half_stored", COMMIT)
        self.s.killed()
        self.expect("half_stored", asked=1, committed=1)

    def half_answered(self) -> Run:
        yield ""
        self.s.half("half_answered", COMMIT)
        self.s.half("half_answered_2", ROLLBACK)
        self.s.kill()
        self.expect("half_answered", asked=1, committed=1)
        self.expect("half_answered_2", asked=1, committed=0)

    # END_TRANSACTION.

    def _end(self, key: str, side: str, state: int) -> Run:
        yield f'feed {side} "transactionId":"{key}"'
        self.s.post_end(self.s.half(key, state), state)
        self.s.killed()

    def commit_received(self) -> Run:
        yield from self._end("commit_received", "before", COMMIT)
        self.expect("commit_received", asked=1, committed=1)

    def rollback_received(self) -> Run:
        yield from self._end("rollback_received", "before", ROLLBACK)
        self.expect("rollback_received", asked=1, committed=0)

    def commit_without_op(self) -> Run:
        yield from self._end("commit_without_op", "after", COMMIT)
        (op,) = cut(self.s.server.store, without_last_op)
        assert op.body == f"{self.s.halves['commit_without_op'].queue_offset},".encode()
        self.expect("commit_without_op", asked=None, committed=1)

    def commit_with_op(self) -> Run:
        yield from self._end("commit_with_op", "after", COMMIT)
        self.expect("commit_with_op", asked=None, committed=1)

    def rollback_with_op(self) -> Run:
        yield from self._end("rollback_with_op", "after", ROLLBACK)
        self.expect("rollback_with_op", asked=None, committed=0)

    def one_read_cut(self) -> Run:
        """Commit, rollback and commit in one read: op records stand behind all of them."""
        yield 'feed after "transactionId":"one_read_cut_3"'
        keys = ["one_read_cut_1", "one_read_cut_2", "one_read_cut_3"]
        halves = [self.s.half(k, f) for k, f in zip(keys, (COMMIT, ROLLBACK, COMMIT), strict=True)]
        one_way(self.s, halves, (COMMIT, ROLLBACK, COMMIT))
        self.s.killed()

        def until_first_commit(records: list[Record]) -> int:
            return 1 + next(i for i, r in enumerate(records) if is_commit(r, keys[0]))

        cut(self.s.server.store, until_first_commit)
        self.expect(keys[0], asked=None, committed=1)
        self.expect(keys[1], asked=1, committed=0)
        self.expect(keys[2], asked=1, committed=1)

    def one_read(self) -> Run:
        yield 'feed after "transactionId":"one_read_2"'
        halves = [self.s.half("one_read_1", ROLLBACK), self.s.half("one_read_2", COMMIT)]
        one_way(self.s, halves, (ROLLBACK, COMMIT))
        self.s.killed()
        self.expect("one_read_1", asked=None, committed=0)
        self.expect("one_read_2", asked=None, committed=1)

    # Check-backs.

    def _asked(self, key: str, step: str, state: int = COMMIT) -> Run:
        yield step
        self.s.half(key, state)
        self.s.join(key)

    def check_decided(self) -> Run:
        yield from self._asked("check_decided", "renew before PG_check_decided")
        self.s.killed()
        self.expect("check_decided", asked=1, committed=1)

    def copy_without_op(self) -> Run:
        yield from self._asked("copy_without_op", "renew after PG_copy_without_op")
        self.s.killed()
        cut(self.s.server.store, without_last_op)
        self.expect("copy_without_op", asked=2, committed=1)

    def copy_with_op(self) -> Run:
        yield from self._asked("copy_with_op", "renew after PG_copy_with_op", ROLLBACK)
        self.s.killed()
        self.expect("copy_with_op", asked=2, committed=0)

    def check_sent(self) -> Run:
        yield from self._asked("check_sent", "")
        key, _ = self.s.next_check()
        assert key == "check_sent"
        self.s.kill()
        self.expect(key, asked=AGAIN, committed=1)

    def _check_answered(self, key: str, side: str, state: int) -> Run:
        yield from self._asked(key, f'feed {side} "transactionId":"{key}"', state)
        _, copy = self.s.next_check()
        self.s.post_end(copy, state, from_check=True)
        self.s.killed()

    def answer_received(self) -> Run:
        yield from self._check_answered("answer_received", "before", COMMIT)
        self.expect("answer_received", asked=AGAIN, committed=1)

    def answer_commits(self) -> Run:
        yield from self._check_answered("answer_commits", "after", COMMIT)
        self.expect("answer_commits", asked=None, committed=1)

    def answer_rolls_back(self) -> Run:
        yield from self._check_answered("answer_rolls_back", "after", ROLLBACK)
        self.expect("answer_rolls_back", asked=None, committed=0)

    def _older(self, key: str, side: str) -> Run:
        """A word about the first record while a copy of it waits: decided outside of the engine."""
        yield from self._asked(key, f"settle {side} {group_of(key)}")
        self.s.next_check()
        self.s.post_end(self.s.halves[key], COMMIT)
        self.s.killed()

    def older_received(self) -> Run:
        yield from self._older("older_received", "before")
        self.expect("older_received", asked=AGAIN, committed=1)

    def older_without_op(self) -> Run:
        yield from self._older("older_without_op", "after")
        cut(self.s.server.store, without_last_op)
        self.expect("older_without_op", asked=None, committed=1)

    def older_with_op(self) -> Run:
        yield from self._older("older_with_op", "after")
        self.expect("older_with_op", asked=None, committed=1)

    # Progress, start and stop.

    def _progress(self, key: str, step: str) -> Run:
        yield step
        assert end(self.s.c, self.s.half(key, COMMIT), COMMIT).code == 0
        self.expect(key, asked=None, committed=1)

    def _keep(self, key: str, side: str) -> Run:
        trigger = self.s.server.store.with_name(key)
        yield from self._progress(key, f"keep {side} {trigger}")
        trigger.touch()
        self.s.killed()

    def progress_not_kept(self) -> Run:
        yield from self._keep("progress_not_kept", "before")

    def progress_not_saved(self) -> Run:
        yield from self._keep("progress_not_saved", "after")

    def progress_saved(self) -> Run:
        yield from self._progress("progress_saved", "")
        before = saved_progress(self.s.server.store)
        self.s.half("progress_saved_2", COMMIT)
        self.s.join("silent-1", "silent-2", "progress_saved_2")
        eventually(
            lambda: saved_progress(self.s.server.store),
            f"progress behind {before} is saved",
            until=lambda saved: saved > before,
        )
        self.s.kill()
        self.expect("progress_saved_2", asked=ANY, committed=1)

    def start_before(self) -> Run:
        yield from self._end("start_before", "after", COMMIT)
        cut(self.s.server.store, without_last_op)
        self.killed_at_start("open before")
        self.expect("start_before", asked=None, committed=1)

    def start_after(self) -> Run:
        yield from self._end("start_after", "after", COMMIT)
        cut(self.s.server.store, without_last_op)
        self.killed_at_start("open after")
        self.killed_at_start("open after")
        self.expect("start_after", asked=None, committed=1)

    def killed_at_start(self, step: str) -> None:
        self.s.server.die = step
        self.s.server.spawn()
        self.s.server.wait_killed()

    def _stop(self, key: str, step: str) -> Run:
        yield step
        assert end(self.s.c, self.s.half(key, COMMIT), COMMIT).code == 0
        self.s.half(f"{key}_2", COMMIT)
        self.s.c.close()
        self.s.server.stop_into_kill()
        self.expect(key, asked=None, committed=1)
        self.expect(f"{key}_2", asked=1, committed=1)

    def stop_before_save(self) -> Run:
        yield from self._stop("stop_before_save", "save before")

    def stop_after_save(self) -> Run:
        yield from self._stop("stop_after_save", "save after")

    def stop_before_close(self) -> Run:
        yield from self._stop("stop_before_close", "close before")

    def stop_after_close(self) -> Run:
        yield from self._stop("stop_after_close", "close after")


STEPS = [
    name for name, step in vars(Steps).items()
    if not name.startswith("_") and name not in ("expect", "killed_at_start") and callable(step)
]  # fmt: skip


def one_way(story: Story, halves: list[Half], states: tuple[int, ...]) -> None:
    """All in one piece, as clients send them."""
    pieces = []
    for half, state in zip(halves, states, strict=True):
        command = end_command(half, state)
        command.flag |= FLAG_ONEWAY
        pieces.append(encode(command))
    story.c.send_raw(b"".join(pieces))


def is_commit(record: Record, key: str) -> bool:
    return record.sys_flag & 0xC == COMMIT and record.body == key.encode()


def saved_progress(store: Path) -> int:
    """The half offset in the file, whose keys are bare numbers."""
    path = store / "config" / "consumerOffset.json"
    text = path.read_text() if path.exists() else ""
    found = re.search(rf'"{HALF_TOPIC}@{GROUP}":{{\s*0:(\d+)', text)
    return int(found[1]) if found else -1


@pytest.fixture
def story(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Story]:
    conf = CONF.format(checks=10_000)
    server = DyingServer(tmp_path / "store", conf=conf, flush=request.param)
    story = Story(server)
    try:
        yield story
    finally:
        if story.client is not None:
            story.client.close()
        server.kill()


SYNC = pytest.param("SYNC_FLUSH", marks=pytest.mark.thorough("the kill loops have both in short"))
FLUSHES = pytest.mark.parametrize("story", ["ASYNC_FLUSH", SYNC], indirect=True)


@FLUSHES
def test_killed_at_every_step(story: Story) -> None:
    steps = Steps(story)
    story.begin()
    assert create_topic(story.c, TOPIC, 1).code == 0
    story.half("silent-1", UNKNOWN)
    story.half("silent-2", UNKNOWN)
    story.kill()
    left: Callable[[], None] | None = None
    for name in STEPS:
        run = getattr(steps, name)()
        try:
            story.begin(next(run))
            if left is not None:
                left()
            left = check_of(steps, name)
            steps.asked = {}
            for _ in run:
                raise AssertionError("a step has one life")
            left = check_of(steps, name)
        except BaseException as e:
            e.add_note(f"at step {name}")
            raise
    story.begin()
    assert left is not None
    left()
    for key in ("silent-1", "silent-2"):
        story.fate[key] = COMMIT
        story.expected[key] += 1
    story.settle_all()
    story.check_delivered()
    story.c.close()
    story.server.terminate()
    story.begin()
    assert story.settle_all() == {}, "all is settled"
    story.check_delivered()


def check_of(steps: Steps, name: str) -> Callable[[], None]:
    """What has to be true in the life after a step."""
    asked = dict(steps.asked)

    def check() -> None:
        found = steps.s.settle_all()
        want = {"silent-1", "silent-2", *asked}
        assert set(found) == want, f"after {name}: asked about {set(found)} instead of {want}"
        for key, count in asked.items():
            first = found[key]
            right = first > 1 if count == AGAIN else count in (first, ANY)
            assert right, f"after {name}: {key} is asked about with count {first}"
        steps.s.check_delivered()

    return check


# Discarded: in lives of their own, as transactionCheckMax is 1 there.


def discard(story: Story, key: str, step: str) -> None:
    """A transaction is asked about once, nobody answers, and it is discarded."""
    story.server.conf = CONF.format(checks=1)
    story.begin(step)
    story.half(key, COMMIT)
    story.join(key)
    story.next_check()
    if step:
        story.killed()
    else:
        eventually(lambda: discarded(story, key), f"{key} is discarded")
        story.kill()
    story.server.conf = CONF.format(checks=10_000)


def discarded(story: Story, key: str) -> list[Record]:
    if story.c.max_offset(OVERFLOW_TOPIC, 0) == 0:
        return []
    return [r for r in delivered(story.c, OVERFLOW_TOPIC, 1) if r.body == key.encode()]


def late_commit(story: Story, key: str) -> None:
    """Again as long as the broker says that it cannot tell yet."""
    answer = eventually(
        lambda: end(story.c, story.halves[key], COMMIT),
        "the broker is not busy any more",
        until=lambda answer: answer.code != SYSTEM_BUSY,
    )
    assert answer.code == 0, f"{answer.code} {answer.remark}"


@FLUSHES
def test_killed_while_it_is_discarded(story: Story) -> None:
    story.begin()
    assert create_topic(story.c, TOPIC, 1).code == 0
    story.kill()

    discard(story, "before", "discard before PG_before")
    story.begin()
    assert discarded(story, "before") == []
    assert story.settle_all() == {"before": 2}, "it waits still"
    story.expected["before"] = 1
    story.check_delivered()
    story.kill()

    discard(story, "without_op", "discard after PG_without_op")
    cut(story.server.store, without_last_op)
    story.begin()
    (copy,) = discarded(story, "without_op")
    assert story.settle_all() == {}, "it is discarded all the same"
    late_commit(story, "without_op")
    story.expected["without_op"] = 1
    story.check_delivered()
    refused = story.c.call(RESUME_CHECK_HALF_MESSAGE, msgId=copy.offset_msg_id)
    assert refused.code != 0, "it was committed: it is not taken up again"
    story.kill()

    discard(story, "with_op", "discard after PG_with_op")
    story.begin("deliver_late before")
    assert story.settle_all() == {}, "nobody is asked any more"
    story.check_delivered()
    story.until_killed(lambda: end_command(story.halves["with_op"], COMMIT))

    story.begin("deliver_late after")
    story.check_delivered()
    story.until_killed(lambda: end_command(story.halves["with_op"], COMMIT))
    story.expected["with_op"] = 1

    story.begin()
    for _ in range(3):
        late_commit(story, "with_op")
        story.check_delivered()
    (copy,) = discarded(story, "with_op")
    refused = story.c.call(RESUME_CHECK_HALF_MESSAGE, msgId=copy.offset_msg_id)
    assert refused.code != 0, "it was delivered late: it is not taken up again"
    story.kill()

    discard(story, "resumed", "")
    story.begin("resume before")
    (copy,) = discarded(story, "resumed")
    resume = {"msgId": copy.offset_msg_id}
    story.until_killed(lambda: Command(RESUME_CHECK_HALF_MESSAGE, dict(resume)))
    story.begin("resume after")
    assert story.settle_all() == {}
    story.until_killed(lambda: Command(RESUME_CHECK_HALF_MESSAGE, dict(resume)))
    story.begin()
    assert story.settle_all() == {"resumed": 1}, "it is asked about anew"
    story.expected["resumed"] = 1
    story.check_delivered()
    late_commit(story, "resumed")
    story.check_delivered()
