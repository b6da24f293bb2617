"""Password files: what is written, read and refused."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Timer

import pytest

from pyrmq.console import password_file
from pyrmq.console.password_file import (
    PasswordFile,
    User,
    changing,
    check_name,
    hashed,
    is_password,
    nobody,
    read,
    write,
)
from pyrmq.console.settings import Role
from pyrmq.errors import ConfigError

GOOD = "scrypt$2$8$1$AAAAAAAAAAAAAAAAAAAAAA==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(password_file, "COST", 16)


def test_passwords() -> None:
    one, other = hashed("correct horse"), hashed("correct horse")
    assert one != other  # each has a salt of its own
    assert is_password("correct horse", one)
    assert is_password("correct horse", other)
    assert not is_password("correct horse ", one)
    assert not is_password("", one)
    assert not is_password("correct horse", nobody())
    assert not is_password("correct horse", "nonsense")
    assert is_password("päßwörter", hashed("päßwörter"))


@pytest.mark.parametrize("password", ["", "1234567", "x" * 1025])
def test_passwords_that_are_none(password: str) -> None:
    with pytest.raises(ConfigError, match="8 to 1024"):
        hashed(password)


@pytest.mark.parametrize("name", ["", "a:b", "a b", "a\nb", "ä", "x" * 65])
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(ConfigError, match="letters"):
        check_name(name)


def test_a_file_is_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    write(path, [User("ann", Role.ADMIN, GOOD)])
    assert path.stat().st_mode & 0o777 == 0o600
    assert read(path) == {"ann": User("ann", Role.ADMIN, GOOD)}
    path.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read(path)


@pytest.mark.parametrize(
    "line",
    [
        "ann",
        "ann:admin",
        "ann:root:" + GOOD,
        ":admin:" + GOOD,
        "ann:admin:plain",
        "ann:admin:" + GOOD.replace("$2$", "$3$"),  # no power of two
        "ann:admin:" + GOOD.replace("$2$", "$1048576$"),  # a gigabyte
        "ann:admin:" + GOOD.replace("$8$", "$999$"),
        "ann:admin:" + GOOD + "\nann:read-only:" + GOOD,
    ],
)
def test_lines_that_are_none(tmp_path: Path, line: str) -> None:
    path = tmp_path / "passwords"
    path.write_text(f"# users\n\n{line}\n")
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=r"line [34]: not NAME:ROLE:HASH"):
        read(path)


def test_no_file_and_one_that_is_too_large(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pyrmq console passwords set"):
        read(tmp_path / "nothing")
    large = tmp_path / "large"
    large.write_bytes(b"#" * (password_file.MAX_FILE + 1))
    large.chmod(0o600)
    with pytest.raises(ConfigError, match="right file"):
        read(large)


def test_a_write_that_fails_leaves_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        write(tmp_path / "no folder" / "passwords", [])
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "passwords"
    write(path, [User("ann", Role.ADMIN, GOOD)])
    users = PasswordFile(path)
    assert users.user("ann") is not None
    assert users.user("rob") is None
    write(path, [User("rob", Role.READ_ONLY, GOOD)])
    assert users.user("ann") is None
    assert users.user("rob") == User("rob", Role.READ_ONLY, GOOD)


def test_a_change_that_is_refused_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The users of before stay, also one that was removed: whoever did it has to know."""
    path = tmp_path / "users"
    write(path, [User("ann", Role.ADMIN, GOOD), User("rob", Role.READ_ONLY, GOOD)])
    users = PasswordFile(path)
    path.write_text(f"ann:admin:{GOOD}\n")
    path.chmod(0o644)
    for _ in range(3):
        assert users.user("rob") is not None
    (told,) = caplog.messages
    assert "also those you removed" in told
    assert "chmod 600" in told


def test_changes_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "users"
    began, may_end = Event(), Event()

    def slow() -> None:
        with changing(path) as users:
            began.set()
            may_end.wait(30)
            users["ann"] = User("ann", Role.ADMIN, GOOD)

    def other() -> None:
        assert began.wait(30)
        may_end_soon.start()
        with changing(path) as users:
            users["rob"] = User("rob", Role.READ_ONLY, GOOD)

    may_end_soon = Timer(0.2, may_end.set)
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(slow), pool.submit(other)]:
            done.result()
    assert set(read(path)) == {"ann", "rob"}
