"""The rooms of messages in a browser: what is seen, what the keyboard reaches, what stays text."""

from __future__ import annotations

import pytest
import trio

from tests.console import message_data
from tests.console.browser import *  # noqa: F403
from tests.console.browser import ConsoleProcess, Tab
from tests.console.message_data import GROUP, SCRIPT, UNDECIDED
from tests.support.waiting import eventually


@pytest.fixture(scope="module", autouse=True)
def filled(console: ConsoleProcess) -> None:
    """More data on the server, before the browser starts."""
    trio.run(message_data.send_all, console.namesrv)


def found(tab: Tab, query: str) -> None:
    """Opens a list of messages as soon as the index has them."""

    def look() -> int:
        tab.open(f"/messages?{query}")
        return int(tab.page.locator("tbody tr").count())

    eventually(look, f"messages for {query}")


def confirmed(tab: Tab) -> None:
    """Confirms by the keyboard what the page asks, and waits until it is done."""
    tab.page.wait_for_selector("button.danger")
    tab.check()
    tab.reach("button.danger")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("#messages .note.good")


def test_a_message_is_found_by_the_keyboard(tab: Tab) -> None:
    found(tab, "topic=bodies&key=html")
    tab.open("/messages")
    tab.reach("input[name=topic]")
    tab.page.keyboard.type("bodies")
    tab.reach("input[name=key]")
    tab.page.keyboard.type("html")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("tbody a")
    tab.check_looks()
    tab.reach("tbody a")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("pre")
    assert SCRIPT in tab.text()
    tab.page.wait_for_selector("text=No group consumes this topic")
    tab.check_looks()
    tab.reach("a[href^='/messages/resend']")
    tab.page.keyboard.press("Enter")
    confirmed(tab)
    assert "A copy was sent to topic bodies" in tab.text()


def test_hostile_messages_are_texts(tab: Tab) -> None:
    found(tab, "topic=bodies&key=unknown")
    tab.open("/messages?topic=bodies")
    tab.check()
    hrefs = []
    for key in ("html", "controls", "bidi", "hostile", "bomb-ZLIB", "damaged"):
        row = tab.page.locator("tbody tr", has_text=key).first
        hrefs.append(row.locator("td.mono a").get_attribute("href"))
    for href in hrefs:
        tab.open(href)
        assert tab.page.locator("pre, details").count() > 0
        assert tab.page.locator("main script, main img").count() == 0
        assert "\u202e" not in tab.page.content()
    tab.check()
    tab.open("/messages?topic=hostile")
    assert tab.page.locator("main script, main img").count() == 0
    tab.check()


def test_downloads_are_saved(tab: Tab) -> None:
    found(tab, "topic=bodies&key=large")
    tab.page.click("td.mono a")
    tab.page.wait_for_selector("pre")
    with tab.page.expect_download() as download:
        tab.page.click("text=Download the body")
    saved = download.value.path()
    assert saved.read_bytes() == message_data.BODIES["large"]


def test_the_life_of_a_message(tab: Tab) -> None:
    found(tab, "topic=bodies&key=json")
    tab.page.click("td.mono a")
    tab.page.click("text=Its life")
    tab.page.wait_for_selector("ol.life li")
    tab.check_looks()
    tab.reach("ol.life a")


def test_transactions_are_decided(tab: Tab) -> None:
    tab.open("/transactions")
    assert UNDECIDED in tab.text()
    tab.check_looks()
    tab.reach("input[name=chosen]")
    tab.page.keyboard.press("Space")
    tab.reach("button[value=rollback]")
    tab.page.keyboard.press("Enter")
    confirmed(tab)
    assert "1 rolled back" in tab.text()
    tab.page.click("td.mono a")
    tab.page.wait_for_selector("dl.facts")
    tab.check()
    tab.open("/transactions/discarded")
    tab.check()


def test_dead_letters_are_resent(tab: Tab) -> None:
    tab.open("/dead-letters")
    tab.check_looks()
    tab.page.click(f"text={GROUP}")
    tab.page.wait_for_selector("input[name=chosen]")
    assert SCRIPT in tab.text()
    tab.check_looks()
    tab.page.locator("tr", has_text="letter-0").locator("input").check()
    tab.reach("button[value=topic]")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("button.danger")
    tab.check()
    tab.page.click("button.danger")
    tab.page.wait_for_selector("#messages .note.good")
    assert "1 sent" in tab.text()
    with tab.page.expect_download() as download:
        tab.page.click("text=Save as JSON lines")
    assert len(download.value.path().read_bytes().splitlines()) == message_data.LETTERS + 1


def test_delays_and_timers(tab: Tab) -> None:
    tab.open("/delay")
    tab.page.wait_for_selector("a[href^='/delay/level']")
    tab.page.wait_for_selector("a[href='/delay/timers?topic=later']")
    tab.check_looks()
    tab.page.click("a[href^='/delay/level']")
    tab.page.wait_for_selector("td.mono a")
    tab.check()
    tab.open("/delay/timers")
    tab.check_looks()
    tab.reach("a[href^='/delay/recall']")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("button.danger")
    tab.check()
    tab.page.click("button.danger")
    tab.page.wait_for_selector("#messages .note.bad")
    assert "recallMessageEnable" in tab.text()
    tab.errors[:] = [said for said in tab.errors if "422" not in said]
