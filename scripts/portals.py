"""Writes the clients for asyncio and for threads: `_generated_*.py` below pyrmq/aio, sync and oms.

python scripts/portals.py          # writes them
python scripts/portals.py --check  # fails if a class, or a method of one, is missing or stale

Each class is made of two parts. What it does in its own way (`send_soon`, listeners, loops) is
written by hand, in a base class. All other public methods of the client for trio are called through
the portal: this script writes one line for each. `portal_classes.py` is the list of the classes.
"""

from __future__ import annotations

import ast
import builtins
import difflib
import inspect
import re
import subprocess
import sys
import types
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

from portal_classes import FILES, PORTALS, Called, File, Inherited, Portal

import pyrmq.client
import pyrmq.oms
from pyrmq.admin.api import Admin
from pyrmq.admin.link import Part

ROOT = Path(__file__).resolve().parent.parent


class Writer:
    """A file that is being written: its imports, and its classes."""

    def __init__(self, file: File, portal: Portal) -> None:
        self.file, self.portal = file, portal
        self.imports: set[str] = set()
        self.lines: list[str] = []

    # What a file imports.

    def use(self, module: str, name: str, alias: str = "") -> str:
        self.imports.add(f"from {module} import {name}" + (f" as {alias}" if alias else ""))
        return alias or name

    def trio(self, kind: Any) -> str:
        """A class or function that the new one is made of."""
        prefix = "Trio" if inspect.isclass(kind) else "trio_"
        return self.use(kind.__module__, kind.__name__, prefix + kind.__name__)

    def base(self, name: str) -> str:
        return self.use(self.portal.base, name)

    def by_hand(self, path: str) -> tuple[str, type] | None:
        """A class of the package that is written by hand."""
        module, _, name = path.rpartition(".")
        found = import_module(f"{self.file.package(self.portal)}.{module}")
        if not hasattr(found, name):
            return None
        return self.use(found.__name__, name), getattr(found, name)

    def annotation(self, text: str, function: FunctionType) -> str:
        """What a function is annotated with; it imports the names."""
        for node in ast.walk(ast.parse(text, mode="eval")):
            if isinstance(node, ast.Name) and not hasattr(builtins, node.id):
                self.use(
                    imported_names(function.__module__).get(node.id, function.__module__), node.id
                )
        return text

    # Classes.

    def called(self, client: Called) -> None:
        trio = self.trio(client.trio)
        found = self.by_hand(client.by_hand) if client.by_hand else None
        base, own = found or (self.base("Client"), self.portal.client)
        if getattr(own, "__parameters__", ()):
            base = f"{base}[{trio}]"
        self.head(client.trio, base, own.__doc__ or "", f"{base.partition('[')[0]}.__doc__")
        if client.made_from == "arguments" and own.__init__ is self.portal.client.__init__:
            self.constructor(client, trio)
        names = {function.__name__: self.trio(function) for function in client.functions}
        for name, member in members(client.trio, client.left_out):
            if hasattr(self.portal.client, name):
                raise SystemExit(f"{client.trio.__name__}.{name}: each client here has a {name}")
            if not hasattr(own, name):
                path = names.get(name, f"{trio}.{name}")
                self.member(name, member, path, direct=name in client.direct, swapped=name in names)

    def head(self, kind: type, bases: str, own_doc: str = "", own: str = "") -> None:
        """The first lines of a class."""
        words = self.use("pyrmq.portal.client", self.portal.words)
        doc = f"{self.use('pyrmq.portal.client', 'in_words')}({self.trio(kind)}.__doc__, {words})"
        self.lines += [
            "", "", f"class {kind.__name__}({bases}):",
            f"    __doc__ = {own if own_doc.startswith('As ') else doc}",
            f'    __module__ = "{self.file.package(self.portal)}"', "",
        ]  # fmt: skip

    def member(
        self, name: str, member: Any, path: str, *, direct: bool = False, swapped: bool = False
    ) -> None:
        """A line, or a few, for one member of a client."""
        if isinstance(member, property):
            self.lines.append("    @property")
            self.direct(member.fget, "")
        elif isinstance(member, staticmethod):
            self.lines.append(f"    {name} = staticmethod({path})")
        elif direct:
            self.direct(member, "()")
        elif inspect.isasyncgenfunction(member):
            self.lines.append(f"    {name} = {self.base('streamed')}({path})")
        else:
            if not (inspect.iscoroutinefunction(member) or swapped):
                path = f"{self.use('pyrmq.portal.client', 'as_async')}({path})"
            self.lines.append(f"    {name} = {self.base(self.portal.call)}({path})")

    def direct(self, function: Any, called: str) -> None:
        """A property, or a method without arguments."""
        result = self.annotation(function.__annotations__["return"], function)
        self.lines += [
            f"    def {function.__name__}(self) -> {result}:",
            f'        """{self.in_words(function.__doc__)}"""',
            f"        return self._client.{function.__name__}{called}", "",
        ]  # fmt: skip

    def in_words(self, text: str) -> str:
        words = import_module("pyrmq.portal.client")
        found: str = words.in_words(text, getattr(words, self.portal.words))
        return found

    def constructor(self, client: Called, trio: str) -> None:
        init: Any = client.trio.__init__  # type: ignore[misc]
        parameters = [
            p
            for p in list(inspect.signature(init).parameters.values())[1:]
            if p.name not in client.left_out and not (client.options and p.kind is p.KEYWORD_ONLY)
        ]
        taken, handed = self.parameters(init, parameters), handed_on(parameters)
        if client.options is not None:
            options = self.use(client.options.__module__, client.options.__name__)
            taken += f", **options: {self.use('typing', 'Unpack')}[{options}]"
            handed += ", **options"
            self.lines.append(f"    @{self.use('pyrmq.client.option_types', 'like')}({trio})")
        self.lines.append(f"    def __init__(self, {taken}) -> None:")
        if client.trio is not Admin:
            self.lines += [f"        super().__init__({trio}({handed}))", ""]
            return
        self.lines += [f"        client = {trio}({handed})", "        super().__init__(client)"]
        self.lines += [f"        self.{n} = {p.__name__}(self, client.{n})" for n, p in parts()]

    def parameters(self, function: FunctionType, parameters: Sequence[inspect.Parameter]) -> str:
        """Parameters as a definition has them. Values by default have to be literals."""
        texts = []
        for p in parameters:
            if p.kind is p.KEYWORD_ONLY and "*" not in texts:
                texts.append("*")
            default = "" if p.default is p.empty else f" = {ast.literal_eval(repr(p.default))!r}"
            texts.append(f"{p.name}: {self.annotation(p.annotation, function)}{default}")
        return ", ".join(texts)

    def part(self, kind: type) -> None:
        """A part of Admin."""
        trio = self.trio(kind)
        base = self.use("pyrmq.portal.client", "Part")
        self.lines += ["", "", f"class {kind.__name__}({base}):", f"    __doc__ = {trio}.__doc__"]
        self.lines.append("")
        for name, member in members(kind):
            if not inspect.iscoroutinefunction(member) and not inspect.isasyncgenfunction(member):
                raise SystemExit(f"{kind.__name__}.{name} is neither a coroutine nor a generator")
            self.member(name, member, f"{trio}.{name}")

    def inherited(self, kind: Inherited) -> None:
        found = [base for path in kind.by_hand if (base := self.by_hand(path))]
        bases = [*(name for name, _ in found), self.trio(kind.trio)]
        self.head(kind.trio, ", ".join(bases))
        for function, through, options in kind.through:
            self.through(self.trio(kind.trio), function, through, options)
        for function in kind.making:
            parameters = list(inspect.signature(function).parameters.values())[1:]
            taken, made = self.parameters(function, parameters), function.__annotations__["return"]
            self.lines += [
                f"    def {function.__name__}(  # type: ignore[override]", f"        self, {taken}",
                f"    ) -> {made}:",
                f'        """{function.__doc__}"""',
                f"        return {made}(super().{function.__name__}({handed_on(parameters)}))", "",
            ]  # fmt: skip

    def through(
        self, trio: str, function: FunctionType, through: str, options: FunctionType
    ) -> None:
        """A method that is called through the portal of one of its arguments."""
        own = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
        named = [p for p in own if p.kind is not p.VAR_KEYWORD]
        more = [p for p in inspect.signature(options).parameters.values() if is_option(p)]
        kinds = {p.name: self.annotation(p.annotation, function) for p in named}
        client = f"{self.base('Client')}[{kinds[through]}]"
        texts = [p.replace(annotation=client) if p.name == through else p for p in named]
        taken = ", ".join([
            *(f"{p.name}: {p.annotation}" + ("" if p.default is p.empty else f" = {p.default!r}")
              for p in texts),
            "*", self.parameters(options, more).removeprefix("*, "),
        ])  # fmt: skip
        handed = handed_on([*named, *more]).replace(through, f"{through}._client", 1)
        start, wait = ("async ", "await ") if self.portal.is_async else ("", "")
        result = self.annotation(function.__annotations__["return"], function)
        name = function.__name__
        self.lines += [
            f"    {start}def {name}(  # type: ignore[override]", f"        self, {taken},",
            f"    ) -> {result}:",
            f"        return {wait}{through}._call(super().{name}, {handed})", "",
            f"    {name}.__doc__ = in_words({trio}.{name}.__doc__, {self.portal.words})",
        ]  # fmt: skip

    def written(self) -> str:
        """The whole file."""
        for kind in self.file.classes:
            if isinstance(kind, Called):
                if kind.trio is Admin:
                    for _, part in parts():
                        self.part(part)
                self.called(kind)
            else:
                self.inherited(kind)
        head = [
            f'"""{self.file.what} for {self.portal.users}.', "",
            f"Written by scripts/{Path(__file__).name}: change that, or what it reads.", '"""', "",
            "from __future__ import annotations", "",
        ]  # fmt: skip
        return formatted("\n".join([*head, *sorted(self.imports), *self.lines]) + "\n")


