"""`pyrmq server --brokers N`, `pyrmq broker --processes N`: a supervisor and its brokers."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from pyrmq.auth.followed import FollowedAccess
from pyrmq.broker import BrokerConfig
from pyrmq.broker.access_control import access_files
from pyrmq.broker.config.broker_config import OTHER_KEYS
from pyrmq.cli.console_beside import ConsoleOptions
from pyrmq.cli.until_signal import Served, ready_line, run, say
from pyrmq.config.table import parsed
from pyrmq.errors import PyrmqError
from pyrmq.escape import escape
from pyrmq.namesrv import NameServer
from pyrmq.namesrv.config import NamesrvConfig
from pyrmq.net.address import format_address, parse_address
from pyrmq.net.client.credentials import Credentials
from pyrmq.net.client.server_access import OwnNameServer
from pyrmq.net.client.tls import Tls
from pyrmq.net.tasks import Tasks
from pyrmq.processes.plan import Member, check_all_served, check_ports, how_many, plan
from pyrmq.processes.supervisor import GRACE, Supervisor

DRAIN_IN_GRACE = 10.0
"""Seconds of a drain that the supervisor's grace has room for already."""
OWN_NAME_SERVER = "PYRMQ_OWN_NAME_SERVER"
"""The variable by which a supervisor tells its brokers about its name server."""


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
    log_words: Sequence[str],
    namesrv_config: NamesrvConfig,
    broker_config: BrokerConfig,
    console: ConsoleOptions,
) -> None:
    """Until a signal: a name server in this process, and the brokers. `options`: keys that the
    brokers have in common, besides those of the file; `broker_config`: that of the first one."""
    others = {namesrv_config.listen_port}
    if namesrv_config.serves_metrics:
        others.add(namesrv_config.metrics_prom_exporter_port)
    check_ports(members, others)
    supervisor = Supervisor([], lambda _: (), _announce)
    both = broker_config.has_users and namesrv_config.has_users
    files, owner = access_files(broker_config), f"broker {members[0].name}"
    users = partial(FollowedAccess, *files, owner) if both else None
    drain = broker_config.drain_timeout_millis / 1000

    @asynccontextmanager
    async def serve() -> AsyncIterator[Served]:
        nonlocal supervisor
        name_server = NameServer(namesrv_config, users)
        async with Tasks() as tasks:
            await tasks.start(name_server.run)
            own = name_server.reachable
            others = broker_config.namesrv_addr
            keys = {**options, "namesrvAddr": ";".join(a for a in (own, others) if a)}
            told = name_server.for_own_broker(broker_config)
            supervisor = _supervisor(members, file, keys, log_words, drain, _told(told))
            async with supervisor.running(), console.beside(own, broker_config) as beside:
                ready = ready_line(namesrv=own, brokers=len(members), **beside)
                yield _served(ready, supervisor, drain)

    run(serve, lambda signum, _: _force(supervisor, signum))
    _check(supervisor)


def serve_alone(
    members: Sequence[Member],
    file: Path | None,
    options: Mapping[str, str],
    log_words: Sequence[str],
    drain: float,
) -> None:
    """Until a signal: the brokers; the name servers are others. `drain`: seconds that the drain of
    a broker may take."""
    supervisor = _supervisor(members, file, options, log_words, drain)

    @asynccontextmanager
    async def serve() -> AsyncIterator[Served]:
        async with supervisor.running():
            yield _served(ready_line(brokers=len(members)), supervisor, drain)

    run(serve, lambda signum, _: _force(supervisor, signum))
    _check(supervisor)


def _supervisor(
    members: Sequence[Member],
    file: Path | None,
    options: Mapping[str, str],
    log_words: Sequence[str],
    drain: float,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Supervisor:
    def command(member: Member) -> list[str]:
        words = [sys.executable, "-m", "pyrmq", "broker", *log_words]
        words += [] if file is None else ["-c", str(file)]
        for key, value in {**options, **member.keys}.items():
            words += ["--member", f"{key}={value}"]
        return words

    grace = GRACE + max(0.0, drain - DRAIN_IN_GRACE)
    # So all are told within the time of one drain.
    turn = drain / len(members)
    return Supervisor(members, command, _announce, grace=grace, turn=turn, variables=variables)


def _served(ready: str, supervisor: Supervisor, drain: float) -> Served:
    """The brokers drain by themselves: they get the signal that ends the supervisor, one after the
    other. The last one gets it within the time of one drain, and then has that time too."""

    def stops(signum: int) -> None:
        supervisor.signal = signal.SIGTERM if signum == signal.SIGTERM else signal.SIGINT

    return Served(ready, stops=stops, drain_seconds=2 * drain)


def _told(own: OwnNameServer) -> dict[str, str]:
    """The variable by which a broker learns of its name server. Command lines are no place for
    secrets."""
    keys, tls = own.credentials, own.tls
    found = {
        "address": format_address(own.address),
        "credentials": keys and {"access_key": keys.access_key, "secret_key": keys.secret_key},
        "tls": tls and {"cert": tls.cert, "key": tls.key, "key_password": tls.key_password},
    }
    return {OWN_NAME_SERVER: json.dumps(found, default=str)}


def started_by(environment: Mapping[str, str], config: BrokerConfig) -> BrokerConfig:
    """The configuration of a broker that a supervisor started."""
    text = environment.get(OWN_NAME_SERVER)
    if text is None:
        return config
    found = json.loads(text)
    keys, tls = found["credentials"], found["tls"]
    own = OwnNameServer(
        parse_address(found["address"]),
        keys and Credentials(**keys),
        tls and Tls(**tls, insecure=True),
    )
    return replace(config, own_name_server=own)


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
