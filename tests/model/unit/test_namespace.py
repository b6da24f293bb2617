"""Names with a namespace, and without."""

from __future__ import annotations

import pytest

from pyrmq.model.names import with_namespace, without_namespace


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("T", "ns%T"),
        ("ns%T", "ns%T"),
        ("%RETRY%g", "%RETRY%ns%g"),
        ("%RETRY%ns%g", "%RETRY%ns%g"),
        ("%DLQ%g", "%DLQ%ns%g"),
        ("other%T", "ns%other%T"),
        ("TBW102", "TBW102"),
        ("RMQ_SYS_TRACE_TOPIC", "RMQ_SYS_TRACE_TOPIC"),
        ("rmq_sys_x", "rmq_sys_x"),
        ("CID_RMQ_SYS_TRANS", "CID_RMQ_SYS_TRANS"),
    ],
)
def test_both_ways(name: str, wrapped: str) -> None:
    assert with_namespace("ns", name) == wrapped
    assert without_namespace("ns", wrapped) == name.replace("ns%", "")
    assert with_namespace("", name) == without_namespace("", name) == name
    assert without_namespace("", wrapped) == wrapped


def test_another_namespace_stays() -> None:
    assert without_namespace("ns", "other%T") == "other%T"
