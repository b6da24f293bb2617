"""OpenMessaging for asyncio: the same names as `pyrmq.oms`, and each call is awaited.

    from pyrmq.oms.aio import MessagingAccessPoint

    access_point = MessagingAccessPoint("oms:rocketmq://127.0.0.1:9876/default")
    async with access_point.create_producer() as producer:
        await producer.send(producer.create_bytes_message("Orders", b"Hello"))

The clients run on the background thread of `pyrmq.aio`. Cancelling a task cancels its call.
"""

from pyrmq.oms.aio._generated_clients import MessagingAccessPoint as MessagingAccessPoint
from pyrmq.oms.aio._generated_clients import Producer as Producer
from pyrmq.oms.aio._generated_clients import PullConsumer as PullConsumer
from pyrmq.oms.aio._generated_clients import PushConsumer as PushConsumer
from pyrmq.oms.consumers import Context as Context
from pyrmq.oms.consumers import Listener as Listener
from pyrmq.oms.message import BytesMessage as BytesMessage
from pyrmq.oms.message import KeyValue as KeyValue
from pyrmq.oms.producer import SendResult as SendResult
