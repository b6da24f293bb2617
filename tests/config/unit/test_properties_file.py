"""Property files in Java's syntax, and settings read from them."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyrmq.config.files import format_properties, load_file, parse_properties
from pyrmq.config.table import FixedKey, RenamedKey, UnusedKey, from_properties, key, markdown
from pyrmq.errors import ConfigError


@dataclass(frozen=True)
class Sample:
    listen_port: int = key(1, "Port.", high=65535, section="Places")
    broker_ip1: str = key("", "Address.", name="brokerIP1")
    trace_on: bool = key(False, "Trace.")
    store_path_root_dir: Path = key(lambda: Path("/x"), "Folder.", shown="x")  # noqa: RUF009
    max_size: int = key(5, "Size.", section="Sizes")


OTHERS = (
    FixedKey("brokerRole", ("ASYNC_MASTER", "SYNC_MASTER"), "it is a test"),
    FixedKey("aclEnable", ("false",), "it is a test"),
    UnusedKey("deleteWhen", "nothing is deleted"),
    UnusedKey("deleteHow", "nothing is deleted"),
    RenamedKey("oldSize", "maxSize"),
)


def build(**values: str) -> Sample:
    return from_properties(Sample, values, OTHERS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("  a  =  b  ", {"a": "b"}),
        ("a:b\nc : d\ne f", {"a": "b", "c": "d", "e": "f"}),
        ("a = b = c : d", {"a": "b = c : d"}),
        ("a==b", {"a": "=b"}),
        ("# x=1\n  ! y=2\n\n   \nz=3", {"z": "3"}),
        ("a=b # c", {"a": "b # c"}),
        ("a\nb=\nc =", {"a": "", "b": "", "c": ""}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1,\\\n   2,\\\n\t3\nb=4", {"a": "1,2,3", "b": "4"}),
        ("a\\\n  b=c", {"ab": "c"}),
        ("a=x\\\\\nb=y", {"a": "x\\", "b": "y"}),  # two backslashes: no continuation
        ("a=x\\\\\\\ny", {"a": "x\\y"}),
        ("a=1\\\n# no comment", {"a": "1# no comment"}),
        ("# comment\\\na=1", {"a": "1"}),  # comments are not continued
        ("a=1\\", {"a": "1"}),
        ("a\\=b\\:c\\ d=e", {"a=b:c d": "e"}),
        ("\\#a=b", {"#a": "b"}),
        ("a=\\u00e4\\u4E2d\\t\\n\\q", {"a": "ä中\t\nq"}),
        ("\\u0061=b", {"a": "b"}),
        ("a=\\\\u0061", {"a": "\\u0061"}),
        ("path=C:\\\\temp\\\\x", {"path": "C:\\temp\\x"}),
        ("a=\\ b", {"a": " b"}),
        ("=x", {"": "x"}),
        ("", {}),
    ],
)
def test_syntax(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("mark", ["\u2028", "\u0085", "\x0b", "\x1c"])
def test_only_line_ends_end_lines(mark: str) -> None:
    """Java's lines end at CR and LF, not at whatever Unicode calls a line end."""
    assert parse_properties(f"a=1{mark}b=2") == {"a": f"1{mark}b=2"}


def escaped(text: str) -> str:
    """As Properties.store writes a key or value: everything unusual escaped."""
    return "".join(c if c.isascii() and c.isalnum() else f"\\u{ord(c):04x}" for c in text)


@given(st.text(st.characters(codec="utf-8", max_codepoint=0xFFFF), min_size=1), st.text("ab=: #!"))
def test_escaped_keys_and_values_come_back(key: str, value: str) -> None:
    assert parse_properties(f"{escaped(key)}={escaped(value)}x") == {key: f"{value}x"}


@given(st.text("ab=:\\ \n\r\t#!u0", max_size=30))
def test_any_text_can_be_read(text: str) -> None:
    assert all("\n" not in key for key in parse_properties(text))


def test_load_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("brokerName = ä\n", encoding="utf-8")
    assert load_file(file) == {"brokerName": "ä"}
    file.write_bytes(b"a=\xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_file(file)
    file.write_text("a=\u00e4\n", encoding="utf-16")
    with pytest.raises(ConfigError, match="is UTF-16"):
        load_file(file)
    with pytest.raises(ConfigError, match="cannot read"):
        load_file(tmp_path / "none")
    with pytest.raises(ConfigError, match="cannot read"):
        load_file(tmp_path)


def test_files_as_editors_write_them(tmp_path: Path) -> None:
    """A byte order mark in front, and comments in an encoding of their own: Java reads both."""
    file = tmp_path / "broker.conf"
    file.write_bytes("\ufeffbrokerName=a\nregionId=\u00e4\n".encode())
    assert load_file(file) == {"brokerName": "a", "regionId": "\u00e4"}
    comment = "# \u6240\u5c5e\u96c6\u7fa4\u540d\u5b57\n".encode("gbk")
    file.write_bytes(comment + b"  ! caf\xe9\\\nbrokerName=a\nregionId=caf\\u00e9\n")
    assert load_file(file) == {"brokerName": "a", "regionId": "caf\u00e9"}
    file.write_bytes(comment + b"regionId=caf\xe9\n")
    with pytest.raises(ConfigError, match="key 'regionId' is not UTF-8: save the file as UTF-8"):
        load_file(file)


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("storePathRootDir", "${storePathRootDir}/log", "${storePathRootDir}"),
        ("storePathRootDir", "$HOME/store", "$HOME"),
        ("brokerIP1", "${ip}", "${ip}"),
        ("maxSize", "${size}", "${size}"),
    ],
)
def test_variables_that_nobody_replaces(key: str, value: str, found: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(f"{key}={value}: {found} is not replaced")):
        build(**{key: value})


