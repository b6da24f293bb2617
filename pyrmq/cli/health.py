"""`pyrmq health`: asks a server for its health, for probes in containers without curl."""

from __future__ import annotations

import json
import time
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit

import click

DEFAULT_URL = "http://127.0.0.1:5557/readyz"
MOST = 64 << 10
"""Bytes of an answer that are read."""
SICK, NO_ANSWER = 1, 2


@click.command()
@click.option(
    "--url",
    default=DEFAULT_URL,
    show_default=True,
    help="/readyz, or /healthz, at the server's metricsPromExporterPort.",
)
@click.option("--timeout", type=click.FloatRange(0.1, 600), default=3.0, show_default=True,
              metavar="SECONDS", help="For the whole answer.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text",
              show_default=True, help="json: as the server says it.")  # fmt: skip
def health(url: str, timeout: float, output: str) -> None:
    """Ask a server whether it is healthy.

    Exit code 0: all checks are good. 1: some are not; a line for each says what to do. 2: no server
    answers, or what answers is no server of pyrmq.
    """
    from pyrmq.escape import escape

    try:
        status, body = _get(url, timeout)
        report = _report(body)
    except _NoAnswer as e:
        click.echo(f"Error: {escape(e)}", err=True)
        raise click.exceptions.Exit(NO_ANSWER) from None
    if output == "json":
        click.echo(json.dumps(report))
    else:
        failing = [check for check in report["checks"] if not check["ok"]]
        for check in failing:
            name, what, advice = (escape(check.get(k, "?")) for k in ("name", "what", "advice"))
            click.echo(f"{name}: {what}; {advice}")
        if not failing:
            click.echo(f"{escape(report['server'])} is healthy ({len(report['checks'])} checks)")
    raise click.exceptions.Exit(0 if status == 200 else SICK)


class _NoAnswer(Exception):
    """Nothing that is a health report came; says what to do."""


def _get(url: str, timeout: float) -> tuple[int, bytes]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or 80
    except ValueError as e:
        raise _NoAnswer(f"--url {url}: {e}") from None
    if parts.scheme != "http" or not host:
        raise _NoAnswer(f"--url {url}: http://HOST:PORT/readyz is needed")
    connection = HTTPConnection(host, port, timeout=timeout)
    until = time.monotonic() + timeout
    try:
        connection.request("GET", parts.path or "/readyz", headers={"Connection": "close"})
        answer = connection.getresponse()
        body = b""
        while len(body) < MOST and (part := answer.read1(MOST - len(body))):
            body += part
            if time.monotonic() > until:  # one that sends byte by byte
                raise TimeoutError
        return answer.status, body
    except TimeoutError:
        raise _NoAnswer(f"{url} did not answer in {timeout:g} s: the server hangs") from None
    except OSError as e:
        raise _NoAnswer(
            f"nothing answers at {url} ({e.strerror or e}): does the server run, with "
            "metricsExporterType=PROM, and is this its metricsPromExporterPort?"
        ) from None
    except HTTPException as e:
        raise _NoAnswer(f"{url} is no HTTP server: {type(e).__name__}") from None
    finally:
        connection.close()


def _report(body: bytes) -> dict[str, Any]:
    try:
        report = json.loads(body)
    except (ValueError, RecursionError):
        report = None
    checks = report.get("checks") if isinstance(report, dict) else None
    if not isinstance(report, dict) or not isinstance(checks, list):
        raise _NoAnswer("what answers gives no health report: is --url the /readyz of a server?")
    if not all(isinstance(check, dict) and "ok" in check for check in checks):
        raise _NoAnswer("the health report cannot be read: is the server of another version?")
    return {"server": "the server", **report}
