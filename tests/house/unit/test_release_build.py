"""Benchmarks and wheels have the engine of the profile `release`, and say so where they do not."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from benches import release_build

ROOT = Path(__file__).resolve().parents[3]


def test_a_development_engine_is_told_by_its_assertions() -> None:
    """`RELEASE_BUILD` of the module is that it has none."""
    profiles = tomllib.loads((ROOT / "Cargo.toml").read_text())["profile"]
    assert profiles["dev-engine"]["debug-assertions"]
    assert "debug-assertions" not in profiles["release"]
    assert profiles["release"]["lto"] == "fat"


def test_benchmarks_refuse_a_development_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release_build, "RELEASE_BUILD", True)
    release_build.require_release_build()
    monkeypatch.setattr(release_build, "RELEASE_BUILD", False)
    with pytest.raises(SystemExit, match="make setup"):
        release_build.require_release_build()
