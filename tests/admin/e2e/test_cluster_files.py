"""`pyrmq admin export cluster`, `cluster diff FILE` and `cluster apply` on brokers that run."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import pyrmq.sync
import pyrmq.testing
from pyrmq.admin.api import Admin
from pyrmq.admin.desired import parse, read
from pyrmq.admin.shrinking import UnreadQueuesError
from pyrmq.cli.admin.session import Session
from pyrmq.errors import ClientError
from pyrmq.model.topic import TopicConfig
from pyrmq.net.address import format_address
from tests.admin.e2e.cluster_files import HEAD, applied, changes, exported
from tests.support.fixtures import Serve
from tests.support.mqadmin import admin

pytestmark = pytest.mark.usefixtures("deadline")


@pytest.fixture
async def pair(serve: Serve) -> AsyncIterator[tuple[str, str, str]]:
    """A name server and two masters: its address, and those of broker-a and broker-b."""
    async with (
        serve(broker_name="broker-a") as first,
        pyrmq.testing.broker(broker_name="broker-b", namesrv_addr=first.namesrv) as second,
    ):
        yield (
            first.namesrv,
            format_address(first.broker_address),
            format_address(second.broker_address),
        )


def _file(folder: Path, text: str) -> str:
    path = folder / "wanted.yaml"
    path.write_text(HEAD + text)
    return str(path)


async def test_an_export_has_no_difference(pair: tuple[str, str, str], tmp_path: Path) -> None:
    namesrv, a, b = pair
    for words in (
        ("topic", "create", "both", "-c", "DefaultCluster", "--attributes", "+message.type=FIFO"),
        ("topic", "create", "only-a", "-b", a, "--perm", "4"),
        ("topic", "create", "both", "-b", b, "--queues", "3"),
        ("group", "create", "billing", "-b", b, "--retries", "3"),
        ("broker", "config", "set", "-b", a, "maxAutoCreatedTopics", "7"),
    ):
        ran = await admin(namesrv, *words, *(["--force"] if "--queues" in words else []))
        assert ran.code == 0, (words, ran.err)
    await exported(namesrv, tmp_path)
    file = str(tmp_path / "cluster.yaml")
    found = await read(file)
    assert found.brokers == ("broker-a", "broker-b")
    assert found.topics is not None
    assert set(found.topics) == {"both", "only-a"}
    assert found.broker_config["broker-a"] == {"maxAutoCreatedTopics": "7"}
    same = await admin(namesrv, "cluster", "diff", file, "--exit-code")
    assert (same.code, same.out) == (0, "no difference\n")
    nothing = await admin(namesrv, "cluster", "apply", file)
    assert (nothing.code, nothing.out) == (0, "no difference\n")


async def test_apply_makes_it_so_and_no_more(pair: tuple[str, str, str], tmp_path: Path) -> None:
    namesrv, a, _ = pair
    await admin(namesrv, "topic", "create", "extra", "-b", a)
    await admin(namesrv, "group", "create", "idle", "-b", a)
    file = _file(
        tmp_path,
        """
brokers: [broker-a, broker-b]
config: {maxAutoCreatedTopics: 77}
topics:
  orders: {readQueueNums: 4, writeQueueNums: 4, attributes: {message.type: FIFO}}
  local: {brokers: {broker-b: {perm: 4}}}
groups:
  billing: {retryMaxTimes: 3}
