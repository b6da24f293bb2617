"""The layer check finds what it is there for."""

from __future__ import annotations

import importlib
import shutil
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("check_layers")


class Tree:
    """A made-up source tree, and what the script finds in it."""

    def __init__(self, check: ModuleType, root: Path) -> None:
        self.check = check
        self.root = root

    def plant(self, path: str, text: str) -> list[str]:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return self.faults()

    def files(self, files: dict[str, str]) -> list[str]:
        for path, text in files.items():
            file = self.root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return self.faults()

    def faults(self) -> list[str]:
        found: list[str] = self.check.faults(self.root)
        return found


@pytest.fixture
def tree(check: ModuleType, tmp_path: Path) -> Tree:
    return Tree(check, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "import pyrmq.broker",
        "import pyrmq.broker.requests.send as send",
        "from pyrmq.broker import send",
        "from pyrmq.broker.requests.send import X",
        "from pyrmq import broker",
        "def f():\n    from pyrmq.broker import send",
        "class A:\n    def f(self):\n        import os, pyrmq.broker.requests.send",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pyrmq.broker import send",
        "from ..broker import send",
        "from .. import broker",
    ],
)
def test_an_upward_import(tree: Tree, text: str) -> None:
    (fault,) = tree.plant("pyrmq/net/x.py", text)
    assert "net/x.py" in fault
    assert "broker" in fault


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("model/x.py", "net"), ("errors.py", "model"), ("engine.py", "net"), ("net/x.py", "cli"),
        ("broker/x.py", "namesrv"), ("client/x.py", "broker"), ("broker/a/b.py", "server"),
        ("client/x.py", "portal"), ("portal/x.py", "aio"), ("outbox/x.py", "portal"),
        ("aio/x.py", "sync"), ("sync/x.py", "oms"), ("oms/x.py", "server"),
        ("server.py", "testing"), ("demo.py", "cli"),
    ],
)  # fmt: skip
def test_every_layer(tree: Tree, path: str, target: str) -> None:
    assert len(tree.plant(f"pyrmq/{path}", f"from pyrmq.{target} import x")) == 1


@pytest.mark.parametrize(
    "text",
    [
        "from pyrmq.net import server\nfrom pyrmq.broker.fields import text\nimport pyrmq.errors",
        "from . import fields\nfrom .fields import text",
        "import pyrmqx.cli\nimport trio",
        "x = 'from pyrmq.cli import main'",
    ],
)
def test_what_is_allowed(tree: Tree, text: str) -> None:
    assert tree.plant("pyrmq/broker/x.py", text) == []


def test_native_code_has_one_door(tree: Tree) -> None:
    (fault,) = tree.plant("pyrmq/cli/x.py", "from pyrmq import _native")
    assert "_native" in fault


@pytest.mark.parametrize("text", ["import pyspark", "def f():\n    from spark_ext import jobs"])
def test_spark_has_one_door(tree: Tree, text: str) -> None:
    assert tree.plant("pyrmq/cli/pipeline.py", text) == []
    (fault,) = tree.plant("pyrmq/segments/x.py", text)
    assert "cli/pipeline.py" in fault


def test_a_module_in_no_layer(tree: Tree) -> None:
    (fault,) = tree.plant("pyrmq/novel/x.py", "")
    assert "novel" in fault


# Circles of Python files.


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("import pyrmq.net.b", "import pyrmq.net.a"),
        ("from pyrmq.net.b import B", "from pyrmq.net import a"),
        ("from .b import B", "from . import a"),
        ("import pyrmq.net.b", "def f():\n    from pyrmq.net.a import A"),
        ("from pyrmq.net.b import B", "if TYPE_CHECKING:\n    from pyrmq.net.a import A"),
        (
            "from pyrmq.net.b import B",
            "import typing\nif typing.TYPE_CHECKING:\n    from pyrmq.net.a import A",
        ),
    ],
)
def test_two_files_that_import_each_other(tree: Tree, a: str, b: str) -> None:
    (fault,) = tree.files({"pyrmq/net/a.py": a, "pyrmq/net/b.py": b})
    assert "pyrmq/net/a.py -> pyrmq/net/b.py -> pyrmq/net/a.py" in fault


