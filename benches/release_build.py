"""Benchmarks measure the engine as it is released, and refuse a development build."""

from __future__ import annotations

from pyrmq.engine import RELEASE_BUILD

REFUSED = "the engine in pyrmq/ is a development build (make engine): run `make setup` first"


def require_release_build() -> None:
    """SystemExit, with what to do, where the engine was not built as wheels are."""
    if not RELEASE_BUILD:
        raise SystemExit(f"benches: {REFUSED}")
