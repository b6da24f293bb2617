"""The text of a page: Prometheus' own parsers read it, whatever stands in labels."""

from __future__ import annotations

import itertools

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as parse_open_metrics,
)
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from pyrmq.metrics.families import counter, escaped, flag, gauge, histogram, info, label_text
from pyrmq.metrics.page import PART_LINES, Format, Page, accepted

COUNTER = counter("a_total", 'What "counts".\nIt\\grows.', "topic")
GAUGE = gauge("b", "Now.", "topic")
HISTOGRAM = histogram("c_seconds", "How long.", (0.1, 2), "topic")
INFO = info("d_info", "Texts.", "version")
PARSERS = {Format.OPEN_METRICS: parse_open_metrics, Format.PLAIN: parse_plain}


def text_of(page: Page, form: Format) -> str:
    return b"".join(page.chunks(form)).decode()


def parsed(page: Page, form: Format = Format.OPEN_METRICS) -> dict[str, Metric]:
    return {family.name: family for family in PARSERS[form](text_of(page, form))}


@pytest.fixture
def page() -> Page:
    return Page({"node_id": "n"})


@pytest.mark.parametrize("form", list(Format))
def test_all_kinds(page: Page, form: Format) -> None:
    page.add(COUNTER, 3, topic="x")
    page.add(COUNTER, 4, topic="y")
    page.add(GAUGE, True, topic="x")
    page.rows(HISTOGRAM).add_histogram(label_text({"topic": "x"}), [1, 2, 3], 12.5)
    page.add(INFO, 1, version="1.0")
    families = parsed(page, form)
    assert {name: family.type for name, family in families.items()} == {
        "a": "counter",
        "b": "gauge",
        "c_seconds": "histogram",
        **({"d": "info"} if form is Format.OPEN_METRICS else {"d_info": "gauge"}),
    }
    assert families["a"].documentation == COUNTER.doc
    samples = [s for family in families.values() for s in family.samples]
    assert [(s.name, s.labels, s.value) for s in samples] == [
        ("a_total", {"node_id": "n", "topic": "x"}, 3),
        ("a_total", {"node_id": "n", "topic": "y"}, 4),
        ("b", {"node_id": "n", "topic": "x"}, 1),
        ("c_seconds_bucket", {"node_id": "n", "topic": "x", "le": "0.1"}, 1),
        ("c_seconds_bucket", {"node_id": "n", "topic": "x", "le": "2.0"}, 3),
        ("c_seconds_bucket", {"node_id": "n", "topic": "x", "le": "+Inf"}, 6),
        ("c_seconds_sum", {"node_id": "n", "topic": "x"}, 12.5),
        ("c_seconds_count", {"node_id": "n", "topic": "x"}, 6),
        ("d_info", {"node_id": "n", "version": "1.0"}, 1),
    ]


def test_rows_of_families_may_be_added_in_any_order(page: Page) -> None:
    for number in range(PART_LINES + 10):
        page.add(COUNTER, number, topic=number)
        page.add(GAUGE, number, topic=number)
    families = parsed(page)
    for name in ("a", "b"):
        assert [s.value for s in families[name].samples] == list(range(PART_LINES + 10))


def test_no_chunk_is_long(page: Page) -> None:
    for number in range(20_000):
        page.add(COUNTER, number, topic=number)
    assert max(map(len, page.chunks(Format.PLAIN))) < 64 << 10


def test_a_page_can_be_read_many_times(page: Page) -> None:
    page.add(COUNTER, 1, topic="x")
    assert text_of(page, Format.PLAIN) == text_of(page, Format.PLAIN)
    assert text_of(page, Format.OPEN_METRICS).endswith("# EOF\n")


def test_a_family_without_rows_is_left_out(page: Page) -> None:
    page.rows(COUNTER)
    assert text_of(page, Format.PLAIN) == ""


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(codec=None), max_size=40), st.text(max_size=10))
def test_any_label_value_is_read_as_it_was(value: str, other: str) -> None:
    page = Page({"node_id": other})
    page.add(GAUGE, 1, topic=value)
    (sample,) = parsed(page)["b"].samples
    assert sample.labels == {
        "node_id": other,
        "topic": value.encode(errors="replace").decode(),
    }


@pytest.mark.parametrize(
    "value", ['"', "\\", "\n", '\\"\n', "}", '"} 1\nx{y="', "\ud800", "\x00", "#", "x" * 5000]
)
@pytest.mark.parametrize("form", list(Format))
def test_hostile_label_values(value: str, form: Format, page: Page) -> None:
    page.add(GAUGE, 1, topic=value)
    (family,) = parsed(page, form).values()
    (sample,) = family.samples
    assert sample.labels["topic"] == value.replace("\ud800", "?")


def test_escaping() -> None:
    assert escaped('a"b\\c\nd') == r"a\"b\\c\nd"
    assert label_text({"a": 1, "b": "x"}) == ',a="1",b="x"'
    assert (flag(1), flag("")) == ("true", "false")


def test_names_end_as_their_kind_wants() -> None:
    with pytest.raises(ValueError, match="_total"):
        counter("a", "")
    assert (COUNTER.stem, GAUGE.stem, INFO.stem) == ("a", "b", "d")


OPEN, PLAIN = Format.OPEN_METRICS, Format.PLAIN
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


@pytest.mark.parametrize(
    ("header", "form"),
    [
        ("", PLAIN),
        ("*/*", PLAIN),
        (PROMETHEUS, OPEN),
        ("application/openmetrics-text", OPEN),
        ('application/openmetrics-text; version="1.0.0"', OPEN),
        ("application/openmetrics-text; version=2.0.0", PLAIN),
        ("application/openmetrics-text; q=0.1, text/plain; q=0.9", PLAIN),
        ("application/openmetrics-text; q=0", PLAIN),
        ("application/openmetrics-text; q=x", PLAIN),
        (";;;,,q=,=;", PLAIN),
    ],
)
def test_the_accept_header_chooses_the_format(header: str, form: Format) -> None:
    assert accepted(header) is form


def test_all_families_of_the_servers() -> None:
    from pyrmq.broker.metrics import families as broker
    from pyrmq.metrics import exposition, process, rpc
    from pyrmq.metrics.settings import RESERVED
    from pyrmq.namesrv import metrics as namesrv

    for own in (broker.FAMILIES, namesrv.FAMILIES):
        families = [*own, *process.FAMILIES, *exposition.FAMILIES, *rpc.FAMILIES]
        assert len({family.stem for family in families}) == len(families)
        assert {label for family in families for label in family.labels} <= RESERVED
    for module in (broker, namesrv, process, exposition, rpc):
        made = [v for v in vars(module).values() if isinstance(v, type(COUNTER))]
        assert set(made) == set(module.FAMILIES), module.__name__
    for family in itertools.chain(broker.FAMILIES, namesrv.FAMILIES):
        assert family.name.startswith(("rocketmq_", "pyrmq_"))
