"""The users and access lists of another server, read from its files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import trio
import trio.testing

from pyrmq.auth.access import Access
from pyrmq.auth.audit import Asker
from pyrmq.auth.followed import RETRY, FollowedAccess
from pyrmq.auth.model import UserChange
from pyrmq.auth.requests import AccessProcessor
from pyrmq.errors import NoPermissionError
from pyrmq.model.codes import RequestCode as Code
from tests.auth.unit.commands import command
from tests.auth.unit.stage import Stage

ASKER = Asker("root", "127.0.0.1:1", True)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    folder = tmp_path / "broker"
    return folder / "users.json", folder / "acls.json"


async def test_a_change_counts_at_the_next_look(files: tuple[Path, Path]) -> None:
    followed = FollowedAccess(*files, "broker b")
    revoked: list[None] = []
    followed.on_changed.append(lambda: revoked.append(None))
    own = followed.know_own_broker()
    followed.refresh()
    assert (revoked, len(followed.users)) == ([], 0)
    owner = Access(*files)
    await owner.create_user(ASKER, "alice", UserChange("secret"))
    followed.refresh()
    assert followed.users.signer("alice") == owner.users.get("alice")
    assert followed.users.signer(own.access_key) is not None
    assert len(revoked) == 1
    await owner.delete_user(ASKER, "alice")
    followed.refresh()
    assert followed.users.signer("alice") is None
    assert len(revoked) == 2


async def test_files_that_cannot_be_used_change_nothing(
    files: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    owner = Access(*files)
    await owner.create_user(ASKER, "alice", UserChange("secret"))
    followed = FollowedAccess(*files, "broker b")
    files[0].write_text("{")
    for _ in range(3):
        followed.refresh()
    assert followed.users.signer("alice") is not None
    assert caplog.text.count("stay as they were") == 1
    await owner.create_user(ASKER, "bob", UserChange("secret"))
    followed.refresh()
    assert followed.users.signer("bob") is not None


async def test_files_are_read_again_that_could_not_be_used(
    files: tuple[Path, Path], autojump_clock: trio.testing.MockClock
) -> None:
    """The mode of a file is mended without a change of the file."""
    owner = Access(*files)
    await owner.create_user(ASKER, "alice", UserChange("secret"))
    followed = FollowedAccess(*files, "broker b")
    await owner.delete_user(ASKER, "alice")
    files[0].chmod(0o644)
    followed.refresh()
    assert followed.users.signer("alice") is not None
    files[0].chmod(0o600)
    followed.refresh()
    assert followed.users.signer("alice") is not None
    await trio.sleep(RETRY)
    followed.refresh()
    assert followed.users.signer("alice") is None


@pytest.mark.parametrize(
    "code",
    [
        Code.AUTH_CREATE_USER, Code.AUTH_UPDATE_USER, Code.AUTH_DELETE_USER,
        Code.AUTH_CREATE_ACL, Code.AUTH_UPDATE_ACL, Code.AUTH_DELETE_ACL,
    ],
)  # fmt: skip
async def test_changes_are_refused(files: tuple[Path, Path], stage: Stage, code: Code) -> None:
    followed = FollowedAccess(*files, "broker b")
    processor = AccessProcessor(followed, lambda connection, command: ASKER).by_code()[code]
    ext = {"username": "alice", "subject": "User:alice"}
    entry = {"resource": "*", "actions": ["All"], "decision": "Allow"}
    body = json.dumps({"password": "p", "policies": [{"entries": [entry]}]}).encode()
    answer = processor(stage.peer().connection, command(code, ext, body))
    with pytest.raises(NoPermissionError, match="those of broker b"):
        await answer  # type: ignore[misc]
    assert not files[0].exists()
