"""Replication: catching up beside a plain copy of the same bytes over a socket into a file, and
puts into a log that is followed beside puts into one that is not."""

from __future__ import annotations

import itertools
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyrmq.engine import HaMaster, HaSlave, Listener, Session, Store, TlsClient, TlsContext
from pyrmq.model.properties import encode_properties
from pyrmq.model.record import encode_batch
from pyrmq.net.command import encode_request

FILE = 2000 << 20
"""Bytes: one file, as a slave without a log begins at its master's last one."""
SIZE = 512 << 20
"""Bytes that the slave catches up with."""
PROPERTIES = encode_properties({"UNIQ_KEY": "C0A8010A1F9018B4AAC247B760000000", "TAGS": "TagA"})
FIELDS = {"a": "PG", "b": "T", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1700000000000, "h": 0}


def batch(count: int, body: int) -> bytes:
    payload = encode_batch([(0, b"x" * body, PROPERTIES)] * count)
    return encode_request(320, 1, {**FIELDS, "i": "", "m": True}, payload)


class Master:
    """A store, and slaves that follow it by sockets."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "master" / "commitlog" / f"{0:020}"
        self.store = Store(folder / "master", commit_log_file_size=FILE, index_enable=False)
        self.store.set_topic("T", read_queues=4, write_queues=4)
        self.session = Session(Listener(self.store.native), b"\x7f\0\0\1", 1)
        tls = TlsContext("permissive")
        tls.use_self_signed()
        self.ha = HaMaster(self.store.native, transfer_batch_size=32 << 10, tls=tls)
        self._threads: list[threading.Thread] = []

    @property
    def end(self) -> int:
        return int(self.store.stats()["maxPhyOffset"])

    def follow(self, slave: HaSlave, tls: TlsClient | None = None) -> None:
        listening = socket.create_server(("127.0.0.1", 0))
        there = socket.create_connection(listening.getsockname())
        here, _ = listening.accept()
        listening.close()
        for work, sock in (
            (lambda fd: self.ha.serve(fd, "s"), here),
            (lambda fd: slave.receive(fd, tls=tls), there),
        ):
            thread = threading.Thread(target=work, args=(sock.detach(),))
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        self.ha.stop()
        for thread in self._threads:
            thread.join()
        self.store.close()


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Master]:
    master = Master(tmp_path_factory.mktemp("ha"))
    many = batch(1000, 1024)
    while master.end < SIZE:
        master.session.feed_bytes(many, 0)
    yield master
    master.close()


def copy_by_socket(path: Path, size: int, target: Path) -> None:
    """The least that anyone would have to do: the bytes over loopback TCP into a file."""
    listening = socket.create_server(("127.0.0.1", 0))
    there = socket.create_connection(listening.getsockname())
    here, _ = listening.accept()
    listening.close()

    def send() -> None:
        with path.open("rb") as file:
            here.sendfile(file, count=size)
        here.close()

    thread = threading.Thread(target=send)
    thread.start()
    with target.open("wb", buffering=0) as out:
        view = memoryview(bytearray(1 << 20))
        while n := there.recv_into(view):
            out.write(view[:n])
    thread.join()
    there.close()


class Slaves:
    """One slave at a time, which is empty."""

    def __init__(self, master: Master, folder: Path) -> None:
        self._master = master
        self._folder = folder
        self._made: list[tuple[Store, HaSlave, Path]] = []
        self._numbers = itertools.count()

    def renew(self) -> None:
        """The one before goes, whatever that takes: a copy is not flushed either."""
        for store, slave, root in self._made:
            slave.stop()
            store.close()
            shutil.rmtree(root)
        root = self._folder / f"slave-{next(self._numbers)}"
        store = Store(root, replica=True, commit_log_file_size=FILE, index_enable=False)
        self._made = [(store, HaSlave(store.native), root)]

    def catch_up(self, tls: TlsClient | None = None) -> None:
        ((store, slave, _),) = self._made
        self._master.follow(slave, tls)
        while store.stats()["maxPhyOffset"] < self._master.end:
            time.sleep(0.002)


@pytest.mark.benchmark(group="catching up with 512 MiB")
def test_catch_up(master, folder, paired, report) -> None:
    slaves = Slaves(master, folder)

    def copy() -> None:
        copy_by_socket(master.path, master.end, folder / "copy")

    result = paired(slaves.catch_up, copy, rounds=5, before=slaves.renew)
    slaves.renew()
    report(f"{result.speed:.2f} of a socket copy", ">= 0.7")


@pytest.mark.benchmark(group="catching up with 512 MiB, with TLS beside plain")
def test_catch_up_tls(master, folder, paired, report) -> None:
    sealed, plain = Slaves(master, folder / "sealed"), Slaves(master, folder / "plain")
    tls = TlsClient(trust=None, system=[], insecure=True, cert=None, key=None, key_password=None)

    def renew() -> None:
        sealed.renew()
        plain.renew()

    result = paired(lambda: sealed.catch_up(tls), plain.catch_up, rounds=3, before=renew)
    renew()
    report(f"{result.speed:.2f} of the rate of a plain connection")


@pytest.mark.benchmark(group="batches of 100 of 1 KiB, with a slave")
def test_puts_that_are_followed(master, folder, paired, report) -> None:
    alone = Master(folder / "alone")
    for _ in range(64):
        alone.session.feed_bytes(batch(1000, 1024), 0)
    store = Store(folder / "slave", replica=True, commit_log_file_size=FILE, index_enable=False)
    slave = HaSlave(store.native)
    master.follow(slave)
    while store.stats()["maxPhyOffset"] < master.end:
        time.sleep(0.01)
    frame = batch(100, 1024)

    def feed(to: Master) -> None:
        for _ in range(100):
            to.session.feed_bytes(frame, 0)

    result = paired(lambda: feed(master), lambda: feed(alone), rounds=20)
    report(f"{result.speed:.2f} of the rate without", ">= 0.8")
    behind = master.end - store.stats()["maxPhyOffset"]
    report(f"{behind >> 10} KiB behind at the end")
    slave.stop()
    alone.close()
    store.close()
