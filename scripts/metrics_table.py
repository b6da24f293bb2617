"""The tables of docs/metrics.md: every metric, from the families in the code."""

from __future__ import annotations

from collections.abc import Iterable

from pyrmq.broker.metrics import families as broker
from pyrmq.metrics import exposition, process, rpc
from pyrmq.metrics.families import Family
from pyrmq.namesrv import metrics as namesrv


def table(families: Iterable[Family]) -> str:
    """A row for each family."""
    rows = ["| Metric | Kind | Labels | Meaning |", "|---|---|---|---|"]
    for family in families:
        labels = ", ".join(family.labels)
        doc = family.doc
        if family.bounds:
            doc += f" Buckets up to {', '.join(f'{bound:.10g}' for bound in family.bounds)}."
        rows.append(f"| `{family.name}` | {family.kind.value} | {labels} | {doc} |")
    return "\n".join(rows) + "\n"


def of_broker() -> str:
    return table(broker.FAMILIES)


def of_name_server() -> str:
    return table(namesrv.FAMILIES)


def of_both() -> str:
    return table((*rpc.FAMILIES, *process.FAMILIES, *exposition.FAMILIES))
