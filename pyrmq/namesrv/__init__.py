"""The name server: route tables in memory, rebuilt from what brokers register."""

from pyrmq.namesrv.server import NameServer

__all__ = ["NameServer"]
