"""Procedures of several requests as generators without I/O.

A procedure yields what is to be done next and is sent what came of it: the answer of an `Invoke`,
whatever its code, or the error that it ended with; None for a `Pause`. `Channels.perform` runs one
on trio, `BlockingChannels.perform` on blocking sockets.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from pyrmq.engine import Command
from pyrmq.errors import PyrmqError
from pyrmq.net.address import Address
from pyrmq.net.client.protocol import Ext

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Invoke:
    """Send a request and wait for its answer, at most `timeout` seconds."""

    address: Address
    code: int
    ext: Ext
    timeout: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait."""

    seconds: float


Step = Invoke | Pause
Result = Command | PyrmqError | None
Procedure = Generator[Step, Result, T]
