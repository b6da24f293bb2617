"""The broker: what clients ask of it, on top of the engine's store."""

from pyrmq.broker.broker import Broker
from pyrmq.broker.config.broker_config import BrokerConfig

__all__ = ["Broker", "BrokerConfig"]
