"""A mark for tests that need a disk with room: a broker whose disk is full deletes files early."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

_used = shutil.disk_usage(Path(__file__).parent)
needs_room = pytest.mark.skipif(_used.used > _used.total * 0.8, reason="the disk is too full")
