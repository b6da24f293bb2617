"""What the site has beside docs/: pages of the repository, of the commands and of the Python API.

mkdocs calls these functions (mkdocs.yml, `hooks`). Each page stays as it is for readers on the
forge; here its links and its Markdown become those of the site.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).parent))
import api
import commands
from diagrams import drawn
from dialect import for_python_markdown
from links import PAGES, Links

ROOT = Path(__file__).resolve().parents[2]
FOREIGN = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//|"""
    r"""<link\b(?=[^>]*\brel=["']?(?:stylesheet|preconnect|preload|icon))[^>]*\bhref=["']?(?:https?:)?//|"""
    r"""@import\s+(?:url\()?["']?(?:https?:)?//|url\(["']?(?:https?:)?//"""
)
"""What a browser would load from another host."""
_links = Links(ROOT)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation has each decision, by its first line. The foot links to the repository; as
    `repo_url` the browser would ask GitHub for its stars."""
    if repository := os.environ.get("SITE_REPOSITORY"):
        link = {"icon": "fontawesome/brands/git-alt", "link": repository, "name": "Source code"}
        config.extra["social"] = [link]
    folder = Path(config.docs_dir) / "decisions"
    pages: list[str | dict[str, str]] = ["decisions/README.md"]
    for path in sorted(folder.glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        pages.append({title: f"decisions/{path.name}"})
    for part in config.nav or []:
        for entry in next(iter(part.values())):
            if isinstance(entry, dict) and entry.get("Decisions") == "decisions/":
                entry["Decisions"] = pages
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that are no files of docs/."""
    texts = {f"repository/{name}": (ROOT / name).read_text(encoding="utf-8") for name in PAGES}
    texts |= commands.pages() | api.pages()
    for uri, text in texts.items():
        files.append(File.generated(config, uri, content=text))
    for name in sorted(_links.shown([*texts.items(), *_docs(files)])):
        uri, text = _links.page_of(name)
        files.append(File.generated(config, uri, content=text, inclusion=InclusionLevel.NOT_IN_NAV))
    return files


def _docs(files: Files) -> list[tuple[str, str]]:
    return [
        (file.src_uri, Path(file.abs_src_path).read_text(encoding="utf-8"))
        for file in files.documentation_pages()
        if file.abs_src_path and not file.generated_by
    ]


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files beside docs/ lead to their pages; lists and tables are as Python-Markdown
    reads them; sequence diagrams are drawn."""
    return for_python_markdown(drawn(_links.of_the_site(page.file.src_uri, markdown)))


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Names the search for screen readers."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)


def on_post_build(config: MkDocsConfig) -> None:
    """Fails if a page would load something from another host."""
    site = Path(config.site_dir)
    found = [
        f"{path.relative_to(site)}: {match[0]}"
        for path in sorted(site.rglob("*"))
        if path.suffix in (".html", ".css")
        for match in FOREIGN.finditer(path.read_text(encoding="utf-8"))
    ]
    if found:
        raise PluginError("pages load from another host:\n" + "\n".join(found))
