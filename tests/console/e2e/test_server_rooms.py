"""The rooms cluster, brokers, HA and alarms, in a browser."""

from __future__ import annotations

import re

from tests.console.browser import *  # noqa: F403
from tests.console.browser import Tab

ROOMS = ("/cluster", "/brokers", "/ha", "/alarms")
PARTS = ("", "/clients", "/disk", "/figures")


def broker(tab: Tab) -> str:
    """The path of the page of the broker."""
    tab.open("/brokers")
    found = tab.page.get_attribute("tbody th a", "href")
    assert found is not None
    return str(found)


def sampled(tab: Tab) -> None:
    """Waits on a page until its broker was sampled."""
    tab.page.wait_for_function(
        "() => { htmx.trigger(document.querySelector('[data-live]'), 'seen');"
        " return document.querySelector('.chart svg') !== null; }",
        polling=500,
    )


def test_all_pages(tab: Tab) -> None:
    one = broker(tab)
    for path in (*ROOMS, *(one + part for part in PARTS)):
        tab.open(path)
        tab.check_looks()


def test_the_first_page_says_how_the_cluster_is(tab: Tab) -> None:
    tab.open("/")
    assert tab.page.url.endswith("/cluster")
    sampled(tab)
    tab.check()
    text = tab.text()
    assert "1 of 1" in text
    assert re.search(r"Lag\s+\d+\s+of all groups", text), text
    label = tab.page.get_attribute(".chart svg", "aria-label")
    assert label is not None
    assert tab.page.locator(".chart table caption").first.text_content()


def test_a_part_that_refreshes_keeps_the_focus(tab: Tab) -> None:
    tab.open("/cluster")
    tab.reach("tbody th a")
    with tab.page.expect_response(re.compile("/cluster/now")) as answer:
        tab.page.evaluate("htmx.trigger(document.querySelector('[data-live]'), 'seen')")
    assert answer.value.status == 200
    tab.page.wait_for_function("() => document.activeElement.matches('tbody th a')")
    tab.page.keyboard.press("Enter")
    tab.page.wait_for_url(re.compile(r"/brokers/[^/]+/0$"))
    for name in ("Clients", "Disk", "All figures"):
        tab.reach(".tabs a:not([aria-current])")
        tab.page.get_by_role("link", name=name, exact=True).press("Enter")
        tab.page.wait_for_load_state()
        current = tab.page.locator(".tabs a[aria-current]")
        assert current.text_content() == name
    assert "putTps" in tab.text()


def test_who_uses_the_broker(tab: Tab) -> None:
    one = broker(tab)
    tab.open(f"{one}/clients?kind=producer&seconds=3600")
    tab.page.wait_for_selector("form.bar-of-tools")
    assert tab.page.input_value("select[name=kind]") == "producer"
    tab.open(f"{one}/disk")
    assert "orders" in tab.text()


def refreshed(tab: Tab) -> None:
    """Has the part of the page refreshed now."""
    tab.page.evaluate("htmx.trigger(document.querySelector('[data-live]'), 'seen')")


def test_a_part_that_refreshes_keeps_how_far_it_is_scrolled(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 360, "height": 740})
    tab.open("/cluster")
    table = "document.querySelector('.scroll')"
    tab.page.evaluate(f"{table}.scrollLeft = 120; {table}.id = 'before'; document.title = 'old'")
    refreshed(tab)
    tab.page.wait_for_function(f"() => {table}.id !== 'before' && {table}.scrollLeft === 120")
    assert tab.page.title().startswith("Cluster: ")


def test_a_part_in_which_a_text_is_selected_waits(tab: Tab) -> None:
    tab.open("/cluster")
    tab.page.evaluate(
        "window.asked = 0;"
        "document.addEventListener('htmx:beforeSend', () => { window.asked += 1; });"
        "getSelection().selectAllChildren(document.querySelector('[data-live] h1'))"
    )
    refreshed(tab)
    assert tab.page.evaluate("window.asked") == 0
    tab.page.evaluate("getSelection().removeAllRanges()")
    refreshed(tab)
    tab.page.wait_for_function("() => window.asked === 1")
