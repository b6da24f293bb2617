"""What the checks look at, as plain values. None stands for what could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

BROKER, NAME_SERVER = "broker", "name server"


@dataclass(frozen=True, slots=True)
class Port:
    """A port that the server listens on. `optional`: it starts without it as well."""

    number: int
    key: str
    bind: str
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that the server writes. `made`: the server makes it if it is missing."""

    path: Path
    key: str
    made: bool = True


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file with secrets that other accounts can reach."""

    path: Path
    mode: int
    why: str


@dataclass(frozen=True, slots=True)
class Certificate:
    """The first date after which a certificate of a file is not valid, seconds since 1970; or why
    the file cannot be used."""

    path: Path
    key: str
    until: float | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Server:
    """The server as its configuration has it."""

    kind: str
    values: Mapping[str, str]
    """By RocketMQ's key, with defaults; secrets are hidden."""
    ports: tuple[Port, ...] = ()
    folders: tuple[Folder, ...] = ()
    lock: Path | None = None
    """The file that a running server holds."""
    name_servers: tuple[str, ...] = ()
    """`host:port`."""
    hosts: tuple[tuple[str, str], ...] = ()
    """Names and addresses of hosts in the configuration, each with its key."""
    open_files: tuple[OpenFile, ...] = ()
    certificates: tuple[Certificate, ...] = ()

    @property
    def is_broker(self) -> bool:
        return self.kind == BROKER


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket of this machine that listens. `pid` 0: another account's."""

    address: str
    port: int
    pid: int = 0
    command: str = ""
    has_lock: bool = False
    """Whether its process has the server's lock file open."""


@dataclass(frozen=True, slots=True)
class Disk:
    """The file system of a folder, or of its nearest parent that is there."""

    folder: Folder
    exists: bool = True
    writable: bool = True
    total: int = 0
    """Bytes in use, and those that this account may use."""
    free: int = 0
    """Bytes that this account may use."""
    inodes: int = 0
    """0: the file system has no fixed number."""
    inodes_free: int = 0
    file_system: str = ""
    mount: str = "/"
    options: frozenset[str] = frozenset()
    problem: str = ""
    """Why nothing of it could be read."""

    @property
    def used_percent(self) -> float:
        return 100 * (self.total - self.free) / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of processes that this account starts; None: unlimited, or unknown."""

    open_files: int | None = None
    locked_memory: int | None = None
    memory: int | None = None
    """Bytes of the control group."""
    cpus: float | None = None
    tasks: int | None = None


@dataclass(frozen=True, slots=True)
class Clock:
    """The system clock as the kernel has it."""

    synchronised: bool
    error_us: int
    """The largest error, as the kernel estimates it."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """What the resolver said of a name."""

    host: str
    keys: tuple[str, ...]
    addresses: tuple[str, ...] = ()
    seconds: float = 0.0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """This machine and this installation."""

    kernel: str = ""
    python: tuple[int, int, int] = (0, 0, 0)
    release_build: bool = True
    packages: Mapping[str, str | None] = field(default_factory=dict)
    """Required packages, each with what is wrong with it, None for nothing."""
    import_package: str | None = None
    """What is wrong with the folder `pyrmq/`, as `pyrmq.installation` says it."""
    sysctl: Mapping[str, str] = field(default_factory=dict)
    """By name, such as `vm.swappiness`. What is not readable is absent."""
    huge_pages: Mapping[str, str] = field(default_factory=dict)
    """`enabled` and `defrag` of transparent huge pages."""
    memory: int | None = None
    swap: int | None = None
    limits: Limits = field(default_factory=Limits)
    clock: Clock | None = None
    container: str = ""
    """What shows that this is a container; empty: nothing."""
    addresses: frozenset[str] = frozenset()
    """Addresses of this machine."""
    route_address: str = ""
    """The address that others most likely reach."""
    user: int = 0
    listeners: tuple[Listener, ...] | None = None
    disks: tuple[Disk, ...] = ()
    locked: bool | None = None
    """Whether a process holds the server's lock."""
    queues: int | None = None
    """Consume queues of the store."""
    now: float = 0.0
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class NameServer:
    """What a name server answered."""

    address: str
    problem: str = ""
    brokers: frozenset[tuple[str, str, int, str]] = frozenset()
    """Cluster, name, id and address."""
    topics: frozenset[str] = frozenset()
    routes: Mapping[str, frozenset[tuple[str, int, int, int]]] = field(default_factory=dict)
    """Of some topics: broker, queues to read and to write, permission."""
    orders: Mapping[str, str] | None = None
    """KV configuration of ordered topics; None: not known."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What a broker of the cluster answered."""

    name: str
    number: int
    address: str
    problem: str = ""
    version: str = ""
    ahead: float | None = None
    """Seconds that its clock is ahead of this one."""
    clients: Mapping[str, int] = field(default_factory=dict)
    """Connected clients by language and version, as far as they are known."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What other servers answered."""

    name_servers: tuple[NameServer, ...] = ()
    peers: tuple[Peer, ...] = ()
    lookups: tuple[Lookup, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    server: Server
    machine: Machine = field(default_factory=Machine)
    cluster: Cluster = field(default_factory=Cluster)

    def sysctl(self, name: str) -> int | None:
        """A number of the kernel; None if it is not readable."""
        text = self.machine.sysctl.get(name, "").strip()
        return int(text) if text.removeprefix("-").isdecimal() and len(text) < 20 else None
