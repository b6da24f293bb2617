"""Changes of configurations and access, from form to broker, without a browser."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator

import pytest

from pyrmq.admin import Admin
from pyrmq.admin.link import Replica
from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.console.app import console_app
from pyrmq.console.pages import configuration_data
from pyrmq.console.settings import Settings
from pyrmq.net.address import format_address
from pyrmq.net.client.credentials import Credentials
from pyrmq.server import Running
from tests.console.asgi import Client, client
from tests.support.fixtures import Serve

pytestmark = pytest.mark.usefixtures("deadline")
CLUSTER = "DefaultCluster"


@pytest.fixture
async def running(serve: Serve) -> AsyncIterator[Running]:
    async with serve(
        authentication_metadata_provider="LocalAuthenticationMetadataProvider",
        authorization_metadata_provider="LocalAuthorizationMetadataProvider",
        long_polling_enable=False,
        init_authentication_user=json.dumps({"username": "root", "password": "root-s3cret"}),
    ) as made:
        yield made


@pytest.fixture
async def browser(running: Running) -> AsyncIterator[Client]:
    settings = Settings(running.namesrv, ("127.0.0.1", 8090))
    async with client(console_app(settings)) as made:
        await made.get("/configuration")
        yield made


async def config_of(running: Running, key: str) -> str:
    async with Admin(running.namesrv) as admin:
        return (await admin.brokers.config_of(format_address(running.broker_address)))[key]


async def test_a_live_key_is_changed_after_a_preview(running: Running, browser: Client) -> None:
    base = f"/configuration/brokers/{format_address(running.broker_address)}"
    keys = await browser.get(f"{base}?only=changed")
    assert "longPollingEnable" in keys.text
    assert "root-s3cret" not in (await browser.get(f"{base}?q=initAuth")).text
    preview = await browser.get(f"{base}/keys/longPollingEnable/preview?value=true&scope=all")
    assert (preview.status, await config_of(running, "longPollingEnable")) == (200, "false")
    asked = {"key": "longPollingEnable", "value": "true", "scope": "all"}
    answer = await browser.post(f"{base}/change", asked)
    assert (answer.status, await config_of(running, "longPollingEnable")) == (303, "true")
    assert "longPollingEnable is true now" in (await browser.get(answer.headers["location"])).text


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"key": "longPollingEnable", "value": "maybe"}, "true or false expected"),
        ({"key": "storePathRootDir", "value": "/x"}, "while the server runs"),
        ({"key": "initAuthenticationUser", "value": "x"}, "it is a secret"),
        ({"key": "nothing", "value": "x"}, "no such key"),
        ({"key": "longPollingEnable", "value": "true", "scope": "world"}, "is none of"),
        ({"key": "longPollingEnable", "value": "x" * 70_000}, "at most"),
    ],
)
async def test_what_is_refused_says_why(
    running: Running, browser: Client, asked: dict[str, str], said: str
) -> None:
    base = f"/configuration/brokers/{format_address(running.broker_address)}"
    answer = await browser.post(f"{base}/change", asked)
    assert answer.status == 422
    assert said in answer.text
    elsewhere = await browser.get("/configuration/brokers/127.0.0.1:1")
    assert "no broker is registered at 127.0.0.1:1" in elsewhere.text


async def test_name_servers_and_kv(running: Running, browser: Client) -> None:
    page = await browser.get("/configuration/namesrv?q=orderMessageEnable")
    assert "orderMessageEnable" in page.text
    asked = {"key": "orderMessageEnable", "value": "true"}
    answer = await browser.post("/configuration/namesrv/change", asked)
    assert answer.status == 303
    async with Admin(running.namesrv) as admin:
        config = (await admin.namesrv.config()).values[0]
        assert config["orderMessageEnable"] == "true"
        kv = {"namespace": "N", "key": "<b>K</b>", "value": "V&W", "what": "set"}
        assert (await browser.post("/configuration/kv/change", kv)).status == 303
        assert await admin.namesrv.all("N") == {"<b>K</b>": "V&W"}
        shown = await browser.get("/configuration/kv?namespace=N")
        assert "&lt;b&gt;K&lt;/b&gt;" in shown.text
        preview = await browser.get(
            "/configuration/kv/preview?namespace=N&key=<b>K</b>&what=delete"
        )
        assert "V&amp;W" in preview.text
        gone = await browser.post("/configuration/kv/change", {**kv, "what": "delete"})
        assert gone.status == 303
        assert (
            "The namespace has no values."
            in (await browser.get("/configuration/kv?namespace=N")).text
        )


async def test_the_life_of_a_user(
    running: Running, browser: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    at = {"cluster": CLUSTER}
    said = []
    made = {**at, "name": "a/lice", "password": "al1ce-s3cret", "type": "Normal"}
    answer = await browser.post("/access/users/create", made)
    assert answer.status == 303, answer.text
    said.append(await browser.get("/access"))
    assert "a/lice" in said[-1].text
    said.append(await browser.get("/access/users/one?name=a/lice"))
    assert said[-1].status == 200
    change = {**at, "name": "a/lice", "password": "n3w-s3cret", "status": "disable"}
    refused = await browser.post("/access/users/change", {**change, "_typed": "alice"})
    assert refused.status == 403
    said.append(refused)
    assert (
        await browser.post("/access/users/change", {**change, "_typed": "a/lice"})
    ).status == 303
    async with Admin(running.namesrv) as admin:
        user = (await admin.users.get("a/lice", cluster=CLUSTER)).values[0]
        assert user is not None
        assert (user.type, user.status) == ("Normal", "disable")
        said.append(await browser.post("/access/users/create", made))
        assert said[-1].status == 422
        gone = {**at, "name": "a/lice", "_typed": "a/lice"}
        assert (await browser.post("/access/users/delete", gone)).status == 303
        assert (await admin.users.get("a/lice", cluster=CLUSTER)).values == [None]
    assert not any("s3cret" in answer.text for answer in said)
    assert "s3cret" not in caplog.text


async def test_the_life_of_an_access_list(running: Running, browser: Client) -> None:
    await browser.post(
        "/access/users/create",
        {"cluster": CLUSTER, "name": "alice", "password": "s3cret-pw", "type": "Normal"},
    )
    asked = {"cluster": CLUSTER, "subject": "User:alice", "resources": "Topic:a Group:*",
             "actions": "Pub Sub", "source_ips": "10.0.0.0/8", "decision": "Allow"}  # fmt: skip
    query = "subject=User:alice&resources=Topic:a+Group:*&actions=Pub&actions=Sub&decision=Allow"
    preview = await browser.get(f"/access/lists/preview?{query}")
    assert preview.text.count("no entry") == 2
    answer = await browser.post("/access/lists/change", asked)
    assert answer.status == 303, answer.text
    async with Admin(running.namesrv) as admin:

        async def resources() -> set[str]:
            acl = (await admin.acls.get("User:alice", cluster=CLUSTER)).values[0]
            return {entry.resource for entry in acl.entries} if acl else set()

        assert await resources() == {"Topic:a", "Group:*"}
        shown = await browser.get("/access/lists")
        assert "10.0.0.0/8" in shown.text
        edit = await browser.get("/access/lists/edit?subject=User:alice&resource=Topic:a")
        assert edit.text.count(" checked") == 2
        ask = "subject=User:alice&resource=Topic:a&policy=Custom"
        assert "Topic:a" in (await browser.get(f"/access/lists/ask-delete?{ask}")).text
        gone = {"cluster": CLUSTER, "subject": "User:alice", "resource": "Topic:a",
                "policy": "Custom", "_typed": "User:alice"}  # fmt: skip
        assert (await browser.post("/access/lists/delete", {**gone, "_typed": ""})).status == 403
        assert (await browser.post("/access/lists/delete", gone)).status == 303
        assert await resources() == {"Group:*"}


async def test_what_a_broker_does_not_have_is_one_line(running: Running, browser: Client) -> None:
    page = await browser.get("/access/accounts")
    assert page.status == 200
    assert "ACL 1.0 is not enabled" in page.text
    assert "there is no cluster Other" in (await browser.get("/access?cluster=Other")).text


async def test_where_servers_differ(browser: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two brokers, and one that does not answer; two name servers."""
    configs = {"broker-a": {"slowLogMs": "50", "x": "<b>"}, "broker-b": {"slowLogMs": "1000"}}
    found = configuration_data.differences(configs, BrokerConfig)
    replicas = [Replica("C", f"broker-{n}", 0, f"10.0.0.{n}:10911") for n in "abc"]
    answered = frozenset(r.address for r in replicas[:2])

    async def brokers(admin: Admin, *, own: bool = False) -> configuration_data.Brokers:
        return configuration_data.Brokers(
            ("C",), tuple(replicas), answered, found, ("10.0.0.c:10911: it is away",)
        )

    monkeypatch.setattr(configuration_data, "brokers", brokers)
    text = (await browser.get("/configuration")).text
    for word in ("slowLogMs", "1000", "no such key", "&lt;b&gt;", '"badge bad">does not answer<'):
        assert word in text
    assert "it is away" in text
    server = configuration_data.ServerConfig("10.0.0.1:9876", "the name servers", "", True, ())

    async def name_servers(admin: Admin) -> configuration_data.NameServers:
        return configuration_data.NameServers(
            server, ("10.0.0.1:9876", "10.0.0.2:9876"), found, ("10.0.0.3:9876: away",)
        )

    monkeypatch.setattr(configuration_data, "name_servers", name_servers)
    text = (await browser.get("/configuration/namesrv")).text
    assert "Where name servers differ" in text
    assert "and 1 more" in text
    assert "10.0.0.3:9876: away" in text


