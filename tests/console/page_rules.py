"""What the HTML of every page of the console must be: nothing of it runs, or leads elsewhere."""

from __future__ import annotations

from html.parser import HTMLParser

_LEADS = {"href", "src", "action", "formaction", "hx-get", "hx-post", "xlink:href", "data"}
_TAGS_OF_NOBODY = {"iframe", "object", "embed", "base", "style", "img", "applet"}
_INVISIBLE = {chr(c) for c in (*range(9), *range(11, 13), *range(14, 32), 127)} | set(
    "\u200b\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
)


class _Rules(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.broken: list[str] = []
        self._ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        shown = f"<{tag} {given}>"[:200]
        if tag == "script" and not given.get("src", "").startswith("/static/"):
            self.broken.append(f"a script in the page: {shown}")
        if tag in _TAGS_OF_NOBODY:
            self.broken.append(f"no page has this: {shown}")
        if len(given) != len(attrs):
            self.broken.append(f"an attribute twice: {shown}")
        for name, value in given.items():
            if name.startswith(("on", "hx-on")) or name == "style":
                self.broken.append(f"a script or a style in an attribute: {shown}")
            if name in _LEADS and not _is_own(value):
                self.broken.append(f"leads elsewhere: {shown}")
            if name == "hx-vals" and value.startswith(("js:", "javascript:")):
                self.broken.append(f"a script in an attribute: {shown}")
        if "id" in given:
            if given["id"] in self._ids:
                self.broken.append(f"an id twice: {shown}")
            self._ids.add(given["id"])
        if tag == "form" and given.get("method", "get") == "post" and "action" not in given:
            self.broken.append(f"a form without an address: {shown}")


def _is_own(address: str) -> bool:
    """A path of the console, or a place in the page."""
    return (address.startswith("/") and not address.startswith("//")) or address.startswith("#")


def broken_rules(page: str) -> list[str]:
    """What is wrong with a page, or a part of one."""
    rules = _Rules()
    rules.feed(page)
    rules.close()
    invisible = sorted(set(page) & _INVISIBLE)
    return rules.broken + ([f"characters without a shape: {invisible!r}"] if invisible else [])
