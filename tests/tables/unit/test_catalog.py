"""Catalogs: which one a text names, names of tables, and credentials that no text shows."""

from __future__ import annotations

import os
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from pyrmq.tables.catalog import has_credentials, identifier, is_secret, open_catalog
from pyrmq.tables.errors import CatalogAwayError, CatalogError
from tests.tables.making import Log, World, check_same, write


@pytest.mark.parametrize("name", ["mq.orders", "a.b.c", "MQ.Orders-2_x", "0.1"])
def test_names(name: str) -> None:
    assert ".".join(identifier(name)) == name


@pytest.mark.parametrize(
    "name",
    ["", "orders", "mq.", ".orders", "mq..orders", "mq.or/ders", "mq.a b", "mq.%RETRY%x", "mq.-x",
     "mq.\n", "mq.ö", 'mq."x', "mq." + "x" * 256, "mq.x\n"],
)  # fmt: skip
def test_names_that_a_catalog_may_refuse(name: str) -> None:
    with pytest.raises(CatalogError):
        identifier(name)


def test_a_folder_is_made_for_a_writer_only(tmp_path: Path) -> None:
    folder = tmp_path / "my catalog"
    with pytest.raises(CatalogError, match=r"has no catalog\.db"):
        open_catalog(str(folder))
    assert not folder.exists()
    open_catalog(f"file://{folder}", create=True)
    assert open_catalog(str(folder)).find("mq.orders") is None


def test_a_word_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be a mistake in the name of a catalog."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CatalogError, match=r"is called prod.*give its path: \./prod"):
        open_catalog("prod", create=True)
    assert not list(tmp_path.iterdir())
    open_catalog("./prod", create=True)
    assert open_catalog("prod", create=True).shown() == str(tmp_path / "prod")


def test_a_uri_that_is_no_catalog() -> None:
    with pytest.raises(CatalogError, match="the place of the files is the property warehouse"):
        open_catalog("s3://bucket/lake")


def test_a_table_that_is_not_there(world: World) -> None:
    with pytest.raises(CatalogError, match=r"has no table mq\.orders.*table write"):
        world.catalog.load("mq.orders")


@pytest.mark.parametrize("part", ["a?b", "a#b", "a%20b"])
def test_a_folder_that_a_uri_cannot_name(tmp_path: Path, part: str) -> None:
    with pytest.raises(CatalogError, match="choose another folder"):
        open_catalog(str(tmp_path / part), create=True)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(CatalogError, match="cannot be made a catalog"):
        open_catalog(str(tmp_path / "catalog"), create=True)


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("")
    with pytest.raises(CatalogError, match="cannot be made a catalog"):
        open_catalog(str(place), create=True)


def test_a_catalog_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "catalog.db").write_bytes(b"no database" * 100)
    with pytest.raises(CatalogError, match="cannot be opened"):
        open_catalog(str(tmp_path)).find("mq.orders")


