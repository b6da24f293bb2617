"""Which catalog a table is in: the embedded one in a folder, or one that pyiceberg knows.

The embedded catalog is a SQLite file `catalog.db` and the folder `warehouse` beside it. Credentials
are never part of a text: neither of `shown` nor of an error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

from pyrmq.escape import escape
from pyrmq.tables import order
from pyrmq.tables.errors import CatalogAwayError, CatalogError, TableError, need

NAME = "pyrmq"
"""Name of the embedded catalog: pyiceberg opens it as load_catalog("pyrmq", type="sql", uri=…)."""
FILE, WAREHOUSE = "catalog.db", "warehouse"
MAX_PART = 255
"""Longest part of a table's name, characters."""
MAX_ERROR = 400
"""Characters of another program's error that are shown."""
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_TYPES = {"http": "rest", "https": "rest", "thrift": "hive"}
_SECRET = re.compile(
    r"secret|password|passwd|token|credential|sas|session|oauth2|cookie|authorization(?!-url)|"
    r"(access|account|api|private|service)[-_]?(account[-_]?)?key|connection[-_]?string",
    re.I,
)
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_AWAY = (
    "OperationalError", "ConnectionError", "ConnectTimeout", "ReadTimeout", "Timeout",
    "ServiceUnavailableError", "ServerError", "TooManyRequestsError", "CommitStateUnknownException",
    "TTransportException", "EndpointConnectionError", "WaitingForLockException",
    "ChunkedEncodingError",
)  # fmt: skip
"""Classes of pyiceberg, SQLAlchemy, requests, thrift and botocore for a catalog that is away, by
name: most of these packages need not be installed."""


def is_secret(name: str) -> bool:
    """Whether a property of a catalog is a credential, by its name."""
    return _SECRET.search(name) is not None


def is_away(error: BaseException | None) -> bool:
    """Whether an error says that the catalog, or the place of its files, cannot be reached now."""
    while error is not None:
        if sqlite_refused(error):
            return False
        if isinstance(error, CatalogAwayError) or any(
            one.__name__ in _AWAY for one in type(error).__mro__
        ):
            return True
        error = error.__cause__
    return False


def sqlite_refused(error: BaseException) -> bool:
    """Whether SQLite says that it cannot write, rather than that another one holds the lock: the
    disk is full, or the file may not be written. The change is not made."""
    name = getattr(getattr(error, "orig", None), "sqlite_errorname", "")
    return str(name).startswith(("SQLITE_FULL", "SQLITE_READONLY", "SQLITE_CANTOPEN"))


def has_credentials(spec: str) -> bool:
    """Whether a URI has a user or a password in it, or a parameter that is a credential."""
    if _URI.match(spec) is None or spec.lower().startswith("file:"):
        return False
    names = [pair.partition("=")[0] for pair in spec.partition("?")[2].split("&")]
    return bool(_user(spec)[0]) or any(map(is_secret, names))


def sqlite_busy(error: BaseException) -> bool:
    """Whether SQLite says that another one holds the lock. The change is not made, and can be tried
    again."""
    name = getattr(getattr(error, "orig", None), "sqlite_errorname", "")
    return str(name).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def identifier(name: str) -> tuple[str, ...]:
    """The parts of `namespace.table`. CatalogError for a name that a catalog may refuse."""
    parts = tuple(name.split("."))
    if len(parts) < 2:
        raise CatalogError(f"{escape(name)} has no namespace", f"name the table mq.{escape(name)}")
    for part in parts:
        if len(part) > MAX_PART or _PART.fullmatch(part) is None:
            raise CatalogError(
                f"{escape(name)[:MAX_PART]} is no name of a table",
                "use letters, digits, _ and -, in parts with a dot between them, such as mq.orders",
            )
    return parts


