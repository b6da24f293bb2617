"""What `pyrmq doctor` reads of a machine, from files that look like those of a kernel."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.doctor import cgroup, machine
from pyrmq.doctor.certificate_date import certificate, not_after
from pyrmq.doctor.disk_facts import disk_of, is_locked, mount_of, queues_of
from pyrmq.doctor.facts import Folder
from pyrmq.doctor.server import of_broker, of_name_server
from pyrmq.doctor.sockets import listeners
from pyrmq.engine import Store
from pyrmq.namesrv.config import NamesrvConfig
from tests.support.certificates import Authority

HEAD = (
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout\n"
)


def _proc(folder: Path, tcp: str = "", tcp6: str = "") -> Path:
    net = folder / "net"
    net.mkdir(parents=True)
    (net / "tcp").write_text(HEAD + tcp)
    (net / "tcp6").write_text(HEAD + tcp6)
    return folder


def _line(address: str, port: int, state: str, inode: int) -> str:
    return f"   0: {address}:{port:04X} 00000000:0000 {state} 0:0 00:0 0 0 0 {inode} 1 0\n"


def test_who_listens(tmp_path: Path) -> None:
    proc = _proc(
        tmp_path,
        _line("0100007F", 10911, "0A", 11) + _line("0100000A", 10911, "01", 12),
        _line("0" * 32, 9876, "0A", 13) + _line("0000000000000000FFFF00000100000A", 1, "0A", 14),
    )
    lock = tmp_path / "lock"
    for pid, inode in ((7, 11), (8, 13)):
        fd = proc / str(pid) / "fd"
        fd.mkdir(parents=True)
        (fd / "3").symlink_to(f"socket:[{inode}]")
        (proc / str(pid) / "cmdline").write_bytes(b"pyrmq\0broker\0")
    (proc / "7" / "fd" / "4").symlink_to(lock)
    found = listeners(frozenset({10911, 9876, 1}), lock, proc)
    assert found is not None
    assert [(f.address, f.port, f.pid, f.command, f.has_lock) for f in found] == [
        ("10.0.0.1", 1, 0, "", False),
        ("::", 9876, 8, "pyrmq broker", False),
        ("127.0.0.1", 10911, 7, "pyrmq broker", True),
    ]


def test_a_table_of_sockets_that_is_none(tmp_path: Path) -> None:
    proc = _proc(tmp_path, "x\n 1: zz:10 a 0A a a a a a 1\n 1: 0100007F:zzzz a 0A a a a a a 1\n")
    assert listeners(frozenset({16}), None, proc) == ()
    assert listeners(frozenset({16}), None, tmp_path / "none") is None


MOUNTS = (
    "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw,errors=remount-ro\n"
    "30 22 8:2 / /data ro,noatime shared:1 - xfs /dev/sdb rw,nobarrier\n"
    "31 22 0:40 / /data\\040two rw - nfs4 host:/x rw,hard\n"
    "short line\n"
)


def test_the_mount_of_a_path() -> None:
    assert mount_of(Path("/data/store"), MOUNTS) == (
        "xfs", "/data", frozenset({"ro", "noatime", "rw", "nobarrier"}),
    )  # fmt: skip
    assert mount_of(Path("/data two/x"), MOUNTS)[:2] == ("nfs4", "/data two")
    assert mount_of(Path("/database"), MOUNTS)[:2] == ("ext4", "/")
    assert mount_of(Path("/x"), "") == ("", "/", frozenset())


def test_the_disk_of_a_folder_that_is_not_there(tmp_path: Path) -> None:
    found = disk_of(Folder(tmp_path / "a" / "b", "storePathRootDir"), MOUNTS)
    assert (found.exists, found.problem, found.file_system) == (False, "", "ext4")
    assert found.total > found.free > 0
    file = tmp_path / "file"
    file.touch()
    assert disk_of(Folder(file / "below", "k"), MOUNTS).exists is False


def test_a_disk_is_as_full_as_the_engine_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks that are reserved for root count neither as used nor as free."""
    block = 4096
    fields = (block, block, 1000, 500, 100, 90, 80, 80, 0, 255)
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(fields))
    found = disk_of(Folder(tmp_path, "k"), MOUNTS)
    assert (found.total, found.free) == (600 * block, 100 * block)
    assert found.used_percent == pytest.approx(100 * 500 / 600)
    assert (found.inodes, found.inodes_free) == (90, 80)


