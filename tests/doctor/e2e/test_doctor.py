"""`pyrmq doctor` as a command: before a broker starts, beside one, and with what is bad."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
import trio
from click.testing import CliRunner

from pyrmq.cli import main
from pyrmq.net.address import format_address
from tests.support.fixtures import Serve
from tests.support.mqadmin import Ran

pytestmark = pytest.mark.usefixtures("deadline")


async def doctor(*words: str) -> Ran:
    def run() -> Ran:
        result = CliRunner().invoke(main, ["doctor", *words])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return await trio.to_thread.run_sync(run)


def _by_check(ran: Ran) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(ran.out)["findings"]:
        found.setdefault(row["check"], []).append(row)
    return found


def _conf(folder: Path, **values: object) -> str:
    path = folder / "broker.conf"
    path.write_text("".join(f"{k}={v}\n" for k, v in values.items()))
    return str(path)


async def test_beside_a_running_broker(serve: Serve, tmp_path: Path) -> None:
    async with serve(tmp_path / "store", broker_name="broker-x") as running:
        host, port = running.broker_address
        conf = _conf(
            tmp_path,
            listenPort=port,
            bindAddress=host,
            brokerName="broker-x",
            storePathRootDir=tmp_path / "store",
            namesrvAddr=running.namesrv,
        )
        ran = await doctor("-c", conf, "-o", "json")
    found = _by_check(ran)
    listen = next(r for r in found["ports"] if "(listenPort)" in r["what"])
    assert "that of the running broker" in listen["what"]
    assert found["registration"] == [
        {
            "check": "registration",
            "level": "ok",
            "what": f"broker-x id 0 is registered at {format_address((host, port))}",
            "why": "",
            "change": "",
        }
    ]
    assert [r["level"] for r in found["name servers"]] == ["ok", "note"]
    (clock,) = found["clocks of brokers"]  # how far they are apart depends on the load
    assert "this one" in clock["what"]
    assert [r["level"] for r in found["versions of brokers"]] == ["ok"]


async def test_before_a_broker_starts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        conf = _conf(
            tmp_path,
            listenPort=port,
            bindAddress="127.0.0.1",
            storePathRootDir=tmp_path / "store",
            storePathCommitLog=f"{tmp_path}/one,{tmp_path}/two",
            namesrvAddr="127.0.0.1:1",
        )
        ran = await doctor("-c", conf)
    assert ran.code == 2
    assert f"ports: port {port} (listenPort) is taken by pid " in ran.out
    assert "folders: " + str(tmp_path / "one") in ran.out
    assert "name server 127.0.0.1:1 does not answer" in ran.out
    assert "\n        change: " in ran.out
    assert "ok      " not in ran.out
    assert "ok      " in (await doctor("-c", conf, "-a")).out
    assert not (tmp_path / "store").exists()


async def test_a_name_server(tmp_path: Path) -> None:
    conf = tmp_path / "namesrv.conf"
    conf.write_text(f"kvConfigPath={tmp_path}/kv.json\nlistenPort=0\n")
    ran = await doctor("--namesrv", "-c", str(conf), "-o", "yaml")
    assert ran.lines[1] == "server: name server"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--bogus",), "No such option"),
        (("-n", "nowhere"), "is not HOST:PORT"),
        (("-n", ";"), "names no name server"),
        (("-c", "/none"), "does not exist"),
    ],
)
async def test_bad_command_lines_end_with_1(words: tuple[str, ...], said: str) -> None:
    ran = await doctor(*words)
    assert ran.code == 1
    assert said in ran.err


async def test_a_configuration_that_cannot_be_used(tmp_path: Path) -> None:
    ran = await doctor("-c", _conf(tmp_path, listenPort="many"))
    assert ran.code == 1
    assert "listenPort" in ran.err


async def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    conf = _conf(tmp_path, storePathRootDir=tmp_path / "a\u202eb", listenPort=0)
    ran = await doctor("-c", conf, "-a")
    assert "\u202e" not in ran.out
    assert "a\\u202eb" in ran.out
    conf = _conf(tmp_path, storePathRootDir=tmp_path / "a\x1b[31mb", listenPort=0)
    ran = await doctor("-c", conf, "-a")  # such a path is refused
    assert "\x1b" not in ran.err
    assert "a\\x1b[31mb" in ran.err


async def test_several_brokers_of_one_machine(tmp_path: Path) -> None:
    conf = _conf(tmp_path, listenPort=12_001, storePathRootDir=tmp_path / "store")
    ran = await doctor("-c", conf, "--processes", "2", "-o", "json")
    found = _by_check(ran)
    folders = {r["what"].split(" (")[0] for r in found["folders"]}
    assert len(folders) == 2
    assert all(path.startswith(str(tmp_path / "store")) for path in folders)
    ports = " ".join(r["what"] for r in found["ports"])
    assert "12001" in ports
    assert "12011" in ports
    assert len(found["kernel"]) == 1
    both = await doctor("--namesrv", "--processes", "2")
    assert both.code == 1
