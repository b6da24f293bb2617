"""Keeps broker processes running: starts them, starts those again that die, stops all of them."""

from __future__ import annotations

import logging
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import trio

from pyrmq.errors import ConfigError, PyrmqError
from pyrmq.escape import escape
from pyrmq.net.backoff import Backoff
from pyrmq.processes.plan import Member

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0
"""Seconds before a broker that died is started again, the first time and at most."""
GOOD = 60.0
"""Seconds after which a broker that serves has started well: the next pause is the first again."""
REFUSALS = 10
"""Starts in a row that end with an error before the broker serves; then it is given up."""
REMIND = 600.0
"""Seconds between two lines of the log about a broker that was given up."""
GRACE = 25.0
"""Seconds that the brokers have to stop in; containers are given 30."""
MAX_LINE = 64 << 10
"""Longest ready line, bytes."""

Command = Callable[[Member], Sequence[str]]
Announce = Callable[[Member, str], None]


@dataclass(slots=True)
class _Kept:
    """A broker and its process."""

    member: Member
    backoff: Backoff
    process: trio.Process | None = None
    ready: bool = False
    """Whether the process serves."""
    given_up: bool = False
    refusals: int = 0


class Supervisor:
    """`async with Supervisor(members, command, announce).running():` has all brokers serve in it.

    `command` is how a broker is started; it has to hold on to `lifeline` and to print a ready line.
    `announce` gets each broker with the line, whenever it serves. `first` and `longest`: pauses
    before a broker is started again, `grace`: how long a stop may take; seconds.
    """

    def __init__(
        self,
        members: Sequence[Member],
        command: Command,
        announce: Announce,
        *,
        first: float = FIRST_PAUSE,
        longest: float = LONGEST_PAUSE,
        grace: float = GRACE,
    ) -> None:
        self._kept = [_Kept(member, Backoff(first, longest)) for member in members]
        self._grace = grace
        self._command = command
        self._announce = announce
        self.killed: list[str] = []
        """Names of brokers that did not stop in time."""

    @property
    def given_up(self) -> list[str]:
        """Names of brokers that are not started any more."""
        return [kept.member.name for kept in self._kept if kept.given_up]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Starts all. ConfigError if one refuses to start: then all are stopped. PyrmqError, later,
        when all were given up. Leaving stops all at once and waits for them."""
        try:
            async with trio.open_nursery() as nursery:
                async with trio.open_nursery() as starting:
                    for kept in self._kept:
                        starting.start_soon(nursery.start, self._keep, kept)
                yield
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await self._stop()

    def kill(self) -> None:
        """Kills all at once. Can be called by a signal handler."""
        for kept in self._kept:
            if kept.process is not None:
                with suppress(ProcessLookupError):
                    kept.process.kill()

    async def _keep(
        self, kept: _Kept, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        name = kept.member.name
        begun = False
        while True:
            started = trio.current_time()
            code = await self._once(kept, task_status if not begun else None)
            served, begun = kept.ready, begun or kept.ready
            kept.ready = False
            if code > 0 and not begun:
                raise ConfigError(
                    f"broker {name} cannot start (exit code {code}): its own error stands above. "
                    "No broker is started"
                )
            kept.refusals = 0 if served or code < 0 else kept.refusals + 1
            if kept.refusals >= REFUSALS:
                await self._give_up(kept)
            if served and trio.current_time() - started >= GOOD:
                kept.backoff.reset()
            pause = kept.backoff.next()
            log.error(
                "broker %s %s; it is started again in %.1f s (%d in a row)",
                escape(name),
                escape(_how(code)),
                pause,
                kept.backoff.failed,
            )
            await trio.sleep(pause)

    async def _once(self, kept: _Kept, begun: trio.TaskStatus[None] | None) -> int:
        """Runs the process until it ends; its exit code, or minus the signal that ended it."""
        process = kept.process = await trio.lowlevel.open_process(
            list(self._command(kept.member)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,  # what a terminal sends to all of a group comes to the supervisor only
        )
        assert process.stdout is not None
        line = b""
        while chunk := await _read(process.stdout):
            *whole, line = (line + chunk).split(b"\n")
            for said in whole:
                kept.ready = True
                self._announce(kept.member, said.decode(errors="replace"))
                if begun is not None:
                    begun.started()
                    begun = None
            line = line[:MAX_LINE]
        code = await process.wait()
        await _close(process)
        kept.process = None
        return code

    async def _give_up(self, kept: _Kept) -> None:
        """Says so, again and again: never returns. PyrmqError if no broker is left."""
        kept.given_up = True
        if all(other.given_up for other in self._kept):
            raise PyrmqError("no broker starts any more: their own errors stand above")
        while True:
            log.error(
                "broker %s is given up: %d starts in a row ended with an error (it stands above); "
                "the messages of its store %s cannot be read. The other brokers serve. Mend what "
                "the error says, then start pyrmq anew",
                escape(kept.member.name),
                REFUSALS,
                escape(kept.member.store),
            )
            await trio.sleep(REMIND)

    async def _stop(self) -> None:
        async with trio.open_nursery() as nursery:
            for kept in self._kept:
                if kept.process is not None:
                    nursery.start_soon(self._stop_one, kept.member.name, kept.process)

    async def _stop_one(self, name: str, process: trio.Process) -> None:
        with suppress(ProcessLookupError):
            process.terminate()
        with trio.move_on_after(self._grace):
            await process.wait()
        if process.returncode is None:
            log.error("broker %s did not stop within %g s: it is killed", escape(name), self._grace)
            self.killed.append(name)
            process.kill()
            await process.wait()
        await _close(process)


async def _read(stream: trio.abc.ReceiveStream) -> bytes:
    try:
        return bytes(await stream.receive_some(4096))
    except trio.BrokenResourceError:
        return b""


async def _close(process: trio.Process) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            await stream.aclose()


def _how(code: int) -> str:
    if code >= 0:
        return f"has ended (exit code {code})"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
