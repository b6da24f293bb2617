"""The line that a server logs at its start if others reach it and nobody asks who they are."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyrmq.escape import escape
from pyrmq.net.address import is_loopback

log = logging.getLogger(__name__)


def open_to(values: Mapping[str, str]) -> str | None:
    """What whoever reaches a server with these values may do; None: only who has the rights.

    `values`: RocketMQ's keys, as `values_of` has them. Keys that a server does not have count as
    not set.
    """
    if values.get("aclEnable") == "true" or values.get("authorizationEnabled") == "true":
        return None
    if values.get("authenticationEnabled") == "true":
        return "each user may read and change everything (authorizationEnabled=true gives rights)"
    broker = "storePathRootDir" in values
    may = "read and write messages" if broker else "read routes and register brokers"
    if values.get("adminAddressAllowList"):
        return f"whoever reaches it may {may}"
    what = "topics, groups" if broker else "routes"
    text = f"whoever reaches it may {may}, and change {what} and configuration"
    if values.get("reclaimAfter") == "table":
        text += ", and have messages deleted before their time (reclaimAfter=table)"
    return text


def warn_of_access(what: str, values: Mapping[str, str], ports: Mapping[int, str]) -> None:
    """Logs one line if the server is open. `ports`: what listens at each."""
    bind = values["bindAddress"]
    opened = None if is_loopback(bind) else open_to(values)
    if opened is not None:
        shown = ", ".join(f"{name} {port}" for port, name in ports.items())
        log.warning(
            "%s listens on %s (%s) without access control: %s; `pyrmq config check --hardening%s "
            "FILE` lists what to change",
            escape(what),
            escape(bind),
            escape(shown),
            escape(opened),
            escape("" if "storePathRootDir" in values else " --namesrv"),
        )
