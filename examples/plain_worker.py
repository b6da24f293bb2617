"""Blocking code: a web application's threads that send, and a worker that consumes.

    python examples/plain_worker.py [--namesrv HOST:PORT]

The structure is Django's and Celery's: views run in threads and share one producer, which the
process opens when it starts. The worker is a loop (in Django: a management command in a process of
its own).
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor

from pyrmq import ConsumeFrom
from pyrmq.sync import Message, Producer, PushConsumer, ReceivedMessage


def register(producer: Producer, user: str) -> str:
    """A view. In Django: `transaction.on_commit(lambda: producer.send(...))`."""
    result = producer.send(Message("Mails", f"welcome, {user}".encode(), keys=user))
    return result.msg_id


def send_mail(message: ReceivedMessage) -> None:
    """A task. If it raises, `work` sends the message back."""
    if "@" not in message.keys[0]:
        raise ValueError("no mail address")
    print(f"{message.keys[0]}: {message.body.decode()}")


def work(namesrv: str, missing: set[str]) -> None:
    with PushConsumer(
        "mailer", {"Mails": "*"}, namesrv=namesrv, consume_from=ConsumeFrom.FIRST_OFFSET
    ) as consumer:
        for message in consumer:
            try:
                send_mail(message)
            except ValueError as error:
                print(f"{message.keys[0]}: {error}, to the dead-letter topic")
                consumer.send_back(message, delay_level=-1)  # 0: consume it again later
            missing.discard(message.msg_id)
            if not missing:
                consumer.acknowledge(message)
                break


def main(namesrv: str) -> None:
    users = ["ann@example.org", "bob@example.org", "cid", "dan@example.org"]
    with Producer("web", namesrv=namesrv) as producer, ThreadPoolExecutor(4) as threads:
        ids = threads.map(lambda user: register(producer, user), users)
    work(namesrv, set(ids))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--namesrv", default="127.0.0.1:9876", help="HOST:PORT of a name server")
    main(parser.parse_args().namesrv)
