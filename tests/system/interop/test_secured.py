"""Java, Go and mqadmin with credentials, and with TLS, against servers that demand both."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator

import pytest

from . import toolchain
from .access.signing import Keys
from .access.users import SUPER
from .conftest import BROKERS, older
from .drivers import Driver, DriverFailed
from .secured import (
    ALLOWED,
    CLIENT,
    OTHER,
    Secured,
    sends_and_consumes,
    serving,
    sign,
    succeeded,
    transactions,
)

FORGED: Keys = (OTHER[0], "not-its-secret")
"""Of a user that is there. A user whose password is guessed is refused for a while, so that it is
none that other tests need."""
STRANGER: Keys = ("stranger", "some-secret")
NO_PERMISSION = re.compile(r"CODE: 16\b|code: 16\b|code:16\b|response code: 16\b")
NO_ROUTE = re.compile("No route info of this topic|route info not found")
NOT_CONNECTED = re.compile(
    r"(connect to|send request to) .* failed|wait response on the channel .* timeout"
)
JAVA = [
    pytest.param(f"java-{toolchain.NEWEST}"),
    pytest.param("java-4.9.8", marks=older),
]
CLIENTS = [*JAVA, pytest.param("go")]


@pytest.fixture(scope="module", params=BROKERS)
def secured(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    """Servers that demand credentials."""
    with serving(request.param, tmp_path_factory.mktemp("signed"), with_tls=False) as servers:
        yield servers


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """Servers of ours, whose name server demands credentials as well."""
    folder = tmp_path_factory.mktemp("guarded")
    with serving("pyrmq", folder, with_tls=False, names="guarded") as servers:
        yield servers


@pytest.fixture(scope="module", params=BROKERS)
def over_tls(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Secured]:
    """Servers that demand credentials, and TLS with a certificate of the client."""
    with serving(request.param, tmp_path_factory.mktemp("tls"), with_tls=True) as servers:
        yield servers


@pytest.fixture
def topic() -> str:
    return f"{ALLOWED}{uuid.uuid4().hex[:8]}"


def refused(driver: Driver, command: str, topic: str, keys: Keys | None) -> None:
    # Each further failed login of an address is answered later, by ours.
    words = {"topic": topic, "group": f"P-{topic}", "count": 1, "retries": 0}
    with pytest.raises(DriverFailed, match=NO_PERMISSION):
        driver.run(command, **words, **(sign(keys) if keys else {}))


def not_allowed(servers: Secured, *everyone: Keys | None) -> None:
    """mqadmin by a conf/tools.yml of these keys, or without the file."""
    for keys in everyone:
        with servers.mqadmin(keys) as tool:
            out, err = tool.command(servers.namesrv, "listUser", "-b", servers.broker)
            assert NO_PERMISSION.search(out + err), f"{keys}: {out}{err}"


@pytest.mark.thorough("the users of all tests here are made with it; each command may wait 3 s")
def test_mqadmin(secured: Secured) -> None:
    """RocketMQ's mqadmin by its conf/tools.yml: users, access lists and a topic. It comes before
    the tests of refusals: each failed login of an address makes the next answers later."""
    at = ("-b", secured.broker)
    made = f"made-{uuid.uuid4().hex[:8]}"
    user, subject, resource = ("-u", made), ("-s", f"User:{made}"), ("-r", "Topic:T*")
    with secured.mqadmin(SUPER) as tool:

        def run(*words: str) -> str:
            return succeeded(tool, secured, *words)

        run("createUser", *at, *user, "-p", "made-secret", "-t", "Normal")
        assert made in run("getUser", *at, *user)
        run("updateUser", *at, *user, "-s", "disable")
        assert re.search(rf"{made}.*disable", run("listUser", *at), re.IGNORECASE)
        run(
            "createAcl", *at, *subject, *resource, "-a", "Pub,Sub", "-d", "Deny", "-i", "10.0.0.0/8"
        )
        assert re.search(r"Topic:T\*.*Pub.*10\.0\.0\.0/8.*Deny", run("getAcl", *at, *subject))
        run("updateAcl", *at, *subject, *resource, "-a", "Sub", "-d", "Allow")
        assert re.search(rf"User:{made}.*Topic:T\*.*Sub.*Allow", run("listAcl", *at))
        run("deleteAcl", *at, *subject)
        run("updateTopic", *at, "-t", f"{ALLOWED}{made}", "-r", "2", "-w", "2")
        run("deleteUser", *at, *user)
        assert made not in run("listUser", *at)
    not_allowed(secured, None, CLIENT, (SUPER[0], "not-its-secret"))


@pytest.mark.parametrize("client", CLIENTS)
def test_signed(secured: Secured, client: str, topic: str) -> None:
    sends_and_consumes(secured.driver(client), topic)


@pytest.mark.parametrize("client", CLIENTS)
def test_signed_transactions(secured: Secured, client: str, topic: str) -> None:
    transactions(secured.driver(client), topic)


@pytest.mark.parametrize("client", CLIENTS)
def test_refused(secured: Secured, client: str, topic: str) -> None:
    """No credentials, a wrong secret, an unknown user, a topic without a right to it."""
    driver = secured.driver(client)
    for keys in (None, FORGED, STRANGER):
        refused(driver, "produce", topic, keys)
    refused(driver, "produce", f"Forbidden-{topic}", CLIENT)


@pytest.mark.thorough("the decisions of a name server are tested by themselves")
@pytest.mark.parametrize("client", CLIENTS)
def test_name_server_with_access_control(guarded: Secured, client: str, topic: str) -> None:
    """It knows the users of the broker, from an export. Whoever it refuses finds no route."""
    driver = guarded.driver(client)
    sends_and_consumes(driver, topic)
    words = {"topic": topic, "group": f"P-{topic}", "count": 1, "retries": 0}
    with pytest.raises(DriverFailed, match=NO_ROUTE):
        driver.run("produce", **words)


@pytest.mark.parametrize("client", JAVA)
def test_tls(over_tls: Secured, client: str, topic: str) -> None:
    sends_and_consumes(over_tls.driver(client), topic)


@pytest.mark.thorough("test_tls, and the same without TLS, stand for it")
@pytest.mark.parametrize("client", JAVA)
def test_tls_transactions(over_tls: Secured, client: str, topic: str) -> None:
    transactions(over_tls.driver(client), topic)


@pytest.mark.thorough("test_tls, and the same without TLS, stand for it")
@pytest.mark.parametrize("client", JAVA)
def test_tls_refused(over_tls: Secured, client: str, topic: str) -> None:
    """A wrong secret over TLS; no TLS; servers whose authority the client does not know."""
    refused(over_tls.driver(client), "produce", topic, FORGED)
    assert over_tls.tls is not None
    words = {"topic": topic, "group": f"P-{topic}", "count": 1, **sign(CLIENT)}
    for driver in (over_tls.plain(client), over_tls.driver(client, over_tls.tls.stranger)):
        with pytest.raises(DriverFailed, match=NOT_CONNECTED):
            driver.run("produce", **words)


@pytest.mark.thorough("test_tls, and the same without TLS, stand for it")
def test_mqadmin_over_tls(over_tls: Secured) -> None:
    """The users of this test were made over TLS."""
    with over_tls.mqadmin(SUPER) as tool:
        assert CLIENT[0] in succeeded(tool, over_tls, "listUser", "-b", over_tls.broker)
    not_allowed(over_tls, CLIENT)
