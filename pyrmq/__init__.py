"""pyrmq: Apache RocketMQ's broker, name server and client in Python with a native engine.

    from pyrmq import Message, Producer, PushConsumer

Everything that users need is here. Each name is loaded from its module at first use, so `import
pyrmq` loads nothing else. `pyrmq.aio` and `pyrmq.sync` have the clients for asyncio and for
blocking code, `pyrmq.oms` has OpenMessaging's, `pyrmq.testing` is an embedded broker for tests,
`pyrmq.errors` has all errors. `Outbox` needs the extra `outbox`: without it `from pyrmq import *`
omits it, and using it raises an error that says what to install.

The package itself imports from the modules that define a name, never from here.
"""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pyrmq.version import __version__ as __version__

# What a program does not ask for is not printed; `logging.basicConfig()` shows it.
logging.getLogger(__name__).addHandler(logging.NullHandler())

# pyrmq/installation.py knows this file by it: another distribution has a package `pyrmq` too.
_IS_PYRMQ_BROKER = True
_MODULES = ("aio", "errors", "oms", "sync", "testing")
_NAMES = {
    "pyrmq.client.consumer.allocate": """
        Configured ConsistentHash MachineRoom MachineRoomNearby
    """,
    "pyrmq.model.allocate": "average average_by_circle",
    "pyrmq.client.consumer.consume_service": "ConsumeResult ReconsumeLater",
    "pyrmq.client.consumer.push_consumer": "PushConsumer",
    "pyrmq.client.hooks": """
        ConsumeContext ConsumeMessageHook ConsumeOutcome SendContext SendMessageHook
    """,
    "pyrmq.client.consumer.lite_pull": "LitePullConsumer",
    "pyrmq.client.consumer.simple": "SimpleConsumer",
    "pyrmq.client.consumer.offsets": "ConsumeFrom",
    "pyrmq.client.producer.producer": "Producer",
    "pyrmq.client.consumer.options": "MessageModel",
    "pyrmq.client.producer.pending": "PendingSend reply_to",
    "pyrmq.client.producer.faults": "java_hash select_by_hash",
    "pyrmq.client.producer.outgoing": "split_batches",
    "pyrmq.client.transaction.producer": "TransactionalProducer",
    "pyrmq.client.transaction.listener": """
        TransactionFunction TransactionListener TransactionSendResult TransactionStatistics
    """,
    "pyrmq.errors": """
        BrokerMissingError CheckpointError ClientError ConfigError ConnectError DataLossError
        EngineError
        IllegalOperationError InvalidHandleError InvalidParameterError MessageIllegalError
        MissingPackageError NoPermissionError NotFoundError NotSentError NotSupportedError
        OffsetOutOfRangeError ProtocolError PyrmqError QueryNotFoundError
        RequestCodeNotSupportedError RequestTimeoutError ResponseError SegmentDamagedError
        SegmentError SegmentLayoutError SegmentOptionError SegmentPathError SendsFailedError
        ServiceNotAvailableError StoreDamagedError StoreLockedError SubscriptionError
        SystemBusyError TopicNotExistError TransactionConflictError UndecodableBodyError
        UnknownTopicError
        UnsendableMessageError UnusableExpressionError UnusableHandleError
        UnusableNameError
    """,
    "pyrmq.client.metrics": "ClientMetrics",
    "pyrmq.model.compression": "CompressionType",
    "pyrmq.model.message": "Message MessageQueue SendResult SendStatus",
    "pyrmq.model.record": "ReceivedMessage",
    "pyrmq.model.subscription": "Sql",
    "pyrmq.model.transaction": "TransactionState",
    "pyrmq.net.client.credentials": "Credentials",
    "pyrmq.net.client.tls": "Tls",
    "pyrmq.outbox": "Outbox",
    "pyrmq.segments.scan": "Scan scan",
    "pyrmq.tables.history": "TableScan table",
}
"""Which names each module defines that are exported here."""
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}