def test_a_key_with_another_name_now() -> None:
    with pytest.raises(ConfigError, match=r"^oldSize is now called maxSize$"):
        build(oldSize="5")


def test_values_get_their_types() -> None:
    got = build(listenPort=" 80 ", brokerIP1="h", traceOn="TRUE", storePathRootDir="${user.home}/s")
    assert got == Sample(80, "h", True, Path.home() / "s")
    assert build() == Sample()
    assert build(storePathRootDir="~/s").store_path_root_dir == Path.home() / "s"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("listenPort", "x"), ("listenPort", ""), ("listenPort", "1.0"), ("listenPort", "1 0"),
        ("listenPort", "0x10"), ("listenPort", "65536"), ("listenPort", "-1"),
        ("listenPort", "9" * 30), ("maxSize", "-1"), ("traceOn", "yes"), ("traceOn", ""),
    ],
)  # fmt: skip
def test_bad_values(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key):
        build(**{key: value})


@pytest.mark.parametrize("key", ["listen_port", "ListenPort", "listenPORT"])
def test_other_spellings_of_a_key_do_not_pass_its_bounds(key: str) -> None:
    """Java's keys are exact: another spelling is an unknown key."""
    with pytest.raises(ConfigError):
        build(**{key: "99999"})


@pytest.mark.parametrize(
    ("key", "meant"),
    [("listenPrt", "listenPort"), ("brokerRol", "brokerRole"), ("deletewhen", "deleteWhen")],
)
def test_unknown_key_with_a_suggestion(key: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=rf"'{key}'; did you mean {meant}\?"):
        build(**{key: "1"})


def test_unknown_key_like_nothing() -> None:
    with pytest.raises(ConfigError) as caught:
        build(zzz="1")
    assert str(caught.value) == "unknown configuration key 'zzz'"


def test_fixed_keys() -> None:
    assert build(brokerRole="SYNC_MASTER", aclEnable=" false ") == Sample()
    with pytest.raises(ConfigError, match="use ASYNC_MASTER or SYNC_MASTER"):
        build(brokerRole="SLAVE")
    with pytest.raises(ConfigError, match="aclEnable=true is not supported"):
        build(aclEnable="true")


def test_keys_without_effect_warn(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert build(deleteWhen="04") == Sample()
    assert caplog.messages == ["deleteWhen=04 has no effect: nothing is deleted"]


def test_a_factory_needs_a_text() -> None:
    with pytest.raises(TypeError, match="shown"):
        key(Path.home, "Folder.")


def test_the_documentation_of_a_table() -> None:
    assert (
        markdown(Sample, OTHERS)
        == """\
### Places

| Key | Default | Values | Meaning |
|---|---|---|---|
| listenPort | 1 | 0 to 65535 | Port. |
| brokerIP1 |  | text | Address. |
| traceOn | false | true, false | Trace. |
| storePathRootDir | x | a folder | Folder. |

### Sizes

| Key | Default | Values | Meaning |
|---|---|---|---|
| maxSize | 5 | 0 or more | Size. |

### Features that are not there

| Key | Accepted | Why |
|---|---|---|
| brokerRole | ASYNC_MASTER, SYNC_MASTER | it is a test |
| aclEnable | false | it is a test |

### Keys without effect

| Keys | Why |
|---|---|
| deleteWhen, deleteHow | nothing is deleted |
"""
    )


@given(st.dictionaries(st.sampled_from(["a", "brokerName", "x.y"]), st.text()))
def test_what_is_formatted_is_read_back(values: dict[str, str]) -> None:
    """In ASCII, one line a key; blanks at the end of a value do not count."""
    text = format_properties(values)
    assert text.isascii()
    assert text.count("\n") == len(values)
    assert parse_properties(text) == {key: value.rstrip() for key, value in values.items()}


@given(st.text(alphabet=st.characters(categories=("Cs", "Lu", "So")), max_size=20))
def test_halves_of_pairs_are_read(text: str) -> None:
    escaped = "".join(f"\\u{ord(c):04x}" for c in text if ord(c) < 0x10000)
    found = parse_properties(f"key={escaped}").get("key", "")
    kept = "".join(c for c in text if ord(c) < 0x10000)
    assert found.encode("utf-16-be", "surrogatepass") == kept.encode("utf-16-be", "surrogatepass")


def test_beyond_16_bits() -> None:
    assert format_properties({"key": "😀"}) == "key=\\ud83d\\ude00\n"
    assert parse_properties("key=\\ud83d\\ude00") == {"key": "😀"}
