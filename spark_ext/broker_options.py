"""Options of the read through a broker and of the sink."""

from __future__ import annotations

from spark_ext.option import Option

OPTIONS: tuple[Option, ...] = ()
