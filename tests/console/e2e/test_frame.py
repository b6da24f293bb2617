"""What all pages have around them, in a browser."""

from __future__ import annotations

from tests.console.browser import Tab
from tests.console.browser import chromium as chromium
from tests.console.browser import console as console
from tests.console.browser import tab as tab


def missing(tab: Tab) -> None:
    """Opens a page that is not there."""
    tab.page.goto("/nothing")
    tab.errors.remove(
        "error: Failed to load resource: the server responded with a status of 404 ()"
    )


def test_a_page_that_is_not_there(tab: Tab) -> None:
    missing(tab)
    tab.check()
    assert "There is no such page." in tab.text()


def test_the_theme_is_kept(tab: Tab) -> None:
    missing(tab)
    tab.reach("[data-theme-switch]")
    tab.page.keyboard.press("Enter")
    tab.page.keyboard.press("Enter")
    assert tab.page.get_attribute("html", "data-theme") == "dark"
    missing(tab)
    assert tab.page.get_attribute("html", "data-theme") == "dark"
    tab.check()


def test_on_a_phone(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 360, "height": 740})
    missing(tab)
    assert not tab.page.is_visible("#rooms")
    tab.reach("[data-menu]")
    tab.page.keyboard.press("Enter")
    assert tab.page.get_attribute("[data-menu]", "aria-expanded") == "true"
    tab.check()