def test_a_longer_circle_names_all_its_files_once(tree: Tree) -> None:
    (fault,) = tree.files(
        {
            "spark_ext/a.py": "import spark_ext.b\nimport spark_ext.out",
            "spark_ext/b.py": "import spark_ext.c",
            "spark_ext/c.py": "import spark_ext.a",
            "spark_ext/out.py": "import os",
            "spark_ext/into.py": "import spark_ext.a",
        }
    )
    assert fault.startswith(
        "a circle of 3 files: spark_ext/a.py, spark_ext/b.py, spark_ext/c.py; for example "
    )


def test_two_circles_are_two_faults(tree: Tree) -> None:
    found = tree.files(
        {
            "pyrmq/net/a.py": "import pyrmq.net.b\nimport pyrmq.net.c",
            "pyrmq/net/b.py": "import pyrmq.net.a",
            "pyrmq/net/c.py": "import pyrmq.net.d",
            "pyrmq/net/d.py": "import pyrmq.net.c",
        }
    )
    assert len(found) == 2


def test_a_name_of_the_package_is_an_import_of_its_init(tree: Tree) -> None:
    init = "from pyrmq.net.a import A\n__version__ = '1'"
    (fault,) = tree.files(
        {"pyrmq/net/__init__.py": init, "pyrmq/net/a.py": "from pyrmq.net import __version__"}
    )
    assert "pyrmq/net/__init__.py" in fault


@pytest.mark.parametrize("b", ["from pyrmq.net import c", "import pyrmq.net.c", "from . import c"])
def test_a_submodule_is_no_import_of_the_init(tree: Tree, b: str) -> None:
    init = "from pyrmq.net.b import B"
    for suffix in ("py", "pyx"):
        files = {"pyrmq/net/__init__.py": init, "pyrmq/net/b.py": b, f"pyrmq/net/c.{suffix}": ""}
        assert tree.files(files) == []
        (tree.root / f"pyrmq/net/c.{suffix}").unlink()


LAZY = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from pyrmq.client.producer.producer import Producer as Producer
__version__ = "1"
def __getattr__(name):
    from pyrmq.client.producer.producer import Producer
    return Producer
"""


def test_names_that_a_package_loads_lazily_are_no_imports_of_it(tree: Tree) -> None:
    text = "from pyrmq import __version__"
    assert tree.files({"pyrmq/__init__.py": LAZY, "pyrmq/client/producer/producer.py": text}) == []


def test_a_name_that_is_loaded_lazily_is_an_import_of_the_file_that_defines_it(tree: Tree) -> None:
    files = {"pyrmq/__init__.py": LAZY, "pyrmq/client/producer/producer.py": ""}
    (fault,) = tree.files({**files, "pyrmq/net/x.py": "from pyrmq import Producer"})
    assert "net imports pyrmq.client.producer.producer.Producer" in fault
    (tree.root / "pyrmq/net/x.py").unlink()
    (fault,) = tree.files(
        {
            "pyrmq/client/producer/producer.py": "import pyrmq.client.other",
            "pyrmq/client/other.py": "from pyrmq import Producer",
        }
    )
    assert "pyrmq/client/other.py -> pyrmq/client/producer/producer.py" in fault


# Rust.


def crate(tree: Tree, name: str, **files: str) -> list[str]:
    """Files of a crate's src by their name, with `__` for `/`; `lib` is added if it is missing."""
    modules = sorted({file.split("__")[0] for file in files} - {"lib"})
    files.setdefault("lib", "".join(f"pub mod {module};\n" for module in modules))
    folder = {"native": "native/src", "jvm": "native/jvm/src"}.get(
        name, f"native/crates/{name}/src"
    )
    return tree.files(
        {f"{folder}/{file.replace('__', '/')}.rs": text for file, text in files.items()}
    )


