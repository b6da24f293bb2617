"""Which files of a server have secrets, and can be reached by other accounts of the machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pyrmq.auth.plain.files import Folder
from pyrmq.config.secret_file import is_open
from pyrmq.doctor.facts import OpenFile

Values = Mapping[str, str]
SECRETS = (
    "initAuthenticationUser",
    "innerClientAuthenticationCredentials",
    "tls.server.keyPassword",
    "tls.client.keyPassword",
)
"""Keys whose values are secrets."""


def open_files(
    values: Values, written: Values, file: Path | None, *, namesrv: bool
) -> Iterator[OpenFile]:
    """`values`: of the server; `written`: those that its file and the environment have."""
    if file is not None and any(written.get(key) for key in SECRETS):
        yield from _mode(file, "it has secrets")
    for key in ("tls.server.keyPath", "tls.client.keyPath"):
        if values.get(key):
            yield from _mode(Path(values[key]), "it is a private key")
    if values.get("aclEnable", "").lower() == "true" and not namesrv:
        folder = Folder(Path(values.get("rocketmqHome", "")))
        for path in folder.paths():
            yield from _mode(path, "it has secret keys")
        yield from _mode(folder.home / "conf" / "tools.yml", "it has secret keys")
    for path in _users_files(values, namesrv):
        yield from _mode(path, "it has the passwords of users")


def _users_files(values: Values, namesrv: bool) -> Iterable[Path]:
    if namesrv:
        return [Path(values["kvConfigPath"]).with_name("namesrvUsers.json")]
    return [Path(values["storePathRootDir"]) / "config" / "users.json"]


def _mode(path: Path, why: str) -> Iterator[OpenFile]:
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:
        return  # what is not there is read by nobody
    if is_open(mode):
        yield OpenFile(path, mode, why)
