"""Administration of running name servers and brokers, pyrmq's and Apache RocketMQ's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin as Admin

__all__ = ["Admin"]


def __getattr__(name: str) -> Any:
    if name == "Admin":
        from pyrmq.admin.api import Admin

        return Admin
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
