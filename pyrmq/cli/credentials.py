"""Whose name commands of administration sign their requests with."""

from __future__ import annotations

import os
from pathlib import Path

from pyrmq.cli.tools_file import read, tools_file
from pyrmq.errors import ConfigError
from pyrmq.net.client.signing import Credentials

ACCESS_KEY, SECRET_KEY = "PYRMQ_ACCESS_KEY", "PYRMQ_SECRET_KEY"


def credentials() -> Credentials | None:
    """Those of PYRMQ_ACCESS_KEY and PYRMQ_SECRET_KEY, or else those of `conf/tools.yml` below
    ROCKETMQ_HOME, where RocketMQ's mqadmin has them; None where neither has both. ConfigError for
    one key without the other, and for an invalid file."""
    given = os.environ.get(ACCESS_KEY, ""), os.environ.get(SECRET_KEY, "")
    if not any(given) and (path := tools_file()):
        given = _of_file(path)
    if all(given):
        return Credentials(*given)
    if any(given):
        raise ConfigError(f"an access key and a secret key go together: {ACCESS_KEY}, {SECRET_KEY}")
    return None


def _of_file(path: Path) -> tuple[str, str]:
    found = read(path)
    keys = [found.get(name) for name in ("accessKey", "secretKey")]
    access, secret = ("" if key is None else str(key).strip() for key in keys)
    return access, secret
