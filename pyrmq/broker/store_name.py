"""config/brokerName.json: the broker's name beside its store, for those who read the files.

RocketMQ's broker does not know the file and leaves it alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyrmq.broker.tables import config_file
from pyrmq.errors import ConfigError
from pyrmq.escape import escape
from pyrmq.model import broker_name
from pyrmq.model.topic import PERM_INHERIT, TopicConfig

log = logging.getLogger(__name__)


def write(folder: Path, name: str, topics: Iterable[TopicConfig]) -> None:
    """Keeps a broker's name in its config folder, at start. A broker runs without it as well.

    Before topics.json is saved with the topic of a new name: a name that only topics.json has is
    that of another broker, which came later.
    """
    path = folder / broker_name.FILE
    rows = {t.topic_name: t.to_json() for t in topics if t.perm & PERM_INHERIT}
    value = broker_name.to_json(name, broker_name.names_in_topics(rows))
    try:
        if _load(path) != value:
            config_file.save(path, value)
    except OSError as e:
        log.warning("%s cannot be written: %s", escape(path), escape(e))


def _load(path: Path) -> dict[Any, Any]:
    try:
        return config_file.load(path)
    except ConfigError:
        return {}  # it is written anew
