"""pyrmq's clients for blocking code: the same classes, and each call blocks.

    from pyrmq.sync import Message, Producer

    with Producer("group", namesrv="127.0.0.1:9876") as producer:
        producer.send(Message("TopicTest", b"Hello"))

All clients run in one background thread, which starts with the first client that is opened and ends
with the last. Any number of threads may call them. Options, results and errors are those of
`pyrmq`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pyrmq.client.consumer.consume_service import ConsumeResult as ConsumeResult
from pyrmq.client.consumer.consume_service import ReconsumeLater as ReconsumeLater
from pyrmq.client.consumer.offsets import ConsumeFrom as ConsumeFrom
from pyrmq.client.consumer.options import MessageModel as MessageModel
from pyrmq.client.transaction.listener import TransactionListener as TransactionListener
from pyrmq.client.transaction.listener import TransactionSendResult as TransactionSendResult
from pyrmq.client.transaction.listener import TransactionStatistics as TransactionStatistics
from pyrmq.model.compression import CompressionType as CompressionType
from pyrmq.model.message import Message as Message
from pyrmq.model.message import MessageQueue as MessageQueue
from pyrmq.model.message import SendResult as SendResult
from pyrmq.model.message import SendStatus as SendStatus
from pyrmq.model.record import ReceivedMessage as ReceivedMessage
from pyrmq.model.subscription import Sql as Sql
from pyrmq.model.transaction import TransactionState as TransactionState
from pyrmq.net.client.credentials import Credentials as Credentials
from pyrmq.net.client.tls import Tls as Tls
from pyrmq.sync._generated_clients import LitePullConsumer as LitePullConsumer
from pyrmq.sync._generated_clients import Producer as Producer
from pyrmq.sync._generated_clients import PushConsumer as PushConsumer
from pyrmq.sync._generated_clients import SimpleConsumer as SimpleConsumer
from pyrmq.sync._generated_clients import TransactionalProducer as TransactionalProducer
from pyrmq.sync.special import Loop as Loop
from pyrmq.sync.special import PendingSend as PendingSend

if TYPE_CHECKING:
    from pyrmq.sync._generated_admin import Admin as Admin
    from pyrmq.sync._generated_outbox import Outbox as Outbox
else:

    def __getattr__(name: str) -> Any:
        """Loads Admin, and Outbox with SQLAlchemy, at first use."""
        if name not in ("Admin", "Outbox"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = import_module(f"{__name__}._generated_{name.lower()}")
        globals()[name] = found = getattr(module, name)
        return found
