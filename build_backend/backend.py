"""PEP 517 backend: Cython compiles pyrmq/engine.pyx in place, then maturin builds the crate.

maturin packs the compiled module because `[tool.maturin] include` names it; without that line it
would be left out without a word, so `make wheel-check` asserts that a wheel holds both modules.
"""

import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import maturin
from maturin import (
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parent.parent


def compile_engine() -> None:
    """Builds pyrmq/engine.<tag>.so for the running interpreter."""
    if shutil.which("cargo") is None:
        raise SystemExit(
            "pyrmq needs a Rust toolchain (cargo, 1.89 or newer) to build its engine.\n"
            "Get one from https://rustup.rs or your distribution, then install again."
        )
    command = [sys.executable, str(Path(__file__).with_name("cython_build.py"))]
    subprocess.run(command, cwd=ROOT, check=True)


@contextmanager
def only_own_engine() -> Iterator[None]:
    """Keeps what other interpreters built (an editable install, say) out of a wheel."""
    own = sysconfig.get_config_var("EXT_SUFFIX")
    others = [f for f in (ROOT / "pyrmq").glob("engine.*.so") if f.name != f"engine{own}"]
    with TemporaryDirectory(dir=ROOT) as aside:
        for file in others:
            file.rename(Path(aside) / file.name)
        try:
            yield
        finally:
            for file in others:
                (Path(aside) / file.name).rename(file)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    compile_engine()
    with only_own_engine():
        return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    compile_engine()
    return maturin.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    return maturin.build_sdist(sdist_directory, config_settings)
