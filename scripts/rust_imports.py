"""What the Rust files of a crate import: `use` trees and paths in code, followed to the file that
defines the name, through re-exports, globs and renamings.

Other crates and test modules (`#[cfg(test)]`) are left out. A re-export (`pub use`) alone is no
import of the file that states it, unless its own code uses the name. Method calls have no path and
are not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

TOKEN = re.compile(
    r"""
    (?P<space>\s+ | //[^\n]*)
  | (?P<comment>/\*)
  | (?P<string>b?r(?P<hash>\#*)".*?"(?P=hash) | [bc]?"(?:\\.|[^"\\])*")
  | (?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^\\'\n])')
  | (?P<lifetime>'[A-Za-z_]\w*)
  | (?P<word>(?:r\#)?[A-Za-z_]\w*)
  | (?P<number>\d\w*)
  | (?P<mark>::|.)
    """,
    re.VERBOSE | re.DOTALL,
)
OPENING, CLOSING = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
DEFINES = {"fn", "struct", "enum", "trait", "type", "const", "static", "union"}
WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass
class Module:
    file: Path
    parent: Module | None
    children: dict[str, Module] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    # Bound name to path, of `use` declarations; those of them that are re-exports.
    uses: dict[str, list[str]] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    globs: list[list[str]] = field(default_factory=list)
    paths: set[tuple[str, ...]] = field(default_factory=set)


@dataclass(frozen=True)
class Edge:
    file: Path
    target: Path
    reexport: bool


def edges(source: Path) -> set[Edge]:
    """All imports between the files of the crate whose `lib.rs` lies in `source`."""
    root = Module(source / "lib.rs", None)
    _Parser(root, source).run()
    found: set[Edge] = set()
    todo = [root]
    while todo:
        module = todo.pop()
        todo += module.children.values()
        for path, reexport in _paths(module):
            target = _resolve(root, module, path)
            if isinstance(target, Path) and target != module.file:
                found.add(Edge(module.file, target, reexport))
    return found


def _paths(module: Module) -> Iterator[tuple[list[str], bool]]:
    for name, path in module.uses.items():
        yield path, name in module.exported
    for words in module.paths:
        # A single word is a path where a re-export or a glob gives it; private uses count already.
        if len(words) > 1 or words[0] in module.exported or module.globs:
            yield list(words), False


def _resolve(root: Module, module: Module, path: list[str]) -> Module | Path | None:
    """The file that defines what a path names, or the module named; None: not of this crate."""
    return _follow(root, module, path, frozenset())


def _follow(
    root: Module, module: Module, path: list[str], seen: frozenset[tuple[int, str]]
) -> Module | Path | None:
    at: Module | Path | None = module
    rest = path
    if path[0] in ("crate", "self", "super"):
        at = root if path[0] == "crate" else module
        while rest and rest[0] in ("crate", "self", "super"):
            if rest[0] == "super" and isinstance(at, Module):
                at = at.parent
            rest = rest[1:]
    else:
        at = _look_up(root, module, path[0], seen)
        rest = path[1:]
    for i, name in enumerate(rest):
        if not isinstance(at, Module):
            return at
        inner = _look_up(root, at, name, seen)
        if inner is None:
            # Made by a macro, or one of this crate's own that is not seen here: the module's file.
            return at.file if i == len(rest) - 1 or name[0].isupper() else None
        at = inner
    return at


def _look_up(
    root: Module, module: Module, name: str, seen: frozenset[tuple[int, str]]
) -> Module | Path | None:
    if (id(module), name) in seen:
        return None
    seen |= {(id(module), name)}
    if name in module.children:
        return module.children[name]
    if name in module.defined:
        return module.file
    if name in module.uses:
        return _follow(root, module, module.uses[name], seen)
    for path in module.globs:
        target = _follow(root, module, path, seen)
        if isinstance(target, Module):
            inner = _look_up(root, target, name, seen)
            if inner is not None:
                return inner
    return None


def tokens(text: str) -> list[str]:
    """The tokens of Rust source, without space, comments, characters and lifetimes."""
    out, at = [], 0
    while match := TOKEN.match(text, at):
        at = match.end()
        if match["comment"]:
            depth = 1
            while depth and (mark := re.compile(r"/\*|\*/").search(text, at)):
                depth += 1 if mark[0] == "/*" else -1
                at = mark.end()
        elif match["word"]:
            out.append(match["word"].removeprefix("r#"))
        elif match["string"] or match["mark"] or match["number"]:
            out.append(match[0])
    return out


class _Parser:
    """Reads one file into a module: its items, its uses and the paths in its code."""

    def __init__(self, module: Module, folder: Path) -> None:
        self.module = module
        # Where the files of child modules lie.
        self.folder = folder
        self.tokens = tokens(module.file.read_text(encoding="utf-8"))
        self.at = 0

    def run(self) -> None:
        self._items(self.module, self.folder)

    def _peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at] if 0 <= at < len(self.tokens) else ""

    def _items(self, module: Module, folder: Path) -> None:
        """Reads up to the end of the file, or to the brace that closes an inline module."""
        depth = 0
        attributes: list[list[str]] = []
        exported = False
        while token := self._peek():
            if token == "#" and self._peek(1 + (self._peek(1) == "!")) == "[":
                self.at += 1 + (self._peek(1) == "!")
                start = self.at
                self._skip_group()
                attributes.append(self.tokens[start + 1 : self.at - 1])
                continue
            if any(_is_test(a) for a in attributes):
                self._skip_item()
                attributes = []
                continue
            if token == "pub":
                self.at += 1
                if self._peek() == "(" and self._peek(1) in ("crate", "super", "in", "self"):
                    self._skip_group()
                exported = True
                continue
            if token == "use":
                self.at += 1
                self._use(module, [], exported)
            elif token == "mod" and WORD.fullmatch(self._peek(1)) and self._peek(2) in (";", "{"):
                self._mod(module, folder, attributes)
            elif token == "macro_rules" and self._peek(1) == "!":
                module.defined.add(self._peek(2))
                self.at += 3
            else:
                if token in DEFINES and depth == 0:
                    module.defined.add(self._peek(1))
                if token in OPENING:
                    depth += 1
                elif token in CLOSING:
                    depth -= 1
                    if depth < 0:
                        return
                if WORD.fullmatch(token) and self._peek(-1) not in (".", "::"):
                    module.paths.add(self._path())
                self.at += 1
            attributes, exported = [], False

    def _path(self) -> tuple[str, ...]:
        words = [self._peek()]
        while self._peek(1) == "::" and WORD.fullmatch(self._peek(2)):
            self.at += 2
            words.append(self._peek())
        return tuple(words)

    def _mod(self, module: Module, folder: Path, attributes: list[list[str]]) -> None:
        name, mark = self._peek(1), self._peek(2)
        self.at += 3
        if mark == "{":
            child = module.children[name] = Module(module.file, module)
            self._items(child, folder / name)
            self.at += 1
            return
        stated = [a[2].strip('"') for a in attributes if a[:2] == ["path", "="]]
        # RFC 2: x.rs or x/mod.rs; a stated path counts from the file's own folder.
        candidates = [module.file.parent / p for p in stated] or [
            folder / f"{name}.rs",
            folder / name / "mod.rs",
        ]
        file = next((c for c in candidates if c.is_file()), None)
        if file is None:
            raise FileNotFoundError(f"{module.file}: mod {name} has no file {candidates[0]}")
        child = module.children[name] = Module(file, module)
        _Parser(child, file.parent if file.name == "mod.rs" else file.parent / file.stem).run()

    def _use(self, module: Module, prefix: list[str], exported: bool) -> None:
        """One use tree, up to what ends it (`;`, `,` or `}`), which a whole declaration skips."""
        path = list(prefix)
        if self._peek() == "::":
            self.at += 1
        while token := self._peek():
            self.at += 1
            if token == "{":
                while self._peek() not in ("}", ""):
                    self._use(module, path, exported)
                    self.at += self._peek() == ","
                self.at += 1
                break
            if token == "*":
                module.globs.append(path)
                break
            if not (token == "self" and path):
                path.append(token)
            if self._peek() == "::":
                self.at += 1
                continue
            name = path[-1]
            if self._peek() == "as":
                name = self._peek(1)
                self.at += 2
            # A name that binds itself (`use serde;`) would only lead back here.
            if path != [name]:
                module.uses[name] = path
                if exported:
                    module.exported.add(name)
            break
        if not prefix and self._peek() == ";":
            self.at += 1

    def _skip_group(self) -> None:
        """From an opening bracket to behind the one that closes it."""
        depth = 0
        while token := self._peek():
            self.at += 1
            depth += (token in OPENING) - (token in CLOSING)
            if depth == 0:
                return

    def _skip_item(self) -> None:
        """Over one item, statement or field, to behind its end."""
        while self._peek() == "#":
            self.at += 1
            self._skip_group()
        first = self._peek()
        if first == "pub":
            first = self._peek(1)
        to_mark = first in ("use", "const", "static", "let", "type")
        items = DEFINES | {"mod", "impl", "unsafe", "async", "extern", "pub", "macro_rules"}
        while token := self._peek():
            if token in CLOSING:
                return
            if token in OPENING:
                self._skip_group()
                if token == "{" and not to_mark:
                    return
                continue
            self.at += 1
            if token == ";" or (token == "," and first not in items):
                return


def _is_test(attribute: list[str]) -> bool:
    if attribute[:1] != ["cfg"] or "test" not in attribute:
        return False
    return not {"any", "not"} & set(attribute)
