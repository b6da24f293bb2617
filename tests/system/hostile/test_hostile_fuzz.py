"""Random bytes and damaged requests. PYRMQ_SEED repeats a run, PYRMQ_FUZZ_CASES lengthens it.

Invariant: whatever arrives, the connection is answered properly or closed; when our side has
ended, the server closes; what is stored can be read.
"""

from __future__ import annotations

import random

import pytest

from tests.support.client import REGISTER_BROKER, Client
from tests.support.server import ServerProcess
from tests.support.thorough import seeds, size
from tests.support.wire import BINARY, JSON, encode
from tests.system.hostile.damage import DAMAGE, TOPIC, samples
from tests.system.hostile.probe import PATIENCE, deliver

CASES = size("PYRMQ_FUZZ_CASES", 200, 5000)


def check(server: ServerProcess, data: bytes, port: str = "broker") -> None:
    """Answers decode strictly (the client does that), and after our end comes the server's."""
    answers = deliver(getattr(server, port), data, end=True)
    assert answers is not None, f"not closed within {PATIENCE} s: {data[:300].hex()}"


by_seed = pytest.mark.parametrize("seed", seeds("hostile-fuzz"))


@by_seed
@pytest.mark.parametrize("port", ["broker", "namesrv"])
def test_random_bytes(server: ServerProcess, port: str, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(CASES):
        check(server, chance.randbytes(chance.choice((1, 4, 8, 30, 300, 5000, 100_000))), port)


@by_seed
@pytest.mark.parametrize("port", ["broker", "namesrv"])
def test_random_bytes_in_a_frame(server: ServerProcess, port: str, seed: int) -> None:
    """The length word and serialize type are right, so that the header decoders see the noise."""
    chance = random.Random(seed + 1)
    for _ in range(CASES):
        noise = chance.randbytes(chance.choice((1, 21, 40, 300, 5000)))
        head = (len(noise) + 4).to_bytes(4, "big") + bytes((chance.randrange(2),))
        check(server, head + len(noise).to_bytes(3, "big") + noise, port)


@by_seed
@pytest.mark.parametrize("serialize", [JSON, BINARY], ids=["json", "binary"])
@pytest.mark.parametrize("kind", range(len(samples())))
def test_damaged_requests(server: ServerProcess, kind: int, serialize: int, seed: int) -> None:
    """A valid request with one to three damages, then another valid request."""
    chance = random.Random(seed + 100 * kind + serialize)
    command = samples()[kind]
    command.serialize = serialize
    port = "namesrv" if command.code == REGISTER_BROKER else "broker"
    whole = encode(command)
    for _ in range(max(CASES // 10, 10)):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            if data:
                chance.choice(DAMAGE)(chance, data)
        if chance.random() < 0.5:  # let it pass the frame check, so that the damage gets deeper
            data[:4] = (len(data) - 4 if len(data) > 4 else 0).to_bytes(4, "big")
        check(server, bytes(data) + whole, port)


def test_all_that_was_stored_can_be_read(server: ServerProcess) -> None:
    """The last case of the file: the fuzzed topic's queues are dense and every record decodes."""
    with Client(server.broker) as client:
        assert client.send(TOPIC).code == 0
        for queue_id in range(4):
            end = client.max_offset(TOPIC, queue_id)
            found = client.pull_all(TOPIC, queue_id, 0, end)
            assert [record.queue_offset for record in found] == list(range(end))
