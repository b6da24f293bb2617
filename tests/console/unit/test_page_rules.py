"""The rules for pages see what breaks them."""

from __future__ import annotations

import pytest

from tests.console.page_rules import broken_rules


@pytest.mark.parametrize(
    "page",
    [
        "<script>alert(1)</script>",
        '<script src="https://elsewhere.example/x.js"></script>',
        "<p><img src=x onerror=alert(1)></p>",
        '<a href="javascript:alert(1)">x</a>',
        '<a href="//elsewhere.example/">x</a>',
        '<p style="display:none">x</p>',
        "<style>p{}</style>",
        '<div hx-on:click="x()">x</div>',
        '<p id="a"></p><p id="a"></p>',
        '<form method="post"></form>',
        "safe\u202egnp.exe",
        "\x1b[2J",
    ],
)
def test_what_breaks_them(page: str) -> None:
    assert len(broken_rules(page)) > 0


def test_what_does_not() -> None:
    page = (
        '<script src="/static/console.js?v=1" defer></script><a href="/topics?q=%3Cscript%3E">x</a>'
        '<p id="a">&lt;script&gt;alert(1)&lt;/script&gt;\n\tüé</p><a href="#a">x</a>'
    )
    assert broken_rules(page) == []
