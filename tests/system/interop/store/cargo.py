"""The messages that go back and forth: every kind of record that a client can make."""

from __future__ import annotations

import random
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.client import Client, Closed, batch_command

from .contents import Contents

MAIN = "Orders"
"""Single messages with tags and keys, compressed ones, batches: 4 queues."""
LOAD = "Load"
"""What was being sent when a broker was killed: 4 queues."""
LONG_GROUP = "long-" + "g" * 150
LONG_RETRY = "%RETRY%" + LONG_GROUP
"""162 characters: records of this topic have the V2 form."""
QUEUES = 4

# Sizes at which some hundred messages roll every kind of file over. Two files of the log are open
# at any time, and an index file of 90 entries holds the keys of about 30 messages.
CONF = """\
mappedFileSizeCommitLog=32768
mappedFileSizeConsumeQueue=400
mapperFileSizeBatchConsumeQueue=138
maxHashSlotNum=32
maxIndexNum=90
flushConsumerOffsetInterval=500
"""
ENGINE = {
    "commit_log_file_size": 32768,
    "consume_queue_file_size": 400,
    "batch_queue_file_size": 138,
    "batch_topics": ["Inner"],
    "index_slots": 32,
    "index_entries": 90,
}
"""The same for the engine alone."""


def _properties(number: int) -> dict[str, str]:
    every: dict[str, str] = {"number": str(number), "grüße": "héllo – 你好"}
    if number % 4:
        every["TAGS"] = ("TagA", "TagB", "标签")[number % 3]
    if number % 5:
        every["KEYS"] = f"key-{number} shared" if number % 2 else f"key-{number}"
    every["UNIQ_KEY"] = f"{number:032X}"
    return every


def load(contents: Contents, client: Client, first: int, count: int = 40) -> None:
    """`count` single messages, some compressed, and a batch of 5, to all queues in turn; and one
    that makes the topic of `under_load`."""
    contents.knows(MAIN, QUEUES)
    contents.knows(LOAD, QUEUES)
    contents.sent(LOAD, b"first", {}, client.send(LOAD, b"first"))
    noise = random.Random(first)
    for number in range(first, first + count):
        properties, change = _properties(number), {}
        body = noise.randbytes(noise.choice((1, 20, 300, 2500)))
        if number % 10 == 0:
            body = zlib.compress(b"a line that compresses well " * 400 + body)
            change = {"f": str(0x301)}
        answer = client.send(
            MAIN, body, queue_id=number % QUEUES, properties=properties, change=change
        )
        contents.sent(MAIN, body, properties, answer)
    _batch(contents, client, first + count)


def _batch(contents: Contents, client: Client, first: int) -> None:
    messages = [
        (b"of a batch %d" % number, _properties(number)) for number in range(first, first + 5)
    ]
    answer = client.request(batch_command(MAIN, messages, queue_id=first % QUEUES))
    for at, (body, properties) in enumerate(messages):
        contents.sent(MAIN, body, properties, answer, at)


def _send_until_closed(contents: Contents, connect: Callable[[], Client], tell: Callable[[], None],
                       label: str) -> None:  # fmt: skip
    number = 0
    with connect() as client:
        while True:
            body = f"{label} {number} ".encode() * (1 + number % 40)
            try:
                answer = client.send(LOAD, body, queue_id=number % QUEUES)
            except Closed:
                contents.unanswered(body)
                return
            contents.sent(LOAD, body, {}, answer)
            number += 1
            tell()


@contextmanager
def under_load(
    contents: Contents, connect: Callable[[], Client], label: str, least: int = 150
) -> Iterator[None]:
    """The body runs while messages are being sent, after `least` acknowledgements; it has to end
    with the broker killed."""
    enough, answered, problems = threading.Event(), [0], []

    def tell() -> None:
        answered[0] += 1
        if answered[0] == least:
            enough.set()

    def sender() -> None:
        try:
            _send_until_closed(contents, connect, tell, label)
        except BaseException as problem:
            problems.append(problem)
            enough.set()

    thread = threading.Thread(target=sender, name="load")
    thread.start()
    assert enough.wait(60), "too slow"
    try:
        yield
    finally:
        thread.join(60)
    assert not thread.is_alive()
    assert not problems, problems
