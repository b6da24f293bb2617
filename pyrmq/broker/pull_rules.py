"""What pulls are checked against: topics, groups, subscriptions, configuration."""

from __future__ import annotations

from pyrmq.engine import PullGrants


class PullRules:
    """`generation` says which checks are still right: a change makes it another one, and revokes
    what the engine was granted."""

    def __init__(self, grants: PullGrants) -> None:
        self._grants = grants
        self.generation = 0

    def changed(self) -> None:
        """Every pull is checked again: the next ones, and those that are parked."""
        self.generation += 1
        self._grants.revoke()
