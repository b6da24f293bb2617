"""OpenMessaging's interface (0.3) to RocketMQ, on pyrmq's clients.

    from pyrmq.oms import MessagingAccessPoint

    access_point = MessagingAccessPoint("oms:rocketmq://127.0.0.1:9876/default")
    async with access_point.create_producer() as producer:
        await producer.send(producer.create_bytes_message("Orders", b"Hello"))

This is for trio; `pyrmq.oms.aio` is the same for asyncio, `pyrmq.oms.sync` for blocking code.
Errors are those of `pyrmq.errors`, also under OpenMessaging's names.
"""

from pyrmq.errors import MessageIllegalError as OMSMessageFormatError
from pyrmq.errors import NotSupportedError as OMSNotSupportedError
from pyrmq.errors import PyrmqError as OMSRuntimeError
from pyrmq.errors import RequestTimeoutError as OMSTimeoutError
from pyrmq.oms.access_point import MessagingAccessPoint
from pyrmq.oms.consumers import Context, PullConsumer, PushConsumer
from pyrmq.oms.message import BytesMessage, Header, KeyValue
from pyrmq.oms.producer import Producer, Promise, SendResult
from pyrmq.oms.settings import Attribute

__all__ = [
    "Attribute",
    "BytesMessage",
    "Context",
    "Header",
    "KeyValue",
    "MessagingAccessPoint",
    "OMSMessageFormatError",
    "OMSNotSupportedError",
    "OMSRuntimeError",
    "OMSTimeoutError",
    "Producer",
    "Promise",
    "PullConsumer",
    "PushConsumer",
    "SendResult",
]
