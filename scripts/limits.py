"""The bounds of broker, name server and console, for docs/limits.md: where each stands in the
code, what happens beyond it, and the test that shows it. The rows are in limits.txt.

Values come from the code. `tests/docs/unit/test_limits.py` fails for a bound of the code that is
in no row, and for a test that does not exist.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SECTIONS = ("both", "broker", "name server", "console")
COUNTED = ("connection", "server", "request")


@dataclass(frozen=True)
class Limit:
    """`place`: `module:CONSTANT`, `module:CONSTANT[request code]`, `file.rs:CONSTANT`, or
    `broker:key` and `namesrv:key` for a configuration key. `of`: one of COUNTED. `unit`: bytes,
    seconds, ms, or what is counted. `test`: `file::name`."""

    about: str
    place: str
    of: str
    unit: str
    beyond: str
    test: str

    @property
    def name(self) -> str:
        """As it stands in the table."""
        file, _, name = self.place.partition(":")
        if file in _CONFIGS:
            return f"`{name}`"
        where = file.removeprefix("pyrmq.")
        if file.endswith(".rs"):
            path = Path(file)
            folders = {"mod": path.parent.name, "lib": path.parent.parent.name}
            where = folders.get(path.stem, path.stem)
        return f"{where}.{name.partition('[')[0]}"

    def value(self) -> float:
        """As the code has it."""
        file, _, name = self.place.partition(":")
        if file in _CONFIGS:
            return _key(file, name)
        if file.endswith(".rs"):
            text = (ROOT / file).read_text(encoding="utf-8")
            found = re.search(rf"const {name}: \w+ = ([\d_]+(?: << \d+)?);", text)
            if found is None:
                raise ValueError(f"{file} has no constant {name}")
            number, _, shift = found[1].replace("_", "").partition(" << ")
            return int(number) << int(shift or 0)
        name, _, index = name.partition("[")
        found_value = getattr(importlib.import_module(file), name)
        return float(found_value[int(index[:-1])] if index else found_value)


_CONFIGS = {
    "broker": ("pyrmq.broker.config.broker_config", "BrokerConfig"),
    "namesrv": ("pyrmq.namesrv.config", "NamesrvConfig"),
}


def _key(server: str, name: str) -> float:
    module, kind = _CONFIGS[server]
    config = getattr(importlib.import_module(module), kind)
    snake = re.sub(r"([A-Z])", lambda m: "_" + m[1].lower(), name)
    (default,) = (f.default for f in dataclasses.fields(config) if f.name == snake)
    return float(default)


def limits() -> dict[str, list[Limit]]:
    """The rows by section. ValueError."""
    found: dict[str, list[Limit]] = {name: [] for name in SECTIONS}
    section = ""
    for line in Path(__file__).with_name("limits.txt").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith("["):
            section = line.strip("[]")
            continue
        parts = [part.strip() for part in line.split(" | ")]
        if len(parts) != 6 or parts[2] not in COUNTED:
            raise ValueError(f"limits.txt: {line}")
        found[section].append(Limit(*parts))
    return found


NO_LIMITS = {
    "pyrmq.metrics.settings:MAX_LABELS": "of metricsLabel: the operator's own key",
    "pyrmq.metrics.settings:MAX_VALUE": "of metricsLabel: the operator's own key",
    "pyrmq.broker.tables.order_batch:MAX_MESSAGES": "bits of a number of RocketMQ's file",
    "pyrmq.broker.tables.order_batch:MAX_COUNT": "a count that stays there",
    "pyrmq.broker.replication.slave_sync:MAX_CHECK_POINT": "what a slave believes of its master",
    "pyrmq.namesrv.route_texts:MAX_QUEUES": "what is encoded already",
    "pyrmq.broker.tables.subscriptions:MAX_TAGS": "what is shown",
    "pyrmq.broker.requests.runtime:MAX_NAMED": "what is shown",
    "pyrmq.broker.tables.config_file:MAX_SIZE": "a file of the broker's own",
    "pyrmq.broker.stats.consume_stats:MAX_SUBSCRIPTIONS": "what is shown",
    "pyrmq.broker.tables.consumer_filters:MAX_EVALUATED": "expressions that are evaluated early",
    "pyrmq.broker.tables.consumer_filters:MAX_FILTERS": "expressions that are evaluated early",
    "pyrmq.broker.tables.consumer_filters:MAX_TEXT": "expressions that are evaluated early",
    "pyrmq.broker.replication.master:MAX_SLAVES": "docs/replication.md",
    "pyrmq.broker.replication.peers:MAX_REPLICAS": "what is believed of name servers",
    "pyrmq.broker.replication.sole_master:MAX_OTHERS": "what is believed of name servers",
    "pyrmq.broker.tables.offsets_and_queues:MAX_YOUNG": "what is kept of groups that are new",
    "pyrmq.broker.replication.slave_sync:MAX_HANDED_OVER": "what a slave sends",
    "pyrmq.broker.replication.slave_sync:MAX_LEFT_OUT": "what is shown",
    "pyrmq.broker.delay:MAX_LEVELS": "a file of the broker's own",
    "pyrmq.broker.tables.deleted_topics:MAX_DELETED": "a file of the broker's own",
    "pyrmq.broker.requests.group_admin:MAX_RETRIES": "part of a configuration of a group",
    "pyrmq.broker.tables.offsets:MAX_GONE": "what a master remembers of removals",
    "pyrmq.broker.requests.queues:MAX_QUEUES": "queues of a topic, in docs/configuration.md",
    "pyrmq.broker.registration:MAX_SINGLE": "what the broker sends",
    "pyrmq.broker.replication.slave_sync:MAX_TIME": "what a slave believes of its master",
    "pyrmq.broker.replication.slave_sync:MAX_OFFSET": "what a slave believes of its master",
    "pyrmq.net.server.connection:MAX_PIECES": "one system call",
    "pyrmq.net.command:MAX_NUMBER": "of clients",
    "pyrmq.net.client.channel:MAX_WAITING": "of clients",
    "pyrmq.net.client.credentials:MAX_KEY": "of clients",
    "pyrmq.net.client.credentials:MAX_PAIR": "of clients",
    "pyrmq.net.client.credentials:MAX_TOKEN": "of clients",
    "pyrmq.net.client.protocol:MAX_OPAQUE": "of clients",
    "pyrmq.net.client.protocol:MAX_SERVER_REQUESTS": "of clients",
    "pyrmq.net.client.protocol:MAX_SERVER_REQUEST_BYTES": "of clients",
    "pyrmq.net.client.tls:MAX_PASSWORD": "of clients",
    "pyrmq.net.client.tls_context:MAX_FILE": "of clients",
    "pyrmq.net.client.tls_context:MAX_KEPT": "of clients",
}
"""Constants with such a name that are no bound of what others send, and why not."""


def _shown(value: float, unit: str) -> str:
    if unit == "bytes":
        for power, name in ((20, "MiB"), (10, "KiB")):
            if value >= 1 << power and not value % (1 << power):
                return f"{int(value) >> power} {name}"
    number = f"{int(value):,}" if value == int(value) else f"{value:g}"
    return f"{number} {unit}"


def table(limits: Sequence[Limit]) -> str:
    """As Markdown."""
    rows = ["| Bound | Of each | Value | Key or constant | Beyond it |", "|---|---|---|---|---|"]
    rows += [
        f"| {x.about} | {x.of} | {_shown(x.value(), x.unit)} | {x.name} | {x.beyond} |"
        for x in limits
    ]
    return "\n".join(rows) + "\n"
