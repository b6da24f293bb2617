"""A name server of a test's own, and the requests that brokers and operators make of it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.client import GET_ROUTEINFO_BY_TOPIC, REGISTER_BROKER, Client
from tests.support.command import Serving
from tests.support.waiting import eventually
from tests.support.wire import Command

UNREGISTER_BROKER = 104
GET_BROKER_CLUSTER_INFO = 106
GET_ALL_TOPIC_LIST = 206
BROKER_HEARTBEAT = 904
TOPICS = ("Alpha", "Beta")


@contextmanager
def name_server(folder: Path, conf: str = "") -> Iterator[Serving]:
    """`pyrmq namesrv` on a free port, with its KV configuration in `folder`; ends in order."""
    file = folder / "namesrv.conf"
    own = f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={folder / 'kv' / 'kvConfig.json'}\n"
    file.write_text(own + conf)
    with Serving(folder / "log", "namesrv", "-c", str(file)) as process:
        yield process
        assert process.stop() == 0
        assert "Traceback" not in process.stderr()


@contextmanager
def registering(server: Serving) -> Iterator[Client]:
    """A client on which brokers register; when it has left they are gone."""
    with Client(server.address("namesrv")) as client:
        yield client
    with Client(server.address("namesrv")) as other:
        eventually(lambda: clusters(other) == {}, "what was registered is gone")


def place(name: str, port: int, broker_id: int = 0, cluster: str = "C1") -> dict[str, str]:
    return {
        "brokerName": name, "brokerAddr": f"127.0.0.1:{port}", "clusterName": cluster,
        "brokerId": str(broker_id),
    }  # fmt: skip


def topic_config(name: str, queues: int = 4, flag: int = 0) -> dict[str, Any]:
    return {
        "topicName": name, "readQueueNums": queues, "writeQueueNums": queues, "perm": 6,
        "topicFilterType": "SINGLE_TAG", "topicSysFlag": flag, "order": False,
    }  # fmt: skip


def register(
    client: Client,
    where: dict[str, str],
    *,
    topics: tuple[str, ...] = TOPICS,
    version: int = 1,
    queues: int = 4,
    flags: dict[str, int] | None = None,
    **more: str,
) -> Command:
    """`flags`: topicSysFlag by topic."""
    wrapper = {
        "dataVersion": {"counter": version, "timestamp": version, "stateVersion": 0},
        "topicConfigTable": {
            name: topic_config(name, queues, (flags or {}).get(name, 0)) for name in topics
        },
    }
    body = json.dumps({"topicConfigSerializeWrapper": wrapper, "filterServerList": []}).encode()
    ext = {**where, "haServerAddr": "127.0.0.1:1", "compressed": "false", "bodyCrc32": "0"}
    return client.call(REGISTER_BROKER, body, **{**ext, **more})


def unregister(client: Client, *places: dict[str, str]) -> None:
    for where in places:
        assert client.call(UNREGISTER_BROKER, **where).code == 0


def route(client: Client, topic: str, *, version: int = 479, **ext: str) -> Command:
    return client.request(Command(GET_ROUTEINFO_BY_TOPIC, {"topic": topic, **ext}, version=version))


def routed(client: Client, topic: str, **ext: str) -> dict[str, Any]:
    """The route of a topic, which has one."""
    answer = route(client, topic, **ext)
    assert answer.code == 0, answer.remark
    found: dict[str, Any] = json.loads(answer.body)
    return found


def loose(body: bytes) -> Any:
    """fastjson's form: integer keys stand without quotes."""
    return json.loads(re.sub(rb"([{,])(-?\d+):", rb'\1"\2":', body))


def clusters(client: Client) -> dict[str, list[str]]:
    answer = client.call(GET_BROKER_CLUSTER_INFO)
    assert answer.code == 0
    found: dict[str, list[str]] = loose(answer.body)["clusterAddrTable"]
    return found
