"""`pyrmq tls …`: certificates for a cluster, and what a certificate says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pyrmq.cli.certificates import Shown


@click.group()
def tls() -> None:
    """Make certificates, and show what one says. Needs the openssl program."""


@tls.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--host", "hosts", multiple=True, required=True,
    help="Name or address under which clients connect to the servers; may be given several times.",
)  # fmt: skip
@click.option("--client", default="pyrmq-client", show_default=True, help="Name of the client.")
@click.option(
    "--days", type=click.IntRange(1, 7300), default=825, show_default=True,
    help="Days that both certificates are valid; the authority has ten years.",
)  # fmt: skip
@click.option(
    "--authority", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the ca.key and ca.crt to sign with, instead of a new authority.",
)  # fmt: skip
def make(
    folder: Path, hosts: tuple[str, ...], client: str, days: int, authority: Path | None
) -> None:
    """Make an authority, a server's certificate and a client's in FOLDER.

    The files are ca.key, ca.crt, server.key, server.crt, client.key and client.crt, all with mode
    0600. Nothing is replaced. Keep ca.key elsewhere: whoever has it makes certificates that the
    cluster trusts.
    """
    from pyrmq.cli.certificates import make as make_files
    from pyrmq.escape import escape

    for path in make_files(folder, hosts, days, client, authority):
        click.echo(escape(path))


@tls.command()
@click.argument("what", metavar="FILE|HOST:PORT")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
def show(what: str, output: str) -> None:
    """Print subject, issuer, names and dates of the certificates in a PEM file, or of the one that
    a server shows.

    A server's certificate is not verified. Exits with 1 if one has expired.
    """
    import dataclasses

    from pyrmq.cli import certificates
    from pyrmq.escape import escape, json_line
    from pyrmq.net.address import parse_address

    if Path(what).exists() or ":" not in what:
        found = certificates.certificates_of(Path(what))
    else:
        found = [certificates.certificate_at(*parse_address(what))]
    shown = [certificates.show(pem) for pem in found]
    if output == "json":
        click.echo(json_line([dataclasses.asdict(one) for one in shown]))
    else:
        for number, one in enumerate(shown):
            if number:
                click.echo()
            for name, value in _rows(one):
                click.echo(f"{name:<12} {escape(value)}")
    if any(one.expired for one in shown):
        raise click.exceptions.Exit(1)


def _rows(one: Shown) -> list[tuple[str, Any]]:
    until = f"{one.valid_until} (expired)" if one.expired else one.valid_until
    return [
        ("subject", one.subject),
        ("issuer", one.issuer),
        ("names", one.names or "none"),
        ("from", one.valid_from),
        ("until", until),
        ("authority", "yes" if one.authority else "no"),
        ("fingerprint", one.fingerprint),
    ]
