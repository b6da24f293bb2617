"""`pyrmq deploy`: files to run servers with systemd, Docker, Compose and Kubernetes, and to watch
them with Prometheus and Grafana."""

from __future__ import annotations

from pathlib import Path

import click

KINDS = ("systemd", "docker", "compose", "kubernetes", "monitoring")
NEXT = {
    "systemd": "docs/systemd.md",
    "docker": "docs/docker.md",
    "compose": "docs/docker.md",
    "kubernetes": "docs/kubernetes.md",
    "monitoring": "docs/metrics.md",
}
"""Where it goes on."""


@click.command()
@click.argument("kind", type=click.Choice(KINDS))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    metavar="FOLDER",
    help="Where the files go; made if it is missing.",
)
@click.option("--force", is_flag=True, help="Replace files that are there and differ.")
def deploy(kind: str, out: Path, force: bool) -> None:
    """Write files of KIND: units, an image or manifests to run servers; with `monitoring`, alert
    rules for Prometheus and dashboards for Grafana.

    Nothing that is there is replaced, unless --force is given. The files are those of this version;
    comments in them say what to change.
    """
    from pyrmq.deploy.files import write
    from pyrmq.escape import escape

    for path, written in write(kind, out, force=force).items():
        click.echo(f"{escape(path)}{'' if written else ' (unchanged)'}")
    click.echo(f"see {NEXT[kind]}", err=True)
