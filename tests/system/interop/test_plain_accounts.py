"""Access control 1.0: clients of RocketMQ, and what was recorded of Apache's broker of 4.9.7,
against our broker with a plain_acl.yml."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.auth.unit.test_plain_as_apache import LAXER, NO_BODY, REFUSALS, STRICTER
from tests.support.wire import Command
from tests.system.ha.processes import Node

from . import toolchain
from .access import plain, replay
from .access.signing import Keys
from .conftest import built
from .drivers import Driver, DriverFailed
from .secured import CLIENT, name_server, sends_and_consumes, sign, transactions
from .txn import TIMING

FORGED: Keys = (CLIENT[0], "not-its-secret")
ACCOUNTS = f"""\
accounts:
- accessKey: {CLIENT[0]}
  secretKey: {CLIENT[1]}
  admin: false
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
  topicPerms:
  - Forbidden=DENY
"""
CLIENTS = ("java-4.9.8", f"java-{toolchain.NEWEST}", "go")
_NO_SUB, _NO_PUB = {"pub", "denied", "white", "nothing"}, {"sub", "white", "denied", "nothing"}
OF_THE_MESSAGE: dict[tuple[int, str], set[str]] = {
    (33, "no topic"): _NO_SUB,
    (33, "topic"): _NO_SUB,
    (36, "another group"): {"denied"},
    (37, "no topic"): _NO_PUB,
    (37, "producer group"): _NO_PUB,
}
"""Who lacks a right to the topic of the message that a request names by its offset."""
REFUSED = re.compile(r"(CODE|code): ?1\b.*AclException", re.DOTALL)


@contextmanager
def ours(folder: Path, accounts: str) -> Iterator[tuple[str, Node]]:
    """A name server and a broker with these accounts."""
    conf = folder / "home" / "conf"
    conf.mkdir(parents=True)
    file = conf / "plain_acl.yml"
    file.touch(mode=0o600)
    file.write_text(accounts)
    keys = dict(line.split("=", 1) for line in TIMING.splitlines())
    with name_server("open", folder / "names", None) as names:
        home = {"aclEnable": "true", "rocketmqHome": folder / "home"}
        node = Node(folder / "broker", names.address, **{**keys, **home, "brokerName": "broker-a"})
        try:
            yield names.address, node.start()
        finally:
            node.end()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Node]]:
    with ours(tmp_path_factory.mktemp("plain"), ACCOUNTS) as started:
        yield started


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest, servers: tuple[str, Node]) -> Driver:
    namesrv, node = servers
    return Driver(request.param, tuple(built(request.param)), namesrv, node.stderr)


@pytest.mark.thorough("an older client, and 15 s for each of the others")
def test_clients(client: Driver) -> None:
    """Messages go through, a transaction ends when its producer was asked, others are refused."""
    topic = uuid.uuid4().hex
    sends_and_consumes(client, topic)
    transactions(client, f"T-{topic}")
    for keys, where in ((None, topic), (FORGED, topic), (CLIENT, "Forbidden")):
        words = {"topic": where, "group": f"P-{topic}", "count": 1, "retries": 0}
        with pytest.raises(DriverFailed, match=REFUSED):
            client.run("produce", **words, **(sign(keys) if keys else {}))


def test_who_is_refused(tmp_path: Path) -> None:
    """As tests/auth/unit/test_plain_as_apache.py, but over connections, with what the engine does
    by itself."""
    record = replay.kept("access_apache_4_9")
    rows = {(row["code"], row["variant"]): row["answers"] for row in record["requests"]}
    with ours(tmp_path, record["about"]["plain_acl.yml"]) as (_, node):
        for now in plain.ask_all(node.address, refused):
            key = int(str(now["code"])), str(now["variant"])
            stricter, laxer = set(), set()
            for name, ours_refuses in now["answers"].items():
                theirs = any(word in rows[key][name] for word in REFUSALS)
                if ours_refuses != theirs:
                    (stricter if ours_refuses else laxer).add(name)
            if key != NO_BODY:
                known = STRICTER.get(key, set()) | OF_THE_MESSAGE.get(key, set())
                assert stricter == known, f"{key}: stricter than Apache's"
                assert laxer == LAXER.get(key, set()), f"{key}: less strict than Apache's"


def refused(answer: Command | None) -> bool:
    return answer is not None and answer.code == 1 and "AclException" in (answer.remark or "")
