"""Access control of ACL 1.0 as one object: who asks, whether that is allowed, and what changes.

`secrets` has what a native keyring needs; `on_changed` are called after every change, so that
grants can be revoked and the keyring replaced.

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
from pyrmq.auth.plain.addresses import Address
from pyrmq.auth.plain.decide import refusal, refusal_of_topic
from pyrmq.auth.plain.files import Folder
from pyrmq.auth.plain.rules import Rules, load_rules
from pyrmq.auth.signing import ACCESS_KEY, is_signed
from pyrmq.engine import Command
from pyrmq.errors import ConfigError, ResponseError
from pyrmq.escape import escape
from pyrmq.logs.about import about
from pyrmq.model.codes import ResponseCode

log = logging.getLogger(__name__)

MAX_HOSTS = 4096
"""Decisions about addresses that are kept."""
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
        self._white: dict[tuple[str, Address | None], bool] = {}
        """By access key ("": the global list) and address: whether a white list has it."""
        self._nobody = random.token_hex(16)
        """The secret of accounts that do not exist."""
        self.changing = trio.Lock()
        """Held while files are written, or read again."""
        self.rules = load_rules(self.folder)
        if not self.rules.accounts and not self.rules.white:
            log.warning(
                "no access file of %s has an account: nobody has access",
                escape(home),
                extra=about(path=home),
            )

    def secrets(self) -> Mapping[str, str]:
        """The secret key of each access key."""
        return {key: account.secret_key for key, account in self.rules.accounts.items()}

    def identify(self, command: Command, source: Address | None) -> str:
        """The access key of who makes a request; "" if a white list lets everything through that
        comes from there. AccessDeniedError. `command.subject` is the access key, if the signature
        was verified already."""
        if self._is_white("", source):
            return ""
        verified = command.subject
        key = command.ext.get(ACCESS_KEY) if verified is None else verified
        if not key:
            raise AccessDeniedError(UNSIGNED)
        account = self.rules.accounts.get(key)
        if account is not None and self._is_white(key, source):
            return ""
        if account is None or verified is None:
            secret = account.secret_key if account is not None else self._nobody
            if not is_signed(command, secret) or account is None:
                raise AccessDeniedError(UNPROVEN)
        return key

    def _is_white(self, key: str, source: Address | None) -> bool:
        """Whether the white list of an account, or the global one, has an address."""
        found = self._white.get((key, source))
        if found is None:
            if key:
                found = self.rules.accounts[key].white.matches(source)
            else:
                found = self.rules.is_white(source)
            if len(self._white) >= MAX_HOSTS:
                self._white.clear()
            self._white[key, source] = found
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

    def authorize_topic(
        self, command: Command, source: Address | None, topic: str, permission: Permission
    ) -> None:
        """The same for a topic that is known only when a request is under way, which `identify` let
        through. AccessDeniedError."""
        key = command.subject or command.ext.get(ACCESS_KEY, "")
        account = self.rules.accounts.get(key)
        if self._is_white("", source) or (account is not None and self._is_white(key, source)):
            return
        if account is None:
            raise AccessDeniedError(UNPROVEN)
        why = refusal_of_topic(account, topic, permission)
        if why is not None:
            raise AccessDeniedError(why)

    def may_publish(self, proven: Mapping[str, str], source: Address | None, topic: str) -> bool:
        """Whether one of the accounts that have signed may send to a topic, or whoever is there.
        `proven`: access keys, and the secret keys that they have signed with."""
        if self._is_white("", source):
            return True
        for key, secret in proven.items():
            account = self.rules.accounts.get(key)
            if account is None or account.secret_key != secret:
                continue
            if refusal_of_topic(account, topic, Permission.PUB) is None or self._is_white(
                key, source
            ):
                return True
        return False

    def signer_of(self, command: Command, source: Address | None) -> str | None:
        """The access key that has signed a request which `identify` let through; None where a white
        list lets everything through: the request may state any."""
        key = command.subject or command.ext.get(ACCESS_KEY, "")
        if key not in self.rules.accounts or self._is_white("", source):
            return None
        return None if self._is_white(key, source) else key

    def secret_of(self, command: Command, name: str, source: Address | None) -> str | None:
        """The secret key of the account that a request counts as, which `identify` let through.
        None if it counts as nobody's: the global white list has its address."""
        key = name or command.ext.get(ACCESS_KEY, "")
        account = self.rules.accounts.get(key)
        return None if account is None or self._is_white("", source) else account.secret_key

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
