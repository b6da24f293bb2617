"""Patterns of addresses: white lists of ACL 1.0.

A pattern is one of these. Spaces around it do not count.

- `*`, `*.*.*.*` and `*:*:*:*:*:*:*:*`: every address;
- an address, of IPv4 or IPv6;
- an address in which parts are `*` or a range such as `10-20` (hexadecimal in IPv6);
- IPv6 with fewer than eight parts that ends with `:*`, such as `2001:db8:*`: all that begins so;
- an address whose last part is a list, such as `10.0.0.{1,2,7}`;
- several of these, separated by commas.

RocketMQ ignores what stands behind the first range: `10.1-5.0.1` matches `10.3.9.9` there. Here
every part counts. [RemoteAddressStrategyFactory, AclUtils]
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address

Address = IPv4Address | IPv6Address
Range = tuple[int, int]

MAX_TEXT = 4096
"""Most characters of a pattern."""
MAX_FORMS = 1024
"""Most addresses and ranges of one pattern, its lists written out."""
_EVERY = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")
_BRACES = re.compile(r"([^{},]*)\{([^{}]*)\}\Z")
_COMMAS = re.compile(r",(?![^{]*\})")
"""Commas outside of braces."""


@dataclass(frozen=True, slots=True)
class Form:
    """The ranges of the parts of an address: 4 of IPv4, 8 of IPv6."""

    parts: tuple[Range, ...]

    def matches(self, address: Address) -> bool:
        found = _parts_of(address)
        return len(found) == len(self.parts) and all(
            low <= part <= high for part, (low, high) in zip(found, self.parts, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern as it was written, and what it matches. Without forms: every address if `every`,
    else none."""

    text: str
    forms: tuple[Form, ...] = ()
    every: bool = False

    def matches(self, address: Address | None) -> bool:
        """Whether it matches. A peer without an address (None) is matched by nothing but `*`."""
        if self.every:
            return True
        return address is not None and any(form.matches(address) for form in self.forms)


NOBODY = Pattern("")


def _parts_of(address: Address) -> list[int]:
    raw = address.packed
    if isinstance(address, IPv4Address):
        return list(raw)
    return [raw[i] << 8 | raw[i + 1] for i in range(0, 16, 2)]


def parse_pattern(text: str) -> Pattern:
    """The pattern of a text; a blank one matches nothing. ValueError says what is wrong."""
    text = text.strip()
    if not text:
        return NOBODY
    if len(text) > MAX_TEXT:
        raise ValueError(f"a pattern of addresses has at most {MAX_TEXT} characters")
    forms: list[Form] = []
    for one in _COMMAS.split(text):
        if one.strip() in _EVERY:
            return Pattern(text, every=True)
        for written in _written_out(one.strip()):
            forms.append(_form(written))
            if len(forms) > MAX_FORMS:
                raise ValueError(f"a pattern has at most {MAX_FORMS} addresses")
    return Pattern(text, tuple(forms))


def _written_out(text: str) -> list[str]:
    """The texts without braces that a text with or without them stands for."""
    if "{" not in text and "}" not in text:
        return [text]
    match = _BRACES.match(text)
    if match is None or not match.group(1).endswith((".", ":")):
        raise _wrong(text, "a list in braces is the last part, such as 10.0.0.{1,2}")
    return [match.group(1) + part.strip() for part in match.group(2).split(",")]


def _form(text: str) -> Form:
    return Form(tuple(_six(text) if ":" in text else _four(text)))


def _four(text: str) -> list[Range]:
    parts = text.split(".")
    if len(parts) != 4:
        raise _wrong(text, "an address such as 10.0.0.1, 10.0.0.*, 10.0.1-9.* or fd00::1")
    return [_range(text, part.strip(), 10, 255) for part in parts]


def _six(text: str) -> list[Range]:
    head, gap, tail = text.partition("::")
    if "::" in tail or ":::" in text:
        raise _wrong(text, "an IPv6 address has one '::' at most")
    before = head.split(":") if head else []
    behind = tail.split(":") if tail else []
    parts = [_range(text, part.strip(), 16, 0xFFFF) for part in before + behind]
    missing = 8 - len(parts)
    if gap:
        if missing < 1:
            raise _wrong(text, "an IPv6 address has eight parts, '::' at least one of them")
        zeros: list[Range] = [(0, 0)] * missing
        return parts[: len(before)] + zeros + parts[len(before) :]
    if missing > 0 and before[-1].strip() == "*":
        return parts + [(0, 0xFFFF)] * missing
    if missing:
        raise _wrong(text, "an IPv6 address has eight parts")
    return parts


def _range(text: str, part: str, base: int, most: int) -> Range:
    if part == "*":
        return 0, most
    low, dash, high = part.partition("-")
    bounds = [_number(text, one.strip(), base, most) for one in ((low, high) if dash else (low,))]
    if bounds[0] > bounds[-1]:
        raise _wrong(text, f"{part!r} begins behind its end")
    return bounds[0], bounds[-1]


def _number(text: str, digits: str, base: int, most: int) -> int:
    pattern = "[0-9]{1,3}" if base == 10 else "[0-9a-fA-F]{1,4}"
    if re.fullmatch(pattern, digits) and (value := int(digits, base)) <= most:
        return value
    kind = f"0 to {most}" if base == 10 else "0 to ffff"
    raise _wrong(text, f"{digits[:16]!r} is no number from {kind}")


def _wrong(text: str, expected: str) -> ValueError:
    return ValueError(f"{text[:64]!r} is no pattern of addresses: {expected}")
