"""Cases of policies that speak against each other, and of requests with several resources.

Each has policies of the user `right`, a request, and the address that it comes from; what Apache
decides is recorded with them, so that other implementations can be asked the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.wire import Command

from ..store import peer
from . import answers
from .requests import (
    END,
    GROUP,
    OTHER,
    PULL,
    RETRY,
    SEND,
    SEND_V2,
    TOPIC,
    Request,
    batch,
    heartbeat,
)
from .signing import Session
from .users import RIGHT, Entry, Users, entry

LOCAL, ELSEWHERE = "127.0.0.1", "127.0.0.2"
T, G = f"Topic:{TOPIC}", f"Group:{GROUP}"
_SEND = Request(310, "send", SEND_V2, b"hello")
_QUERY = Request(
    12,
    "query",
    {"topic": TOPIC, "key": "K", "maxNum": "1", "beginTimestamp": "0", "endTimestamp": "1"},
)


@dataclass(frozen=True)
class Case:
    """`custom` and `default`: the entries of both policies."""

    name: str
    custom: tuple[Entry, ...] = ()
    default: tuple[Entry, ...] = ()
    request: Request = _SEND
    source: str = LOCAL


def _pub(resource: str, decision: str = "Allow", ips: tuple[str, ...] = ()) -> Entry:
    return entry(resource, "Pub", decision=decision, ips=ips)


def _orders() -> list[Case]:
    """Which of two matching entries decides."""
    pairs = {
        "same literal": (T, T),
        "literal and prefix": (T, "Topic:Access*"),
        "literal and prefix of its length": (T, f"{T}*"),
        "literal and all topics": (T, "Topic:*"),
        "literal and everything": (T, "*"),
        "longer and shorter prefix": ("Topic:AccessT*", "Topic:Access*"),
        "prefix and all topics": ("Topic:Access*", "Topic:*"),
        "prefix and everything": ("Topic:Access*", "*"),
        "all topics and everything": ("Topic:*", "*"),
        "same prefix": ("Topic:Access*", "Topic:Access*"),
    }
    cases = []
    for name, (first, second) in pairs.items():
        for one, other in (("Allow", "Deny"), ("Deny", "Allow")):
            entries = _pub(first, one), _pub(second, other)
            words = f"{name}: {one}, {other}"
            cases.append(Case(words, entries))
            cases.append(Case(f"{words}, listed the other way round", entries[::-1]))
    return cases


def _kinds() -> list[Case]:
    """Custom before default."""
    wide, exact = "Topic:*", T
    return [
        Case("custom Allow, default Deny", (_pub(exact),), (_pub(exact, "Deny"),)),
        Case("custom Deny, default Allow", (_pub(exact, "Deny"),), (_pub(exact),)),
        Case("custom Allow of all, default Deny", (_pub(wide),), (_pub(exact, "Deny"),)),
        Case("custom Deny of all, default Allow", (_pub(wide, "Deny"),), (_pub(exact),)),
        Case("custom of another topic, default Allow", (_pub("Topic:X"),), (_pub(exact),)),
        Case("custom of another action, default Allow", (entry(exact, "Sub"),), (_pub(exact),)),
        Case("default Allow alone", (), (_pub(exact),)),
        Case("default Deny alone", (), (_pub(exact, "Deny"),)),
    ]


def _names() -> list[Case]:
    """Which names a resource matches."""
    matching = (
        "Topic:Access", "Topic:accesstopic", "topic:AccessTopic", "TOPIC:AccessTopic",
        f"{T}*", "Topic:*", "Topic:A*", "*", "Any:*", "Cluster:*", "Group:*", "Namespace:*",
        "Topic:%RETRY%AccessTopic",
    )  # fmt: skip
    return [Case(f"name {name}", (_pub(name),)) for name in matching]


def _addresses() -> list[Case]:
    lists: dict[str, tuple[str, ...]] = {
        "its own": (LOCAL,),
        "another": (ELSEWHERE,),
        "two": (ELSEWHERE, LOCAL),
        "a network": ("127.0.0.0/31",),
        "all of IPv4": ("0.0.0.0/0",),
        "IPv6": ("::1",),
        "a star": ("*",),
        "a pattern": ("127.0.0.*",),
    }
    cases = [
        Case(f"source {name}, from {source}", (_pub(T, ips=ips),), source=source)
        for name, ips in lists.items()
        for source in (LOCAL, ELSEWHERE)
    ]
    denied = (_pub(T, "Deny", (LOCAL,)), _pub("Topic:*"))
    return [
        *cases,
        Case("Deny from one address, from it", denied),
        Case("Deny from one address, from another", denied, source=ELSEWHERE),
    ]


def _actions() -> list[Case]:
    """A request that one of several actions suffices for: 12 with Sub or Get."""
    sub, get = entry(T, "Sub"), entry(T, "Get")
    not_sub, not_get = entry(T, "Sub", decision="Deny"), entry(T, "Get", decision="Deny")
    lists = {
        "Sub": (sub,),
        "Get": (get,),
        "Pub": (_pub(T),),
        "All": (entry(T, "All"),),
        "Pub and Sub": (entry(T, "Pub", "Sub"),),
        "lower case": (entry(T, "get"),),
        "Allow Sub, Deny Get": (sub, not_get),
        "Deny Sub, Allow Get": (not_sub, get),
        "Deny Sub": (not_sub,),
        "Deny Get on all topics, Allow Sub": (entry("Topic:*", "Get", decision="Deny"), sub),
        "Deny Pub, Allow All": (_pub(T, "Deny"), entry(T, "All")),
        "Deny All, Allow Sub": (entry(T, "All", decision="Deny"), sub),
    }
    return [Case(f"query with {name}", entries, request=_QUERY) for name, entries in lists.items()]


def _several() -> list[Case]:
    """Requests that need more than one resource, or other resources than one would think."""
    sub_t, sub_g, sub_o = (entry(name, "Sub") for name in (T, G, f"Group:{OTHER}"))
    beat = Request(34, "heartbeat", {}, heartbeat(TOPIC, "OtherTopic"))
    batch_flag = Request(320, "batch", {**SEND_V2, "m": "true"}, batch())
    retry = Request(310, "retry", {**SEND_V2, "b": RETRY}, b"hello")
    retry_of = Request(310, "retry, a", {**SEND_V2, "b": RETRY, "a": OTHER}, b"hello")
    retry_10 = Request(10, "retry", {**SEND, "topic": RETRY, "group": OTHER}, b"hello")
    dead = Request(310, "dead letters", {**SEND_V2, "b": f"%DLQ%{GROUP}"}, b"hello")
    end = Request(37, "end", END)
    pull = Request(11, "pull", PULL)
    return [
        Case("heartbeat, one topic forbidden", (sub_g, sub_t), request=beat),
        Case("heartbeat, both topics", (sub_g, entry("Topic:*", "Sub")), request=beat),
        Case("heartbeat, group forbidden", (entry("Topic:*", "Sub"),), request=beat),
        Case("pull, topic only", (sub_t,), request=pull),
        Case("pull, group only", (sub_g,), request=pull),
        Case("pull, both", (sub_t, sub_g), request=pull),
        Case("batch, Pub", (_pub(T),), request=batch_flag),
        Case("batch, Sub", (sub_t,), request=batch_flag),
        Case("retry topic, Sub of its group", (sub_g,), request=retry),
        Case("retry topic, Pub of its group", (entry(G, "Pub"),), request=retry),
        Case("retry topic, Pub of the topic", (_pub(f"Topic:{RETRY}"),), request=retry),
        Case("retry topic, group named as topic", (entry(f"Group:{RETRY}", "Sub"),), request=retry),
        Case("retry topic, Sub of field a", (sub_o,), request=retry_of),
        Case("retry topic, Sub of field group", (sub_o,), request=retry_10),
        Case("dead-letter topic, Pub of it", (_pub(f"Topic:%DLQ%{GROUP}"),), request=dead),
        Case("dead-letter topic, Sub of the group", (sub_g,), request=dead),
        Case("end of a transaction without topic, no right", request=end),
        Case("no policy at all"),
    ]


def every() -> list[Case]:
    return [*_orders(), *_kinds(), *_names(), *_addresses(), *_actions(), *_several()]


def record(address: peer.Address, users: Users) -> list[dict[str, object]]:
    """The user `right` has to be there."""
    sessions = {source: Session(address, source) for source in (LOCAL, ELSEWHERE)}
    rows: list[dict[str, object]] = []
    for case in every():
        users.clear(RIGHT)
        made = [
            answers.shown(users.add(RIGHT, entries, kind))
            for kind, entries in (("Custom", case.custom), ("Default", case.default))
            if entries
        ]
        command = Command(case.request.code, dict(case.request.ext), case.request.body)
        answer = sessions[case.source].ask(command, RIGHT)
        row: dict[str, object] = {
            "case": case.name,
            "custom": list(case.custom),
            "default": list(case.default),
            "request": {
                "code": case.request.code,
                "ext": case.request.ext,
                "body": case.request.body.decode("latin-1"),
            },
            "source": case.source,
            "answer": answers.kind(answer),
        }
        if refused := [each for each in made if each["code"] != 0]:
            row["policies refused"] = refused
        rows.append(row)
    for session in sessions.values():
        session.close()
    return rows
