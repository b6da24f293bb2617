"""Clients on trio: producers and consumers for pyrmq's and Apache RocketMQ's brokers."""

from pyrmq.client.call_listener import ConsumeResult, ReconsumeLater
from pyrmq.client.consumer import PushConsumer
from pyrmq.client.listener import TransactionListener
from pyrmq.client.lite_pull import LitePullConsumer
from pyrmq.client.offsets import ConsumeFrom
from pyrmq.client.producer import Producer
from pyrmq.client.push_options import MessageModel
from pyrmq.client.transaction import TransactionalProducer
from pyrmq.client.transaction_result import TransactionSendResult, TransactionStatistics
from pyrmq.model.transaction import TransactionState

__all__ = [
    "ConsumeFrom",
    "ConsumeResult",
    "LitePullConsumer",
    "MessageModel",
    "Producer",
    "PushConsumer",
    "ReconsumeLater",
    "TransactionListener",
    "TransactionSendResult",
    "TransactionState",
    "TransactionStatistics",
    "TransactionalProducer",
]
