"""select_by_hash chooses what Java's SelectMessageQueueByHash chooses."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pyrmq import ClientError, MessageQueue, java_hash, select_by_hash

QUEUES = [MessageQueue("T", "broker-a", n) for n in range(7)]


@pytest.mark.parametrize(
    ("key", "of_1", "of_4", "of_7"),
    [
        # `abs(key.hashCode() % n)` as a JVM computes it.
        ("", 0, 0, 0),
        ("a", 0, 1, 6),
        ("user-1", 0, 1, 6),  # its hash is negative
        ("order-42", 0, 1, 0),
        ("grüße", 0, 3, 4),
        ("😀", 0, 3, 2),
        ("polygenelubricants", 0, 0, 2),  # its hash is Integer.MIN_VALUE
    ],
)
def test_as_in_java(key: str, of_1: int, of_4: int, of_7: int) -> None:
    chosen = [select_by_hash(key)(QUEUES[:count]).queue_id for count in (1, 4, 7)]
    assert chosen == [of_1, of_4, of_7]


@pytest.mark.parametrize(
    ("text", "value"),
    [("order-1", -1207111310), ("TagA", 2598919), ("", 0), ("polygenelubricants", -(1 << 31))],
)
def test_hashes(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_the_same_in_every_process() -> None:
    code = (
        "from pyrmq import MessageQueue, select_by_hash\n"
        "queues = [MessageQueue('T', 'b', n) for n in range(1000)]\n"
        "print([select_by_hash(f'k{n}')(queues).queue_id for n in range(20)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize("key", [1, b"k", None, ("a",)])
def test_other_keys_are_refused(key: object) -> None:
    with pytest.raises(ClientError, match="a str is needed"):
        select_by_hash(key)  # type: ignore[arg-type]
