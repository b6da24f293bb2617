"""What a server is by its configuration: ports, folders, names, secrets, certificates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address
from pathlib import Path

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.config.table import values_of
from pyrmq.doctor.certificate_date import certificate
from pyrmq.doctor.facts import BROKER, NAME_SERVER, Certificate, Folder, Port, Server
from pyrmq.doctor.secret_files import open_files
from pyrmq.errors import ConfigError
from pyrmq.namesrv.config import NamesrvConfig
from pyrmq.net.address import format_address, parse_address, parse_addresses
from pyrmq.net.server.listen import VIP

_CERTIFICATES = (
    "tls.server.certPath", "tls.server.trustCertPath", "tls.client.certPath",
    "tls.client.trustCertPath",
)  # fmt: skip
METRICS = "metricsPromExporterPort"


def of_broker(
    config: BrokerConfig, written: Mapping[str, str], file: Path | None, namesrv: str = ""
) -> Server:
    """`written`: what the file and the environment have; `namesrv`: name servers instead of those
    of the configuration."""
    values = values_of(config)
    asked = namesrv or config.namesrv_addr
    addresses = parse_addresses(asked, "name server") if asked else []
    hosts = [(a[0], "namesrvAddr") for a in addresses]
    hosts += [(values[key], key) for key in ("brokerIP1", "brokerIP2") if values[key]]
    if config.ha_master_address:
        hosts.append((parse_address(config.ha_master_address)[0], "haMasterAddress"))
    logs = config.commit_log_dirs
    folders = [Folder(config.store_path_root_dir, "storePathRootDir")]
    if config.store_path_commit_log:
        made = len(logs) == 1
        folders += [Folder(path, "storePathCommitLog", made=made) for path in logs]
    return Server(
        BROKER,
        values,
        tuple(_broker_ports(config, values)),
        tuple(folders),
        config.store_path_root_dir / "lock",
        tuple(format_address(a) for a in addresses),
        tuple(h for h in hosts if not _is_numeric(h[0])),
        tuple(open_files(values, written, file, namesrv=False)),
        tuple(_certificates(values)),
    )


def _broker_ports(config: BrokerConfig, values: Mapping[str, str]) -> Iterator[Port]:
    bind, port = config.bind_address, config.listen_port
    if port:
        yield Port(port, "listenPort", bind)
        if port > VIP:
            yield Port(port - VIP, "VIP port", bind, optional=True)
    ha = config.ha_listen_port or (port + 1 if port else 0)
    if ha and not config.is_slave:
        yield Port(ha, "haListenPort", bind)
    yield from _metrics_port(values)


def _metrics_port(values: Mapping[str, str]) -> Iterator[Port]:
    number = values.get(METRICS, "")
    if values.get("metricsExporterType", "DISABLE") != "DISABLE" and number.isdecimal():
        host = values.get("metricsPromExporterHost", "")
        yield Port(int(number), METRICS, host)


def of_name_server(
    config: NamesrvConfig, written: Mapping[str, str], file: Path | None, namesrv: str = ""
) -> Server:
    """`namesrv`: the name servers that should have the same routes, this one among them."""
    values = values_of(config)
    addresses = parse_addresses(namesrv, "name server") if namesrv else []
    own = [Port(config.listen_port, "listenPort", config.bind_address)]
    kv = config.kv_config_path
    hosts = tuple((a[0], "-n") for a in addresses if not _is_numeric(a[0]))
    return Server(
        NAME_SERVER,
        values,
        (*(p for p in own if p.number), *_metrics_port(values)),
        (Folder(kv.parent, "kvConfigPath"),),
        kv.with_name(kv.name + ".lock"),
        tuple(format_address(a) for a in addresses),
        hosts,
        tuple(open_files(values, written, file, namesrv=True)),
        tuple(_certificates(values)),
    )


def _certificates(values: Mapping[str, str]) -> Iterator[Certificate]:
    for key in _CERTIFICATES:
        if values.get(key):
            yield certificate(Path(values[key]), key)


def _is_numeric(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def check_name_servers(text: str | None) -> str:
    """Addresses that were given by hand; empty for none. ConfigError."""
    if text is None:
        return ""
    if not parse_addresses(text, "name server"):
        raise ConfigError("-n names no name server: give host:port;host:port")
    return text
