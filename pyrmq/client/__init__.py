"""Clients on trio: producers and consumers for the brokers of pyrmq and Apache RocketMQ.

Each name is loaded from its module at first use, so a program that only sends does not load the
consumers, and unused names cost nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_NAMES = {
    "pyrmq.client.consumer.consume_service": "ConsumeResult ReconsumeLater",
    "pyrmq.client.consumer.push_consumer": "PushConsumer",
    "pyrmq.client.consumer.lite_pull": "LitePullConsumer",
    "pyrmq.client.consumer.simple": "SimpleConsumer",
    "pyrmq.client.consumer.offsets": "ConsumeFrom",
    "pyrmq.client.producer.pending": "PendingSend",
    "pyrmq.client.producer.producer": "Producer",
    "pyrmq.client.consumer.options": "MessageModel",
    "pyrmq.client.transaction.producer": "TransactionalProducer",
    "pyrmq.client.transaction.listener": """
        TransactionListener TransactionSendResult TransactionStatistics
    """,
    "pyrmq.model.transaction": "TransactionState",
    "pyrmq.net.client.credentials": "Credentials",
    "pyrmq.net.client.tls": "Tls",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

if TYPE_CHECKING:
    from pyrmq.client.consumer.consume_service import ConsumeResult, ReconsumeLater
    from pyrmq.client.consumer.lite_pull import LitePullConsumer
    from pyrmq.client.consumer.offsets import ConsumeFrom
    from pyrmq.client.consumer.options import MessageModel
    from pyrmq.client.consumer.push_consumer import PushConsumer
    from pyrmq.client.consumer.simple import SimpleConsumer
    from pyrmq.client.producer.pending import PendingSend
    from pyrmq.client.producer.producer import Producer
    from pyrmq.client.transaction.listener import (
        TransactionListener,
        TransactionSendResult,
        TransactionStatistics,
    )
    from pyrmq.client.transaction.producer import TransactionalProducer
    from pyrmq.model.transaction import TransactionState
    from pyrmq.net.client.credentials import Credentials
    from pyrmq.net.client.tls import Tls
else:

    def __getattr__(name: str) -> Any:
        """Loads what is asked for; from then on it is an attribute like others."""
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(_HOME[name]), name)
        return found


__all__ = [
    "ConsumeFrom",
    "ConsumeResult",
    "Credentials",
    "LitePullConsumer",
    "MessageModel",
    "PendingSend",
    "Producer",
    "PushConsumer",
    "ReconsumeLater",
    "SimpleConsumer",
    "Tls",
    "TransactionListener",
    "TransactionSendResult",
    "TransactionState",
    "TransactionStatistics",
    "TransactionalProducer",
]
