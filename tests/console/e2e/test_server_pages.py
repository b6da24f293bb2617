"""The rooms of servers over scripted servers: dead, denied, hostile, without what others have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
import trio

from pyrmq.admin.expected import Expected, parse_expected
from pyrmq.admin.monitoring.rounds import Report
from pyrmq.broker.stats import disk_use
from pyrmq.console.app import console_app
from pyrmq.console.settings import Settings
from pyrmq.console.views import servers as module
from pyrmq.console.watch import Watch
from pyrmq.server import Running
from tests.console import data
from tests.console.asgi import Answer, client
from tests.support.scripted.replicas import DEAD, Replicas, replicas

CLUSTER_INFO, RUNTIME, HA_STATUS, OWN_HISTORY, CONFIG = 106, 28, 907, 27002, 26
NOT_SUPPORTED, NO_PERMISSION = 3, 16
PAGES = ("/cluster", "/brokers", "/ha", "/alarms")
EVENT = re.compile(r"^on\w+$")


@pytest.fixture
def servers() -> Iterator[Replicas]:
    with replicas() as found:
        figures = {"putTps": "5 4 3", "getTransferredTps": "6", "brokerVersionDesc": "V5_3_3"}
        for script in (found.on_master, found.on_slave):
            script.says(RUNTIME, {"table": figures})
            script.says(OWN_HISTORY, None, "unknown")
            script.change[OWN_HISTORY] = lambda command: command.reply(NOT_SUPPORTED)
        found.on_master.says(HA_STATUS, {"master": True, "haConnectionInfo": []})
        found.on_slave.says(HA_STATUS, {"master": False, "haClientRuntimeInfo": {}})
        yield found


class Markup(HTMLParser):
    """What a browser would make of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self.bad: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        if tag == "script" and "src" not in names:
            self.bad.append("a script")
        if tag in ("iframe", "object", "img", "style"):
            self.bad.append(f"a {tag}")
        self.bad += [name for name in names if EVENT.match(name) or name == "style"]
        if (names.get("href") or "").startswith("javascript:"):
            self.bad.append("a link that is a script")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(answer: Answer) -> str:
    """What a user reads; nothing of others may have become markup."""
    assert answer.status == 200, answer.text
    page = Markup()
    page.feed(answer.text)
    page.close()
    assert page.bad == []
    return " ".join(" ".join(page.texts).split())


async def test_a_broker_that_is_dead_comes_first(servers: Replicas) -> None:
    async with client(console_app(Settings(servers.namesrv))) as browser:
        answer = await browser.get("/cluster")
        text = read(answer)
        assert "What is wrong" in text
        assert "broker-b master:" in text
        assert "2 of 3" in text
        body = answer.text[answer.text.index("<tbody>") :]
        assert body.index("broker-b") < body.index("broker-a")
        assert text.index("What is wrong") < text.index("Messages in")
        assert "0 of 1 slaves are connected" in text
        page = read(await browser.get("/brokers/broker-b/0"))
        assert DEAD in page
        for part in ("figures", "clients", "disk"):
            assert "does not answer" in read(await browser.get(f"/brokers/broker-b/0/{part}"))
        replication = read(await browser.get("/ha"))
        assert "broker-b no master" in replication
        assert "broker-a a slave does not follow" in replication


async def test_a_broker_that_nobody_knows(servers: Replicas) -> None:
    async with client(console_app(Settings(servers.namesrv))) as browser:
        for path in (
            "/brokers/nowhere/0", "/brokers/broker-a/7", "/brokers/broker-a/x/now",
            f"/brokers/broker-a/{'9' * 5000}", "/cluster?cluster=X", "/cluster/now?cluster=X",
        ):  # fmt: skip
            answer = await browser.get(path)
            assert answer.status == 404
            assert "there is no" in answer.text
            assert "hx-trigger" not in answer.text


async def test_a_broker_that_should_be_there_and_is_not(servers: Replicas) -> None:
    expected = Expected(parse_expected(["C/broker-x"]))
    async with client(console_app(Settings(servers.namesrv, expected=expected))) as browser:
        for path in ("/cluster", "/brokers", "/ha", "/alarms"):
            assert "broker-x" in read(await browser.get(path)), path
        assert "2 of 4" in read(await browser.get("/cluster"))


async def test_without_any_name_server(servers: Replicas) -> None:
    async with client(console_app(Settings(DEAD))) as browser:
        for path in PAGES:
            text = read(await browser.get(path))
            assert "not known" in text, path
        assert "down" in read(await browser.get("/cluster"))


