"""What the commands of tables share: the catalog, durations, signals, runs at intervals."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Callable, Mapping
from types import FrameType, TracebackType
from typing import Any, ClassVar

import click

from pyrmq.tables.catalog import Catalog, open_catalog
from pyrmq.tables.commit import WAIT, Waiting
from pyrmq.tables.errors import CatalogAwayError
from spark_ext.jobs.command import Pair
from spark_ext.jobs.errors import JobError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LONGEST = 30 * 86400.0
"""Longest duration, seconds."""


class Duration(click.ParamType):  # type: ignore[type-arg]
    """Seconds, or a number with s, m, h or d: 90, 10m, 1.5h. Gives seconds."""

    name = "duration"

    def __init__(self, longest: float = LONGEST, *, with_unit: bool = False) -> None:
        """`with_unit`: a bare number is refused, where one would be taken for days."""
        self._longest = longest
        self._unit = "" if with_unit else "?"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(rf"([0-9]+(?:\.[0-9]+)?)([smhd]{self._unit})", str(value).strip())
        seconds = float(found[1]) * _UNITS[found[2] or "s"] if found else 0.0
        if not 0 < seconds <= self._longest:
            most = f"{self._longest / 86400:.0f}d"
            self.fail(
                f"{value!r} is no duration: expected a number with s, m, h or d, such as 90s, 10m "
                f"or 2h, up to {most}",
                param,
            )
        return seconds


def all_messages(command: click.Command) -> click.Command:
    """Leaves --since and --until out of the help of a command that refuses them."""
    for one in command.params:
        if isinstance(one, click.Option) and one.name in ("since", "until"):
            one.hidden = True
    return command


def storage_options(options: Mapping[str, str]) -> dict[str, Any] | None:
    """The option storageOptions of those that a source was given; None without it. JobError."""
    text = next((one for name, one in options.items() if name.lower() == "storageoptions"), None)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise JobError("-o storageOptions is no JSON object")
    return found


class CatalogPair(Pair):
    """NAME=VALUE; a credential is refused, as everybody on this machine could read it."""

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, str]:
        from pyrmq.tables.catalog import is_secret

        if isinstance(value, str) and is_secret(value.partition("=")[0]):
            name = value.partition("=")[0].strip()
            self.fail(
                f"{name} on a command line is seen by all users of this machine: write it into "
                ".pyiceberg.yaml, or into a variable PYICEBERG_CATALOG__NAME__…",
                param,
            )
        return super().convert(value, param, ctx)


class Stopping:
    """A context manager. SIGTERM and SIGINT set `asked` instead of ending the process; a second
    SIGINT ends it. Within another one it is that one: a service calls commands that have their
    own."""

    _outer: ClassVar[Stopping | None] = None

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._before: dict[int, Any] = {}
        self._is_outer = False

    def __enter__(self) -> Stopping:
        if Stopping._outer is not None:
            return Stopping._outer
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._signal)
            Stopping._outer, self._is_outer = self, True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if self._is_outer:
            Stopping._outer = None
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _signal(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and self.asked.is_set():
            raise KeyboardInterrupt
        self.asked.set()

    def wait(self, seconds: float) -> bool:
        """Sleeps; True if a stop is asked for."""
        return self.asked.wait(seconds)

    def is_asked(self) -> bool:
        return self.asked.is_set()


def repeat(once: Callable[[], None], every: float | None, stopping: Stopping) -> None:
    """Calls `once`, and if `every` is given again after so many seconds, until a stop is asked
    for."""
    while True:
        once()
        if every is None or stopping.wait(every):
            return


def opened(
    spec: str, properties: Mapping[str, str], waiting: Waiting, *, create: bool = False
) -> Catalog:
    """The catalog; one that is away is waited for."""
    while True:
        try:
            found = open_catalog(spec, properties, create=create)
        except CatalogAwayError:
            if not waiting.again():
                raise
        else:
            waiting.done()
            return found


def catalog_options(command: Callable[..., None]) -> Callable[..., None]:
    """--catalog, --catalog-property, --wait; the command gets these three by name."""
    options = (
        click.option(
            "--catalog",
            required=True,
            help="A folder (embedded catalog), a name of .pyiceberg.yaml, or a URI: http(s):// "
            "REST, thrift:// Hive, glue, postgresql:// SQL.",
        ),
        click.option(
            "--catalog-property",
            type=CatalogPair(),
            multiple=True,
            help="A property of pyiceberg for this catalog; may be repeated.",
        ),
        click.option(
            "--wait",
            type=Duration(),
            default=f"{WAIT:.0f}s",
            show_default=True,
            help="How long to wait for a catalog that cannot be reached.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command
