"""Keeps broker processes running: starts them, starts those again that die or hang, stops all.

A broker that serves says now and then that it lives (`watch`). One that is silent for too long is
killed, and started again as one that died.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import MappingProxyType

import trio

from pyrmq.errors import ConfigError, PyrmqError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.net.backoff import Backoff
from pyrmq.processes.plan import Member
from pyrmq.processes.watch import SILENCE, Ears, environment

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 60.0
"""Seconds before a broker that died is started again, the first time and at most."""
GOOD = 60.0
"""Seconds after which a broker that serves has started well: the next pause is the first again."""
REFUSALS = 10
"""Starts in a row that end before the broker serves; then it is given up."""
RARELY = 600.0
"""Seconds before a broker that was given up is tried again."""
GRACE = 25.0
"""Seconds that the brokers have to stop in; containers are given 30."""
LOOK = 1.0
"""Seconds between two looks at who is silent."""
DUMP = 2.0
"""Seconds that a process that hangs has to say where (SIGABRT), before it is killed."""
READY = "ready"
"""How the line of a broker begins that says that it serves."""
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
    silent: float | None = None
    """Seconds since it said that it lives; None: it is not watched, as it does not serve yet, or
    stops."""
    status: str = ""
    """What it said last that it does."""
    hung: bool = False
    """Whether the process is being killed because it was silent."""


@dataclass(frozen=True, slots=True)
class _End:
    """How a process ended, in words; `refused`: by itself, with an error."""

    how: str
    refused: bool


class Supervisor:
    """`async with Supervisor(members, command, announce).running():` has all brokers serve in it.

    `command` is how a broker is started; it has to hold on to `lifeline` and to print a ready line.
    `announce` gets each broker with the line, whenever it serves. `first` and `longest`: pauses
    before a broker is started again, `rarely`: the pause of one that was given up, `grace`: how
    long the stop of a broker may take, `turn`: how long the next one waits for it, `silence`: after
    how long without a word a broker is taken for hung; seconds. `variables`: of the environment of
    the brokers, besides those of this process.
    """

    def __init__(
        self,
        members: Sequence[Member],
        command: Command,
        announce: Announce,
        *,
        first: float = FIRST_PAUSE,
        longest: float = LONGEST_PAUSE,
        rarely: float = RARELY,
        grace: float = GRACE,
        turn: float = 0.0,
        silence: float = SILENCE,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._environment = variables
        self._kept = [_Kept(member, Backoff(first, longest)) for member in members]
        self._all_serve = trio.Event()
        self._rarely = rarely
        self._grace = grace
        self._turn = turn
        self._command = command
        self._announce = announce
        self._silence = silence
        self._ears = Ears(self._told)
        self.signal = signal.SIGTERM
        """What the brokers are stopped with."""
        self.killed: list[str] = []
        """Names of brokers that did not stop in time."""

    @property
    def given_up(self) -> list[str]:
        """Names of brokers that do not start."""
        return [kept.member.name for kept in self._kept if kept.given_up]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Starts all; entered when all serve at once. ConfigError if one refuses to start: then all
        are stopped. PyrmqError, later, when all were given up. Leaving stops all, and waits for
        them: one after the other with SIGTERM, by which they drain, else all at once."""
        try:
            async with trio.open_nursery() as nursery:
                self._environment = {
                    **self._environment,
                    **environment(self._ears.open(), self._silence),
                }
                nursery.start_soon(self._ears.run)
                nursery.start_soon(self._watch)
                for kept in self._kept:
                    nursery.start_soon(self._keep, kept)
                await self._all_serve.wait()
                yield
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):
                await self._stop()
            self._ears.close()

    def kill(self) -> None:
        """Kills all at once. Can be called by a signal handler."""
        for kept in self._kept:
            if kept.process is not None:
                with suppress(ProcessLookupError):
                    kept.process.kill()

    async def _keep(self, kept: _Kept) -> None:
        """Runs a broker, again and again."""
        while True:
            started = trio.current_time()
            end = await self._once(kept)
            served, kept.ready = kept.ready, False
            kept.silent, kept.hung, kept.status = None, False, ""
            if end.refused and not self._all_serve.is_set():
                raise _cannot_start(kept, end.how)
            kept.refusals = 0 if served else kept.refusals + 1
            if kept.refusals >= REFUSALS:
                pause = self._give_up(kept, end)
            else:
                pause = self._pause(kept, end, good=trio.current_time() - started >= GOOD)
            await trio.sleep(pause)

    async def _once(self, kept: _Kept) -> _End:
        """Runs the process until it ends."""
        try:
            process = kept.process = await trio.lowlevel.open_process(
                list(self._command(kept.member)),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **self._environment},
                process_group=0,  # what a terminal sends to a group comes to the supervisor only
            )
        except OSError as e:  # no memory, too many processes, Python is being replaced
            return _End(f"could not be run ({e})", refused=True)
        assert process.stdout is not None
        line = b""
        while chunk := await _read(process.stdout):
            *whole, line = (line + chunk).split(b"\n")
            for said in whole:
                self._heard(kept, said.decode(errors="replace"))
            line = line[:MAX_LINE]
        code = await process.wait()
        await _close(process)
        kept.process = None
        if kept.hung:
            return _End(f"was silent for {self._silence:g} s and was killed", refused=False)
        return _End(_how(code), refused=code > 0)

    def _told(self, pid: int, said: Mapping[str, str]) -> None:
        """What a process said of itself."""
        for kept in self._kept:
            if kept.process is not None and kept.process.pid == pid:
                kept.status = said.get("STATUS", kept.status)
                if "STOPPING" in said:
                    kept.silent = None
                elif "READY" in said or ("WATCHDOG" in said and kept.silent is not None):
                    kept.silent = 0.0

    async def _watch(self) -> None:
        """Kills who is silent. Silence is counted in looks: what was suspended, with this process
        or alone with the machine, is not taken for hung at once."""
        async with trio.open_nursery() as nursery:
            while True:
                await trio.sleep(min(LOOK, self._silence / 4))
                for kept in self._kept:
                    if kept.silent is None:
                        continue
                    kept.silent += min(LOOK, self._silence / 4)
                    if kept.silent >= self._silence and kept.process is not None:
                        kept.silent, kept.hung = None, True
                        nursery.start_soon(self._end_hung, kept, kept.process)

    async def _end_hung(self, kept: _Kept, process: trio.Process) -> None:
        """SIGABRT has Python write where each thread stands; SIGKILL ends also what is stopped."""
        log.error(
            "broker %s (pid %d) has not said for %g s that it lives%s: it hangs, or is not "
            "healthy. It is killed and started again",
            escape(kept.member.name),
            process.pid,
            self._silence,
            escape(f" (its last status: {kept.status})" if kept.status else ""),
        )
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGABRT)
        with trio.move_on_after(DUMP):
            await process.wait()
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()

    def _heard(self, kept: _Kept, line: str) -> None:
        """A line of its stdout."""
        if not line.startswith(READY):
            log.info(
                "broker %s says: %s",
                escape(kept.member.name),
                escape(line),
                extra=about(broker=kept.member.name),
            )
            return
        kept.ready = True
        kept.given_up = False
        self._announce(kept.member, line)
        if all(other.ready for other in self._kept):
            self._all_serve.set()

    def _pause(self, kept: _Kept, end: _End, *, good: bool) -> float:
        """Says how it ended; the seconds before the next start. `good`: it had served for long."""
        if good and not kept.refusals:
            kept.backoff.reset()
        pause = kept.backoff.next()
        log.error(
            "broker %s %s; it is started again in %.1f s (%d in a row)",
            escape(kept.member.name),
            escape(end.how),
            pause,
            kept.backoff.failed,
            extra=about(broker=kept.member.name),
        )
        return pause

    def _give_up(self, kept: _Kept, end: _End) -> float:
        """Says so; the seconds before it is tried once more. ConfigError if not all have
        served yet, PyrmqError if no broker is left."""
        if not self._all_serve.is_set():
            raise _cannot_start(kept, f"{kept.refusals} starts, the last one {end.how}")
        kept.given_up = True
        if all(other.given_up for other in self._kept):
            raise PyrmqError("no broker starts any more: their own errors stand above")
        log.error(
            "broker %s is given up: it did not serve in %d starts; the last one %s. The messages "
            "of its store %s cannot be read. The others serve. Mend what its own error says: "
            "it is tried again in %g s",
            escape(kept.member.name),
            kept.refusals,
            escape(end.how),
            escape(kept.member.store),
            self._rarely,
            extra=about(broker=kept.member.name),
        )
        return self._rarely

    async def _stop(self) -> None:
        """Clients of a broker that drains move to those that are not told yet. The next one is told
        when it has stopped, or when its turn is over."""
        turn = self._turn if self.signal == signal.SIGTERM else 0.0
        async with trio.open_nursery() as nursery:
            for kept in self._kept:
                if kept.process is not None:
                    stopped = trio.Event()
                    nursery.start_soon(self._stop_one, kept.member.name, kept.process, stopped)
                    with trio.move_on_after(turn):
                        await stopped.wait()

    async def _stop_one(self, name: str, process: trio.Process, stopped: trio.Event) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(self.signal)
        with trio.move_on_after(self._grace):
            await process.wait()
        if process.returncode is None:
            log.error(
                "broker %s did not stop within %g s: it is killed",
                escape(name),
                self._grace,
                extra=about(broker=name),
            )
            self.killed.append(name)
            process.kill()
            await process.wait()
        stopped.set()
        await _close(process)


def _cannot_start(kept: _Kept, how: str) -> ConfigError:
    return ConfigError(
        f"broker {kept.member.name} cannot start ({how}): its own error stands above. No broker is "
        "started"
    )


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
