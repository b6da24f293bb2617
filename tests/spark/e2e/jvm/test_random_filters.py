"""Random WHERE clauses: what is pushed down gives the rows that Spark itself chooses.

Spark chooses from a copy of all rows, which the source in Python has read.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from pyrmq.engine import Store
from tests.support.records import encode_properties
from tests.support.thorough import seeds, size

MESSAGES = 700
CLAUSES = size("PYRMQ_SPARK_CLAUSES", 6, 600)
COLUMNS = (
    "topic,brokerName,queueId,queueOffset,commitLogOffset,storeTimestamp,bornTimestamp,tags,keys"
)
TOPICS = ("orders", "Orders", "%RETRY%group", "Aa", "BB")  # the last two have equal hashes in Java
TAGS = ("A", "a", "Aa", "BB", "", "标签", None)
KEYS = ("k1", "k1 k2", "", "K1", None)

TOTALS = (
    "count(*)",
    "count(keys)",
    "sum(queueId)",
    "avg(queueId)",
    "min(storeTimestamp)",
    "max(bornTimestamp)",
    "max(commitLogOffset)",
)


def write(root: Path, seed: int) -> None:
    chance = random.Random(seed)
    store = Store(root, commit_log_file_size=64 << 10, store_host="127.0.0.1:10911")
    for number in range(MESSAGES):
        pairs = {"TAGS": chance.choice(TAGS), "KEYS": chance.choice(KEYS)}
        properties = encode_properties({k: v for k, v in pairs.items() if v is not None})
        queue = chance.choice((0, 1, 2, 7))
        born = chance.choice((0, 1, number, 10**12 + number))
        store.put(chance.choice(TOPICS), queue, b"x" * 50, properties, born_timestamp=born)
    store.close()


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("stores")
    for number, name in enumerate(("broker-a", "broker-b")):
        write(folder / name, number)
    return [str(folder / "broker-a"), str(folder / "broker-b")]


@pytest.fixture
def all_rows(spark: SparkSession, stores: list[str]) -> Iterator[DataFrame]:
    """A copy in Spark's memory, where no source can do anything wrong."""
    read = spark.read.format("pyrmq").option("columns", COLUMNS).load(stores)
    copy = spark.createDataFrame(read.collect(), read.schema).cache()
    assert copy.count() == 2 * MESSAGES
    yield copy
    copy.unpersist()


class Clauses:
    """Conditions as SQL, of values that are there, that nearly are, and that are not."""

    def __init__(self, chance: random.Random, rows: DataFrame) -> None:
        self._chance = chance
        self._rows = rows.collect()

    def one(self, depth: int = 2) -> str:
        kind = self._chance.random()
        if depth and kind < 0.45:
            parts = [self.one(depth - 1) for _ in range(self._chance.choice((2, 2, 3)))]
            return f"({self._chance.choice((' AND ', ' AND ', ' OR ')).join(parts)})"
        if depth and kind < 0.52:
            return f"NOT {self.one(depth - 1)}"
        return self._atom()

    def _atom(self) -> str:
        column = self._chance.choice(COLUMNS.split(","))
        kind = self._chance.random()
        if kind < 0.1:
            return f"{column} IS {self._chance.choice(('', 'NOT '))}NULL"
        if kind < 0.3:
            values = ", ".join(self._value(column) for _ in range(self._chance.randint(1, 4)))
            return f"{column} IN ({values})"
        if kind < 0.4:
            low, high = self._value(column), self._value(column)
            return f"{column} BETWEEN {low} AND {high}"
        sign = self._chance.choice(("=", "=", "=", "<", "<=", ">", ">=", "<>", "<=>"))
        pair = [column, self._value(column)]
        if self._chance.random() < 0.2:
            pair.reverse()
        return f" {sign} ".join(pair)

    def _value(self, column: str) -> str:
        found = self._chance.choice(self._rows)[column]
        if column.endswith("Timestamp"):
            ms = round(found.timestamp() * 1000)
            micros = ms * 1000 + self._chance.choice((0, 0, 0, -1000, 1, 500, 999))
            return f"timestamp_micros({micros})"
        if isinstance(found, int):
            near = found + self._chance.choice((0, 0, 0, -1, 1))
            return f"{near}{self._chance.choice(('', 'L', 'D'))}"
        if found is None or self._chance.random() < 0.1:
            return "'none'"
        return f"'{found}'"


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds("spark-filters"))
def test_the_same_rows(
    spark: SparkSession, stores: list[str], all_rows: DataFrame, seed: int
) -> None:
    chance = random.Random(seed)
    clauses = Clauses(chance, all_rows)
    pushed = 0
    for _ in range(CLAUSES):
        clause = clauses.one()
        plan = chance.choice(("auto", "auto", "scan", "index"))
        options = {"subscribePattern": ".*"} if plan == "index" else {}
        read = spark.read.format("rocketmq").options(columns=COLUMNS, plan=plan, **options)
        frame = read.load(stores).where(clause)
        keys = ["brokerName", "commitLogOffset"]
        expected = sorted(map(tuple, all_rows.where(clause).select(*keys).collect()))
        found = sorted(map(tuple, frame.select(*keys).collect()))
        assert found == expected, (clause, plan)
        assert frame.count() == len(expected), (clause, plan)
        column, rows = chance.choice(("queueOffset", "commitLogOffset")), chance.choice((1, 9, 60))
        order = F.desc(column) if chance.random() < 0.5 else F.asc(column)
        first, wanted = (one.orderBy(order).select(column).limit(rows).collect()
                         for one in (frame, all_rows.where(clause)))  # fmt: skip
        assert first == wanted, (clause, plan, column, rows)
        by = ["topic", "queueId"]
        figures = [F.count("*"), F.min("queueOffset"), F.max("queueOffset")]
        counted = sorted(map(tuple, frame.groupBy(*by).agg(*figures).collect()))
        wanted = all_rows.where(clause).groupBy(*by).agg(*figures)
        assert counted == sorted(map(tuple, wanted.collect())), (clause, plan)
        by = chance.choice(([], ["tags"], ["topic", "brokerName"], ["topic", "queueId", "tags"]))
        totals = frame.groupBy(*by).agg(*map(F.expr, TOTALS))
        wanted = all_rows.where(clause).groupBy(*by).agg(*map(F.expr, TOTALS))
        found = sorted(map(repr, totals.collect()))
        assert found == sorted(map(repr, wanted.collect())), (clause, plan, by)
        pushed += "PushedFilters: []" not in str(frame._jdf.queryExecution().executedPlan())
    assert pushed > CLAUSES // 4, "the clauses test nothing if Spark pushes none of them"
