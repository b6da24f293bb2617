"""`pyrmq server --brokers N`, `pyrmq broker --processes N`: a supervisor and its brokers."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import trio

from pyrmq.broker import BrokerConfig
from pyrmq.broker.config.broker_config import OTHER_KEYS
from pyrmq.cli.until_signal import ready_line, run, say
from pyrmq.config.table import parsed
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.namesrv import NameServer
from pyrmq.namesrv.config import NamesrvConfig
from pyrmq.net.tasks import Tasks
from pyrmq.processes.plan import Member, check_all_served, check_ports, how_many, plan
from pyrmq.processes.supervisor import Supervisor


def planned(config: BrokerConfig, asked: str, option: str) -> list[Member]:
    """The brokers to run; one if `asked` is 1. ConfigError if they cannot be, or if a store of an
    earlier start would be left without a broker."""
    members = plan(config, how_many(asked, config))
    check_all_served(config.store_path_root_dir, members, option)
    if len(members) > 1:
        check_ports(members)
    return members


def configs(config: BrokerConfig, asked: str) -> list[BrokerConfig]:
    """The configuration of each broker."""
    return [
        replace(config, **parsed(BrokerConfig, member.keys, OTHER_KEYS))
        for member in plan(config, how_many(asked, config))
    ]


def serve_beside(
    members: Sequence[Member],
    file: Path | None,
    options: Mapping[str, str],
    log_level: str,
    namesrv_config: NamesrvConfig,
    others: str,
) -> None:
    """Until a signal: a name server in this process, and the brokers. `options`: keys that the
    brokers have in common, besides those of the file; `others`: further name servers."""
    check_ports(members, {namesrv_config.listen_port})
    supervisor = Supervisor([], lambda _: (), _announce)

    @asynccontextmanager
    async def serve() -> AsyncIterator[tuple[str, Any]]:
        nonlocal supervisor
        name_server = NameServer(namesrv_config)
        async with Tasks() as tasks:
            await tasks.start(name_server.run)
            own = name_server.reachable
            keys = {**options, "namesrvAddr": ";".join(a for a in (own, others) if a)}
            supervisor = _supervisor(members, file, keys, log_level)
            async with supervisor.running():
                yield ready_line(namesrv=own, brokers=len(members)), trio.Event()

    run(serve, lambda signum, _: _force(supervisor, signum))
    _check(supervisor)


def serve_alone(
    members: Sequence[Member], file: Path | None, options: Mapping[str, str], log_level: str
) -> None:
    """Until a signal: the brokers; the name servers are others."""
    supervisor = _supervisor(members, file, options, log_level)

    @asynccontextmanager
    async def serve() -> AsyncIterator[tuple[str, Any]]:
        async with supervisor.running():
            yield ready_line(brokers=len(members)), trio.Event()

    run(serve, lambda signum, _: _force(supervisor, signum))
    _check(supervisor)


def _supervisor(
    members: Sequence[Member], file: Path | None, options: Mapping[str, str], log_level: str
) -> Supervisor:
    def command(member: Member) -> list[str]:
        words = [sys.executable, "-m", "pyrmq", "broker", "--log-level", log_level]
        words += [] if file is None else ["-c", str(file)]
        for key, value in {**options, **member.keys}.items():
            words += ["--member", f"{key}={value}"]
        return words

    return Supervisor(members, command, _announce)


def _announce(member: Member, line: str) -> None:
    """Prints the ready line of a broker, with its name in front."""
    say(f"{member.name}: {escape(line)}")


def _force(supervisor: Supervisor, signum: int) -> None:
    supervisor.kill()
    signal.signal(signum, signal.SIG_DFL)
    os.kill(os.getpid(), signum)


def _check(supervisor: Supervisor) -> None:
    """PyrmqError after a stop that was not in order."""
    if supervisor.killed:
        raise PyrmqError(f"killed, as they did not stop in time: {', '.join(supervisor.killed)}")
    if supervisor.given_up:
        raise PyrmqError(f"given up while the others served: {', '.join(supervisor.given_up)}")
