"""Our commands on Apache RocketMQ's servers in setups that the table of commands does not have: a
controller that says who is master, and a broker that wants to know who asks."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from pyrmq.cli import main as pyrmq
from pyrmq.cli.mqadmin.output import Output
from pyrmq.cli.mqadmin.run import main
from pyrmq.console.app import console_app
from pyrmq.console.settings import Settings
from tests.console.asgi import client
from tests.support import ports
from tests.support.mqadmin import Ran
from tests.support.waiting import eventually
from tests.system.interop.store import peer

pytestmark = pytest.mark.thorough("two more of Apache RocketMQ's brokers, with what they need")
ROOT = '{"username":"root","password":"root-secret"}'
AUTH = f"""authenticationEnabled=true
authenticationProvider=org.apache.rocketmq.auth.authentication.provider.DefaultAuthenticationProvider
authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.LocalAuthenticationMetadataProvider
authorizationEnabled=true
authorizationProvider=org.apache.rocketmq.auth.authorization.provider.DefaultAuthorizationProvider
authorizationMetadataProvider=org.apache.rocketmq.auth.authorization.provider.LocalAuthorizationMetadataProvider
initAuthenticationUser={ROOT}
innerClientAuthenticationCredentials={{"accessKey":"root","secretKey":"root-secret"}}
"""


class Controlled(NamedTuple):
    namesrv: str
    controller: str
    brokers: list[peer.RealBroker]


@pytest.fixture(scope="module")
def controlled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controlled]:
    """A controller within a name server, a master and a slave."""
    folder = tmp_path_factory.mktemp("controlled")
    port = ports.free_port_triple()
    conf = f"""enableControllerInNamesrv=true
controllerDLegerGroup=group1
controllerDLegerPeers=n0-127.0.0.1:{port}
controllerDLegerSelfId=n0
controllerStorePath={folder / "controller"}
"""
    with peer.NameServer(folder / "namesrv", conf) as names:
        own = f"enableControllerMode=true\ncontrollerAddr=127.0.0.1:{port}\n"
        brokers = []
        try:
            for n in range(2):
                broker = peer.RealBroker(
                    folder / f"store-{n}", names.address, own, home=folder / f"broker-{n}"
                )
                brokers.append(broker.start())
            yield Controlled(names.address, f"127.0.0.1:{port}", brokers)
        finally:
            for broker in brokers:
                broker.kill()


def _run(namesrv: str, *words: str) -> Ran:
    """`pyrmq admin …` in this process."""
    result = CliRunner().invoke(pyrmq, ["admin", *words, "-n", namesrv])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return Ran(result.exit_code, result.stdout, result.stderr)


def _flat(namesrv: str, *words: str) -> Ran:
    """`pyrmq mqadmin …` in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = main([*words, "-n", namesrv], Output(out, err))
    return Ran(code, out.getvalue(), err.getvalue())


def _sync_state(controlled: Controlled) -> dict[str, Any]:
    words = ("--controller", controlled.controller, "--broker-name", "broker-a", "-o", "json")
    ran = _run(controlled.namesrv, "controller", "sync-state", *words)
    assert ran.code == 0, ran.err
    (found,) = json.loads(ran.out)
    assert isinstance(found, dict)
    return found


def test_a_controller(controlled: Controlled) -> None:
    names, at = controlled.namesrv, ("--controller", controlled.controller)
    told = json.loads(_run(names, "controller", "metadata", *at, "-o", "json").out)
    assert told["is_leader"] is True
    assert told["leader_address"] == controlled.controller
    assert told["group"] == "group1"
    state = eventually(
        lambda: _sync_state(controlled), "both are in sync", until=lambda s: len(s["in_sync"]) == 2
    )
    assert state["master_address"] == controlled.brokers[0].name_and_port
    flat = _flat(names, "getSyncStateSet", "-a", controlled.controller, "-c", "DefaultCluster")
    assert flat.code == 0, flat.err
    for broker in controlled.brokers:
        assert broker.name_and_port in flat.out
    assert _flat(names, "getControllerMetaData", "-a", controlled.controller).code == 0
    set_to = ("controller", "config", "set", "scanNotActiveBrokerInterval", "4000")
    assert _run(names, *set_to, *at).code == 0
    config = json.loads(_run(names, "controller", "config", "get", *at, "-o", "json").out)
    assert config[controlled.controller]["scanNotActiveBrokerInterval"] == "4000"


