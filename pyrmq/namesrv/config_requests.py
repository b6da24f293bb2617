"""GET_NAMESRV_CONFIG and UPDATE_NAMESRV_CONFIG. [DefaultRequestProcessor, Configuration]"""

from __future__ import annotations

import dataclasses
import logging

from pyrmq.config.properties_file import parse_properties
from pyrmq.config.table import keys_of, values_of
from pyrmq.engine import Command
from pyrmq.errors import ConfigError, InvalidParameterError, NoPermissionError
from pyrmq.escape import escape
from pyrmq.namesrv.config import OTHER_KEYS, NamesrvConfig, RunningConfig
from pyrmq.net.command import Response
from pyrmq.net.server.connection import Connection

log = logging.getLogger(__name__)

MAX_BODY = 65_536
"""Longest text of changes, bytes."""


class ConfigProcessor:
    def __init__(self, config: RunningConfig) -> None:
        self._config = config

    def get(self, connection: Connection, command: Command) -> Response:
        """GET_NAMESRV_CONFIG: lines `key=value`, as Java's Properties reads them."""
        lines = [f"{key}={_line(value)}\n" for key, value in values_of(self._config.now).items()]
        return Response(body="".join(sorted(lines)).encode(errors="backslashreplace"))

    def update(self, connection: Connection, command: Command) -> Response:
        """UPDATE_NAMESRV_CONFIG: changes all keys of the text, or none. What is changed counts at
        once, until the name server ends."""
        if len(command.body) > MAX_BODY:
            raise InvalidParameterError(f"at most {MAX_BODY} bytes of configuration are taken")
        try:
            values = parse_properties(command.body.decode())
        except UnicodeDecodeError:
            raise InvalidParameterError("the configuration is not UTF-8") from None
        if not values:
            raise InvalidParameterError("there is no key=value to change")
        refused = {key.strip() for key in self._config.now.config_black_list.split(";")}
        rows = keys_of(NamesrvConfig)
        for key in values:
            if key in refused or key not in rows or not rows[key][1].live:
                self._refuse(key)
        try:
            chosen = NamesrvConfig.from_properties(values)
        except ConfigError as e:
            raise InvalidParameterError(str(e)) from None
        changes = {rows[key][0]: getattr(chosen, rows[key][0]) for key in values}
        self._config.change(dataclasses.replace(self._config.now, **changes))
        log.info("%s changes %s", escape(connection.peer), escape(values))
        return Response()

    def _refuse(self, key: str) -> None:
        """Raises what says why a key cannot be changed."""
        known = {*keys_of(NamesrvConfig), *(row.name for row in OTHER_KEYS)}
        if key not in known:
            raise InvalidParameterError(
                f"unknown configuration key {key[:64]!r}: nothing is changed"
            )
        raise NoPermissionError(
            f"{key} cannot be changed while the name server runs: change the file that it is "
            "started with. Nothing is changed"
        )


def _line(value: str) -> str:
    """A value that stays on its line."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