def test_a_catalog_by_its_name(tmp_path: Path, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names come from .pyiceberg.yaml or the environment; this is the latter."""
    import pyiceberg.catalog
    from pyiceberg.utils.config import Config

    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/lake.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", f"file://{tmp_path}/lake")
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", Config())
    found = open_catalog("lake")
    assert found.shown() == "lake"

    class Named(World):
        @property
        def catalog(self):  # type: ignore[no-untyped-def]
            return found

    world = Named(tmp_path)
    write(world, log)
    check_same(world, log)


SECRETS = ("s3cr3t-pass", "t0ken-value", "sig-1234")


@pytest.mark.parametrize(
    "spec",
    [
        "http://user:s3cr3t-pass@127.0.0.1:1/x?token=t0ken-value",
        "thrift://user:s3cr3t-pass@127.0.0.1:1",
        "postgresql://user:s3cr3t-pass@127.0.0.1:1/db?password=t0ken-value",
        "postgresql://user:x/s3cr3t-pass@127.0.0.1:1/db",
        "postgresql://user:x#s3cr3t-pass@127.0.0.1:1/db",
        "mysql+no://user:s3cr3t-pass@host/db?sig=sig-1234",
        "nothing://user:s3cr3t-pass@host/db?sig=sig-1234",
        "sqlite:////nowhere/s3cr3t.db?token=t0ken-value",
    ],
)
def test_credentials_are_in_no_error(
    spec: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    properties = {"token": "t0ken-value", "s3.secret-access-key": "s3cr3t-pass"}
    with caplog.at_level("DEBUG"), pytest.raises(CatalogError) as raised:
        open_catalog(spec, properties).find("mq.orders")
    out = capfd.readouterr()
    text = "".join((str(raised.value), repr(raised.value), raised.value.hint, out.out, out.err))
    for one in SECRETS:
        assert one not in text
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__ or raised.value.__context__ is None


@pytest.mark.parametrize(
    ("name", "secret"),
    [("adls.account-key", True), ("adls.connection-string", True), ("header.Authorization", True),
     ("header.X-Api-Key", True), ("azure_storage_account_key", True),
     ("aws_access_key_id", True), ("rest.authorization-url", False), ("adls.account-name", False),
     ("token", True), ("credential", True), ("s3.secret-access-key", True), ("password", True),
     ("s3.access-key-id", True), ("adls.sas-token", True), ("warehouse", False), ("uri", False),
     ("s3.endpoint", False)],
)  # fmt: skip
def test_which_properties_are_credentials(name: str, secret: bool) -> None:
    assert is_secret(name) == secret


@pytest.mark.parametrize("spec", ["http://[word", "file://[word", "sqlite://[word?password=word"])
def test_a_uri_that_is_none(spec: str) -> None:
    with pytest.raises(CatalogError, match="cannot be read") as raised:
        open_catalog(spec)
    assert "word" not in str(raised.value)


@pytest.mark.parametrize(
    ("spec", "found"),
    [("postgresql://user:word@host/db", True), ("postgresql://host/db?password=word", True),
     ("postgresql://user:a/word@host/db", True), ("file:///data/a@b", False),
     ("https://host/x?warehouse=a", False), ("/data/a@b", False), ("lake", False)],
)  # fmt: skip
def test_which_names_of_catalogs_have_credentials(spec: str, found: bool) -> None:
    assert has_credentials(spec) == found


class _Server(HTTPServer):
    status = 503


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        body = b'{"error":{"message":"token t0ken-value","type":"X","code":500}}'
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.mark.parametrize(("status", "away"), [(503, True), (500, True), (401, False), (403, False)])
def test_what_a_rest_catalog_answers(status: int, away: bool) -> None:
    with _Server(("127.0.0.1", 0), _Answers) as server:
        server.status = status
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            with pytest.raises(CatalogError) as raised:
                open_catalog(f"http://127.0.0.1:{server.server_port}", {"token": "t0ken-value"})
        finally:
            server.shutdown()
            thread.join()
    assert isinstance(raised.value, CatalogAwayError) == away
    assert "t0ken-value" not in str(raised.value)


@pytest.mark.parametrize(
    ("place", "fine"),
    [
        ("s3://key:geheim@bucket/lake", False),
        ("s3://key@bucket/lake", False),
        ("s3://bucket/lake?token=geheim", False),
        ("abfss://container:geheim@account.dfs.core.windows.net/lake", False),
        ("abfss://container@account.dfs.core.windows.net/lake", True),
        ("s3://bucket/lake", True),
    ],
)
def test_a_warehouse_with_credentials(tmp_path: Path, place: str, fine: bool) -> None:
    """It would be the location of each table, which all readers see."""
    uri = f"sqlite:///{tmp_path}/lake.db"
    if fine:
        open_catalog(uri, {"warehouse": place})
        return
    with pytest.raises(CatalogError, match="has credentials in its URI") as raised:
        open_catalog(uri, {"warehouse": place})
    assert "geheim" not in str(raised.value)


def test_no_metadata_of_a_table_has_a_credential(tmp_path: Path, log: Log) -> None:
    class Secret(World):
        @property
        def catalog(self):  # type: ignore[no-untyped-def]
            folder = str(self.folder / "catalog")
            return open_catalog(folder, {"token": "t0ken-value"}, create=True)

    world = Secret(tmp_path)
    write(world, log)
    for path in (tmp_path / "catalog").rglob("*"):
        if path.is_file():
            assert b"t0ken-value" not in path.read_bytes()