async def test_the_console_shows_controllers(controlled: Controlled) -> None:
    async with client(console_app(Settings(controlled.namesrv))) as browser:
        text = (await browser.get("/ha")).text
    assert ">Controllers<" in text
    assert controlled.controller in text
    assert ">leader<" in text
    for broker in controlled.brokers:
        assert broker.name_and_port in text


def test_another_master(controlled: Controlled) -> None:
    """The slave is elected; each broker says under which masters its log was written."""
    state = eventually(
        lambda: _sync_state(controlled), "both are in sync", until=lambda s: len(s["in_sync"]) == 2
    )
    (other,) = [r["broker_id"] for r in state["in_sync"] if r["broker_id"] != state["master_id"]]
    ran = _run(
        controlled.namesrv, "controller", "elect", str(other), "--controller",
        controlled.controller, "--cluster", "DefaultCluster", "--broker-name", "broker-a", "--yes",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    now = _sync_state(controlled)
    assert now["master_id"] == other
    assert now["master_epoch"] > state["master_epoch"]
    eventually(
        lambda: _run(controlled.namesrv, "broker", "epoch", "--name", "broker-a", "-o", "json"),
        "epochs of both",
        until=lambda ran: ran.code == 0 and ran.out.count("epoch") > 1,
    )
    controlled.brokers[0].kill()
    cleaned = eventually(
        lambda: _run(
            controlled.namesrv, "controller", "clean", "broker-a", "--controller",
            controlled.controller, "--cluster", "DefaultCluster", "--id", str(state["master_id"]),
            "--yes",
        ),
        "the dead one is forgotten",
        until=lambda ran: ran.code == 0,
    )  # fmt: skip
    assert cleaned.err == "done\n"
    left = _sync_state(controlled)
    ids = [r["broker_id"] for r in [*left["in_sync"], *left["not_in_sync"]]]
    assert ids == [other]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A name server, and a broker that takes signed requests only: the addresses of both."""
    folder = tmp_path_factory.mktemp("guarded")
    with peer.NameServer(folder / "namesrv") as names:
        own = AUTH + f"authConfigPath={folder / 'auth'}\n"
        broker = peer.RealBroker(folder / "store", names.address, own, home=folder / "broker")
        with broker:
            yield names.address, broker.name_and_port


def test_a_broker_that_wants_to_know_who_asks(
    guarded: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    names, broker = guarded
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    for word, value in (("PYRMQ_ACCESS_KEY", ""), ("PYRMQ_SECRET_KEY", "")):
        monkeypatch.setenv(word, value)
    nobody = _run(names, "broker", "config", "get", "-b", broker)
    assert nobody.code == 2
    assert "CODE 16" in nobody.err
    monkeypatch.setenv("PYRMQ_ACCESS_KEY", "root")
    monkeypatch.setenv("PYRMQ_SECRET_KEY", "wrong")
    assert _run(names, "broker", "config", "get", "-b", broker).code == 2
    monkeypatch.setenv("PYRMQ_SECRET_KEY", "root-secret")
    assert _run(names, "broker", "config", "get", "-b", broker).code == 0
    assert _run(names, "topic", "create", "Guarded", "-c", "DefaultCluster").code == 0
    one = ("-b", broker)
    made = _run(names, "user", "create", "alice", *one, "--password", "alice-1")
    assert made.code == 0, made.out
    entry = ("acl", "create", "User:alice", *one, "--resource", "Topic:Guarded", "--action", "Get")
    assert _run(names, *entry).code == 0
    listed = json.loads(_run(names, "user", "list", *one, "-o", "json").out)
    assert {u["name"] for u in listed} == {"root", "alice"}
    assert _flat(names, "getAcl", *one, "-s", "User:alice").out.count("Guarded") == 1

    monkeypatch.setenv("PYRMQ_ACCESS_KEY", "alice")
    monkeypatch.setenv("PYRMQ_SECRET_KEY", "alice-1")
    allowed = _flat(names, "topicStatus", "-t", "Guarded")
    assert allowed.code == 0, allowed.err
    refused = _flat(names, "topicStatus", "-t", "TBW102")
    assert refused.code == 2
    assert "CODE: 16" in refused.err
    assert _run(names, "topic", "create", "Other", *one).code == 2
