"""Reading a table of TOML strictly: types, ranges, and no key that nobody asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from pyrmq.admin.link import near
from pyrmq.errors import ConfigError

MAX_TEXTS = 1_000


class TomlTable:
    """A table. `end` raises for the keys that were not read."""

    def __init__(self, name: str, values: Mapping[str, Any]) -> None:
        self.name = name
        self._values = values
        self._known: set[str] = set()

    def at(self, key: str) -> str:
        """The key with the name of its table."""
        return f"{self.name}.{key}" if self.name else key

    def has(self, key: str) -> bool:
        self._known.add(key)
        return key in self._values

    def names(self) -> list[str]:
        return list(self._values)

    def end(self) -> None:
        """ConfigError for a key that was not read."""
        for key in self._values:
            if key not in self._known:
                raise ConfigError(f"{self.at(key)}: unknown key{near(key, self._known)}")

    def _get(self, key: str, default: Any) -> Any:
        self._known.add(key)
        return self._values.get(key, default)

    def number(self, key: str, default: float, low: float, high: float) -> float:
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{self.at(key)}: a number is wanted, not {_shown(value)}")
        if not (low <= value <= high and math.isfinite(value)):
            limit = "" if math.isinf(high) else f" to {high:g}"
            raise ConfigError(
                f"{self.at(key)}: {low:g}{limit or ' or more'} is wanted, not {value}"
            )
        try:
            return float(value)
        except OverflowError:
            raise ConfigError(f"{self.at(key)}: the number is too large") from None

    def whole(self, key: str, default: int, low: int, high: int) -> int:
        value = self._get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigError(f"{self.at(key)}: a whole number is wanted, not {_shown(value)}")
        if not low <= value <= high:
            raise ConfigError(f"{self.at(key)}: {low} to {high} is wanted, not {value}")
        return value

    def truth(self, key: str, default: bool) -> bool:
        value = self._get(key, default)
        if not isinstance(value, bool):
            raise ConfigError(f"{self.at(key)}: true or false is wanted, not {_shown(value)}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        value = self._get(key, default)
        if value is None:
            raise ConfigError(f"{self.at(key)} is missing")
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{self.at(key)}: a text is wanted, not {_shown(value)}")
        return value

    def texts(self, key: str, default: tuple[str, ...]) -> tuple[str, ...]:
        value = self._get(key, default)
        if isinstance(value, tuple):
            return value
        if not isinstance(value, list) or not all(isinstance(v, str) and v for v in value):
            raise ConfigError(f"{self.at(key)}: a list of texts is wanted, not {_shown(value)}")
        if len(value) > MAX_TEXTS:
            raise ConfigError(f"{self.at(key)} has more than {MAX_TEXTS} texts")
        return tuple(value)

    def table(self, key: str) -> TomlTable:
        """The table of a key; an empty one if it is absent."""
        value = self._get(key, {})
        if not isinstance(value, dict):
            raise ConfigError(f"{self.at(key)}: a table is wanted, not {_shown(value)}")
        return TomlTable(self.at(key), value)

    def tables(self, key: str, most: int) -> list[TomlTable]:
        """The tables of `[[key]]`."""
        value = self._get(key, [])
        if not isinstance(value, list) or not all(isinstance(v, dict) for v in value):
            raise ConfigError(f"{self.at(key)}: write each of them as [[{self.at(key)}]]")
        if len(value) > most:
            raise ConfigError(f"{self.at(key)}: there are more than {most}")
        return [TomlTable(f"{self.at(key)}[{at}]", v) for at, v in enumerate(value, 1)]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
