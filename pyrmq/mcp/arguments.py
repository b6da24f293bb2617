"""The arguments of a tool: their JSON schema, and their check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pyrmq.admin.moments import FORMS, time_of
from pyrmq.errors import ClientError, ConfigError
from pyrmq.escape import escape

LONGEST = 1024
"""Characters of a text, unless an argument says otherwise."""
MOST_TEXTS = 100
HIGHEST = 2**53 - 1
"""The highest number that all JSON readers keep."""
Kind = Literal["text", "whole", "truth", "texts", "time"]


class ArgumentError(ClientError):
    """A call has an argument that is missing, unknown or invalid."""


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool.

    kind: `text`, `whole` (a number from `low` to `high`), `truth`, `texts` (a list), `time` (a
    text; its value is ms since 1970). choices: of a text, what it may be. longest: characters.
    leads_to: `server` if it is an address that is connected to, `message` if it is a message id,
    which may have one in it.
    """

    name: str
    about: str
    kind: Kind = "text"
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    low: int = 0
    high: int = HIGHEST
    longest: int = LONGEST
    leads_to: Literal["", "server", "message"] = ""

    def schema(self) -> dict[str, Any]:
        found: dict[str, Any]
        if self.kind == "whole":
            found = {"type": "integer", "minimum": self.low, "maximum": self.high}
        elif self.kind == "truth":
            found = {"type": "boolean"}
        elif self.kind == "texts":
            item = {"type": "string", "minLength": 1, "maxLength": self.longest}
            found = {"type": "array", "items": item, "maxItems": MOST_TEXTS}
        else:
            found = {"type": "string", "maxLength": self.longest}
            if self.choices:
                found["enum"] = list(self.choices)
        about = (
            f"{self.about} {FORMS[0].upper()}{FORMS[1:]}." if self.kind == "time" else self.about
        )
        found["description"] = about
        if self.default is not None:
            found["default"] = self.default
        return found

    def read(self, value: Any) -> Any:
        """The value as the tool takes it. ArgumentError."""
        if self.kind == "whole":
            if not isinstance(value, int) or isinstance(value, bool):
                raise self._error("a whole number expected")
            if not self.low <= value <= self.high:
                raise self._error(f"a number from {self.low} to {self.high} expected")
            return value
        if self.kind == "truth":
            if not isinstance(value, bool):
                raise self._error("true or false expected")
            return value
        if self.kind == "texts":
            if not isinstance(value, list) or len(value) > MOST_TEXTS:
                raise self._error(f"a list of at most {MOST_TEXTS} texts expected")
            return [self._text(one) for one in value]
        text = self._text(value)
        if self.choices and text not in self.choices:
            raise self._error(f"one of {', '.join(self.choices)} expected")
        if self.kind == "time":
            try:
                return time_of(text)
            except ConfigError as e:
                raise self._error(str(e)) from None
        return text

    def _text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise self._error("a text expected")
        if len(value) > self.longest:
            raise self._error(f"at most {self.longest} characters expected")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self._error("a text of whole characters expected") from None
        return value

    def _error(self, text: str) -> ArgumentError:
        return ArgumentError(f"argument {self.name}: {text}")


Asked = Mapping[str, Any]
"""The checked arguments of a call, by name; what was not given has its default, or None."""


def schema_of(arguments: Sequence[Argument]) -> dict[str, Any]:
    """The JSON schema of an object with these members."""
    required = [one.name for one in arguments if one.required]
    return {
        "type": "object",
        "properties": {one.name: one.schema() for one in arguments},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def read_all(arguments: Sequence[Argument], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """All arguments of a call. ArgumentError, also for those that the tool does not have."""
    given = given or {}
    known = {one.name for one in arguments}
    for name in given:
        if name not in known:
            names = ", ".join(sorted(known)) or "none"
            raise ArgumentError(f"unknown argument {escape(name[:64])}: the tool has {names}")
    found: dict[str, Any] = {}
    for one in arguments:
        value = given.get(one.name)
        if value is None:
            if one.required:
                raise ArgumentError(f"argument {one.name} is missing: {one.about}")
            value = one.default
        found[one.name] = None if value is None else one.read(value)
    return found
