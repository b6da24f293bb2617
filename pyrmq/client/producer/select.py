"""Ready functions for `Producer.send(select=…)`. [MessageQueueSelector]"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyrmq.engine import java_hash as _java_hash
from pyrmq.errors import ClientError
from pyrmq.model.message import MessageQueue


def java_hash(text: str) -> int:
    """Java's String.hashCode, a 32-bit int: the same in every process and every client. Raises
    ClientError if `text` is not a string, because Java has other hashes for other types."""
    if not isinstance(text, str):
        raise ClientError(f"the key is {type(text).__name__}, a str is needed: {text!r:.80}")
    return _java_hash(text)


def select_by_hash(key: str) -> Callable[[Sequence[MessageQueue]], MessageQueue]:
    """Chooses the queue of a key: messages with the same key go to the same queue, in order.

        await producer.send(message, select=select_by_hash("user-1"))

    The choice is that of Java's SelectMessageQueueByHash with a String: the absolute value of
    String.hashCode modulo the number of queues. It is the same in every process and every client.
    If the number of queues that accept messages changes, it changes for most keys. Raises
    ClientError if `key` is not a string, because Java has other hashes for other types.
    """
    number = abs(java_hash(key))
    return lambda queues: queues[number % len(queues)]
