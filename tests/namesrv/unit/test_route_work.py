"""How little a registration and a route cost: steps, what is kept, what is not walked."""

from __future__ import annotations

from typing import Any

import pytest

from pyrmq.namesrv import routes as module
from pyrmq.namesrv.route_texts import RouteTexts
from pyrmq.namesrv.routes import Routes
from pyrmq.net import fastjson
from pyrmq.net.server.turns import finish
from tests.namesrv.unit.tables import Tables, registration


@pytest.mark.parametrize("brokers", [1, 7, 8, 9, 100])
@pytest.mark.parametrize("order", [None, "b0:8"])
def test_a_route_is_encoded_in_steps(routes: Tables, brokers: int, order: str | None) -> None:
    """As it is all at once, in both dialects."""
    for n in range(brokers):
        routes.add(registration(f"b{n}", address=f"h:{n}", zone="z" * (n % 2)), 0, None)
    route = routes.route("T")
    assert route is not None
    route.order_conf = order
    texts = RouteTexts(Routes())
    assert finish(texts.encoded(route, strict=True)) == fastjson.dumps_strict(route.to_json())
    assert finish(texts.encoded(route, strict=False)) == fastjson.dumps(route.to_json())
    assert len(list(texts.encoded(route, strict=True))) >= brokers // 8


def test_what_is_known_of_brokers_is_forgotten_with_each_change() -> None:
    tables = Tables()
    texts = RouteTexts(tables)

    def text(*, strict: bool = True, acting: bool = False) -> bytes:
        route = tables.route("T", acting_masters=acting)
        assert route is not None
        dumps = fastjson.dumps_strict if strict else fastjson.dumps
        expected = dumps(route.to_json())
        assert finish(texts.encoded(route, strict=strict)) == expected
        assert finish(texts.encoded(route, strict=strict)) == expected
        return expected

    tables.add(registration("a", 0, "h:1"), 0, None)
    tables.add(registration("b", 1, "h:2", enable_acting_master=True), 0, None)
    first = text()
    assert text(strict=False) != first
    assert text(acting=True) != text(acting=False) == first
    tables.add(registration("a", 1, "h:3"), 0, None)
    assert b"h:3" in text()
    tables.add(registration("a", 0, "h:1", {"T": 9, "U": 8}, counter=2), 0, None)
    assert b'"readQueueNums":9' in text()
    tables.add(registration("a", 0, "h:1", zone="z", counter=2), 0, None)
    assert b'"zoneName":"z"' in text()
    tables.leave("C", "a", 0, "h:1")
    assert b"h:1" not in text()
    tables.leave("C", "a", 1, "h:3")
    tables.add(registration("a", 0, "h:4"), 0, None)
    assert b"h:4" in text()
    assert b"h:3" not in text()


def test_a_body_that_was_taken_needs_no_reading() -> None:
    tables = Tables()
    one = registration(digest=b"1")
    assert tables.again(one) is None, "it is new"
    tables.add(one, 0, None)
    again = tables.again(registration(topics={}, digest=b"1"))
    assert again is not None
    before = {topic: dict(queues) for topic, queues in tables.topics.items()}
    tables.add(again, 5, None)
    assert tables.topics == before
    assert tables.live["C", "h:1"].last_update == 5
    assert tables.again(registration(digest=b"1")) is not None
    for other in (
        registration(digest=b"2"),
        registration("b", digest=b"1"),
        registration(address="h:2", digest=b"1"),
        registration(broker_id=1, digest=b"1"),
        registration(cluster="D", digest=b"1"),
        registration(),
    ):
        assert tables.again(other) is None
    tables.delete_queues("T", "a")
    assert tables.again(registration(digest=b"1")) is None, "its topic is to come back"
    tables.add(registration(digest=b"1"), 6, None)
    assert "T" in tables.topics
    # A slave's topics are not taken, so nothing is known of its body.
    tables.add(registration("a", 1, "h:2", digest=b"1"), 6, None)
    assert tables.again(registration("a", 1, "h:2", digest=b"1")) is None


def test_a_registration_that_was_not_finished_is_taken_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SOME", 1)
    tables = Tables()
    tables.add(registration(), 0, None)
    changed = {"T": 5, "U": 9}
    admitted = tables.register(registration(topics=changed, counter=2), 1, None)
    assert admitted is not None
    next(tables.take(admitted))
    tables.add(registration(topics=changed, counter=2), 2, None)
    assert [tables.topics[t]["a"][0] for t in changed] == [5, 9]


class Unwalked(dict[Any, Any]):
    """A table that is only looked up in."""

    def _walked(self) -> Any:
        raise AssertionError("all brokers are looked at for one of them")

    values = items = __iter__ = _walked


def test_nobody_looks_at_all_brokers_for_one(routes: Tables) -> None:
    """Thousands may come and go at once: each takes as long as if it were alone."""
    for n in range(4):
        routes.add(registration(f"b{n}", address=f"h:{n}"), 0, "owner")
    routes.brokers, routes.live = Unwalked(routes.brokers), Unwalked(routes.live)
    routes.topics_of = Unwalked(routes.topics_of)
    routes.add(registration("b1", address="h:1"), 1, "owner")
    routes.add(registration("c", address="h:0"), 1, "other")
    routes.leave("C", "b1", 0, "h:1")
    assert sorted(routes.owner_gone("owner")) == ["b2:0 at h:2", "b3:0 at h:3"]
    assert dict.keys(routes.brokers) == {"c"}
