"""Clients on trio: producers and consumers for pyrmq's and Apache RocketMQ's brokers."""

from pyrmq.client.consumer import PushConsumer
from pyrmq.client.offsets import ConsumeFrom
from pyrmq.client.producer import Producer

__all__ = ["ConsumeFrom", "Producer", "PushConsumer"]
