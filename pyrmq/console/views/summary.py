"""What pages say of a change that went to several servers."""

from __future__ import annotations

from typing import Any

from pyrmq.admin.outcome import Outcomes
from pyrmq.errors import ClientError

MOST = 4
"""Failures that are named one by one."""


def summary_of(outcomes: Outcomes[Any], verb: str) -> tuple[str, bool]:
    """A sentence, and whether a part failed. Raises the first error if all servers failed, and
    ClientError if none was asked."""
    outcomes.check()
    if not outcomes:
        raise ClientError("there is no server to ask")
    done = len(outcomes.done)
    text = f"{verb} on {done} {'server' if done == 1 else 'servers'}."
    failed = outcomes.failed
    if failed:
        named = "; ".join(o.problem for o in failed[:MOST])
        more = f"; {len(failed) - MOST} more" if len(failed) > MOST else ""
        text += f" Not on {len(failed)}: {named}{more}"
    return text, bool(failed)
