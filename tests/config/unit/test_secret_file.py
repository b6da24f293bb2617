"""Files with a secret: read only if nobody else can."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from pyrmq.config.secret_file import MAX_SECRET, others_may_read, read_secret
from pyrmq.errors import ConfigError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "key"
    found.write_text("my secret\n")
    found.chmod(0o600)
    return found


def test_one_line(file: Path) -> None:
    assert read_secret(file, "x") == "my secret"
    file.write_bytes(b" my secret \r\n")
    assert read_secret(str(file), "x") == " my secret "
    file.write_text("ü€")
    assert read_secret(file, "x") == "ü€"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o601, 0o666])
def test_others_may_read_it(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(ConfigError) as caught:
        read_secret(file, "--secret-key-file")
    text = f"--secret-key-file {file} may be read by others (mode {mode:o}): chmod 600"
    assert str(caught.value) == text
    assert others_may_read(file)
    file.chmod(0o400)
    assert read_secret(file, "x") == "my secret"
    assert not others_may_read(file)


def test_a_link_counts_as_its_file(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(file)
    assert read_secret(link, "x") == "my secret"
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_secret(link, "x")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "must have one line"),
        (b"\n", "must have one line"),
        (b"my secret\nmore\n", "must have one line"),
        (b"my secret\xff", "is not UTF-8"),
        (b"s" * (MAX_SECRET + 1), "has more than 4096 bytes"),
    ],
)
def test_content_that_cannot_be_meant(file: Path, content: bytes, text: str) -> None:
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^what .*{text}") as caught:
        read_secret(file, "what")
    assert "my secret" not in str(caught.value)


def test_what_is_no_file(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "gone", tmp_path / "a\0b"):
        with pytest.raises(ConfigError, match="cannot be read"):
            read_secret(path, "what")
    with pytest.raises(ConfigError, match="is not a file"):
        read_secret("/dev/zero", "what")
    assert not others_may_read(tmp_path / "gone")


def test_a_pipe_of_a_shell(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o644)
    writer = threading.Thread(target=pipe.write_text, args=("my secret\n",), daemon=True)
    writer.start()
    assert read_secret(pipe, "x") == "my secret"
    writer.join()