@cache
def imported_names(module: str) -> dict[str, str]:
    """The names that a module imports, and from which module each."""
    tree = ast.parse(inspect.getsource(import_module(module)))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {n.asname or n.name: str(node.module) for node in imports for n in node.names}


def parts() -> list[tuple[str, type]]:
    """The parts of Admin by name."""
    admin = Admin("127.0.0.1:1")
    return [(n, type(p)) for n, p in sorted(vars(admin).items()) if isinstance(p, Part)]


def members(kind: type, left_out: frozenset[str] = frozenset()) -> Iterator[tuple[str, Any]]:
    """The public functions and properties of a class."""
    for name, member in inspect.getmembers_static(kind):
        wanted = isinstance(member, property | staticmethod | FunctionType)
        if wanted and not name.startswith("_") and name not in left_out:
            yield name, member


def is_option(parameter: inspect.Parameter) -> bool:
    return parameter.kind is parameter.KEYWORD_ONLY


def handed_on(parameters: Sequence[inspect.Parameter]) -> str:
    """Parameters as a call has them."""
    return ", ".join(f"{p.name}={p.name}" if is_option(p) else p.name for p in parameters)


def formatted(text: str) -> str:
    ruff = [sys.executable, "-m", "ruff"]
    for words in (["check", "--select", "I", "--fix", "-q"], ["format", "-q"]):
        command = [*ruff, *words, "--stdin-filename", "pyrmq/portal.py", "-"]
        done = subprocess.run(command, input=text, text=True, capture_output=True, cwd=ROOT)
        if done.returncode:
            raise SystemExit(f"{done.stderr}\n{text}")
        text = done.stdout
    return text


