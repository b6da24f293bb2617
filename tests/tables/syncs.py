"""Which files and folders a test syncs."""

from __future__ import annotations

import os

import pytest


def record_syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A list that gets the path of each file and folder that is synced from here on."""
    synced: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    return synced
