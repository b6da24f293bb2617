"""Errors of tables. Each text says what to do."""

from __future__ import annotations

import importlib
from typing import Any

from pyrmq.errors import MissingPackageError, PyrmqError

EXTRA = "pip install 'pyrmq-broker[tables]'"


class TableError(PyrmqError):
    """A table cannot be read or written in this way. `hint` says what to do."""

    def __init__(self, text: str, hint: str = "") -> None:
        super().__init__(text)
        self.hint = hint


class CatalogError(TableError):
    """The catalog refuses what was asked, or is not a catalog."""


class CatalogAwayError(CatalogError):
    """The catalog, or the place of its files, cannot be reached now."""

    retriable = True


class OutcomeUnknownError(CatalogAwayError):
    """A commit may have arrived, or may still arrive; its files are kept."""


class TableSchemaError(TableError):
    """The table has other columns, other partitions, or another topic."""


class TableStoreError(TableError):
    """The table was written from another log than the one that is read."""


class TableLossError(TableError):
    """Messages that the table has not are deleted from the log."""


class TableConflictError(TableError):
    """Another writer changed the table in a way that this one cannot continue from."""

    retriable = True


def need(module: str, what: str, install: str = EXTRA) -> Any:
    """The module, or a MissingPackageError that says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        name = module.partition(".")[0]
        raise MissingPackageError(f"{what} needs {name}: {error}", install) from error
