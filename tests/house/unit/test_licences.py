"""What is inside of the jar and of the wheels is listed, and may be inside of them."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


@pytest.fixture
def listing(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if shutil.which("cargo") is None:
        pytest.skip("needs cargo")
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("licences")


@pytest.mark.parametrize("name", ["jar", "wheel"])
def test_the_page_is_up_to_date(listing: ModuleType, name: str) -> None:
    assert listing.main([name, "--check"]) == 0


def test_a_crate_that_is_not_listed_is_found(
    listing: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    built = listing.BUILT["wheel"]
    crate = listing.Crate("name", "1", "MIT", "", Path())
    other = listing.Crate("other", "2", "MIT", "", Path())
    monkeypatch.setattr(listing, "linked", lambda _: [other])
    monkeypatch.setattr(listing, "ROOT", tmp_path)
    page = tmp_path / built.page
    page.parent.mkdir()
    page.write_text(listing.page(built, [crate, other]), encoding="utf-8")
    assert listing.main(["wheel", "--check"]) == 1
    assert listing.main(["wheel"]) == 0
    assert listing.main(["wheel", "--check"]) == 0


@pytest.mark.parametrize("words", [[], ["egg"], ["jar", "--chek"], ["jar", "--texts"]])
def test_words_that_it_does_not_know(listing: ModuleType, words: list[str]) -> None:
    assert listing.main(words) == 2


@pytest.mark.parametrize(
    ("licence", "fits"),
    [
        ("MIT", True),
        ("GPL-3.0", False),
        ("GPL-3.0 OR MIT", True),
        ("(MIT OR GPL-3.0) AND Zlib", True),
        ("MIT AND GPL-3.0", False),
        ("MIT/Apache-2.0", True),
        ("none is stated", False),
    ],
)
def test_a_licence_that_does_not_fit(listing: ModuleType, licence: str, fits: bool) -> None:
    crate = listing.Crate("name", "1", licence, "", Path())
    assert (listing.refused([crate]) == []) is fits


def test_each_crate_has_a_text(listing: ModuleType, tmp_path: Path) -> None:
    crates = listing.linked(listing.BUILT["wheel"])
    assert {"pyo3", "rustls", "zstd-sys"} <= {crate.name for crate in crates}
    listing.copy_texts(crates, tmp_path)
    assert {path.parent.name for path in tmp_path.glob("*/*") if path.stat().st_size} == {
        f"{crate.name}-{crate.version}" for crate in crates
    }
