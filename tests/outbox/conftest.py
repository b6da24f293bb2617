"""A database of the test's own: SQLite always, PostgreSQL where a server can be had."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from tests.system.interop.toolchain import required

from . import postgres
from .shop import Database

_numbers = itertools.count()


@pytest.fixture(scope="session")
def pg_server() -> Iterator[postgres.Server]:
    try:
        server = postgres.Server()
    except postgres.Missing as problem:
        if required():
            pytest.fail(str(problem), pytrace=False)
        pytest.skip(f"{problem} (PYRMQ_REQUIRE_INTEROP=1 makes this a failure)")
    with server:
        yield server


def _fresh(server: postgres.Server) -> str:
    """The name of a new database."""
    name = f"test{next(_numbers)}"
    engine = create_engine(server.url(), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    engine.dispose()
    return name


def _on_postgresql(request: pytest.FixtureRequest) -> Database:
    server: postgres.Server = request.getfixturevalue("pg_server")
    name = _fresh(server)
    return Database(server.url(name), functools.partial(server.url, name))


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    with Database(f"sqlite:///{tmp_path / 'shop.db'}") as database:
        yield database


@pytest.fixture
def postgresql(request: pytest.FixtureRequest) -> Iterator[Database]:
    with _on_postgresql(request) as database:
        yield database


@pytest.fixture(params=["sqlite", "sqlite-wal", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """Each kind in turn, with the tables made."""
    if request.param == "postgresql":
        made = _on_postgresql(request)
    else:
        made = Database(f"sqlite:///{tmp_path / 'shop.db'}", wal=request.param == "sqlite-wal")
    with made:
        yield made
