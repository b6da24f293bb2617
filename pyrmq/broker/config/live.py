"""The broker's configuration while it runs."""

from __future__ import annotations

from pyrmq.broker.config.broker_config import BrokerConfig
from pyrmq.config import live as live_config

LiveConfig = live_config.LiveConfig[BrokerConfig]
