"""Which brokers N processes are: the name, the ports and the store folder of each.

The first is the broker that one process has always been. So a store grows from one process to
several, and nothing of it moves. The stores of the others are inside of its store, in the folder
`brokers`: one volume, or one mount, has all of them. RocketMQ's broker leaves that folder alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.errors import ConfigError
from pyrmq.metrics.settings import PORT_KEY
from pyrmq.net.server.listen import VIP
from pyrmq.processes.cores import usable_cores
from pyrmq.segments.beside import FOLDER, stores_beside

MOST = 64
"""Processes of one start."""
STEP = 10
"""Between the ports of two brokers."""
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Member:
    """One broker of several. Port 0: any free one; as haListenPort: listenPort + 1."""

    name: str
    listen_port: int
    ha_listen_port: int
    store: Path
    metrics_port: int | None = None
    """None: it serves no metrics."""

    @property
    def keys(self) -> dict[str, str]:
        """What its configuration has of its own."""
        return {
            "brokerName": self.name,
            "listenPort": str(self.listen_port),
            "haListenPort": str(self.ha_listen_port),
            "storePathRootDir": str(self.store),
            **({} if self.metrics_port is None else {PORT_KEY: str(self.metrics_port)}),
        }

    @property
    def ports(self) -> set[int]:
        """All that it listens on, as far as the configuration says."""
        metrics = {self.metrics_port or 0} - {0}
        if self.listen_port == 0:
            return metrics | ({self.ha_listen_port} - {0})
        vip = {self.listen_port - VIP} if self.listen_port > VIP else set()
        return {self.listen_port, self.ha_listen_port or self.listen_port + 1} | vip | metrics


def names(first: str, many: int) -> list[str]:
    """`broker-a` is followed by broker-b, broker-c, …, broker-z, broker-aa; any other name by
    NAME-1, NAME-2, … so that the brokers of two machines do not get the same names."""
    if first == "broker-a":
        return ["broker-" + _letters(n) for n in range(many)]
    return [first, *(f"{first}-{n}" for n in range(1, many))]


def _letters(n: int) -> str:
    """a to z, aa, ab, …"""
    text = ""
    n += 1
    while n:
        n, letter = divmod(n - 1, 26)
        text = chr(ord("a") + letter) + text
    return text


def plan(config: BrokerConfig, many: int) -> list[Member]:
    """The brokers of `many` processes whose first one has this configuration. ConfigError for keys
    that only one broker can have, and for ports that do not fit."""
    if not 1 <= many <= MOST:
        raise ConfigError(f"{many} brokers: 1 to {MOST} are possible")
    if many > 1:
        for key, value in (
            ("storePathCommitLog", config.store_path_commit_log),
            ("readOnlyCommitLogStorePaths", config.read_only_commit_log_store_paths),
            ("haMasterAddress", config.ha_master_address),
        ):
            if value:
                raise ConfigError(
                    f"{key} belongs to one broker, and there would be {many}: leave it out, or "
                    "start each broker with a broker.conf of its own"
                )
    root = config.store_path_root_dir
    return [
        Member(
            name,
            config.listen_port and config.listen_port + n * STEP,
            config.ha_listen_port and config.ha_listen_port + n * STEP,
            root / FOLDER / name if n else root,
            _metrics_port(config, n),
        )
        for n, name in enumerate(names(config.broker_name, many))
    ]


def _metrics_port(config: BrokerConfig, n: int) -> int | None:
    port = config.metrics_prom_exporter_port
    return (port and port + n * STEP) if config.serves_metrics else None


def check_ports(members: Sequence[Member], others: Collection[int] = ()) -> None:
    """ConfigError if two brokers would listen on one port, or on one of `others`, which the name
    server has."""
    taken = dict.fromkeys(set(others) - {0}, "the name server")
    for member in members:
        for port in sorted(member.ports):
            if port > 65535:
                raise ConfigError(
                    f"broker {member.name} would listen on port {port}, above 65535: choose a "
                    f"lower listenPort, haListenPort or {PORT_KEY}"
                )
            if port in taken:
                raise ConfigError(
                    f"broker {member.name} and {taken[port]} would both listen on port {port}: "
                    f"choose another listenPort, haListenPort or {PORT_KEY}. Each broker takes "
                    f"listenPort, listenPort - {VIP}, haListenPort (else listenPort + 1) and, if "
                    f"it serves metrics, {PORT_KEY}; the next broker has ports that are {STEP} "
                    "higher"
                )
            taken[port] = f"broker {member.name}"


def check_all_served(root: Path, members: Sequence[Member], option: str) -> None:
    """ConfigError if a store would be left without a broker: nobody could read its messages."""
    served = {member.store for member in members}
    left = [store for store in map(Path, stores_beside(root)) if store not in served]
    if not left:
        return
    listed = ", ".join(map(str, left))
    advice = f"Start with {option} {AUTO}, which serves all of them, or with a larger number"
    expected = dict.fromkeys(names(members[0].name, MOST))
    if any(store.name not in expected for store in left):
        advice = "Start with the brokerName that they were made with"
    raise ConfigError(
        f"messages are in stores that none of {len(members)} broker(s) would serve: {listed}. "
        f"{advice}. To have fewer brokers, take them out of service and consume everything first, "
        "then move these folders away"
    )


def how_many(asked: str, config: BrokerConfig, cores: int | None = None) -> int:
    """What a number or `auto` means: as many as this process may use cores, and never fewer than
    there are stores."""
    if asked != AUTO:
        return int(asked)
    cores = usable_cores() if cores is None else cores
    left = {Path(store).name for store in stores_beside(config.store_path_root_dir)}
    least = max(
        (n for n, name in enumerate(names(config.broker_name, MOST), 1) if name in left), default=1
    )
    return min(max(cores, least), MOST)
