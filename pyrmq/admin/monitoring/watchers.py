"""All that is watched, as far as the thresholds want it."""

from __future__ import annotations

from pyrmq.admin.api import Admin
from pyrmq.admin.monitoring.asked_once import TopicNames
from pyrmq.admin.monitoring.groups import DeadLetterWatcher, GroupWatcher, MovedOffsetWatcher
from pyrmq.admin.monitoring.metrics import METRICS, Part
from pyrmq.admin.monitoring.pending import TransactionWatcher
from pyrmq.admin.monitoring.rounds import Watcher
from pyrmq.admin.monitoring.servers import SERVER_PARTS, ServerWatcher
from pyrmq.admin.monitoring.settings import Settings


def watchers(admin: Admin, settings: Settings) -> list[Watcher]:
    """Those of which a figure is wanted."""
    names = TopicNames(admin.link)
    link = admin.link
    link.expected.wanted += settings.watched.expect
    link.expected.keep_ms = int(settings.rounds.forget * 1000)
    every: tuple[tuple[set[Part], Watcher], ...] = (
        (set(SERVER_PARTS), ServerWatcher(link)),
        ({Part.PROGRESS, Part.RUNNING}, GroupWatcher(link, names)),
        ({Part.DEAD_LETTERS}, DeadLetterWatcher(link, names)),
        ({Part.EVENTS}, MovedOffsetWatcher(link)),
        ({Part.TRANSACTIONS}, TransactionWatcher(link)),
    )
    wanted = {m.part for m in METRICS.values() if settings.watches(m.name)}
    return [watcher for parts, watcher in every if parts & wanted]
