"""pyrmq: Apache RocketMQ's broker, name server and client in Python with a native engine."""

__version__ = "0.1.0"