""",
    )
    dry = await admin(namesrv, "cluster", "apply", file, "--dry-run")
    assert dry.code == 0
    before = await changes(namesrv, file)
    assert [(c["kind"], c["name"], c["broker"], c["change"]) for c in before] == [
        ("config", "maxAutoCreatedTopics", "broker-a", "change"),
        ("topic", "extra", "broker-a", "keep"),
        ("topic", "orders", "broker-a", "create"),
        ("group", "billing", "broker-a", "create"),
        ("group", "idle", "broker-a", "keep"),
        ("config", "maxAutoCreatedTopics", "broker-b", "change"),
        ("topic", "local", "broker-b", "create"),
        ("topic", "orders", "broker-b", "create"),
        ("group", "billing", "broker-b", "create"),
    ]
    asked = await admin(namesrv, "cluster", "apply", file)
    assert asked.code == 1
    assert "create 5, change 2 on cluster DefaultCluster?" in asked.err
    assert await changes(namesrv, file) == before

    ran = await applied(namesrv, file, "-o", "json")
    assert ran.code == 0, ran.err
    done = json.loads(ran.out)["done"]
    assert [d["ok"] for d in done] == [True] * 7
    left = await changes(namesrv, file)
    assert [(c["name"], c["change"]) for c in left] == [("extra", "keep"), ("idle", "keep")]

    ran = await applied(namesrv, file, "--prune")
    assert ran.code == 0, ran.err
    assert await changes(namesrv, file) == []
    assert "extra" not in (await admin(namesrv, "topic", "list")).out.split()


async def test_attributes_are_set_and_taken_away(
    pair: tuple[str, str, str], tmp_path: Path
) -> None:
    namesrv, *_ = pair
    for attributes in ("{message.type: DELAY}", "{}", "{message.type: NORMAL}"):
        file = _file(tmp_path, f"topics: {{t: {{attributes: {attributes}}}}}\n")
        ran = await applied(namesrv, file)
        assert ran.code == 0, ran.err
        assert await changes(namesrv, file) == []


async def test_clients_leave_a_broker_that_loses_a_topic(
    pair: tuple[str, str, str], tmp_path: Path
) -> None:
    namesrv, *_ = pair
    await admin(namesrv, "topic", "create", "t", "-c", "DefaultCluster")
    file = _file(tmp_path, "topics: {t: {brokers: {broker-a: {}}}}\n")
    ran = await applied(namesrv, file, "--prune")
    assert ran.code == 0, ran.err
    async with Admin(namesrv) as asked:
        route = await asked.topics.route("t")
    assert {q.broker_name: q.perm for q in route.queues} == {"broker-a": 6, "broker-b": 0}
    assert await changes(namesrv, file) == []


async def test_a_part_that_fails_is_said_and_the_rest_is_done(
    pair: tuple[str, str, str], tmp_path: Path
) -> None:
    namesrv, *_ = pair
    file = _file(
        tmp_path,
        "brokers: [broker-a, broker-b, broker-z]\nconfig: {storePathRootDir: /other}\n"
        "topics: {t: {}}\n",
    )
    looked = await admin(namesrv, "cluster", "diff", file)
    assert looked.code == 3
    assert "broker broker-z of the file is not in cluster DefaultCluster" in looked.err
    ran = await applied(namesrv, file, "-o", "json")
    assert ran.code == 3
    done = {(d["kind"], d["broker"]): d for d in json.loads(ran.out)["done"]}
    assert done["topic", "broker-a"]["ok"]
    assert done["topic", "broker-b"]["ok"]
    assert not done["config", "broker-a"]["ok"]
    assert "storePathRootDir" in ran.err
    assert "broker-z" in ran.err


@pytest.mark.parametrize(
    ("text", "said", "code"),
    [
        (HEAD.replace("DefaultCluster", "Other"), "there is no cluster Other", 2),
        (HEAD + "brokers: [broker-x]\n", "it is of another cluster", 2),
        (HEAD + "topics: {t: {perms: 6}}\n", "'perms' is no member of a topic", 1),
        (HEAD + "bogus: 1\n", "unknown key 'bogus'", 1),
        ('{"topicConfigTable": {}}', "format: pyrmq-cluster/1", 1),
    ],
    ids=["cluster", "brokers", "member", "key", "export"],
)
@pytest.mark.parametrize("command", [("diff",), ("apply", "--yes")], ids=["diff", "apply"])
async def test_files_that_are_refused(
    pair: tuple[str, str, str],
    tmp_path: Path,
    command: tuple[str, ...],
    text: str,
    said: str,
    code: int,
) -> None:
    file = tmp_path / "wanted.yaml"
    file.write_text(text)
    ran = await admin(pair[0], "cluster", command[0], str(file), *command[1:])
    assert (ran.code, said in ran.err) == (code, True), ran.err


async def test_unread_messages_are_not_hidden(serve: Serve) -> None:
    async with serve() as running, Admin(running.namesrv) as asked:
        many = parse((HEAD + "topics: {t: {readQueueNums: 4, writeQueueNums: 4}}").encode())
        await asked.clusters.apply(await asked.clusters.plan(many))
        async with pyrmq.Producer("p", namesrv=running.namesrv) as producer:
            for _ in range(4):
                await producer.send(pyrmq.Message("t", b"x"))
        fewer = parse((HEAD + "topics: {t: {readQueueNums: 1, writeQueueNums: 1}}").encode())
        plan = await asked.clusters.plan(fewer)
        with pytest.raises(UnreadQueuesError):
            await asked.clusters.apply(plan)
        assert (await asked.clusters.plan(fewer)).changes == plan.changes
        done = await asked.clusters.apply(plan, force=True)
        assert [d.error for d in done] == [None]
        assert (await asked.clusters.plan(fewer)).equal


async def test_the_python_interface(serve: Serve) -> None:
    async with serve() as running, Admin(running.namesrv) as asked:
        wanted = await asked.clusters.describe("DefaultCluster")
        assert (await asked.clusters.plan(wanted)).equal
        with pytest.raises(ClientError, match="no cluster"):
            await asked.clusters.describe("Nowhere")


async def test_a_topic_that_is_refused_does_not_hold_up_the_others(serve: Serve) -> None:
    """They are sent together; after a refusal one by one."""
    async with serve() as running, Admin(running.namesrv) as asked:
        topics = "{t1: {}, t2: {attributes: {message.type: MIXED}}, t3: {}}"
        wanted = parse((HEAD + f"topics: {topics}").encode())
        done = await asked.clusters.apply(await asked.clusters.plan(wanted))
        assert [(d.step.name, d.error is None) for d in done] == [
            ("t1", True), ("t2", False), ("t3", True),
        ]  # fmt: skip
        left = await asked.clusters.plan(wanted)
        assert [step.name for step in left.changes] == ["t2"]


async def test_what_changes_while_somebody_is_asked_is_not_overwritten(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve() as running:
        file = _file(tmp_path, "topics: {t: {perm: 4}}\n")

        def confirm(session: Session, text: str) -> None:
            with pyrmq.sync.Admin(running.namesrv) as other:
                config = TopicConfig("t", 3, 3)
                other.topics.update(config, cluster="DefaultCluster").check_all()

        monkeypatch.setattr(Session, "confirm", confirm)
        ran = await admin(running.namesrv, "cluster", "apply", file)
        assert ran.code == 2
        assert "changed meanwhile: nothing is done" in ran.err
        (change,) = await changes(running.namesrv, file)
        assert (change["field"], change["from"], change["to"]) == ("perm", 6, 4)
