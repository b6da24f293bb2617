"""Which metrics and labels a PromQL expression names, and which of them are not there.

No parser: words are told apart by what stands around them, which is enough for the expressions of
our rules and dashboards. promtool checks their syntax.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pyrmq.broker.metrics.families import FAMILIES as BROKER
from pyrmq.client.measures import CACHED_BYTES, CACHED_MESSAGES
from pyrmq.client.measures import HISTOGRAMS as CLIENT
from pyrmq.metrics.exposition import FAMILIES as PAGES
from pyrmq.metrics.families import Family, Kind
from pyrmq.metrics.process import FAMILIES as PROCESS
from pyrmq.metrics.rpc import FAMILIES as RPC
from pyrmq.namesrv.metrics import FAMILIES as NAMESRV

SCRAPED = frozenset({"instance", "job"})
"""Labels that Prometheus gives to all rows."""
_NODE = frozenset({"node_type", "node_id"})
_CLUSTER = frozenset({"cluster"})
_OPERATORS = r"and|or|unless|on|ignoring|by|without|offset|bool|group_left|group_right"
_FUNCTIONS = (
    r"sum|max|min|count|rate|increase|changes|absent|histogram_quantile|predict_linear|"
    r"max_over_time|vector|label_values"
)
WORDS = frozenset(f"{_OPERATORS}|{_FUNCTIONS}".split("|"))
"""What is no metric."""
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_GROUPING = re.compile(r"\b(?:by|on|ignoring|without)\s*\(([^)]*)\)")
_RANGE = re.compile(r"\[[^]]*\]")
_SELECTED = re.compile(r"([A-Za-z_]\w*)?\s*\{([^}]*)\}")
_MATCHER = re.compile(r"([A-Za-z_]\w*)\s*(?:=~|!~|!=|=)")
_WORD = re.compile(r"(?<![\w$.])[A-Za-z_]\w*")


def _samples(family: Family, common: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    labels = common | SCRAPED | frozenset(family.labels)
    if family.kind is Kind.HISTOGRAM:
        yield f"{family.name}_bucket", labels | {"le"}
        yield f"{family.name}_sum", labels
        yield f"{family.name}_count", labels
    else:
        yield family.name, labels


def _table() -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {"up": SCRAPED}
    servers = (
        (BROKER, _NODE | _CLUSTER),
        (NAMESRV, _NODE),
        ((*PROCESS, *RPC, *PAGES), _NODE | _CLUSTER),
    )
    for families, common in servers:
        for family in families:
            for name, labels in _samples(family, common):
                found[name] = found.get(name, frozenset()) | labels
    for histogram in CLIENT:
        for end, more in (("_bucket", {"le"}), ("_sum", set()), ("_count", set())):
            found[histogram.name + end] = SCRAPED | frozenset(histogram.labels) | more
    for gauge in (CACHED_MESSAGES, CACHED_BYTES):
        found[gauge.name] = SCRAPED | frozenset(gauge.labels)
    return found


TABLE = _table()
"""The labels of each sample that a server or client shows."""


def metrics_of(expression: str) -> set[str]:
    """The samples that it names, whether they are there or not."""
    bare = _STRING.sub('""', expression)
    named = set(_WORD.findall(_SELECTED.sub(r"\1 ", _GROUPING.sub(" ", _RANGE.sub(" ", bare)))))
    return named - WORDS


def faults(expression: str, *shown: str) -> list[str]:
    """What is not there. `shown`: labels that a text beside the expression shows."""
    bare = _STRING.sub('""', expression)
    named = metrics_of(expression)
    wrong = [f"no metric {name}" for name in sorted(named - TABLE.keys())]
    known = named & TABLE.keys()
    for name, matchers in _SELECTED.findall(bare):
        for label in _MATCHER.findall(matchers):
            if name in TABLE and label not in TABLE[name]:
                wrong.append(f"{name} has no label {label}")
    every = frozenset().union(*(TABLE[name] for name in known)) if known else frozenset()
    for group in _GROUPING.findall(bare):
        for label in filter(None, (word.strip() for word in group.split(","))):
            if label not in every:
                wrong.append(f"no label {label} to group by")
    kept = [set(map(str.strip, group.split(","))) for group in _GROUPING.findall(bare)]
    for label in shown:
        if label not in every or (_outer(bare) and kept and label not in kept[0]):
            wrong.append(f"the label {label} is not there to be shown")
    return wrong


def _outer(bare: str) -> bool:
    """Whether the whole is an aggregation, whose labels alone are left."""
    return (
        re.match(r"\s*(?:histogram_quantile\([\d.]+, )?(?:sum|max|min|count) by", bare) is not None
    )
