"""`pyrmq pipeline table …`, as the tests of tables call it."""

from __future__ import annotations

from click.testing import CliRunner, Result

from pyrmq.cli import main
from tests.tables.making import TABLE, World


def command(name: str, *words: object) -> Result:
    return CliRunner().invoke(main, ["pipeline", "table", name, *map(str, words)])


def into(world: World, table: str = TABLE) -> list[str]:
    """The options that name a table in the catalog."""
    return ["--catalog", str(world.folder / "catalog"), "--table", table]