if TYPE_CHECKING:
    # The same for type checkers and editors; tests/house/unit/test_exports.py holds the two
    # together.
    from pyrmq import aio as aio
    from pyrmq import errors as errors
    from pyrmq import oms as oms
    from pyrmq import sync as sync
    from pyrmq import testing as testing
    from pyrmq.client.consumer.allocate import Configured as Configured
    from pyrmq.client.consumer.allocate import ConsistentHash as ConsistentHash
    from pyrmq.client.consumer.allocate import MachineRoom as MachineRoom
    from pyrmq.client.consumer.allocate import MachineRoomNearby as MachineRoomNearby
    from pyrmq.client.consumer.consume_service import ConsumeResult as ConsumeResult
    from pyrmq.client.consumer.consume_service import ReconsumeLater as ReconsumeLater
    from pyrmq.client.consumer.lite_pull import LitePullConsumer as LitePullConsumer
    from pyrmq.client.consumer.offsets import ConsumeFrom as ConsumeFrom
    from pyrmq.client.consumer.options import MessageModel as MessageModel
    from pyrmq.client.consumer.push_consumer import PushConsumer as PushConsumer
    from pyrmq.client.consumer.simple import SimpleConsumer as SimpleConsumer
    from pyrmq.client.hooks import ConsumeContext as ConsumeContext
    from pyrmq.client.hooks import ConsumeMessageHook as ConsumeMessageHook
    from pyrmq.client.hooks import ConsumeOutcome as ConsumeOutcome
    from pyrmq.client.hooks import SendContext as SendContext
    from pyrmq.client.hooks import SendMessageHook as SendMessageHook
    from pyrmq.client.metrics import ClientMetrics as ClientMetrics
    from pyrmq.client.producer.faults import java_hash as java_hash
    from pyrmq.client.producer.faults import select_by_hash as select_by_hash
    from pyrmq.client.producer.outgoing import split_batches as split_batches
    from pyrmq.client.producer.pending import PendingSend as PendingSend
    from pyrmq.client.producer.pending import reply_to as reply_to
    from pyrmq.client.producer.producer import Producer as Producer
    from pyrmq.client.transaction.listener import TransactionFunction as TransactionFunction
    from pyrmq.client.transaction.listener import TransactionListener as TransactionListener
    from pyrmq.client.transaction.listener import TransactionSendResult as TransactionSendResult
    from pyrmq.client.transaction.listener import TransactionStatistics as TransactionStatistics
    from pyrmq.client.transaction.producer import TransactionalProducer as TransactionalProducer
    from pyrmq.errors import BrokerMissingError as BrokerMissingError
    from pyrmq.errors import CheckpointError as CheckpointError
    from pyrmq.errors import ClientError as ClientError
    from pyrmq.errors import ConfigError as ConfigError
    from pyrmq.errors import ConnectError as ConnectError
    from pyrmq.errors import DataLossError as DataLossError
    from pyrmq.errors import EngineError as EngineError
    from pyrmq.errors import IllegalOperationError as IllegalOperationError
    from pyrmq.errors import InvalidHandleError as InvalidHandleError
    from pyrmq.errors import InvalidParameterError as InvalidParameterError
    from pyrmq.errors import MessageIllegalError as MessageIllegalError
    from pyrmq.errors import MissingPackageError as MissingPackageError
    from pyrmq.errors import NoPermissionError as NoPermissionError
    from pyrmq.errors import NotFoundError as NotFoundError
    from pyrmq.errors import NotSentError as NotSentError
    from pyrmq.errors import NotSupportedError as NotSupportedError
    from pyrmq.errors import OffsetOutOfRangeError as OffsetOutOfRangeError
    from pyrmq.errors import ProtocolError as ProtocolError
    from pyrmq.errors import PyrmqError as PyrmqError
    from pyrmq.errors import QueryNotFoundError as QueryNotFoundError
    from pyrmq.errors import RequestCodeNotSupportedError as RequestCodeNotSupportedError
    from pyrmq.errors import RequestTimeoutError as RequestTimeoutError
    from pyrmq.errors import ResponseError as ResponseError
    from pyrmq.errors import SegmentDamagedError as SegmentDamagedError
    from pyrmq.errors import SegmentError as SegmentError
    from pyrmq.errors import SegmentLayoutError as SegmentLayoutError
    from pyrmq.errors import SegmentOptionError as SegmentOptionError
    from pyrmq.errors import SegmentPathError as SegmentPathError
    from pyrmq.errors import SendsFailedError as SendsFailedError
    from pyrmq.errors import ServiceNotAvailableError as ServiceNotAvailableError
    from pyrmq.errors import StoreDamagedError as StoreDamagedError
    from pyrmq.errors import StoreLockedError as StoreLockedError
    from pyrmq.errors import SubscriptionError as SubscriptionError
    from pyrmq.errors import SystemBusyError as SystemBusyError
    from pyrmq.errors import TopicNotExistError as TopicNotExistError
    from pyrmq.errors import TransactionConflictError as TransactionConflictError
    from pyrmq.errors import UndecodableBodyError as UndecodableBodyError
    from pyrmq.errors import UnknownTopicError as UnknownTopicError
    from pyrmq.errors import UnsendableMessageError as UnsendableMessageError
    from pyrmq.errors import UnusableExpressionError as UnusableExpressionError
    from pyrmq.errors import UnusableHandleError as UnusableHandleError
    from pyrmq.errors import UnusableNameError as UnusableNameError
    from pyrmq.model.allocate import average as average
    from pyrmq.model.allocate import average_by_circle as average_by_circle
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
    from pyrmq.outbox import Outbox as Outbox
    from pyrmq.segments.scan import Scan as Scan
    from pyrmq.segments.scan import scan as scan
    from pyrmq.tables.history import TableScan as TableScan
    from pyrmq.tables.history import table as table
else:

    def __getattr__(name: str) -> Any:
        """Loads what is asked for; from then on it is an attribute like others."""
        if name in _HOME:
            found = getattr(import_module(_HOME[name]), name)
        elif name in _MODULES:
            found = import_module(f"{__name__}.{name}")
        elif name == "__all__":
            found = _exported()
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = found
        return found


def _exported() -> list[str]:
    names = {"__version__", *_MODULES, *_HOME}
    try:
        found = find_spec("sqlalchemy") is not None
    except ValueError:  # a module that was made by hand
        found = True
    return sorted(names if found else names - {"Outbox"})


def __dir__() -> list[str]:
    return sorted({*globals(), *_exported()})
