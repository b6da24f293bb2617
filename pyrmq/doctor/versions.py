"""Checks of versions: Python, the engine, packages, brokers and clients of the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from pyrmq.doctor.facts import Facts
from pyrmq.doctor.finding import Finding, error, note, ok, warning
from pyrmq.installation import MEND
from pyrmq.version import __version__

OLDEST, NEWEST = (3, 11), (3, 14)
"""Versions of Python that are tested."""


def python(facts: Facts) -> Iterator[Finding]:
    found = facts.machine.python
    text = ".".join(map(str, found))
    if found[:2] < OLDEST:
        yield error(f"Python {text}", "pyrmq needs 3.11 or later", "install Python 3.12")
    elif found[:2] > NEWEST:
        yield warning(f"Python {text}", "pyrmq is not tested with it", "install Python 3.12")
    else:
        yield ok(f"Python {text}")


def engine(facts: Facts) -> Iterator[Finding]:
    if facts.machine.release_build:
        yield ok(f"pyrmq {__version__}, engine built for release")
    else:
        yield warning(
            f"pyrmq {__version__}, engine built for debugging",
            "it is several times slower",
            "pip install --force-reinstall --no-deps of a wheel that `make wheel` made",
        )


def packages(facts: Facts) -> Iterator[Finding]:
    """The packages that pyrmq requires."""
    wrong = {name: why for name, why in facts.machine.packages.items() if why}
    for name, why in sorted(wrong.items()):
        yield error(f"package {name}: {why}", "pyrmq requires it", f"pip install '{name}'")
    if facts.machine.packages and not wrong:
        yield ok(f"{len(facts.machine.packages)} required packages are there")


def import_package(facts: Facts) -> Iterator[Finding]:
    """Whether PyRMQ, which has an import package of the same name, is installed as well."""
    if what := facts.machine.import_package:
        yield error(what, "what was overwritten cannot be imported", MEND)
    else:
        yield ok("no other distribution has a package `pyrmq`")


def brokers(facts: Facts) -> Iterator[Finding]:
    """Versions of the cluster's brokers."""
    found = Counter(peer.version for peer in facts.cluster.peers if peer.version)
    if len(found) > 1:
        yield note(
            "brokers have several versions: "
            + ", ".join(f"{version} ({n})" for version, n in sorted(found.items())),
            "that is right during an update, and else confusing",
            "pyrmq admin cluster list",
        )
    elif found:
        yield ok(f"all brokers have version {next(iter(found))}")


def clients(facts: Facts) -> Iterator[Finding]:
    """Versions of the clients that are connected to the cluster's brokers."""
    found: Counter[str] = Counter()
    for peer in facts.cluster.peers:
        found.update(peer.clients)
    if found:
        yield ok("clients: " + ", ".join(f"{what} ({n})" for what, n in sorted(found.items())))