def test_the_lock_of_a_store(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert is_locked(lock) is False
    store = Store(str(tmp_path))
    assert is_locked(lock) is True
    store.close()
    assert is_locked(lock) is False


def test_the_lock_of_a_name_server(tmp_path: Path) -> None:
    lock = tmp_path / "kvConfig.json.lock"
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        at = os.fstat(file.fileno())
        proc = tmp_path / "proc"
        proc.mkdir()
        place = f"{os.major(at.st_dev):02x}:{os.minor(at.st_dev):02x}:{at.st_ino}"
        (proc / "locks").write_text(f"1: FLOCK  ADVISORY  WRITE 708 {place} 0 EOF\n")
        assert is_locked(lock, proc) is True
        (proc / "locks").write_text(f"1: FLOCK  ADVISORY  WRITE 708 {place}1 0 EOF\n")
        assert is_locked(lock, proc) is False
        assert is_locked(lock, tmp_path / "none") is None


def test_queues_are_counted(tmp_path: Path) -> None:
    assert queues_of(tmp_path) is None
    for topic, many in (("a", 3), ("b", 2)):
        for queue in range(many):
            (tmp_path / "consumequeue" / topic / str(queue)).mkdir(parents=True)
    assert queues_of(tmp_path) == 5


def _group(root: Path, name: str, values: dict[str, str]) -> None:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    for file, text in values.items():
        (folder / file).write_text(text)


def test_limits_of_control_groups(tmp_path: Path) -> None:
    own, groups = tmp_path / "cgroup", tmp_path / "groups"
    own.write_text("0::/system.slice/pyrmq.service\n")
    _group(groups, "system.slice", {"memory.max": "2048", "pids.max": "max"})
    _group(groups, "system.slice/pyrmq.service", {"memory.max": "max", "pids.max": "99"})
    assert cgroup.memory_limit(own, groups) == 2048
    assert cgroup.task_limit(own, groups) == 99
    own.write_text("4:memory:/x\n5:pids:/x\n")
    _group(groups, "memory/x", {"memory.limit_in_bytes": "9223372036854771712"})
    assert cgroup.memory_limit(own, groups) is None
    _group(groups, "memory", {"memory.limit_in_bytes": "4096"})
    assert cgroup.memory_limit(own, groups) == 4096
    assert cgroup.memory_limit(tmp_path / "none", groups) is None
    own.write_text("odd\n::\n")
    assert cgroup.task_limit(own, groups) is None


def test_limits_of_the_running_server(tmp_path: Path) -> None:
    own = tmp_path / "proc" / "42"
    own.mkdir(parents=True)
    (own / "limits").write_text(
        "Limit                     Soft Limit           Hard Limit           Units\n"
        "Max open files            1024                 5000                 files\n"
        "Max locked memory         unlimited            unlimited            bytes\n"
    )
    found = machine.limits_of(42, tmp_path)
    assert (found.open_files, found.locked_memory, found.memory) == (5000, None, None)


def test_settings_of_the_kernel(tmp_path: Path) -> None:
    folder = tmp_path / "sys" / "vm"
    folder.mkdir(parents=True)
    (folder / "swappiness").write_text("60\n")
    assert machine.sysctls(tmp_path) == {"vm.swappiness": "60"}
    pages = tmp_path / "sys/kernel/mm/transparent_hugepage"
    pages.mkdir(parents=True)
    (pages / "enabled").write_text("always [madvise] never\n")
    (pages / "defrag").write_text("always defer [defer+madvise] madvise never\n")
    assert machine.huge_pages(tmp_path) == {"enabled": "madvise", "defrag": "defer+madvise"}


def test_containers(tmp_path: Path) -> None:
    assert machine.container(tmp_path, {}) == ""
    assert machine.container(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) == "Kubernetes"
    (tmp_path / "proc/1").mkdir(parents=True)
    (tmp_path / "proc/1/cgroup").write_text("0::/kubepods/besteffort/x\n")
    assert machine.container(tmp_path, {}) == "container"
    (tmp_path / ".dockerenv").touch()
    assert machine.container(tmp_path, {}) == "Docker"


@pytest.mark.parametrize(
    ("version", "wanted", "fits"),
    [
        ("0.30.0", ">=0.30,<1", True),
        ("0.29.9", ">=0.30,<1", False),
        ("1.0", ">=0.30,<1", False),
        ("1.0", "", True),
        ("odd", ">=1", False),
    ],
)
def test_versions_of_packages(version: str, wanted: str, fits: bool) -> None:
    assert (machine._unfit(version, wanted) is None) == fits


def test_this_installation_is_complete() -> None:
    assert not any(machine.required_packages().values())


@pytest.mark.parametrize("days", [1.0, 400.0, 10_000.0], ids=["soon", "year", "after-2049"])
def test_the_date_of_a_certificate(tmp_path: Path, days: float) -> None:
    identity = Authority(tmp_path).issue("mq", days=days)
    found = certificate(identity.cert, "tls.server.certPath")
    assert found.problem == ""
    # The chain has the authority's certificate too; the earlier end counts.
    assert found.until == pytest.approx(time.time() + days * 86_400, abs=600)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("nothing", "no certificate"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "cannot be read"),
        ("-----BEGIN CERTIFICATE-----\n%%%%a\n-----END CERTIFICATE-----\n", "cannot be read"),
    ],
)
def test_a_file_that_is_no_certificate(tmp_path: Path, text: str | None, said: str) -> None:
    file = tmp_path / "file"
    if text is not None:
        file.write_text(text)
    found = certificate(file, "k")
    assert found.until is None
    assert said in found.problem


