"""pyrmq: Apache RocketMQ's broker, name server and client in Python with a native engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyrmq.segments.scan import scan as scan

__version__ = "0.1.0"
__all__ = ["__version__", "scan"]


def __getattr__(name: str) -> Any:
    """`pyrmq.scan` is loaded when it is asked for: a broker has no use for it."""
    if name == "scan":
        from pyrmq.segments.scan import scan

        globals()["scan"] = scan
        return scan
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
