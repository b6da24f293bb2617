"""Checks of files with secrets, and of certificates."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from pyrmq.doctor.facts import Facts
from pyrmq.doctor.finding import Finding, error, ok, warning

DAY = 86_400.0
SOON = 30
"""Days."""


def modes(facts: Facts) -> Iterator[Finding]:
    """Files with secrets are for their owner only."""
    for file in facts.server.open_files:
        yield error(
            f"{file.path} has mode {file.mode:04o}",
            f"{file.why}, and other accounts of this machine can reach it",
            f"chmod 600 {file.path}",
        )


def certificates(facts: Facts) -> Iterator[Finding]:
    """Certificates are valid for some time yet."""
    for one in facts.server.certificates:
        what = f"{one.path} ({one.key})"
        renew = (
            "pyrmq tls make NEW-FOLDER --host … --authority FOLDER-WITH-CA; replace key and "
            "certificate, without a restart"
        )
        if one.until is None:
            why = "TLS does not work without it"
            yield error(f"{what}: {one.problem}", why, f"ls -l {one.path}")
            continue
        days = (one.until - facts.machine.now) / DAY
        date = datetime.fromtimestamp(one.until, UTC).date().isoformat()
        if days <= 0:
            yield error(f"{what} has expired on {date}", "clients refuse it", renew)
        elif days < SOON:
            yield warning(
                f"{what} expires on {date}, in {days:.0f} days", "clients refuse it then", renew
            )
        else:
            yield ok(f"{what} is valid until {date}")