def left_behind() -> list[str]:
    """Clients that no file has, and names in the list that no client has."""
    kinds = [kind for file in FILES for kind in file.classes]
    known = {kind.trio for kind in kinds}
    found = [
        f"{home.__name__}.{name} is in no file"
        for home in (pyrmq.client, pyrmq.oms)
        for name in home.__all__
        if hasattr(kind := getattr(home, name), "__aenter__") and kind not in known
    ]
    for kind in kinds:
        if isinstance(kind, Called):
            there = {*dir(kind.trio), *inspect.signature(kind.trio).parameters}
            names = {*kind.direct, *kind.left_out, *(f.__name__ for f in kind.functions)}
            found += [f"{kind.trio.__name__} has no {name}" for name in sorted(names - there)]
    return found


def stale(root: Path, path: str, text: str) -> str:
    """How a file differs from what it should be: "" if it does not."""
    file = root / path
    there = file.read_text() if file.exists() else ""
    lines = difflib.unified_diff(
        there.splitlines(), text.splitlines(), "is", "should be", "", "", 0
    )
    changes = [line for line in lines if re.match(r"[+-](?![+-])", line)][:20]
    return "\n".join(
        [f"{path} is stale: run python scripts/portals.py", *changes] if changes else []
    )


def without_packages() -> None:
    """Makes the packages empty, so that no file that this script writes is imported."""
    for file in FILES:
        for portal in PORTALS:
            package = types.ModuleType(file.package(portal))
            package.__path__ = [str((ROOT / file.path.format(portal.name)).parent)]
            sys.modules[package.__name__] = package


def main(words: Sequence[str], root: Path = ROOT) -> int:
    """Writes or checks the files below `root`; the exit code."""
    if list(words) not in ([], ["--check"]):
        print(__doc__)
        return 2
    without_packages()
    written = {
        file.path.format(portal.name): Writer(file, portal).written()
        for file in FILES
        for portal in PORTALS
    }
    found = left_behind()
    for path, text in written.items():
        if not words:
            (root / path).write_text(text)
        elif change := stale(root, path, text):
            found.append(change)
    print("\n".join(found) or "portals: all methods of all clients are there")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
