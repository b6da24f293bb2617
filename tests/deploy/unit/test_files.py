"""`pyrmq deploy`: what is written, and what is not replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from pyrmq.cli import deploy, main
from pyrmq.deploy.files import KINDS, files_of, write
from pyrmq.errors import ConfigError


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_written_once(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    written = write(kind, folder)
    assert set(written.values()) == {True}
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == files_of(kind)
    assert {p.stat().st_mode & 0o777 for p in folder.iterdir()} == {0o644}
    assert set(write(kind, folder).values()) == {False}


def test_the_command_knows_the_same_kinds() -> None:
    assert deploy.KINDS == KINDS
    assert set(deploy.NEXT) == set(KINDS)


def test_nothing_is_written_where_one_file_differs(tmp_path: Path) -> None:
    mine = tmp_path / "compose.yaml"
    mine.write_text("mine")
    with pytest.raises(ConfigError, match=r"compose\.yaml is there already"):
        write("compose", tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["compose.yaml"]
    assert mine.read_text() == "mine"
    write("compose", tmp_path, force=True)
    assert mine.read_bytes() == files_of("compose")["compose.yaml"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "out"
    victim.write_text("mine")
    folder.mkdir()
    (folder / "compose.yaml").symlink_to(victim)
    with pytest.raises(ConfigError):
        write("compose", folder)
    write("compose", folder, force=True)
    assert victim.read_text() == "mine"
    assert not (folder / "compose.yaml").is_symlink()


def test_a_link_to_nothing_counts_as_there(tmp_path: Path) -> None:
    (tmp_path / "compose.yaml").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError):
        write("compose", tmp_path)


def test_an_unknown_kind() -> None:
    with pytest.raises(ConfigError, match="systemd, docker, compose, kubernetes, monitoring"):
        files_of("../systemd")


def test_the_command(tmp_path: Path) -> None:
    folder = str(tmp_path / "out")
    ran = CliRunner().invoke(main, ["deploy", "docker", "--out", folder])
    assert ran.exit_code == 0
    assert ran.stdout.splitlines() == [f"{folder}/Dockerfile", f"{folder}/dockerignore"]
    again = CliRunner().invoke(main, ["deploy", "docker", "--out", folder])
    assert again.stdout.splitlines()[0] == f"{folder}/Dockerfile (unchanged)"
    (tmp_path / "out" / "Dockerfile").write_text("mine")
    refused = CliRunner().invoke(main, ["deploy", "docker", "--out", folder])
    assert refused.exit_code == 1
    assert "--force" in refused.stderr
    (tmp_path / "file").touch()
    bad = CliRunner().invoke(main, ["deploy", "docker", "--out", str(tmp_path / "file")])
    assert bad.exit_code == 2
