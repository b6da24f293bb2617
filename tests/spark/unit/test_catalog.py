"""The options of CREATE TABLE, without Spark."""

from __future__ import annotations

import pytest

from pyrmq.errors import ConfigError
from spark_ext.catalog import of_statement


def test_a_read_is_no_statement() -> None:
    assert of_statement({"path": "/store"}) is None


@pytest.mark.parametrize("name", ["path", "LOCATION"])
def test_credentials_in_a_location_are_not_kept(name: str) -> None:
    with pytest.raises(ConfigError, match="would be kept in the catalog") as e:
        of_statement({"provider": "rocketmq", name: "s3://KEY:SECRET@bucket/store"})
    assert "SECRET" not in str(e.value)
    for place in ("s3://bucket/store@2", "/data/user@host/store"):
        assert of_statement({"provider": "rocketmq", name: place}) == {name.lower(): place}
