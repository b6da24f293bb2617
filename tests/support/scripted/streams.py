"""A name server and brokers that do as a test says, in this process, on streams in memory.

    async with StreamCluster("broker-a") as cluster:    # fixture `cluster` patches trio's connect
        async with Producer("group", namesrv=cluster.namesrv) as producer: ...

Sends are answered as by a broker unless `change` says otherwise; everything that came is kept. No
time passes here, so that a MockClock may jump.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from types import TracebackType
from typing import Self

import trio
import trio.testing

from tests.support.records import (
    MAGIC_V1,
    Record,
    crc31,
    decode_properties,
    encode_properties,
    encode_record,
    message_id,
)
from tests.support.scripted.script import HANG_UP, SILENCE, Script, route
from tests.support.wire import FLAG_ONEWAY, Command, FrameReader, encode

HEART_BEAT, UNREGISTER, END, CHECK, SEND = 34, 35, 37, 39, 310
ROUTE, CLUSTER = 105, 106
NO_TOPIC = 17
QUEUES = 2
HALF_OFFSET = 5
PHYSICAL_OFFSET = 0x1122334455


class Stream(trio.abc.Stream):
    """A client's end: a memory stream that takes socket options."""

    def __init__(self, inner: trio.abc.Stream) -> None:
        self._inner = inner

    def setsockopt(self, *option: object) -> None:
        pass

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._inner.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._inner.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        return await self._inner.receive_some(max_bytes)

    async def aclose(self) -> None:
        await self._inner.aclose()


class Connection:
    """The server's end of one connection, and what came on it."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.requests: list[Command] = []
        self._sending = trio.Lock()

    async def send(self, command: Command) -> None:
        async with self._sending:
            await self.stream.send_all(encode(command))

    async def close(self) -> None:
        await self.stream.aclose()


class StreamBroker(Script):
    """`connections` in the order they came. `ended` hands out END_TRANSACTION requests."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.nursery: trio.Nursery | None = None
        """For what is answered later; there while the cluster runs."""
        self.connections: list[Connection] = []
        self._end, self.ended = trio.open_memory_channel[tuple[Connection, Command]](math.inf)

    def requests(self, *codes: int) -> list[Command]:
        """What came, in order per connection; all of it or that with these codes."""
        return [r for c in self.connections for r in c.requests if not codes or r.code in codes]

    async def next_end(self) -> Command:
        with trio.fail_after(20):
            return (await self.ended.receive())[1]

    async def handle(self, connection: Connection, command: Command) -> bool:
        """Answers a request; False to hang up."""
        if command.code == END:
            self._end.send_nowait((connection, command))
        answer = self.answer(command)
        if answer is HANG_UP:
            return False
        if answer is not SILENCE and not command.is_oneway:
            await connection.send(answer)
        return True

    def gone(self, connection: Connection) -> None:
        """A connection has ended."""

    def usual(self, command: Command) -> Command:
        return stored(command) if command.code == SEND else command.reply(0)

    async def ask(self, body: bytes, connection: int = -1, **ext: object) -> None:
        """CHECK_TRANSACTION_STATE on one of the connections."""
        fields = {name: str(value) for name, value in ext.items()}
        await self.connections[connection].send(
            Command(CHECK, fields, body, opaque=77, flag=FLAG_ONEWAY)
        )


def stored(command: Command, code: int = 0, **ext: str) -> Command:
    """The answer to a send."""
    given = {
        "msgId": message_id(("10.0.0.1", 10911), PHYSICAL_OFFSET),
        "queueId": command.ext["e"],
        "queueOffset": str(HALF_OFFSET),
        "transactionId": sent_properties(command).get("UNIQ_KEY", ""),
    }
    return command.reply(code, {**given, **ext})


def sent_properties(command: Command) -> dict[str, str]:
    """The properties of a send request."""
    return decode_properties(command.ext["i"])


def record(body: bytes = b"body", topic: str = "T", sys_flag: int = 0, **properties: str) -> bytes:
    """A half as a check carries it."""
    return encode_record(
        Record(
            size=0,
            magic=MAGIC_V1,
            body_crc=crc31(body),
            queue_id=1,
            flag=3,
            queue_offset=HALF_OFFSET,
            physical_offset=PHYSICAL_OFFSET,
            sys_flag=sys_flag,
            born_timestamp=1,
            born_host=("10.0.0.2", 1),
            store_timestamp=2,
            store_host=("10.0.0.1", 10911),
            reconsume_times=0,
            prepared_offset=0,
            body=body,
            topic=topic,
            properties_raw=encode_properties(properties).encode(),
        )
    )


class StreamCluster(Script):
    """Every topic that is not `missing` has two queues on each broker. `connect` stands for
    open_tcp_stream; names in `down` refuse. The script is that of the name server. Every broker is
    the master of its own name, unless `replicas` says otherwise."""

    namesrv = "names:9876"

    def __init__(self, *names: str, kind: Callable[[str], StreamBroker] = StreamBroker) -> None:
        super().__init__()
        self.brokers = {name: kind(name) for name in names}
        self.replicas: dict[str, dict[int, str]] | None = None
        """By broker name and broker id: names of brokers here."""
        self.queues = QUEUES
        """Of each topic on each broker."""
        self.down: set[str] = set()
        self.away: set[str] = set()
        """Names whose machine does not even refuse."""
        self.missing: set[str] = set()
        self._manager = trio.open_nursery()

    def __getitem__(self, name: str) -> StreamBroker:
        return self.brokers[name]

    async def __aenter__(self) -> Self:
        self._nursery = await self._manager.__aenter__()
        for broker in self.brokers.values():
            broker.nursery = self._nursery
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._nursery.cancel_scope.cancel()
        await self._manager.__aexit__(kind, error, trace)

    async def connect(self, host: str, port: int) -> Stream:
        await trio.lowlevel.checkpoint()
        if host in self.away:
            await trio.sleep_forever()
        if host in self.down:
            raise ConnectionRefusedError(f"{host} is down")
        near, far = trio.testing.memory_stream_pair()
        self._nursery.start_soon(self._serve, host, Connection(far))
        return Stream(near)

    async def _serve(self, host: str, connection: Connection) -> None:
        broker = self.brokers.get(host)
        if broker is not None:
            broker.connections.append(connection)
        reader = FrameReader()
        try:
            while data := await connection.stream.receive_some():
                for command in reader.feed(bytes(data)):
                    connection.requests.append(command)
                    if broker is None:
                        await connection.send(self.answer(command))
                    elif not await broker.handle(connection, command):
                        return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            if broker is not None:
                broker.gone(connection)
            await trio.aclose_forcefully(connection.stream)

    def usual(self, command: Command) -> Command:
        replicas = self.replicas
        if replicas is None:
            replicas = {name: {0: name} for name in self.brokers}
        addresses = {
            name: {i: f"{host}:10911" for i, host in hosts.items()}
            for name, hosts in replicas.items()
        }
        every = route(dict.fromkeys(addresses, self.queues), addresses)
        if command.code == CLUSTER:
            datas = {name: route({name: 0}, addresses)["brokerDatas"] for name in addresses}
            table = {name: data[0] for name, data in datas.items()}  # type: ignore[index]
            body = {"brokerAddrTable": table, "clusterAddrTable": {}}
            return command.reply(0, {}, json.dumps(body).encode())
        if command.ext.get("topic") in self.missing:
            return command.reply(NO_TOPIC)
        return command.reply(0, {}, json.dumps(every).encode())
