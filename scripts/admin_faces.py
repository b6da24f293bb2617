"""Writes pyrmq/sync_admin.py and pyrmq/aio_admin.py: the faces of `pyrmq.admin.Admin`.

python scripts/admin_faces.py          # writes them
python scripts/admin_faces.py --check  # says whether they are as they would be written
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pyrmq.admin.api import Admin
from pyrmq.admin.link import Part

FACES = {
    "sync": ("blocking", "PLAIN", "plain code: each call blocks, and generators are plain ones"),
    "aio": ("awaited", "ASYNCIO", "asyncio: each call is awaited, generators are those of asyncio"),
}
ROOT = Path(__file__).parent.parent


def parts() -> dict[str, type]:
    """The class of each part of Admin."""
    admin = Admin("127.0.0.1:1")
    return {n: type(p) for n, p in sorted(vars(admin).items()) if isinstance(p, Part)}


def methods(part: type) -> Iterator[tuple[str, bool]]:
    """The public methods of a part, and whether each is a generator."""
    for name, method in inspect.getmembers(part, inspect.isfunction):
        if name.startswith("_"):
            continue
        if inspect.isasyncgenfunction(method):
            yield name, True
        elif inspect.iscoroutinefunction(method):
            yield name, False
        else:
            raise SystemExit(f"{part.__name__}.{name} is neither a coroutine nor a generator")


def written(face: str) -> str:
    """A module, as its file has it."""
    call, words, doc = FACES[face]
    lines = [
        f'"""`pyrmq.admin.Admin` for {doc}.', "",
        "Written by scripts/admin_faces.py: change that, or what it reads.", '"""', "",
        "from __future__ import annotations", "", "from typing import Any", "",
        *(f"from pyrmq.admin import {m} as {m}_" for m in sorted(
            {p.__module__.rpartition(".")[2] for p in parts().values()} | {"api"})),
        "from pyrmq.admin.expected import Expected",
        "from pyrmq.background import Background",
        f"from pyrmq.face_docs import {words}, in_words",
        "from pyrmq.net.client.signing import Credentials",
        f"from pyrmq.{face}_face import Client, {call}, streamed", "", "",
        "class _Part:", '    """A part of Admin."""', "",
        "    def __init__(self, face: Admin, part: Any) -> None:",
        "        self._face = face", "        self._client = part", "",
        "    @property", "    def _running(self) -> Background:",
        "        return self._face._running", "",
        "    def _submit(self, call: Any, *args: Any, **options: Any) -> Any:",
        "        return self._face._submit(call, *args, **options)", "",
    ]  # fmt: skip
    for part in parts().values():
        module = part.__module__.rpartition(".")[2] + "_"
        lines += ["", f"class {part.__name__}(_Part):",
                  f"    __doc__ = {module}.{part.__name__}.__doc__", ""]  # fmt: skip
        for name, generates in methods(part):
            how = "streamed" if generates else call
            lines.append(f"    {name} = {how}({module}.{part.__name__}.{name})")
        lines.append("")
    lines += ["", "class Admin(Client[api_.Admin]):",
              f"    __doc__ = in_words(api_.Admin.__doc__, {words})", "",
              "    def __init__(self, namesrv: str, *, timeout: float | None = None,",
              "                 credentials: Credentials | None = None,",
              "                 expected: Expected | None = None) -> None:",
              "        client = api_.Admin(namesrv, timeout=timeout, credentials=credentials,",
              "                            expected=expected)",
              "        super().__init__(client)"]  # fmt: skip
    lines += [f"        self.{n} = {p.__name__}(self, client.{n})" for n, p in parts().items()]
    return _formatted("\n".join(lines) + "\n")


def _formatted(text: str) -> str:
    ruff = [sys.executable, "-m", "ruff"]
    for words in (["check", "--select", "I", "--fix", "-q"], ["format", "-q"]):
        command = [*ruff, *words, "--stdin-filename", "pyrmq/face.py", "-"]
        done = subprocess.run(command, input=text, text=True, capture_output=True, cwd=ROOT)
        if done.returncode:
            raise SystemExit(done.stderr)
        text = done.stdout
    return text


def main() -> None:
    for face in FACES:
        path = ROOT / "pyrmq" / f"{face}_admin.py"
        text = written(face)
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            raise SystemExit(f"{path.name} is old: run python scripts/admin_faces.py")


if __name__ == "__main__":
    main()
