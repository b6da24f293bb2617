"""What can be told before the work begins: Spark takes seconds to start, and then fails for it."""

from __future__ import annotations

import difflib
import os
import socket
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Any

from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.net.address import parse_addresses
from spark_ext.jobs.errors import JobError
from spark_ext.jobs.local_read import is_local, local_path

SECONDS = 3.0
"""How long a name server has to accept a connection."""
MOST = 8
"""Names that an error lists."""
ELSEWHERE = ("HADOOP_CONF_DIR", "SPARK_CONF_DIR", "SPARK_MASTER")
"""Variables with which Spark's default file system may be that of other machines."""
MANIFEST = "_manifest"
"""Where an archive's manifests are. [archive_manifest.MANIFESTS]"""


def before(check: Callable[..., None]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """`check` gets the command's options before what stands below this decorator does."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**options: Any) -> None:
            check(**options)
            command(**options)

        return run

    return decorate


def is_elsewhere(root: str, spark: Iterable[object] = ()) -> bool:
    """Whether Spark may take a path for one of other machines: a URI is, and a bare path may be
    with settings of Spark's own (`spark`, or Hadoop's in the environment)."""
    if root.startswith("file:"):
        return False
    return not is_local(root) or any(spark) or any(map(os.environ.get, ELSEWHERE))


def need_archive(root: str, spark: Iterable[object] = ()) -> None:
    """JobError where no archive is; other machines are asked later, by Spark."""
    if is_elsewhere(root, spark):
        return
    path = Path(local_path(root))
    if not path.is_dir():
        raise JobError(f"{root} is no archive: there is no such folder")
    if not (path / MANIFEST).is_dir():
        raise JobError(f"{root} is no archive: it has no {MANIFEST}/archive.json")


def need_servers(name_server: str | None) -> None:
    """JobError if not one of the name servers takes a connection."""
    if not name_server:
        return
    try:
        addresses = parse_addresses(name_server, "name server")
    except ConfigError as e:
        raise JobError(str(e)) from None
    why = "none is named"
    for host, port in addresses[:MOST]:
        try:
            socket.create_connection((host, port), SECONDS).close()
            return
        except OSError as e:
            why = e.strerror or str(e)
    raise JobError(f"no name server answers at {escape(name_server)}: {escape(why)}")


def need_folder_of(plot: str) -> None:
    """JobError if there is no folder for a plot's file."""
    folder = os.path.dirname(plot) or "."
    if not os.path.isdir(folder):
        raise JobError(f"{plot}: there is no folder {folder}")


def near(name: str, known: Iterable[str]) -> str:
    """Which of the known names is meant, or which there are."""
    every = sorted(set(known))
    if not every:
        return "there is none"
    lower = {one.lower(): one for one in every}
    found = [lower[one] for one in difflib.get_close_matches(name.lower(), lower, 3, 0.6)]
    if found:
        return f"is it {' or '.join(map(escape, found))}?"
    rest = f" and {len(every) - MOST} more" if len(every) > MOST else ""
    return f"there is {', '.join(map(escape, every[:MOST]))}{rest}"
