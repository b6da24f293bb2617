"""Values of the parameters of `pyrmq.scan` that are one of some words; light to import."""

from __future__ import annotations

PROPERTIES = ("map", "json", "raw", "none")
VERIFY_CRC = ("none", "tail", "all")
ON_CORRUPTION = ("fail", "skip")
PLAN = ("auto", "scan", "index", "file")
TIMESTAMP_STRATEGY = ("error", "latest")
