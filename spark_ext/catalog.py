"""Tables of the session catalog: CREATE TABLE ... USING rocketmq.

Spark (4.1 to 4.3) asks the source for the schema when such a table is made, with the options of the
statement, its location and some names of the catalog's own; when the table is read it hands over
none of them. What it does keep is the schema. So the options go along as metadata of the first
column, and a read that names no place takes them from there; options of the read (`WITH (...)`,
`.option`) win.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyrmq.errors import ConfigError
from spark_ext.option_table import SECRETS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KEY = "rocketmq.options"
"""In the metadata of the first column."""
FORMATS = ("rocketmq", "pyrmq")
_OF_CATALOG = frozenset({"owner", "provider", "external", "comment", "collation"})


def of_statement(options: Mapping[str, str]) -> dict[str, str] | None:
    """The options of a CREATE TABLE; None where they are those of a read or a view."""
    given = {key.lower(): value for key, value in options.items()}
    if given.get("provider", "").lower() not in FORMATS:
        return None
    own = {
        key: value
        for key, value in given.items()
        if key not in _OF_CATALOG and not key.startswith("option.")
    }
    if "storageoptions" in own:
        raise ConfigError(
            "storageOptions would be kept in the catalog, and in the schema of all that is read: "
            "leave it out of CREATE TABLE, and give it to each read: "
            "SELECT ... FROM table WITH (storageOptions = '...')"
        )
    for name in SECRETS:
        if name.lower() in own:
            raise ConfigError(
                f"{name} would be kept in the catalog, and shown by SHOW CREATE TABLE: leave it "
                "out of CREATE TABLE. Give secretKeyFile, or give it to each read: "
                f"SELECT ... FROM table WITH ({name} = '...')"
            )
    place = own.get("path") or own.get("location") or ""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://[^/]*@", place):
        raise ConfigError(
            "credentials in the location would be kept in the catalog: leave them out of CREATE "
            "TABLE, and give storageOptions to each read: "
            "SELECT ... FROM table WITH (storageOptions = '...')"
        )
    if "path" in own:  # the same place, as the catalog keeps it
        own.pop("location", None)
    return own


def remembering(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema with the options of its table."""
    from pyspark.sql.types import StructField, StructType

    first, *rest = schema.fields
    marked = StructField(first.name, first.dataType, first.nullable, {KEY: dict(options)})
    return StructType([marked, *rest])


def remembered(schema: StructType) -> dict[str, str]:
    """The options of the table that a schema is of; {} if it is of none."""
    for field in schema.fields:
        found = (field.metadata or {}).get(KEY)
        if isinstance(found, dict):
            return {str(key): str(value) for key, value in found.items()}
    return {}