@pytest.mark.parametrize(
    "text",
    [
        "use crate::ha::Store;",
        "use crate::{growth::get, ha::{self, Store}};\nfn f() { ha::open() }",
        "fn f() -> crate::ha::Store { todo!() }",
        "use super::ha::Store;",
        "pub use crate::ha::Store;",
        "use crate::ha;\nfn f() { ha::inner::open() }",
        "use crate::ha::*;\nfn f(_: Store) {}",
        "mod within { use crate::ha::Store as Other; }",
        "fn f<'a>(c: char) -> bool { c == '\"' && crate::ha::Store::open('{') }",
        'const S: &str = r#"}"{"#;\nuse crate::ha::Store;',
    ],
)
def test_an_upward_import_in_rust(tree: Tree, text: str) -> None:
    (fault,) = crate(
        tree,
        "store",
        record=text,
        growth="pub fn get() {}",
        ha__mod="pub mod inner;\npub use inner::Store;\npub use inner::open;",
        ha__inner="pub struct Store;\npub fn open() {}",
    )
    assert fault.startswith("native/crates/store/src/record.rs: imports native/crates/store/src/ha")


@pytest.mark.parametrize(
    "text",
    [
        "// use crate::ha::Store;",
        "/* a /* b */ use crate::ha::Store; */",
        'fn f() -> &\'static str { "use crate::ha::Store;" }',
        "#[cfg(test)]\nmod tests { use crate::ha::Store; fn f() { if x { } } }",
        "#[cfg(test)]\n#[allow(dead_code)]\nfn f(s: crate::ha::Store) -> u8 { 1 }",
        "#[cfg(test)]\nuse crate::ha::{Store};",
        "struct A { #[cfg(test)] s: crate::ha::Store, t: u8 }",
        "use ha::Store;\nuse std::crate_like::ha;",
        "use pyrmq_format::ha::Store;",
    ],
)
def test_what_is_allowed_in_rust(tree: Tree, text: str) -> None:
    found = crate(
        tree,
        "store",
        record=text,
        ha__mod="use crate::record;\npub struct Store;\npub fn f() { record::x() }",
    )
    assert found == []


def test_what_follows_a_test_item_is_read(tree: Tree) -> None:
    text = "#[cfg(test)]\nmod tests {\n fn f() {}\n}\n#[cfg(not(test))]\nuse crate::wire::W;"
    (fault,) = crate(tree, "broker", plan=text, wire__mod="pub struct W;")
    assert "src/plan.rs: imports native/crates/broker/src/wire/mod.rs" in fault


@pytest.mark.parametrize(
    ("name", "own", "other"),
    [
        ("format", "", "filter"), ("store", "", "ha"), ("broker", "txn", "delay"),
        ("broker", "delay", ""), ("broker", "", "wire"), ("native", "", "python"),
        ("jvm", "", "ops"), ("jvm", "ops", "border"),
    ],
)  # fmt: skip
def test_every_layer_in_rust(tree: Tree, name: str, own: str, other: str) -> None:
    def files(first: str, second: str) -> dict[str, str]:
        """The first one uses the second one."""
        path = f"{second}::X" if second else "x::X"
        return {
            f"{first}__mod" if first else "f": f"use crate::{path};\npub struct Y;",
            f"{second}__mod" if second else "x": "pub struct X;",
        }

    assert len(crate(tree, name, **files(own, other))) == 1
    shutil.rmtree(tree.root / "native")
    assert crate(tree, name, **files(other, own)) == []


@pytest.mark.parametrize("name", ["format", "arrow", "native", "jvm"])
def test_a_rust_folder_in_no_layer(tree: Tree, name: str) -> None:
    (fault,) = crate(tree, name, novel__mod="")
    assert "novel" in fault


def test_a_crate_that_is_in_no_table(tree: Tree) -> None:
    (fault,) = crate(tree, "novel", lib="")
    assert "novel" in fault


