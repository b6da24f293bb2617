"""A name server that runs with its broker: both have one set of users, and know each other."""

from __future__ import annotations