async def test_texts_of_servers_stay_texts(servers: Replicas) -> None:
    name = f"{data.SCRIPT} {data.IMAGE}"
    servers.on_namesrv.says(
        CLUSTER_INFO,
        {
            "brokerAddrTable": {
                name: {"brokerAddrs": {0: servers.master}, "brokerName": name, "cluster": name},
                "b": {"brokerAddrs": {0: servers.slave}, "brokerName": "b", "cluster": data.IMAGE},
            },
            "clusterAddrTable": {name: [name], data.IMAGE: ["b"]},
        },
    )
    table = {f"figure {text}": text for text in data.HOSTILE}
    table |= {
        "brokerVersionDesc": data.SCRIPT,
        "putTps": data.IMAGE,
        "refusesMessages": data.SCRIPT,
    }
    table |= {"brokerDrain": data.IMAGE, "bootTimestamp": "9" * 400, "commitLogDiskRatio": "0.95"}
    slave = {"addr": data.SCRIPT, "diff": 1 << 62, "behindMillis": 1 << 62}
    own = {"state": data.SCRIPT, "why": data.IMAGE, "masterAddr": data.SCRIPT}
    for script in (servers.on_master, servers.on_slave):
        script.says(RUNTIME, {"table": table})
        script.says(
            HA_STATUS,
            {"master": script is servers.on_master, "haConnectionInfo": [slave],
             "haClientRuntimeInfo": own},
        )  # fmt: skip
    base = "/brokers/b/0"  # a name with a slash has no page of its own
    async with client(console_app(Settings(servers.namesrv))) as browser:
        seen = [read(await browser.get(path)) for path in PAGES]
        parts = ("", "/now", "/figures", "/clients", "/disk")
        seen += [read(await browser.get(f"{base}{part}")) for part in parts]
    for text in data.HOSTILE[:3]:
        assert any(text in page for page in seen), text
    assert all("\u202e" not in page and "\x1b" not in page for page in seen)


async def test_what_apaches_brokers_do_not_know(servers: Replicas) -> None:
    for script in (servers.on_master, servers.on_slave):
        for code in (HA_STATUS, 27001, 27003):
            script.change[code] = lambda command: command.reply(NOT_SUPPORTED)
    async with client(console_app(Settings(servers.namesrv))) as browser:
        assert "its version does not say how replication stands" in read(await browser.get("/ha"))
        one = read(await browser.get("/brokers/broker-a/0"))
        assert "a broker of Apache RocketMQ" in one
        assert "does not say who uses it" in read(await browser.get("/brokers/broker-a/0/clients"))
        assert "Only pyrmq's brokers say" in read(await browser.get("/brokers/broker-a/0/disk"))


async def test_who_may_not_see_figures_sees_none_of_others(servers: Replicas) -> None:
    async with client(console_app(Settings(servers.namesrv))) as browser:
        assert "The last hour" in read(await browser.get("/cluster"))
        for script in (servers.on_master, servers.on_slave):
            script.change[RUNTIME] = lambda command: command.reply(NO_PERMISSION)
        text = read(await browser.get("/cluster"))
        assert "no permission" in text
        assert "Your user may not see the figures of brokers" in text
        assert "Your user may not see" in read(await browser.get("/alarms"))
        one = read(await browser.get("/brokers/broker-a/0"))
        assert "Your user may not see the figures of brokers" in one


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of servers are asked for by each page."""
    monkeypatch.setattr(module, "FRESH", -1.0)
    monkeypatch.setattr(module, "MOST", -1.0)


def test_the_parser_finds_what_must_not_be_there() -> None:
    page = Markup()
    page.feed('<script>x</script><a href="javascript:x" onclick="y">z</a><p style="a">')
    assert page.bad == ["a script", "onclick", "a link that is a script", "style"]


async def test_a_disk_that_is_almost_full(
    embedded: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path) -> disk_use.Disk:
        return disk_use.Disk(str(path), 100 << 30, 5 << 30, 95)

    monkeypatch.setattr(disk_use, "read_disk", full)
    looked, take = trio.Event(), Watch.take

    def taken(self: Watch, report: Report) -> None:
        take(self, report)
        looked.set()

    monkeypatch.setattr(Watch, "take", taken)
    async with client(console_app(Settings(embedded.namesrv))) as browser:
        text = read(await browser.get("/cluster"))
        assert "the disk is 95 % full" in text
        assert "Fullest disk 95 %" in text

        await looked.wait()
        alarms = read(await browser.get("/alarms"))
        assert "Firing" in alarms
        assert re.search(r"disk \S+ 127\.0\.0\.1:\d+ 95 percent", alarms), alarms
        assert "began disk" in alarms
        assert "1 alarm" in read(await browser.get("/cluster"))
