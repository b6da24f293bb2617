"""OpenMessaging: a producer, a push consumer and a pull consumer, in blocking code.

    python examples/oms.py [--namesrv HOST:PORT]

Three messages are sent: one whose answer is waited for, one whose answer comes later, and one
without an answer. Two groups get all of them, the one by a listener, the other by asking.
"""

from __future__ import annotations

import argparse
import queue

from pyrmq.oms import Attribute, BytesMessage, Context, Header
from pyrmq.oms.sync import MessagingAccessPoint

TOPIC = "Shipments"


def produce(access_point: MessagingAccessPoint) -> None:
    with access_point.create_producer({Attribute.OPERATION_TIMEOUT: 10_000}) as producer:
        message = producer.create_bytes_message(
            TOPIC,
            b"a book",
            user_headers={"region": "eu", "grams": 300},
            sys_headers={Header.SEARCH_KEYS: "order-1"},
        )
        producer.send(message)
        future = producer.send_async(producer.create_bytes_message(TOPIC, b"a pen"))
        producer.send_oneway(producer.create_bytes_message(TOPIC, b"a map"))
        future.result()


def push(access_point: MessagingAccessPoint) -> None:
    """The consumer calls the listener for each message, in worker threads."""
    received: queue.Queue[BytesMessage] = queue.Queue()

    def on_received(message: BytesMessage, context: Context) -> None:
        received.put(message)
        context.ack()  # without this the message comes again

    consumer = access_point.create_push_consumer({Attribute.CONSUMER_ID: "oms-pushed"})
    consumer.attach_queue(TOPIC, on_received)
    bodies: set[bytes] = set()
    with consumer:
        while len(bodies) < 3:
            message = received.get()
            bodies.add(message.body)
            if "region" in message.user_headers:
                kilograms = message.user_headers.get_int("grams") / 1000
                print(f"{message.sys_headers[Header.SEARCH_KEYS]}: {kilograms} kg")
    print("pushed:", *sorted(body.decode() for body in bodies), sep="\n  ")


def pull(access_point: MessagingAccessPoint) -> None:
    """Asks for messages, and acknowledges each by its id."""
    bodies: set[bytes] = set()
    with access_point.create_pull_consumer({Attribute.CONSUMER_ID: "oms-pulled"}) as consumer:
        consumer.attach_queue(TOPIC)
        while len(bodies) < 3:
            message = consumer.receive()
            if message is not None:
                bodies.add(message.body)
                consumer.ack(message.sys_headers[Header.MESSAGE_ID])
    print("pulled:", *sorted(body.decode() for body in bodies), sep="\n  ")


def main(namesrv: str) -> None:
    servers = namesrv.replace(";", ",")
    access_point = MessagingAccessPoint(f"oms:rocketmq://{servers}/default")
    produce(access_point)
    push(access_point)
    pull(access_point)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    main(parser.parse_args().namesrv)
