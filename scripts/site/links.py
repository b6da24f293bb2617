"""Links between pages and files of the repository, as links of the site.

On the forge a page links to any file by its relative path. On the site the pages of docs/ are at
the top, PAGES and other files that a page links to are below repository/.
"""

from __future__ import annotations

import posixpath
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
"""Files beside docs/ that are pages of the site, with a place in the navigation."""
TARGET = re.compile(r"(\]\(|^\[[^\]\n]+\]: +)([^)\s#]*)(#[^)\s]*)?(?=\)|\s|$)", re.MULTILINE)
FENCED = re.compile(r"^( *)(`{3,})[^\n]*\n.*?^\1\2`*[ ]*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LEXERS = {".py": "python", ".rs": "rust", ".java": "java", ".toml": "toml", ".yml": "yaml"}


def outside_code(text: str, change: Callable[[str], str]) -> str:
    """The text with a change everywhere but in code."""
    out, end = [], 0
    for code in FENCED.finditer(text):
        out += [change(text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*out, change(text[end:])])


class Links:
    def __init__(self, root: Path) -> None:
        self._root = root

    def source(self, uri: str) -> str:
        """Where a page of the site stands in the repository."""
        kept = uri.removeprefix("repository/")
        return kept if kept != uri else f"docs/{uri}"

    def place(self, path: str) -> str | None:
        """Where a file or folder of the repository stands on the site; None for what is not
        there."""
        if path.startswith("docs/"):
            return path.removeprefix("docs/")
        if path in PAGES:
            return f"repository/{path}"
        if (self._root / path).exists() and not path.startswith(".."):
            return f"repository/{path}.md"
        return None

    def _target(self, uri: str, link: str) -> str | None:
        """The file that a link of a page means, if it is one of the repository."""
        if not link or re.match(r"[a-z]+:|/", link):
            return None
        return posixpath.normpath(posixpath.join(posixpath.dirname(self.source(uri)), link))

    def shown(self, pages: Iterable[tuple[str, str]]) -> set[str]:
        """What is no page and is linked to: files, folders and their files."""
        found: set[str] = set()

        def collect(uri: str, text: str) -> str:
            for match in TARGET.finditer(text):
                path = self._target(uri, match[2])
                if path and not path.startswith("docs/") and path not in PAGES and self.place(path):
                    found.add(path)
            return text

        for uri, text in pages:
            outside_code(text, lambda part, uri=uri: collect(uri, part))
        for name in list(found):
            if (self._root / name).is_dir():
                found |= {file for file in self._files(name) if self._is_text(file)}
        return found

    def _files(self, folder: str) -> list[str]:
        listed = subprocess.run(
            ["git", "ls-files", "--", folder],
            cwd=self._root,
            capture_output=True,
            text=True,
            check=False,
        ).stdout.splitlines()
        return [name for name in listed if posixpath.dirname(name) == folder]

    def _is_text(self, name: str) -> bool:
        return Path(name).suffix in {*LEXERS, ".md", ".sh", ".txt", ".conf", ".ipynb"}

    def page_of(self, name: str) -> tuple[str, str]:
        """A page that shows a file, or lists a folder."""
        uri = f"repository/{name}.md"
        head = f"---\nsearch: {{exclude: true}}\n---\n# {name}\n\n"
        if (self._root / name).is_dir():
            base = posixpath.basename(name)
            rows = [
                f"- [{posixpath.basename(f)}]({base}/{posixpath.basename(f)}.md)"
                for f in self._files(name)
                if self._is_text(f)
            ]
            return uri, head + "\n".join(rows) + "\n"
        text = (self._root / name).read_text(encoding="utf-8")
        fence = "````" if "```" in text else "```"
        return uri, f"{head}{fence}{LEXERS.get(Path(name).suffix, 'text')}\n{text}\n{fence}\n"

    def of_the_site(self, uri: str, text: str) -> str:
        """The text of a page with links that are right on the site."""

        def moved(match: re.Match[str]) -> str:
            path = self._target(uri, match[2])
            place = self.place(path) if path else None
            if place is None:
                return match[0]
            relative = posixpath.relpath(place, posixpath.dirname(uri) or ".")
            return f"{match[1]}{relative}{match[3] or ''}"

        return outside_code(text, lambda part: TARGET.sub(moved, part))
