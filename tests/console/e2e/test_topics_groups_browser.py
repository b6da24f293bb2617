"""Topics and groups in a browser: every page, its actions by the keyboard, names as text."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import trio

from pyrmq.admin import Admin
from pyrmq.sync import ConsumeFrom, Message, Producer, PushConsumer
from tests.console.browser import *  # noqa: F403
from tests.console.browser import ConsoleProcess, Tab

TAG = '<b onx=1>"x'
"""What a client id may hold, as the name of its instance."""
HARD = ("100%", "a%20b|c", "create")
"""Names that are hard to write into a path."""
PAGES = (
    "/topics", "/topics/orders", "/topics/100%25", "/topics/~/create", "/topics/orders/change",
    "/topics/orders/delete", "/topics/orders/producers", "/groups?system=1",
    "/groups/orders-group", "/groups/members-group", "/groups/~/create",
    "/groups/orders-group/change", "/groups/orders-group/pause?to=pause",
    "/groups/orders-group/reset?topic=orders&to=earliest", "/groups/members-group/members",
)  # fmt: skip
NARROW = (
    "/topics", "/groups/members-group", "/groups/orders-group/reset?topic=orders&to=earliest",
)  # fmt: skip
"""Those of them that are also looked at dark and on a phone."""


@pytest.fixture(scope="module", autouse=True)
def busy(console: ConsoleProcess) -> Iterator[None]:
    """Topics with such names, a producer, and two members that subscribe differently."""

    async def make() -> None:
        async with Admin(console.namesrv) as admin:
            for name in (*HARD, *(f"many-{n:03}" for n in range(110))):
                (await admin.topics.change(name, cluster="DefaultCluster")).check_all()

    trio.run(make)

    def member(topics: dict[str, str], name: str) -> PushConsumer:
        return PushConsumer(
            "members-group",
            topics,
            namesrv=console.namesrv,
            instance_name=name,
            listener=lambda message: None,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        )

    with (
        Producer("shop-senders", namesrv=console.namesrv),
        member({"orders": "paid"}, TAG),
        member({"orders": "open", "hostile": "*"}, "other"),
    ):
        yield


def refused(tab: Tab, status: int) -> None:
    """Takes out what the browser says of an answer that the test wants."""
    assert any(f"status of {status}" in error for error in tab.errors)
    tab.errors[:] = [error for error in tab.errors if str(status) not in error]


def test_every_page(tab: Tab) -> None:
    for path in PAGES:
        tab.open(path)
        tab.page.wait_for_load_state("networkidle")
        if path in NARROW:
            tab.check_looks()
        else:
            tab.check()


def test_the_list_is_filtered_sorted_and_turned_by_the_keyboard(tab: Tab) -> None:
    tab.open("/topics")
    tab.reach("#filter")
    tab.page.keyboard.type("MANY-00")
    tab.page.wait_for_selector("#rows tbody:not(:has(tr:nth-child(11))) tr:nth-child(10)")
    assert tab.page.url.endswith("q=MANY-00")
    tab.open("/topics")
    tab.reach("thead a")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("th[aria-sort=descending]")
    assert tab.page.inner_text("#rows tbody th") == "orders"
    tab.reach("a[rel=next]")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_selector("a[rel=prev]")
    assert "create" in tab.page.inner_text("#rows")
    tab.check()


def test_a_topic_is_created_and_deleted_by_the_keyboard(tab: Tab) -> None:
    page = tab.page
    tab.open("/topics/~/create")
    page.keyboard.type("fresh%|topic")
    tab.reach("button.primary")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/fresh%25%7Ctopic")
    assert "is created" in tab.text()
    tab.reach("a.danger")
    page.keyboard.press("Enter")
    page.wait_for_selector("input[name=_typed]")
    tab.reach("input[name=_typed]")
    page.keyboard.type("fresh")
    page.keyboard.press("Enter")
    page.wait_for_selector("#messages .bad")
    assert "to confirm" in page.inner_text("#messages")
    refused(tab, 403)
    page.fill("input[name=_typed]", "fresh%|topic")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics")
    assert "is deleted" in tab.text()
    tab.check()


def test_a_group_page_shows_what_its_members_run(tab: Tab) -> None:
    page = tab.page
    tab.open("/groups/members-group")
    page.wait_for_selector("#members table")
    shown = tab.text()
    assert TAG in shown, "as text"
    assert "members-group" in page.title(), "the part that was loaded has no title of its own"
    assert "subscribe differently" in shown
    tab.check()
    page.click(f"#members a >> text={TAG}")
    page.wait_for_selector("h1")
    assert TAG in page.inner_text("h1")
    page.click("text=Ask for the stacks of its threads")
    page.wait_for_selector("pre")
    tab.check()


def test_a_page_follows_by_itself(tab: Tab, console: ConsoleProcess) -> None:
    tab.open("/topics/many-001")
    assert tab.page.inner_text("#now .figure .value") == "0"
    with Producer("p", namesrv=console.namesrv) as producer:
        producer.send(Message("many-001", b"x"))
    tab.page.evaluate("htmx.trigger(document.querySelector('#now'), 'seen')")
    tab.page.wait_for_selector("#now .figure .value >> text='1'")
    assert tab.page.locator("#now").count() == 1
    tab.check()


def test_what_is_folded_and_where_the_focus_is_stay(tab: Tab) -> None:
    page = tab.page
    tab.open("/groups/members-group")
    every = "[...document.querySelectorAll('#now details')].map(one => one.open)"
    before = page.evaluate(every)
    assert len(before) > 1
    summary = "details:first-of-type summary"
    tab.reach(summary)
    page.keyboard.press("Enter")
    after = page.evaluate(every)
    assert after == [not before[0], *before[1:]]
    page.evaluate("document.querySelector('#now .figures').dataset.old = 1")
    page.evaluate("htmx.trigger(document.querySelector('#now'), 'seen')")
    page.wait_for_selector("#now .figures:not([data-old])")
    assert page.evaluate(every) == after
    assert page.evaluate("s => document.activeElement.matches(s)", summary)
    tab.check()


def test_a_reset_moves_what_the_preview_shows(tab: Tab) -> None:
    page = tab.page
    tab.open("/groups/orders-group/reset")
    page.fill("input[name=topic]", "orders")
    page.select_option("select[name=to]", "earliest")
    page.click("text=Preview")
    page.wait_for_selector("form.confirm")
    tab.check()
    assert "Repeated" in tab.text()
    tab.reach("form.confirm button")
    page.keyboard.press("Enter")
    page.wait_for_url("**/groups/orders-group")
    assert "are reset in" in tab.text()
    tab.check()
