"""The keys of deleting log files early, once tables have their messages. RocketMQ has none."""

from __future__ import annotations

from dataclasses import dataclass

from pyrmq.config.table import key
from pyrmq.errors import ConfigError, InvalidParameterError
from pyrmq.model.names import check_consumer_group, is_stored_topic, is_system_group

MAX_PATTERNS = 1024
"""Most names of reclaimTopicsWithoutTable."""


def _group_or_none(text: str) -> None:
    try:
        if text:
            check_consumer_group(text)
    except InvalidParameterError as e:
        raise ValueError(str(e)) from None
    if is_system_group(text):
        raise ValueError("a group of the broker's own says nothing of tables")


def patterns(text: str) -> list[str]:
    """reclaimTopicsWithoutTable as a list. ValueError says what is expected."""
    found = [part.strip() for part in text.split(",") if part.strip()]
    if len(found) > MAX_PATTERNS:
        raise ValueError(f"at most {MAX_PATTERNS} names expected")
    for name in found:
        if "*" in name[:-1] or not is_stored_topic(name):
            raise ValueError(f"{name[:64]!r} is no topic: `*` stands at the end only")
    return found


@dataclass(frozen=True)
class ReclaimKeys:
    """A part of BrokerConfig."""

    reclaim_after: str = key(
        "off",
        "table: a log file counts as expired once tables have all that is needed of it, as "
        "reclaimGroup says. Not RocketMQ's.",
        choices=("off", "table"),
        section="Deleting what is in tables ([store.md](store.md#deleting-what-is-in-tables))",
    )
    reclaim_group: str = key(
        "",
        "The group whose offsets say what tables have (`pyrmq pipeline table write "
        "--commit-group`). Whoever may commit them may have data deleted. Not RocketMQ's.",
        check=_group_or_none,
        values="a group",
    )
    reclaim_topics_without_table: str = key(
        "",
        "Topics that need no table before their messages are deleted; their consumers count all "
        "the same. Not RocketMQ's.",
        check=patterns,
        values="names, separated by commas; `*` at the end: all that begin so",
    )

    def check_reclaim(self) -> None:
        """ConfigError for keys that do not go together."""
        if self.reclaim_after == "table" and not self.reclaim_group:
            raise ConfigError(
                "reclaimAfter=table needs reclaimGroup: the group that `pyrmq pipeline table write "
                "--commit-group` commits to"
            )
