"""Where the keys of a server come from: its options, the environment, its file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyrmq.broker.config.broker_config import OTHER_KEYS, BrokerConfig
from pyrmq.broker.config.updates import FILE, load, with_updates
from pyrmq.config.environment import BROKER, NAMESRV, Naming, from_environment
from pyrmq.config.files import load_file
from pyrmq.config.table import parsed
from pyrmq.errors import ConfigError
from pyrmq.namesrv import config as namesrv

if TYPE_CHECKING:
    from pyrmq.broker.config.updates import Updated
    from pyrmq.config.table import OtherKeys


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
        self.sources |= {key: f"environment: {name}" for key, name in found.variables.items()}
        self.pinned = {key: f"the variable {name}" for key, name in found.variables.items()}

    @classmethod
    def read(cls, file: Path | None, *, of_namesrv: bool) -> Settings:
        """With what cannot be used in `errors`."""
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
