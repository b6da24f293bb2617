"""OpenMessaging: a producer, a push consumer and a pull consumer.

    python examples/oms.py
    python examples/oms.py --url oms:rocketmq://127.0.0.1:9876/default

Without a URL there is an embedded broker. Three messages are sent: one and its answer is waited
for, one whose answer comes later, and one without an answer. Two groups get all three, the one by a
listener, the other by asking.
"""

from __future__ import annotations

import argparse
import queue
import time
from contextlib import ExitStack

import pyrmq.testing
from pyrmq.oms import Attribute, BytesMessage, Context, Header
from pyrmq.oms.sync import MessagingAccessPoint

TOPIC = "OmsExample"
DEADLINE = 60.0


def produce(access_point: MessagingAccessPoint) -> None:
    with access_point.create_producer({Attribute.OPERATION_TIMEOUT: 3000}) as producer:
        message = producer.create_bytes_message(
            TOPIC,
            b"sync",
            user_headers={"region": "eu", "attempt": 1},
            sys_headers={Header.SEARCH_KEYS: "order-1"},
        )
        sent = producer.send(message)
        assert sent.message_id == message.message_id
        future = producer.send_async(producer.create_bytes_message(TOPIC, b"async"))
        producer.send_oneway(producer.create_bytes_message(TOPIC, b"one-way"))
        assert future.result(timeout=10).message_id
    print("sent: sync, async, one-way")


def push(access_point: MessagingAccessPoint) -> None:
    """A listener is called with each message, in worker threads."""
    received: queue.Queue[BytesMessage] = queue.Queue()

    def on_received(message: BytesMessage, context: Context) -> None:
        received.put(message)
        context.ack()  # without it the message comes again

    consumer = access_point.create_push_consumer({Attribute.CONSUMER_ID: "oms-pushed"})
    consumer.attach_queue(TOPIC, on_received)
    bodies = set()
    with consumer:
        while len(bodies) < 3:
            message = received.get(timeout=DEADLINE)
            bodies.add(message.body)
            if message.body == b"sync":
                headers = message.user_headers
                print("headers:", headers["region"], headers.get_int("attempt") + 1)
                print("keys:", message.sys_headers[Header.SEARCH_KEYS])
    print("pushed:", *sorted(body.decode() for body in bodies))


def pull(access_point: MessagingAccessPoint) -> None:
    """Asks for messages, and acknowledges each by its id."""
    bodies = set()
    until = time.monotonic() + DEADLINE
    with access_point.create_pull_consumer({Attribute.CONSUMER_ID: "oms-pulled"}) as consumer:
        consumer.attach_queue(TOPIC)
        while len(bodies) < 3 and time.monotonic() < until:
            message = consumer.receive(timeout=1.0)
            if message is not None:
                bodies.add(message.body)
                consumer.ack(message.sys_headers[Header.MESSAGE_ID])
    print("pulled:", *sorted(body.decode() for body in bodies))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--url", help="access point; default: an embedded broker")
    url = parser.parse_args().url
    with ExitStack() as stack:
        if url is None:
            server = stack.enter_context(pyrmq.testing.broker())
            url = f"oms:rocketmq://{server.namesrv}/default"
        access_point = MessagingAccessPoint(url)
        produce(access_point)
        push(access_point)
        pull(access_point)


if __name__ == "__main__":
    main()
