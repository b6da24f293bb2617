"""The rooms of configuration and access in a browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import trio

from pyrmq.admin import Admin
from pyrmq.admin.auth import Acl, Entry, User
from tests.console.browser import (  # noqa: F401 (fixtures)
    ConsoleProcess,
    Tab,
    chromium,
    required_chromium,
    tab,
)
from tests.console.data import IMAGE, SCRIPT
from tests.support.server import ServerProcess

CONF = """authenticationMetadataProvider=LocalAuthenticationMetadataProvider
authorizationMetadataProvider=LocalAuthorizationMetadataProvider
longPollingEnable=false
"""
CLUSTER = "DefaultCluster"
HOSTILE = SCRIPT.replace(" ", "")


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    """A server that keeps users, with hostile ones among them."""
    required_chromium()
    folder = tmp_path_factory.mktemp("console")
    with ServerProcess(folder / "store", conf=CONF) as server:
        namesrv = f"{server.namesrv[0]}:{server.namesrv[1]}"
        trio.run(seed, namesrv)
        with ConsoleProcess(namesrv, log=folder / "console.log") as running:
            yield running


async def seed(namesrv: str) -> None:
    async with Admin(namesrv) as admin:
        for name in ("alice", HOSTILE):
            user = User(name, "al1ce-s3cret", "Normal", "enable")
            (await admin.users.create(user, cluster=CLUSTER)).check_all()
            entry = Entry("Topic:orders", ("Pub", "Sub"), ("10.0.0.0/8",))
            (await admin.acls.create(Acl(f"User:{name}", (entry,)), cluster=CLUSTER)).check_all()
        (await admin.namesrv.put("HOSTILE", SCRIPT, IMAGE)).check_all()


def broker_page(page: Any) -> str:
    page.goto("/configuration")
    return str(page.get_attribute("tbody th a", "href"))


def test_every_page_is_sound(tab: Tab) -> None:  # noqa: F811
    broker = broker_page(tab.page)
    narrow = (f"{broker}?only=changed", "/access/lists", "/access/users/one?name=alice")
    for path in (
        "/configuration",
        f"{broker}/keys/longPollingEnable",
        f"{broker}/keys/longPollingEnable/preview?value=true&scope=all",
        "/configuration/namesrv", "/configuration/kv",
        "/configuration/kv/preview?namespace=N&key=K&what=delete",
        "/access", "/access/users/new",
        "/access/lists/edit?subject=User:alice&resource=Topic:orders",
        "/access/lists/preview?subject=User:alice&resources=Topic:x&actions=All&decision=Deny",
        "/access/lists/ask-delete?subject=User:alice&resource=Topic:orders&policy=Custom",
        "/access/accounts",
    ):  # fmt: skip
        tab.open(path)
        tab.check()
    for path in narrow:
        tab.open(path)
        tab.check_looks()


def test_names_of_others_are_texts(tab: Tab) -> None:  # noqa: F811
    tab.open("/access")
    assert HOSTILE in tab.text()
    tab.page.click(f"text={HOSTILE}")
    tab.page.wait_for_selector("h1:has-text('User')")
    assert HOSTILE in tab.text()
    tab.open("/access/lists")
    assert f"User:{HOSTILE}" in tab.text()
    tab.open("/configuration/kv?namespace=HOSTILE")
    assert SCRIPT in tab.text()
    assert IMAGE in tab.text()
    tab.check()


def test_a_key_is_changed_by_the_keyboard(tab: Tab) -> None:  # noqa: F811
    broker = broker_page(tab.page)
    tab.open(f"{broker}?only=live&q=longPollingEnable")
    tab.reach("tbody th a")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("input[name=value]")
    tab.page.fill("input[name=value]", "true")
    tab.reach("#content button[type=submit]")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("form.confirm")
    tab.reach("form.confirm button[type=submit]")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("text=longPollingEnable is true now")
    tab.check()


def test_a_refused_form_keeps_its_values_and_shows_no_password(tab: Tab) -> None:  # noqa: F811
    tab.open("/access/users/new")
    tab.page.fill("input[name=name]", "alice")
    tab.page.fill("input[name=password]", "typed-s3cret")
    tab.page.click("#content button[type=submit]")
    tab.page.wait_for_selector("#messages .note.bad")
    assert tab.page.input_value("input[name=name]") == "alice"
    assert "s3cret" not in tab.page.content()
    assert all("422" in error for error in tab.errors)
    tab.errors.clear()
    tab.check()
