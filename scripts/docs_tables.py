"""Writes the tables of configuration keys, options, limits and requests into the documentation.

Their rows are those from which the programs parse, check and answer. Run it after a change of one;
with `--check` it only reports files that are not up to date.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

from pyrmq.broker.config import broker_config as broker
from pyrmq.config.table import markdown
from pyrmq.namesrv import config as namesrv
from spark_ext.option import Option, Query
from spark_ext.option_table import OPTIONS
from spark_ext.sink.writer import COLUMNS as SINK_COLUMNS

DOCS = Path(__file__).resolve().parent.parent / "docs"


def _beside(name: str) -> ModuleType:
    """A script of this folder, which is no package."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


access = _beside("access_tables")
limits = _beside("limits")
metrics = _beside("metrics_table")
requests = _beside("request_tables")
_PLACES = {
    "files": (Query.BATCH, Query.STREAM),
    "broker": (Query.BROKER_BATCH, Query.BROKER_STREAM),
    "write": (Query.WRITE, Query.WRITE_STREAM),
}


def _places(option: Option) -> str:
    words = []
    for name, (batch, stream) in _PLACES.items():
        if {batch, stream} <= option.where:
            words.append(name)
        elif batch in option.where:
            words.append(f"{name}, batch")
        elif stream in option.where:
            words.append(f"{name}, stream")
    return "; ".join(words)


def _default(option: Option) -> str:
    if option.default is None:
        return ""
    if option.stream_default is None:
        return f"`{option.default}`"
    return f"`{option.default}`, stream `{option.stream_default}`"


def options() -> str:
    """The table of all options of `format("rocketmq")`."""
    rows = ["| Option | Default | For | Meaning |", "|---|---|---|---|"]
    for option in OPTIONS:
        doc = option.doc.replace("||", "\\|\\|")
        if option.pyspark is not None:
            doc += f" PySpark {'.'.join(map(str, option.pyspark))} and later."
        rows.append(f"| `{option.name}` | {_default(option)} | {_places(option)} | {doc} |")
    return "\n".join(rows) + "\n"


def write_options() -> str:
    """The options of the sink, as a sentence."""
    names = [
        f"`{o.name}`{' (must be given)' if Query.WRITE in o.required else ''}"
        for o in OPTIONS
        if Query.WRITE in o.where
    ]
    return f"Options of the table above: {', '.join(names)}.\n"


def sink_columns() -> str:
    """The columns that the sink takes, as a table."""
    rows = ["| Column | Type | Meaning |", "|---|---|---|"]
    for name, column in SINK_COLUMNS.items():
        types = " or ".join(f"`{kind}`" for kind in column.types)
        rows.append(f"| `{name}` | {types} | {column.doc} |")
    return "\n".join(rows) + "\n"


TABLES = {
    "access.md": {
        "needs at the broker": access.of_broker,
        "needs at the name server": access.of_name_server,
    },
    "configuration.md": {
        "keys of the broker": lambda: markdown(broker.BrokerConfig, broker.OTHER_KEYS),
        "keys of the name server": lambda: markdown(
            namesrv.NamesrvConfig, namesrv.OTHER_KEYS, "updateNamesrvConfig"
        ),
    },
    "limits.md": {
        f"limits of {name}": lambda name=name: limits.table(limits.limits()[name])
        for name in limits.SECTIONS
    },
    "metrics.md": {
        "metrics of the broker": metrics.of_broker,
        "metrics of the name server": metrics.of_name_server,
        "metrics of every server": metrics.of_both,
    },
    "requests.md": {
        "requests of the broker": requests.of_broker,
        "requests of the name server": requests.of_name_server,
        "requests that nobody takes": requests.of_nobody,
    },
    "spark.md": {
        "options": options,
        "columns of the sink": sink_columns,
        "options of the sink": write_options,
    },
}
"""File -> name of a part, which stands between two marks -> what writes it."""


def written(file: str) -> str:
    """A file of docs/ as it should be."""
    text = (DOCS / file).read_text(encoding="utf-8")
    for name, table in TABLES[file].items():
        begin, end = f"<!-- {name}: scripts/docs_tables.py -->\n", f"<!-- end of {name} -->\n"
        parts = re.split(f"(?<={re.escape(begin)}).*?(?={re.escape(end)})", text, flags=re.DOTALL)
        if len(parts) != 2:
            raise ValueError(f"{file}: the marks of {name!r} must be there once")
        text = f"{parts[0]}\n{table()}\n{parts[1]}"
    return text


def main(check: bool) -> int:
    stale = [name for name in TABLES if written(name) != (DOCS / name).read_text("utf-8")]
    for name in stale:
        if check:
            print(f"docs/{name} is not up to date: python scripts/docs_tables.py writes it")
        else:
            (DOCS / name).write_text(written(name), encoding="utf-8")
            print(f"docs/{name} is written")
    return int(check and bool(stale))


if __name__ == "__main__":
    words = sys.argv[1:]
    if words not in ([], ["--check"]):
        sys.exit(
            "python scripts/docs_tables.py [--check]: writes the tables of docs/, or compares them"
        )
    sys.exit(main(bool(words)))
