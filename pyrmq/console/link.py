"""The console's Admin objects: one for all users, or with login by the broker's users one for each.

An Admin lives in a task of its own, because its connections are entered and left in one task.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import trio
from starlette.requests import Request

from pyrmq.admin.api import Admin
from pyrmq.console.sessions import session_of
from pyrmq.console.settings import LoginKind, Settings
from pyrmq.escape import escape
from pyrmq.net.client.credentials import Credentials

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Kept:
    admin: Admin
    scope: trio.CancelScope


class Links:
    """`tasks`: where the Admin objects live."""

    def __init__(self, settings: Settings, tasks: trio.Nursery) -> None:
        self._settings = settings
        self._tasks = tasks
        self._kept: dict[Credentials | None, _Kept] = {}

    async def get(self, credentials: Credentials | None) -> Admin:
        """The Admin that signs with these credentials."""
        kept = self._kept.get(credentials)
        if kept is None:
            kept = await self._tasks.start(self._keep, credentials)
        return kept.admin

    def only(self, wanted: set[Credentials | None]) -> None:
        """Closes the Admin objects of users who are not logged in any more."""
        for credentials in self._kept.keys() - wanted:
            self._kept[credentials].scope.cancel()

    async def _keep(
        self,
        credentials: Credentials | None,
        *,
        task_status: trio.TaskStatus[_Kept] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        of = self._settings
        kept = None
        with trio.CancelScope() as scope:
            try:
                async with Admin(
                    of.namesrv,
                    timeout=of.timeout,
                    credentials=credentials,
                    tls=of.tls,
                    expected=of.expected,
                ) as admin:
                    kept = self._kept.setdefault(credentials, _Kept(admin, scope))
                    task_status.started(kept)
                    if kept.scope is scope:
                        await trio.sleep_forever()
            except Exception as e:
                if kept is None:
                    raise
                log.error("the console's connections ended and are made again: %s", escape(e))
            finally:
                if kept is not None and self._kept.get(credentials) is kept:
                    del self._kept[credentials]


async def admin_of(request: Request) -> Admin:
    """The Admin for a request: it signs as the user who is logged in, or as the console."""
    links: Links = request.app.state.links
    settings: Settings = request.app.state.settings
    if settings.login is LoginKind.BROKER:
        return await links.get(session_of(request).credentials)
    return await links.get(settings.credentials)
