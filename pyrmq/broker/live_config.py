"""The broker's configuration while it runs."""

from __future__ import annotations

from pyrmq.broker.config import BrokerConfig
from pyrmq.net import live_config

LiveConfig = live_config.LiveConfig[BrokerConfig]