def manifest(tree: Tree, name: str, text: str) -> list[str]:
    return tree.files(
        {f"native/crates/{name}/src/lib.rs": "", f"native/crates/{name}/Cargo.toml": text}
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("format", "[dependencies]\npyrmq-store.workspace = true"),
        ("store", "[dependencies]\npyrmq-broker = { path = '../broker' }"),
        ("arrow", "[dependencies.pyrmq-store]\nworkspace = true"),
        ("offline", "[dev-dependencies]\npyrmq-store.workspace = true"),
        ("broker", "[dependencies]\npyo3 = '1'"),
        ("arrow", "[dependencies]\njni = '1'"),
    ],
)
def test_a_crate_that_a_crate_may_not_use(tree: Tree, name: str, text: str) -> None:
    (fault,) = manifest(tree, name, text)
    assert fault.startswith(f"native/crates/{name}/Cargo.toml: ")


def test_crates_that_a_crate_may_use(tree: Tree) -> None:
    text = "[dependencies]\npyrmq-format.workspace = true\nlog = '1'\n[dev-dependencies]\n"
    assert manifest(tree, "broker", f"{text}pyrmq-store.workspace = true") == []


def test_a_circle_through_re_exports(tree: Tree) -> None:
    (fault,) = crate(
        tree,
        "store",
        lib="mod flush;\nmod put;\npub use flush::Flush;\npub use put::{Put as Append};",
        flush="use super::Append;\npub struct Flush;",
        put="use crate::Flush;\npub struct Put;",
    )
    source = "native/crates/store/src"
    assert f"{source}/flush.rs -> {source}/put.rs -> {source}/f" in fault
    assert "lib.rs" not in fault


@pytest.mark.parametrize(
    "b", ["use super::a::A;", "fn f() { super::a::g() }", "use super::*;\nfn f(_: a::A) {}"]
)
def test_a_circle_of_two_rust_files(tree: Tree, b: str) -> None:
    a = (
        "pub struct A;\npub fn g() {}\nimpl A { fn b(&self) { self::inner::f() } }\n"
        "mod inner { pub fn f() { super::super::b::B } }"
    )
    (fault,) = crate(
        tree, "broker", wire__mod="mod a;\nmod b;", wire__a=a, wire__b=f"{b}\npub struct B;"
    )
    source = "native/crates/broker/src/wire"
    assert f"{source}/a.rs -> {source}/b.rs -> {source}/a.rs" in fault


def test_a_circle_with_what_the_folder_itself_defines(tree: Tree) -> None:
    body = "mod a;\npub use a::A;\npub const LIMIT: u8 = 1;\n"
    a = "use super::LIMIT;\npub struct A;"
    assert crate(tree, "broker", txn__mod=body, txn__a=a) == []
    (fault,) = crate(tree, "broker", txn__mod=f"{body}fn f(_: A) {{}}", txn__a=a)
    source = "native/crates/broker/src/txn"
    assert f"{source}/a.rs -> {source}/mod.rs" in fault


def test_a_circle_with_what_the_crate_itself_defines(tree: Tree) -> None:
    body = "mod a;\npub use a::A;\npub const LIMIT: u8 = 1;\n"
    a = "use super::LIMIT;\npub struct A;"
    assert crate(tree, "arrow", lib=body, a=a) == []
    (fault,) = crate(tree, "arrow", lib=f"{body}fn f(_: A) {{}}", a=a)
    assert "native/crates/arrow/src/a.rs -> native/crates/arrow/src/lib.rs" in fault


def test_a_child_in_a_file_of_its_own_name(tree: Tree) -> None:
    parent = '#[path = "upkeep_of_a.rs"]\nmod upkeep;\nmod deep;\nfn f() { upkeep::go(); deep::X }'
    (fault,) = crate(
        tree,
        "store",
        ha__mod="mod a;",
        ha__a=parent,
        ha__upkeep_of_a="use super::f;\npub fn go() {}",
        ha__a__deep="pub struct X;",
    )
    source = "native/crates/store/src/ha"
    assert f"{source}/a.rs -> {source}/upkeep_of_a.rs" in fault
    assert "deep" not in fault
