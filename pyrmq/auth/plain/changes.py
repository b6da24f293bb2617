"""Changes of access files: what is written, and how.

A file is replaced at once and whole, with its mode; a new one is its owner's alone (0600). A file
that somebody else changed meanwhile is left alone. [PlainPermissionManager]
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from pyrmq.auth.plain.accounts import KEYS, LONGEST, SHORTEST, access_file, account
from pyrmq.auth.plain.document import DocumentError, Listed, parse
from pyrmq.auth.plain.editing import (
    ACCOUNTS,
    Edited,
    Values,
    values_of,
    with_account,
    with_version,
    with_white_list,
    without_account,
)
from pyrmq.auth.plain.files import Folder, document, load_bytes
from pyrmq.auth.plain.rules import Rules
from pyrmq.config.files import sync_folder
from pyrmq.errors import ConfigError
from pyrmq.model.topic import DataVersion
from pyrmq.net.clock import now_ms


def set_account(folder: Folder, rules: Rules, values: Values) -> bool:
    """Makes an account in the default file, or changes one where it is. Blocking."""
    key = values.get("accessKey")
    if not isinstance(key, str):
        raise ConfigError("an account has an accessKey")
    path = Path(rules.path_of.get(key, folder.default))

    def edit(text: str) -> Edited:
        merged = {**_present(text, key), **values}
        if merged.get("secretKey") is None:
            raise ConfigError(
                f"account {key[:64]!r} is new: give it a secretKey, of {SHORTEST} to {LONGEST} "
                "characters (`pyrmq admin account set --secret` asks for it)"
            )
        ordered = {name: merged[name] for name in KEYS if name in merged}
        made = account(
            "the account",
            {n: v for n, v in ordered.items() if v is None or isinstance(v, str)},
            {n: v for n, v in ordered.items() if v is not None and not isinstance(v, str)},
        )
        ordered["admin"] = "true" if made.admin else "false"
        return with_account(text, key, ordered)

    return _edit(path, edit)


def delete_account(folder: Folder, rules: Rules, access_key: str) -> bool:
    """Blocking."""
    path = rules.path_of.get(access_key)

    def edit(text: str) -> Edited:
        edited = without_account(text, access_key)
        if edited is None:
            raise _no_account(access_key)
        return edited

    if path is None:
        raise _no_account(access_key)
    return _edit(Path(path), edit)


def set_white_list(folder: Folder, patterns: Sequence[str], path: str) -> bool:
    """Blocking. `path` has to be one of the access files: nothing else is written."""
    target = folder.default
    if path:
        known = {os.path.realpath(one): one for one in folder.paths()}
        found = known.get(os.path.realpath(path))
        if found is None:
            raise ConfigError("the path is none of the access files of this broker")
        target = found
    return _edit(target, lambda text: with_white_list(text, patterns))


def _no_account(access_key: str) -> ConfigError:
    return ConfigError(f"there is no account {access_key[:64]!r} in the access files")


def _present(text: str, access_key: str) -> dict[str, str | Sequence[str] | None]:
    """The values of the account as the file has it; none if it has none."""
    listed = parse(text).get(ACCOUNTS)
    for item in listed.items if isinstance(listed, Listed) else ():
        values = values_of(item)
        if values.get("accessKey") == access_key:
            return values
    return {}


def _edit(path: Path, edit: Callable[[str], Edited]) -> bool:
    """Replaces the file by what `edit` makes of its text, with the next version; returns whether
    comments are lost. ConfigError if the result would be no access file, OSError."""
    target = Path(os.path.realpath(path))
    try:
        before: os.stat_result | None = target.stat()
        raw = load_bytes(target)
    except FileNotFoundError:
        before, raw = None, b""
    document(path, raw)
    try:
        edited = edit(raw.decode("utf-8-sig"))
        version = access_file(str(path), parse(edited.text)).version
        version = DataVersion(version.timestamp, version.counter)
        version.next(now_ms())
        final = with_version(edited.text, version)
        access_file(str(path), parse(final.text))
    except DocumentError as e:
        raise ConfigError(f"{path}: {e}") from None
    _replace(target, final.text.encode(), before)
    return edited.lost or final.lost


def _same(a: os.stat_result | None, b: os.stat_result | None) -> bool:
    if a is None or b is None:
        return a is b
    return (a.st_mtime_ns, a.st_size, a.st_ino) == (b.st_mtime_ns, b.st_size, b.st_ino)


def _replace(path: Path, raw: bytes, before: os.stat_result | None) -> None:
    """Writes beside the file and renames. A crash leaves the old file or the new one."""
    beside = path.with_name(f".{path.name}.new")
    mode = stat.S_IMODE(before.st_mode) if before is not None else 0o600
    with suppress(FileNotFoundError):
        beside.unlink()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(raw)
            os.fchmod(fd, mode)
            if before is not None and (before.st_uid, before.st_gid) != (
                os.geteuid(),
                os.getegid(),
            ):
                with suppress(PermissionError):
                    os.fchown(fd, before.st_uid, before.st_gid)
            file.flush()
            os.fsync(fd)
        try:
            now: os.stat_result | None = path.stat()
        except FileNotFoundError:
            now = None
        if not _same(before, now):
            raise ConfigError(f"{path} was changed by somebody else at the same time: try again")
        os.rename(beside, path)
        sync_folder(path.parent)
    except OSError as e:
        raise ConfigError(f"cannot write {path}: {e.strerror}") from e
    finally:
        with suppress(OSError):
            beside.unlink()
