"""`pyrmq admin broker drain` and `bring-back` with Apache RocketMQ's broker and name server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyrmq.model.codes import RequestCode
from tests.support.client import GET_ROUTEINFO_BY_TOPIC, Client
from tests.support.command import run
from tests.support.waiting import eventually

from .clusters import Cluster, cluster

TOPIC = "Drained"


def perms(running: Cluster) -> set[int]:
    host, _, port = running.namesrv.rpartition(":")
    with Client((host, int(port))) as client:
        answer = client.call(GET_ROUTEINFO_BY_TOPIC, topic=TOPIC)
    return {q["perm"] for q in json.loads(answer.body)["queueDatas"]}


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_a_broker_of_apache_leaves_and_comes_back(tmp_path: Path) -> None:
    with cluster("apache", tmp_path, 1) as running:
        (name,) = running.brokers
        running.make_topic(TOPIC, 2)

        def command(*args: str) -> tuple[int, str]:
            done = run("admin", "broker", *args, "-n", running.namesrv, timeout=60)
            return done.returncode, (done.stdout + done.stderr).decode()

        # Apache's broker counts for the first time after a second, and fails at being asked before.
        with Client(running.brokers[name].address) as client:
            eventually(
                lambda: client.call(RequestCode.GET_BROKER_RUNTIME_INFO).code == 0,
                "it reports its figures",
            )
        code, text = command("drain", name, "-o", "json")
        assert code == 0, text
        assert perms(running) == {4}
        state = json.loads(text)["state"]
        assert state["drain"] is None, "it has no such key"
        assert state["routed_for_writes"] is False
        assert state["routed_for_reads"] is True
        code, text = command("drain", name, "--reads")
        assert code == 2
        assert "is not pyrmq's" in text
        code, text = command("bring-back", name)
        assert code == 0, text
        assert perms(running) == {6}