async def test_who_may_only_read_gets_no_form(running: Running) -> None:
    settings = Settings(running.namesrv, ("127.0.0.1", 8090), read_only=True)
    base = f"/configuration/brokers/{format_address(running.broker_address)}"
    async with client(console_app(settings)) as reader:
        for path in (
            f"{base}/keys/longPollingEnable",
            f"{base}/keys/longPollingEnable/preview?value=true",
            "/configuration/kv", "/configuration/kv/preview?namespace=N&key=K&value=V",
            "/access", "/access/users/new", "/access/users/one?name=root", "/access/lists",
            "/access/lists/edit", "/access/lists/preview?subject=User:a&resources=Topic:a"
            "&actions=All&decision=Allow",
        ):  # fmt: skip
            page = await reader.get(path)
            assert page.status == 200, path
            assert 'method="post"' not in page.text, path
            assert "Delete" not in page.text, path
        refused = await reader.post(f"{base}/change", {"key": "longPollingEnable", "value": "true"})
        assert refused.status == 403
    assert await config_of(running, "longPollingEnable") == "false"


async def test_a_change_is_done_where_it_can_be(
    running: Running, browser: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = format_address(running.broker_address)

    async def targets(admin: Admin, asked: str, scope: str) -> list[Replica]:
        return [Replica("C", "broker-a", 0, address), Replica("C", "broker-z", 0, "127.0.0.1:1")]

    monkeypatch.setattr(configuration_data, "targets", targets)
    base = f"/configuration/brokers/{address}"
    preview = await browser.get(f"{base}/keys/longPollingEnable/preview?value=true&scope=all")
    assert "cannot connect to 127.0.0.1:1" in preview.text
    asked = {"key": "longPollingEnable", "value": "true", "scope": "all"}
    answer = await browser.post(f"{base}/change", asked)
    assert (answer.status, await config_of(running, "longPollingEnable")) == (303, "true")
    told = (await browser.get(answer.headers["location"])).text
    assert "on 1 server. Not on 1: broker-z: cannot connect" in told


async def test_who_signs_the_requests_is_not_deleted(running: Running) -> None:
    credentials = Credentials("root", "root-s3cret")
    settings = Settings(running.namesrv, ("127.0.0.1", 8090), credentials=credentials)
    async with client(console_app(settings)) as browser:
        page = await browser.get("/access/users/one?name=root")
        assert "This user signs the requests of this page." in page.text
        assert "/access/users/delete" not in page.text
        asked = {"cluster": CLUSTER, "name": "root", "_typed": "root"}
        refused = await browser.post("/access/users/delete", asked)
        assert (refused.status, "delete it as another user" in refused.text) == (422, True)
        kept = await browser.get("/access")
        assert "root" in kept.text
        assert "s3cret" not in page.text + refused.text + kept.text