@given(st.binary(max_size=200))
def test_hostile_certificates_are_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError):
        not_after(raw)


def test_a_broker_by_its_configuration(tmp_path: Path) -> None:
    values = {
        "listenPort": "10921",
        "storePathRootDir": str(tmp_path / "store"),
        "storePathCommitLog": f"{tmp_path}/one,{tmp_path}/two",
        "brokerIP1": "mq.example.org",
        "namesrvAddr": "n1:9876;10.0.0.9:9876",
        "tls.server.certPath": str(tmp_path / "none.crt"),
    }
    server = of_broker(BrokerConfig.from_properties(values), values, None)
    assert [(p.number, p.key, p.optional) for p in server.ports[:3]] == [
        (10921, "listenPort", False),
        (10919, "VIP port", True),
        (10922, "haListenPort", False),
    ]
    assert [(f.path.name, f.made) for f in server.folders] == [
        ("store", True), ("one", False), ("two", False),
    ]  # fmt: skip
    assert server.hosts == (("n1", "namesrvAddr"), ("mq.example.org", "brokerIP1"))
    assert server.name_servers == ("n1:9876", "10.0.0.9:9876")
    assert [c.key for c in server.certificates] == ["tls.server.certPath"]
    other = of_broker(BrokerConfig.from_properties(values), values, None, "n7:1")
    assert other.name_servers == ("n7:1",)


def test_a_slave_listens_on_no_ha_port(tmp_path: Path) -> None:
    values = {"brokerRole": "SLAVE", "brokerId": "1", "storePathRootDir": str(tmp_path)}
    server = of_broker(BrokerConfig.from_properties(values), values, None)
    assert {p.key for p in server.ports} == {"listenPort", "VIP port"}


def test_a_name_server_by_its_configuration(tmp_path: Path) -> None:
    values = {"kvConfigPath": str(tmp_path / "kv.json")}
    users = tmp_path / "namesrvUsers.json"
    users.touch(mode=0o644)
    server = of_name_server(NamesrvConfig.from_properties(values), values, None)
    assert [p.number for p in server.ports if p.key == "listenPort"] == [9876]
    assert server.lock == tmp_path / "kv.json.lock"
    assert [f.path for f in server.open_files] == [users]
