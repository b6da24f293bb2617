"""A consumer's subscription to a topic: SubscriptionData and the tag expression."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar

from pyrmq.errors import SubscriptionError
from pyrmq.model.codes import ResponseCode
from pyrmq.model.topic import as_int

T = TypeVar("T")

SHORT = 256
"""Characters of a text that is short."""
MANY = 1024
"""Short texts of which it is kept."""
FEW = 16
"""The same of longer ones, of which each may take a thousand times as much."""


def cached_by_text(make: Callable[[str], T]) -> Callable[[str], T]:
    """`make`, which remembers what it has returned lately."""
    short, longer = lru_cache(MANY)(make), lru_cache(FEW)(make)

    def made(text: str) -> T:
        return short(text) if len(text) <= SHORT else longer(text)

    return made


TAG = "TAG"
SQL92 = "SQL92"
ALL = "*"
MAX_EXPRESSION = 16_384
"""Longest tag expression, characters."""
MAX_CODES = 1024
"""Tag codes that a subscription may state."""


class Sql(str):
    """An SQL92 expression over properties, for a consumer's subscription:
    `{"Orders": Sql("amount > 5 AND region = 'north'")}`. The broker needs
    enablePropertyFilter=true."""

    __slots__ = ()


def java_hash(text: str) -> int:
    """Java's String.hashCode, an int32. A tag's hash is its code in a queue entry."""
    h = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        h = (31 * h + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return h - (1 << 32) if h >= 1 << 31 else h


@cached_by_text
def _tags_of(text: str) -> tuple[frozenset[str], tuple[int, ...]]:
    """Tags and their codes; the same few expressions come with every pull."""
    tags = frozenset(t for t in (part.strip() for part in text.split("||")) if t)
    return tags, tuple(sorted({java_hash(t) for t in tags}))


@dataclass(slots=True)
class Subscription:
    """One topic of a group. `tag_codes` is what the engine filters by (empty: all)."""

    topic: str
    sub_string: str
    version: int
    expression_type: str = TAG
    tags: frozenset[str] = frozenset()
    tag_codes: array[int] = field(default_factory=lambda: array("i"))

    @classmethod
    def parse(
        cls, topic: str, expression: str | None, version: int = 0, expression_type: str = TAG
    ) -> Subscription:
        """From `TagA || TagB`, `*` or nothing. [FilterAPI]"""
        text = (expression or ALL).strip() or ALL
        sub = cls(topic, text, version, expression_type or TAG)
        if sub.expression_type != TAG or text == ALL:
            return sub
        if len(text) > MAX_EXPRESSION:
            raise SubscriptionError(
                f"the expression has more than {MAX_EXPRESSION} characters",
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
            )
        sub.tags, codes = _tags_of(text)
        if not sub.tags:
            raise SubscriptionError(
                f"no tag in the expression {text!r}", ResponseCode.SUBSCRIPTION_PARSE_FAILED
            )
        sub.tag_codes = array("i", codes)
        return sub

    def essence(self) -> Subscription:
        """What a broker filters by, without the text of a tag expression and its names."""
        if self.expression_type != TAG:
            return self
        codes = self.tag_codes
        return Subscription(self.topic, "", self.version, TAG, tag_codes=codes)

    def wants(self, tags: str | None) -> bool:
        """Whether a message with these tags is meant: hashes may collide, names do not."""
        return not self.tags or (tags is not None and tags in self.tags)

    def to_json(self) -> dict[str, Any]:
        return {
            "classFilterMode": False,
            "codeSet": list(self.tag_codes),
            "expressionType": self.expression_type,
            "subString": self.sub_string,
            "subVersion": self.version,
            "tagsSet": sorted(self.tags),
            "topic": self.topic,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Subscription:
        """As a heartbeat states it. The stated code set is what is filtered by, as Go computes
        codes of non-ASCII tags in its own way."""
        kind = value.get("expressionType") or TAG
        sub = cls(
            topic=str(value.get("topic", "")),
            # One that is too long is refused when it is used: nothing else is done with it.
            sub_string=str(value.get("subString", ALL))[: MAX_EXPRESSION + 1],
            version=as_int(value.get("subVersion"), 0),
            expression_type=str(kind),
        )
        if sub.expression_type == TAG:
            tags = value.get("tagsSet")
            sub.tags = frozenset(str(t) for t in tags) if isinstance(tags, list) else frozenset()
            codes = value.get("codeSet")
            if isinstance(codes, list):
                check_codes(value)
                wanted = {as_int(c, 1 << 40) for c in codes}
                sub.tag_codes = array("i", sorted(c for c in wanted if -(1 << 31) <= c < 1 << 31))
            text = sub.sub_string.strip()
            if not sub.tag_codes and text not in ("", ALL) and len(text) <= MAX_EXPRESSION:
                # A client that leaves the codes to the broker: no codes would mean all messages.
                sub.tags, of_text = _tags_of(text)
                sub.tag_codes = array("i", of_text)
        return sub


def check_codes(value: dict[str, Any]) -> None:
    """SUBSCRIPTION_PARSE_FAILED for one of a heartbeat that states more codes than are taken."""
    codes = value.get("codeSet")
    if isinstance(codes, list) and len(codes) > MAX_CODES:
        raise SubscriptionError(
            f"the subscription of {str(value.get('topic'))[:255]} has more than {MAX_CODES} tag "
            "codes",
            ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        )
