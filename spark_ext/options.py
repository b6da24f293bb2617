"""The options of one query, checked by the engine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyrmq import engine
from pyrmq.errors import ConfigError
from spark_ext.broker.options import name_servers
from spark_ext.option import Query
from spark_ext.option_names import option_names
from spark_ext.option_table import TABLE


class Options:
    """Checked options of one query: values by name, defaults filled in. Picklable."""

    def __init__(self, given: Mapping[str, str], query: Query | None) -> None:
        """Raises ConfigError, whose text names the option and the allowed values.

        query: None while Spark does not say what the query will be (it asks for the schema first).
        Then names and values are checked, but not the rules of one kind of query.
        """
        self.query = query
        self.text = dict(given)
        """As they were given."""
        with option_names():
            values, names = engine.scan_options(self.text, query and query.value)
        self.values: dict[str, Any] = values
        """By name, of all options that this query takes; None: not set and without a default."""
        self._given = frozenset(names)
        if values.get("nameServer") is not None:
            values["nameServer"] = name_servers(values["nameServer"])
        self._check_reader()

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def of_all(self) -> dict[str, Any]:
        """Values of all options; one that this query does not take has its default."""
        return DEFAULTS | self.values

    def is_set(self, name: str) -> bool:
        """Whether the user gave the option."""
        return name in self._given

    def needs_pyspark(self, version: tuple[int, int]) -> None:
        """Raises ConfigError for a given option that this version of PySpark cannot support."""
        for name in sorted(self._given):
            needed = TABLE[name.lower()].pyspark
            if needed is not None and version < needed:
                raise ConfigError(
                    f"option {name} needs PySpark {needed[0]}.{needed[1]} or later: this one does "
                    "not say where a micro-batch starts; leave it out, or use a newer PySpark"
                )

    def _check_reader(self) -> None:
        if self.values.get("reader") == "jvm":
            raise ConfigError(
                "option reader is jvm, but the jar of that reader is not in this Spark, so the "
                "reader in Python was asked: add the jar (spark.jars), or give reader=auto"
            )


def check_cases(given: Mapping[str, str]) -> None:
    """ConfigError for an option that is there twice, in different case or as `location`, and with
    other values. Spark itself keeps the last one of them, so only what comes past it can be
    checked."""
    engine.scan_check_cases(dict(given))


DEFAULTS: dict[str, Any] = engine.scan_options({})[0]
"""Values of options that are not set, of batch queries."""
