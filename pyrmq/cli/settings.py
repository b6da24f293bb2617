"""Where the keys of a server come from: its options, the environment, its file.

The variable of a key is a prefix and the key in upper snake case: PYRMQ_BROKER_CONF_LISTEN_PORT is
listenPort of a broker. CONF is part of the prefix because Kubernetes makes PYRMQ_BROKER_PORT and
others for a service that is called pyrmq-broker.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrmq.broker.config.broker_config import OTHER_KEYS, BrokerConfig
from pyrmq.broker.config.updates import FILE, load, with_updates
from pyrmq.config.files import load_file
from pyrmq.config.table import OtherKeys, check_value, keys_of, parsed
from pyrmq.errors import ConfigError
from pyrmq.namesrv import config as namesrv

if TYPE_CHECKING:
    from pyrmq.broker.config.updates import Updated
    from pyrmq.config.table import OtherKeys


@dataclass(frozen=True, slots=True)
class Naming:
    """How the variables of a kind of server begin."""

    prefix: str
    mistaken: tuple[str, ...]
    """Beginnings that are errors where a key follows: nobody else names a variable so."""


BROKER = Naming(
    "PYRMQ_BROKER_CONF_",
    ("PYRMQ_", "PYRMQ_BROKER_", "PYRMQ_CONF_", "PYRMQ_CONFIG_", "PYRMQ_BROKER_CONFIG_"),
)
NAMESRV = Naming(
    "PYRMQ_NAMESRV_CONF_",
    ("PYRMQ_", "PYRMQ_NAMESRV_", "PYRMQ_CONF_", "PYRMQ_CONFIG_", "PYRMQ_NAMESRV_CONFIG_"),
)


@dataclass(slots=True)
class FromEnvironment:
    values: dict[str, str] = field(default_factory=dict)
    """By key."""
    variables: dict[str, str] = field(default_factory=dict)
    """Which variable sets a key."""
    errors: list[ConfigError] = field(default_factory=list)
    """One for each variable that cannot be used."""


def from_environment(
    cls: Any, others: OtherKeys, naming: Naming, environ: Mapping[str, str]
) -> FromEnvironment:
    """The keys of `cls` that the environment sets."""
    words = {field.upper(): key for key, (field, _) in keys_of(cls).items()}
    words |= {_upper_snake(other.name): other.name for other in others}
    found = FromEnvironment()
    for variable in sorted(environ):
        if not variable.startswith(naming.prefix):
            for beginning in naming.mistaken:
                if variable.startswith(beginning) and variable[len(beginning) :] in words:
                    found.errors.append(_unknown(variable, naming, beginning, words))
                    break
            continue
        key, value = words.get(variable[len(naming.prefix) :]), environ[variable]
        if key is None:
            found.errors.append(_unknown(variable, naming, naming.prefix, words))
            continue
        if not value.strip():
            # As an unset variable of a template is: it must not take away what the file says.
            found.errors.append(ConfigError(f"{variable} is blank: unset it, or give it a value"))
            continue
        try:
            value.encode()
            check_value(cls, key, value, others)
        except UnicodeEncodeError:
            found.errors.append(ConfigError(f"{variable} is not UTF-8"))
        except ConfigError as e:
            found.errors.append(ConfigError(f"{variable}: {e}"))
        else:
            found.values[key], found.variables[key] = value, variable
    return found


def _upper_snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).upper()


def _unknown(variable: str, naming: Naming, beginning: str, words: Iterable[str]) -> ConfigError:
    word = variable[len(beginning) :][:100]
    known = list(words)
    near = [word] if word in known else difflib.get_close_matches(word, known, 3, 0.7)
    near = near or [other for other in known if word and other.endswith(f"_{word}")][:3]
    hint = f"; did you mean {' or '.join(naming.prefix + other for other in near)}?" if near else ""
    return ConfigError(f"the environment variable {beginning}{word} sets no key{hint}")


class Settings:
    """The values that are set, and what sets them: options go before the environment, which goes
    before the file. `errors`: variables that cannot be used."""

    def __init__(
        self,
        cls: Any,
        others: OtherKeys,
        naming: Naming,
        file: Path | None,
        environ: Mapping[str, str],
    ) -> None:
        self.cls = cls
        self.others = others
        self.of_file = load_file(file) if file else {}
        found = from_environment(cls, others, naming, environ)
        self.errors = found.errors
        self.variables = found.variables
        self.values = {**self.of_file, **found.values}
        self.sources = dict.fromkeys(self.of_file, str(file))
        if cls is BrokerConfig and "namesrvAddr" not in self.values and "NAMESRV_ADDR" in environ:
            self.sources["namesrvAddr"] = "environment: NAMESRV_ADDR"  # the key's default
        if cls is BrokerConfig and "rocketmqHome" not in self.values and "ROCKETMQ_HOME" in environ:
            self.sources["rocketmqHome"] = "environment: ROCKETMQ_HOME"
        self.sources |= {key: f"environment: {name}" for key, name in found.variables.items()}
        self.pinned = {key: f"the variable {name}" for key, name in found.variables.items()}

    @classmethod
    def read(cls, file: Path | None, *, of_namesrv: bool) -> Settings:
        """With the invalid settings in `errors`."""
        if of_namesrv:
            return cls(namesrv.NamesrvConfig, namesrv.OTHER_KEYS, NAMESRV, file, os.environ)
        return cls(BrokerConfig, OTHER_KEYS, BROKER, file, os.environ)

    @classmethod
    def usable(cls, file: Path | None, *, of_namesrv: bool = False) -> Settings:
        """ConfigError for variables that cannot be used."""
        settings = cls.read(file, of_namesrv=of_namesrv)
        if settings.errors:
            raise ConfigError("; ".join(map(str, settings.errors)))
        return settings

    def set_option(self, key: str, value: object, option: str) -> None:
        """An option of the command line; None: it was not given."""
        if value is not None:
            self.values[key] = str(value)
            self.pinned[key] = f"the option {option}"

    def build(self) -> Any:
        """The configuration, without a word about keys that have no effect. ConfigError."""
        return self.cls(**parsed(self.cls, self.values, self.others))

    def with_updates(self, config: BrokerConfig) -> Updated:
        """A broker's configuration with what was updated while it ran. ConfigError."""
        _, found = load(self.update_file(config))
        return with_updates(config, found, self.pinned)

    def update_file(self, config: BrokerConfig) -> Path:
        return config.store_path_root_dir / FILE
