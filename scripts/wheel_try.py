"""Installs a wheel into an empty environment, outside of the checkout, and tries it.

    PYTHON scripts/wheel_try.py WHEEL [--extra console]… [--tutorial]

Run it with the Python that the wheel is for. It sends, consumes, kills and restarts a broker,
writes the files to deploy, and measures a little. The wheel must need no package of an extra for
that. `--extra` then installs the extra and loads what needs it. `--tutorial` follows
docs/tutorial.md with the wheel.
"""

from __future__ import annotations

import argparse
import filecmp
import os
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
IMPORTS = """
import importlib.util, sys
import spark_ext, pyspark_rocketmq, pyspark_pyrmq
from pyrmq.engine import RELEASE_BUILD
assert RELEASE_BUILD, "the wheel has a development engine"
for name in ("pyspark", "pyarrow", "numpy", "starlette", "mcp"):
    assert importlib.util.find_spec(name) is None, name + " came without its extra"
"""
CONSOLE = """
import http.client, re, subprocess, sys
command = [sys.executable, "-m", "pyrmq", "console", "-n", "127.0.0.1:9", "--bind", "127.0.0.1:0"]
served = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
try:
    port = int(re.search(r"console=http://127.0.0.1:([0-9]+)", served.stdout.readline())[1])
    for path in ("/", "/static/console.css", "/static/console.js", "/static/htmx.min.js"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", path)
        status = connection.getresponse().status
        assert status < 400, (path, status)
finally:
    served.terminate()
    served.wait()
"""
MCP = """
import json, subprocess, sys
hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
hello["clientInfo"] = {"name": "wheel-try", "version": "1"}
request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
command = [sys.executable, "-m", "pyrmq", "mcp", "-n", "127.0.0.1:9"]
served = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
print(json.dumps(request), file=served.stdin, flush=True)
answer = json.loads(served.stdout.readline())
assert "serverInfo" in answer["result"], answer
served.stdin.close()
assert served.wait() == 0
"""
EXTRAS: dict[str, str] = {"console": CONSOLE, "mcp": MCP}
"""A program for each extra: it needs what the extra installs, and files of the wheel."""
DEPLOYED = ("systemd", "docker", "compose", "kubernetes")
SECONDS = 600
"""Under an emulator all takes ten times as long."""


class Broken(Exception):
    """What does not work."""


class Environment:
    """An empty virtual environment, and a folder to work in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "venv/bin"
        venv.create(folder / "venv", with_pip=True)

    def run(self, program: str, *words: str | Path) -> str:
        """Its output. Nothing of the checkout can be imported."""
        command = [str(self.bin / program), *map(str, words)]
        ignored = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        env = {name: value for name, value in os.environ.items() if name not in ignored}
        ran = subprocess.run(
            command,
            cwd=self.folder,
            env=env,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
        if ran.returncode:
            raise Broken(f"{' '.join(command)} failed ({ran.returncode}):\n{ran.stdout}")
        return ran.stdout

    def install(self, wheel: Path, extras: list[str]) -> None:
        named = f"pyrmq-broker[{','.join(extras)}] @ {wheel.as_uri()}" if extras else wheel
        self.run("pip", "install", "--quiet", "--disable-pip-version-check", named)


def tried(wheel: Path, extras: list[str], there: Environment) -> None:
    there.install(wheel, [])
    there.run("python", "-W", "error", "-c", IMPORTS)
    there.run("pyrmq", "--version")
    there.run("python", "-m", "pyrmq.demo", "--messages", "40")
    for kind in DEPLOYED:
        out = there.folder / "deploy" / kind
        there.run("pyrmq", "deploy", kind, "--out", out)
        same(ROOT / "pyrmq/deploy" / kind, out)
    there.run(
        *("pyrmq", "bench", "send", "--embedded", "--count", "2000", "--verify"),
        *("--json", "result.json"),
    )
    there.run(
        *("pyrmq", "bench", "peers", "--peer", "floor", "--peer", "pyrmq", "--load", "8x128"),
        *("--rounds", "1", "--duration", "0.5", "--warmup", "0", "--html", "peers.html"),
    )
    if not (there.folder / "peers.html").stat().st_size:
        raise Broken("pyrmq bench peers wrote an empty page")
    if extras:
        there.install(wheel, extras)
    for extra in extras:
        there.run("python", "-c", EXTRAS[extra])


def followed(wheel: Path, there: Environment) -> None:
    """The tutorial, as by a reader who has nothing but the wheel."""
    there.install(wheel, ["arrow", "console"])
    folder = there.folder / "tutorial"
    folder.mkdir()
    there.run(
        *("python", ROOT / "tests/docs/walk.py", ROOT / "docs/tutorial.md"),
        *("--folder", folder, "--without", "pip install"),
    )


def same(ours: Path, written: Path) -> None:
    """Raises Broken if the files of a folder differ from those of the checkout."""
    names = {path.relative_to(ours) for path in ours.rglob("*") if path.is_file()}
    names = {name for name in names if "__pycache__" not in name.parts}
    _, wrong, missing = filecmp.cmpfiles(ours, written, list(map(str, names)), shallow=False)
    if wrong or missing:
        raise Broken(f"the wheel lacks files of {ours}, or has others: {wrong + missing}")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("wheel", type=Path)
    options.add_argument("--extra", action="append", default=[], choices=sorted(EXTRAS))
    options.add_argument("--tutorial", action="store_true")
    args = options.parse_args()
    version = ".".join(map(str, sys.version_info[:3]))
    try:
        with TemporaryDirectory(prefix="pyrmq-wheel-") as name:
            there = Environment(Path(name))
            tried(args.wheel.resolve(), args.extra, there)
            if args.tutorial:
                followed(args.wheel.resolve(), there)
    except (Broken, subprocess.TimeoutExpired) as e:
        print(f"wheel-try: Python {version}, {args.wheel.name}: {e}", file=sys.stderr)
        return 1
    print(f"wheel-try: {args.wheel.name} works with Python {version} on {os.uname().machine}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
