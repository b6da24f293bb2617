"""OpenMessaging for blocking code: the same names, and each call blocks.

    from pyrmq.oms.sync import MessagingAccessPoint

    access_point = MessagingAccessPoint("oms:rocketmq://127.0.0.1:9876/default")
    with access_point.create_producer() as producer:
        producer.send(producer.create_bytes_message("Orders", b"Hello"))

The clients run on the background thread of `pyrmq.sync`. Programs that cannot use `with` call
`startup` and `shutdown`.
"""

from pyrmq.oms.consumers import Context as Context
from pyrmq.oms.message import BytesMessage as BytesMessage
from pyrmq.oms.message import KeyValue as KeyValue
from pyrmq.oms.producer import SendResult as SendResult
from pyrmq.oms.sync._generated_clients import MessagingAccessPoint as MessagingAccessPoint
from pyrmq.oms.sync._generated_clients import Producer as Producer
from pyrmq.oms.sync._generated_clients import PullConsumer as PullConsumer
from pyrmq.oms.sync._generated_clients import PushConsumer as PushConsumer
from pyrmq.oms.sync.special import Listener as Listener
