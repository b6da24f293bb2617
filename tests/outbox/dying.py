"""A process that runs one local transaction and is killed at a given point of it.

    python -m tests.outbox.dying URL KEY POINT

Points: `before` (the work is done, COMMIT is not sent), `after` (SQL has committed, END_TRANSACTION
has not been sent), `deciding` (a check has inserted its ROLLBACK row and not committed it).
"""

from __future__ import annotations

import os
import signal
import sys

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.orm import Session

from pyrmq.model.message import Message
from pyrmq.outbox import Outbox

from .shop import message, place_order, received


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def work(session: Session, sent: Message, point: object) -> None:
    place_order(session, sent, None)
    if point == "before":
        session.flush()
        die()


def main() -> None:
    url, key, point = sys.argv[1:]
    engine = create_engine(url)
    outbox = Outbox(engine, work)
    if point == "deciding":

        def inserted(connection: Connection, cursor: object, text: str, *_: object) -> None:
            if text.startswith("INSERT"):
                die()

        event.listen(engine, "after_cursor_execute", inserted)
        outbox.check_local_transaction(received(message(key)))
    else:
        outbox.execute_local_transaction(message(key), point)
        die()


if __name__ == "__main__":
    main()