class Catalog:
    """A catalog that is open. `iceberg` is pyiceberg's; the other methods hide credentials in the
    errors that they raise: CatalogAwayError if it cannot be reached, CatalogError for the rest."""

    def __init__(self, iceberg: Any, shown: str, secrets: frozenset[str]) -> None:
        self.iceberg = iceberg
        self._shown = shown
        self._secrets = secrets

    def shown(self) -> str:
        """What it is, for messages, without credentials."""
        return self._shown

    @property
    def is_embedded(self) -> bool:
        """Whether it is a SQLite file: of a process that has ended no change can arrive later."""
        return str(self.iceberg.properties.get("uri", "")).startswith("sqlite:")

    def load(self, name: str) -> Any:
        """A table, as it is now. CatalogError if it does not exist."""
        found = self.find(name)
        if found is None:
            raise CatalogError(
                f"catalog {self._shown} has no table {name}",
                f"`pyrmq pipeline table write --table {name}` creates it",
            )
        return found

    def find(self, name: str) -> Any:
        """The same; None if it does not exist."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        parts = identifier(name)
        with self.errors(f"table {name} cannot be loaded"):
            try:
                return self.iceberg.load_table(parts)
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    def create(self, name: str, schema: Any, **how: Any) -> Any:
        """A new table and, if it is missing, its namespace; the table that another writer created
        in the meantime. `how`: what create_table of pyiceberg takes."""
        from pyiceberg.exceptions import TableAlreadyExistsError

        parts = identifier(name)
        with self.errors(f"table {name} cannot be created"):
            for count in range(1, len(parts)):
                self.iceberg.create_namespace_if_not_exists(parts[:count])
            try:
                return self.iceberg.create_table(parts, schema, **how)
            except TableAlreadyExistsError:
                return self.iceberg.load_table(parts)

    @contextmanager
    def errors(self, doing: str) -> Iterator[None]:
        """Turns what a catalog raises into CatalogError or CatalogAwayError, without credentials.
        Errors of pyrmq pass, and those of the file system that have a number (disk full)."""
        try:
            yield
        except TableError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno is not None and not is_away(error):
                raise
            raise self.error(doing, error) from None

    def error(self, doing: str, error: Exception) -> CatalogError:
        """The same as a value."""
        return _error(f"{doing}: catalog {self._shown}", error, self._secrets)


def open_catalog(
    spec: str, properties: Mapping[str, str] | None = None, *, create: bool = False
) -> Catalog:
    """The catalog that `spec` names: a folder (the embedded catalog), a name of `.pyiceberg.yaml`
    or of PYICEBERG_CATALOG__NAME__… variables, or a URI: `http://` or `https://` (REST),
    `thrift://` (Hive), `glue`, `sqlite:///` or `postgresql://` (SQL). `create`: a folder is made
    if it is missing; not for a bare word, which may be a mistake in a name.

    `properties` are pyiceberg's. MissingPackageError without pyiceberg; CatalogError for what is no
    catalog; CatalogAwayError if it cannot be reached.
    """
    given = dict(properties or {})
    api = need("pyiceberg.catalog", "a table")
    if not spec or "\0" in spec:
        raise CatalogError("the catalog has no name", "name a folder, a catalog or a URI")
    try:
        secrets = _secrets(spec, given)
    except ValueError:  # such as a [ without a ]; its text would show all of it
        raise CatalogError("the catalog's URI cannot be read", "check its host and port") from None
    if _URI.match(spec) and not spec.lower().startswith("file:"):
        scheme = spec.partition(":")[0].lower()
        given = {"uri": spec, "type": _TYPES.get(scheme, "sql"), **given}
        shown = _without_credentials(spec)
        name = given.pop("name", "default")
        return _opened(lambda: api.load_catalog(name, **given), shown, secrets)
    if spec == "glue":
        return _opened(lambda: api.load_catalog("glue", **{"type": "glue", **given}), spec, secrets)
    if os.sep not in spec and spec in api.list_catalogs():
        found = _opened(lambda: api.load_catalog(spec, **given), escape(spec), secrets)
        return Catalog(
            found.iceberg, found.shown(), secrets | _secrets("", found.iceberg.properties)
        )
    return _embedded(spec, given, create, secrets)


def _embedded(spec: str, given: dict[str, str], create: bool, secrets: frozenset[str]) -> Catalog:
    path = spec
    if spec.lower().startswith("file:"):
        path = unquote(urlsplit(spec).path)
    root = os.path.abspath(path)
    if any(c in root for c in "?#%"):
        raise CatalogError(
            f"{escape(root)}: files of a table cannot be in a folder with ?, # or % in its name",
            "choose another folder",
        )
    file = os.path.join(root, FILE)
    if not os.path.isfile(file):
        if not create:
            raise CatalogError(
                f"{escape(root)} has no {FILE}, and no catalog of .pyiceberg.yaml has this name",
                "name the folder that `pyrmq pipeline table write --catalog` made; a folder of "
                "Delta tables is no catalog",
            )
        if _is_word(spec) and not os.path.isdir(root):
            raise CatalogError(
                f"no catalog of .pyiceberg.yaml is called {escape(spec)}, and there is no such "
                "folder here",
                f"for a new catalog in a folder, give its path: ./{escape(spec)}",
            )
        try:
            os.makedirs(os.path.join(root, WAREHOUSE), exist_ok=True)
        except OSError as error:
            raise CatalogError(
                f"{escape(root)} cannot be made a catalog: {error.strerror}",
                "choose a folder that this user may write to",
            ) from error
    elif create and not os.access(file, os.W_OK):
        raise CatalogError(f"{escape(file)} cannot be written", "run as a user that may write it")
    # SQLite's own URL: the path as it is, which has no ? here.
    uri = f"sqlite:///{file}"
    given = {
        "type": "sql",
        "uri": uri,
        "warehouse": f"file://{os.path.join(root, WAREHOUSE)}",
        "py-io-impl": "pyrmq.tables.durable.DurableFileIO",
        **given,
    }
    api = need("pyiceberg.catalog", "a table")
    return _opened(lambda: api.load_catalog(NAME, **given), escape(root), secrets)


def _is_word(spec: str) -> bool:
    """Whether it may be the name of a catalog: a mistake in one must not make a folder."""
    return os.sep not in spec and spec not in (os.curdir, os.pardir)


def _opened(load: Callable[[], Any], shown: str, secrets: frozenset[str]) -> Catalog:
    try:
        found = order.keep(load())
        _check_warehouse(found.properties.get("warehouse"))
        return Catalog(found, shown, secrets)
    except TableError:
        raise
    except Exception as error:
        raise _error(f"catalog {shown} cannot be opened", error, secrets) from None


def _check_warehouse(place: Any) -> None:
    """CatalogError for credentials in it: it becomes the location in the metadata of each table,
    which all readers see. `abfss://container@account` has none."""
    if not isinstance(place, str) or not _URI.match(place):
        return
    parts = urlsplit(place)
    user, found, _ = parts.netloc.rpartition("@")
    if parts.query or (found and (":" in user or not parts.scheme.startswith(("abfs", "wasb")))):
        raise CatalogError(
            "the property warehouse has credentials in its URI, and tables would show them",
            "give them as properties in .pyiceberg.yaml, such as s3.access-key-id",
        )


def _error(doing: str, error: Exception, secrets: frozenset[str]) -> CatalogError:
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    # A parameter or user of a URI that we were not given: of a redirect, or in a file.
    text = re.sub(r"(://)[^/\s@]*@", r"\1***@", text)
    whole = f"{doing}: {escape(text)[:MAX_ERROR]}"
    missing = isinstance(error, ImportError) or type(error).__name__ == "NotInstalledError"
    if missing:
        return CatalogError(whole, "install the extra of pyiceberg for this catalog")
    if type(error).__name__ == "NoSuchModuleError":  # SQLAlchemy knows no such database
        return CatalogError(
            whole,
            "take a folder, http(s)://, thrift:// or postgresql://; the place of the files is the "
            "property warehouse",
        )
    if sqlite_refused(error):
        return CatalogError(whole, "free space on its disk, and let this user write there")
    if is_away(error):
        return CatalogAwayError(whole, "try again when the catalog can be reached")
    return CatalogError(whole, "check the name, the properties and the rights of this catalog")


def _secrets(spec: str, properties: Mapping[str, Any]) -> frozenset[str]:
    """Texts that must not be shown."""
    found = {str(value) for name, value in properties.items() if is_secret(name) and value}
    for text in (spec, str(properties.get("uri") or "")):
        if not _URI.match(text):
            continue
        parts = urlsplit(text)
        user = _user(text)[0]
        found |= {user, *user.partition(":")[::2]}
        if parts.query:
            found.add(parts.query)
            found |= {pair.partition("=")[2] for pair in parts.query.split("&")}
    found |= {unquote(text) for text in found}
    return frozenset(text for text in found if len(text) > 2)


def _without_credentials(uri: str) -> str:
    """Scheme, host and path."""
    return escape(f"{uri.partition('://')[0].lower()}://{_user(uri)[1]}")


def _user(uri: str) -> tuple[str, str]:
    """User and password of a URI, and its host and path. SQLAlchemy takes passwords with a slash,
    so all before the last @ may be one."""
    user, _, rest = uri.partition("://")[2].partition("?")[0].rpartition("@")
    return user, rest
