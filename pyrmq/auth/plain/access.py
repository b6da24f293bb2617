"""Access control of ACL 1.0 as one object: who asks, whether that is allowed, and what changes.

`check` is called for every request that is not decided natively. `secrets` has what a native
keyring needs; `on_changed` are called after every change, so that grants can be revoked and the
keyring replaced.

A refusal has code 1 (SYSTEM_ERROR) and the text `AclException: …`, as RocketMQ's clients know it.
Whoever did not prove who it is gets one of two texts, which do not tell whether an account exists;
the time of the check does not tell it either. [PlainAccessValidator]
"""

from __future__ import annotations

import logging
import secrets as random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import trio

from pyrmq.auth.plain import changes
from pyrmq.auth.plain.accounts import Permission
from pyrmq.auth.plain.addresses import address_of
from pyrmq.auth.plain.decide import Need, lacking, refusal
from pyrmq.auth.plain.files import Folder
from pyrmq.auth.plain.rules import Rules, load_rules
from pyrmq.auth.plain.signing import ACCESS_KEY, is_valid
from pyrmq.errors import ConfigError, ResponseError
from pyrmq.escape import escape
from pyrmq.model.codes import ResponseCode

log = logging.getLogger(__name__)

MAX_HOSTS = 4096
"""Decisions about hosts that are kept."""
UNSIGNED = "this broker takes signed requests: give the client an access key and a secret key"
UNPROVEN = "the access key is unknown, or the signature does not fit it"


class AccessDeniedError(ResponseError):
    """A request was refused by ACL 1.0."""

    def __init__(self, why: str) -> None:
        super().__init__(f"AclException: {why}", ResponseCode.SYSTEM_ERROR)


class PlainAccess:
    """Accounts and white lists of the access files below a folder, rocketmqHome."""

    def __init__(self, home: Path) -> None:
        """Reads the files. Blocking. ConfigError if they cannot be used."""
        self.folder = Folder(home)
        self.on_changed: list[Callable[[], None]] = []
        self._white: dict[tuple[str, str], bool] = {}
        """By access key ("": the global list) and host: whether a white list has the host."""
        self._nobody = random.token_hex(16)
        """The secret of accounts that do not exist."""
        self.changing = trio.Lock()
        """Held while files are written, or read again."""
        self.rules = load_rules(self.folder)
        if not self.rules.accounts and not self.rules.white:
            log.warning("no access file of %s has an account: nobody has access", escape(home))

    def secrets(self) -> Mapping[str, str]:
        """The secret key of each access key."""
        return {key: account.secret_key for key, account in self.rules.accounts.items()}

    def check(
        self,
        code: int,
        ext: Mapping[str, str],
        body: bytes,
        version: int,
        peer_host: str,
        verified: str | None = None,
    ) -> None:
        """Returns if the request is allowed. The arguments are those of `identify`, and the request
        code. AccessDeniedError says why not."""
        name = self.identify(ext, body, version, peer_host, verified)
        self.authorize(name, code, ext, body)

    def identify(
        self,
        ext: Mapping[str, str],
        body: bytes,
        version: int,
        peer_host: str,
        verified: str | None = None,
    ) -> str:
        """The access key of who makes a request; "" if a white list lets everything through that
        comes from there.

        `version`: MQVersion of the client. `peer_host`: its address, without port. `verified`: the
        access key, if the signature was verified already. AccessDeniedError.
        """
        if self._is_white("", peer_host):
            return ""
        key = ext.get(ACCESS_KEY) if verified is None else verified
        if key is None:
            raise AccessDeniedError(UNSIGNED)
        account = self.rules.accounts.get(key)
        if account is not None and self._is_white(key, peer_host):
            return ""
        if account is None or verified is None:
            secret = account.secret_key if account is not None else self._nobody
            if not is_valid(ext, body, version, secret) or account is None:
                raise AccessDeniedError(UNPROVEN)
        return key

    def _is_white(self, key: str, host: str) -> bool:
        """Whether the white list of an account, or the global one, has a host."""
        found = self._white.get((key, host))
        if found is None:
            address = address_of(host)
            if key:
                found = self.rules.accounts[key].white.matches(address)
            else:
                found = self.rules.is_white(address)
            if len(self._white) >= MAX_HOSTS:
                self._white.clear()
            self._white[key, host] = found
        return found

    def authorize(self, name: str, code: int, ext: Mapping[str, str], body: bytes) -> None:
        """Returns if who `identify` named may make the request. AccessDeniedError."""
        if not name:
            return
        account = self.rules.accounts.get(name)
        if account is None:  # deleted meanwhile
            raise AccessDeniedError(UNPROVEN)
        why = refusal(account, code, ext, body)
        if why is not None:
            raise AccessDeniedError(why)

    def is_white(self, host: str) -> bool:
        """Whether everything from a host is let through."""
        return self._is_white("", host)

    def why_not(
        self, name: str, host: str, resource: str, permission: Permission, *, group: bool = False
    ) -> str | None:
        """Why the account of an access key lacks a permission at a host; None: it has it."""
        account = self.rules.accounts.get(name)
        if account is None:
            return UNPROVEN
        if account.admin or self._is_white(name, host):
            return None
        return lacking(account, Need(resource, permission, group))

    def replace(self, rules: Rules) -> None:
        """Has these rules count from now on."""
        self.rules = rules
        self._white.clear()
        for callback in self.on_changed:
            callback()

    async def set_account(self, values: Mapping[str, str | Sequence[str] | None]) -> bool:
        """Makes an account, or changes one: keys without a value stay as they are. Returns whether
        comments of its file are lost. ConfigError if that cannot be."""
        return await self._change(lambda: changes.set_account(self.folder, self.rules, values))

    async def delete_account(self, access_key: str) -> bool:
        """Takes an account out of its file. As `set_account`."""
        return await self._change(
            lambda: changes.delete_account(self.folder, self.rules, access_key)
        )

    async def set_white_list(self, patterns: Sequence[str], path: str = "") -> bool:
        """Replaces the global white list of a file; "": of the default one. As `set_account`."""
        return await self._change(lambda: changes.set_white_list(self.folder, patterns, path))

    async def _change(self, change: Callable[[], bool]) -> bool:
        """One change after the other. What was written counts when this returns."""
        async with self.changing:
            lost, rules = await trio.to_thread.run_sync(self._written, change)
            self.replace(rules)
            return lost

    def _written(self, change: Callable[[], bool]) -> tuple[bool, Rules]:
        """Blocking; it cannot be cancelled."""
        lost = change()
        try:
            return lost, load_rules(self.folder)
        except ConfigError as e:
            log.error("a change is written, but does not count: %s", escape(e))
            raise
