"""A file of thresholds with all its keys and their defaults, each explained."""

from __future__ import annotations

import textwrap
from dataclasses import fields
from pathlib import Path

from pyrmq.admin.monitoring.alarms import number
from pyrmq.admin.monitoring.metrics import METRICS, Threshold
from pyrmq.admin.monitoring.settings import ROUND_DOCS, Rounds
from pyrmq.errors import ClientError

_SINKS = """
# Where alarms go: each [[sinks]] is one place. Without any there is the log.
[[sinks]]
type = "log"                      # lines of text

# [[sinks]]
# type = "json"                   # a line of JSON for each event, on stdout

# [[sinks]]
# type = "command"                # a program, which gets the event as JSON on stdin
# command = ["/usr/local/bin/notify", "--from", "rocketmq"]
# timeout = 10                    # seconds, then it is killed
# retries = 0

# [[sinks]]
# type = "webhook"                # POST of the event as JSON
# url = "https://example.org/alarms"
# headers = { Authorization = "Bearer TOKEN" }
# timeout = 10
# retries = 3
"""
_OVERRIDES = """
# Other thresholds for some groups, topics or servers; later ones win.
# [[overrides]]
# groups = ["order-*"]
# topics = ["orders"]
# lag = { raise = 100, clear = 10, rounds = 1 }
# [[overrides]]
# servers = ["broker-a*"]         # by name or by host:port
# server_down = { rounds = 5 }
"""


def example() -> str:
    """What says nothing else than the defaults, until a line is changed."""
    lines = [
        "# What `pyrmq admin monitor run --config` reads. All that stands here are the defaults.",
        "",
        "[rounds]                          # times are seconds",
    ]
    for f in fields(Rounds):
        value = number(getattr(Rounds(), f.name))
        lines.append(_line(f"{f.name} = {value}", ROUND_DOCS[f.name]))
    lines += [
        "",
        "[watch]                           # patterns of groups: * ? [a-z]",
        'groups = ["*"]',
        "not_groups = []",
        "expect = []                       # brokers that should be there: broker-a, cluster/name,",
        "                                  # broker-b:2 (a master and a slave)",
        "",
        *_folded(
            "An alarm is raised once a figure is at `raise` or above for `rounds` rounds in a row, "
            "and over once it is at `clear` or below for `clear_rounds` in a row. One that goes on "
            "is told again after `repeat` seconds (0: never). enabled = false: it does not count."
        ),
    ]
    for metric in METRICS.values():
        usual = Threshold(metric.raise_at, metric.clear_at, metric.rounds)
        lines += [
            "",
            f"[thresholds.{metric.name}]",
            *_folded(f"Of each {metric.per}: {metric.doc}"),
        ]
        lines += [
            _line(f"raise = {number(usual.raise_at)}", metric.unit),
            f"clear = {number(usual.clear_at)}",
            f"rounds = {usual.rounds}",
            f"clear_rounds = {usual.clear_rounds}",
            f"repeat = {number(usual.repeat)}",
            "enabled = true",
        ]
    return "\n".join(lines) + "\n" + _OVERRIDES + _SINKS


def _line(setting: str, doc: str) -> str:
    return f"{setting:<33} # {doc}"


def _folded(text: str, width: int = 96) -> list[str]:
    return [f"# {line}" for line in textwrap.wrap(text, width)]


def write_example(path: str) -> None:
    """Writes it to a file that is not there yet. ClientError if it is; OSError."""
    try:
        with Path(path).open("x", encoding="utf-8") as file:
            file.write(example())
    except FileExistsError:
        raise ClientError(f"{path} is there already: name another file, or remove it") from None
