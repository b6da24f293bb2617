"""The file of `table watch`: which topics, into which tables, how often."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pyrmq.errors import ConfigError
from spark_ext.jobs.table_watch_file import EVERY, MAX_BYTES, MAX_TABLES, Upkeep, parse, read

GOOD = """
every = "1m"
[all]
catalog = "/lake"
store = ["/data/a", "/data/b"]
[[tables]]
topic = "orders"
table = "mq.orders"
partition = "day,queue"
catalog-property = { "s3.region" = "eu-1" }
[[tables]]
topic = "payments"
table = "mq.payments"
every = "1h"
store = "/data/c"
broker-name = ["c"]
add-broker = true
wait = "1m"
[upkeep]
every = "12h"
older-than = "90d"
keep = 3
"""


def test_options_are_those_of_write() -> None:
    found = parse(GOOD)
    orders, payments = found.tables
    assert (orders.topic, orders.table, orders.catalog, orders.every) == (
        "orders", "mq.orders", "/lake", 60.0
    )  # fmt: skip
    assert set(orders.arguments) >= {
        "--topic=orders", "--partition=day,queue", "--catalog-property=s3.region=eu-1", "--wait=5s",
    }  # fmt: skip
    assert orders.arguments[-3:] == ("--", "/data/a", "/data/b")
    assert payments.every == 3600.0
    assert set(payments.arguments) >= {"--broker-name=c", "--add-broker", "--wait=1m"}
    assert payments.arguments[-2:] == ("--", "/data/c")
    assert found.upkeep == Upkeep(43200.0, 90 * 86400.0, 3)


def test_what_is_not_said() -> None:
    found = parse('[[tables]]\ntopic="a"\ntable="b.a"\ncatalog="c"\nnamesrv="127.0.0.1:9876"')
    assert found.tables[0].every == EVERY
    assert found.upkeep is None


_ONE = '[[tables]]\ntopic="a"\ntable="b.a"\ncatalog="c"\nstore="/s"\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tables", "it is no TOML"),
        ("", "it has no [[tables]]"),
        ("tables = []", "it has no [[tables]]"),
        ("tables = [1]", "tables[1]: a table is wanted, not 1"),
        ("evry = 1", "evry: unknown key: is it every?"),
        (_ONE + 'partitoin="day"', "tables[1].partitoin: unknown key: is it partition"),
        (_ONE + "follow=true", "tables[1].follow: unknown key"),
        (_ONE + 'since="2026-01-01"', "tables[1].since: unknown key"),
        (_ONE.replace('topic="a"', ""), "tables[1]: Missing option '-t' / '--topic'"),
        (_ONE.replace('store="/s"', ""), "tables[1]: name the stores to read (store), or name"),
        (_ONE + 'add-broker="yes"', "tables[1].add-broker: true or false is wanted, not 'yes'"),
        (_ONE + 'codec="x"', "tables[1]: Invalid value for '--codec'"),
        (_ONE + "codec=[1]", "tables[1].codec: a text is wanted, not [1]"),
        (_ONE + "broker-name=[[]]", "tables[1].broker-name: a text is wanted, not []"),
        (_ONE + 'every="0"', "tables[1].every: Invalid value: '0' is no duration"),
        (_ONE + "[upkeep]\nolder-than = 7", "'7' is no duration: expected a number with s, m, h"),
        (
            _ONE + 'catalog-property={token="x"}',
            "tables[1]: Invalid value for '--catalog-property'",
        ),
        (_ONE + _ONE, "table b.a is there twice: a table has one topic"),
        (_ONE + "[upkeep]\nkeep=0", "upkeep.keep: a number of snapshots is wanted, not 0"),
        (_ONE + "[upkeep]\nkeep=true", "upkeep.keep: a number of snapshots is wanted, not True"),
        (_ONE + "[upkeep]\nolder=1", "upkeep.older: unknown key"),
        ("upkeep = 1\n" + _ONE, "upkeep: a table is wanted, not 1"),
        (_ONE.replace('"/s"', '""'), "tables[1].store: a text is wanted, not ''"),
    ],
)
def test_what_is_wrong_is_named(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse(text)
    assert says in str(raised.value)


def test_too_much(tmp_path: Path) -> None:
    many = "".join(_ONE.replace("b.a", f"b.a{n}") for n in range(MAX_TABLES + 1))
    with pytest.raises(ConfigError, match="1001 tables: at most 1000"):
        parse(many)
    file = tmp_path / "tables.toml"
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(ConfigError, match="has more than"):
        read(file)
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        read(file)


def test_a_secret_does_not_come_back_in_the_error() -> None:
    with pytest.raises(ConfigError) as raised:
        parse(_ONE + 'catalog-property={"s3.secret-access-key"="hush"}')
    assert "hush" not in str(raised.value)


def test_the_file_of_the_documentation() -> None:
    page = (Path(__file__).parents[3] / "docs" / "tables.md").read_text(encoding="utf-8")
    block = next(b for b in re.findall(r"```toml\n(.*?)```", page, re.DOTALL) if "[[tables]]" in b)
    found = parse(block)
    assert [(one.table, one.every) for one in found.tables] == [
        ("mq.orders", 600.0), ("mq.payments", 60.0)
    ]  # fmt: skip
    assert found.upkeep == Upkeep(86400.0, 7 * 86400.0, 10)
