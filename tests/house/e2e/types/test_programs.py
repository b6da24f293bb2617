"""Programs of users under `mypy --strict`: right ones pass, each mistake of wrong ones is found."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import pyrmq
from pyrmq import aio, sync
from pyrmq.client import option_types
from pyrmq.client.consumer import options as consumer_options
from pyrmq.oms import aio as oms_aio
from pyrmq.oms import sync as oms_sync

ROOT = Path(__file__).resolve().parents[4]
PROGRAMS = Path(__file__).parent / "programs"
ERROR = re.compile(r"^(.*?):(\d+): error: .*\[([a-z-]+)\]$", re.MULTILINE)


@pytest.fixture(scope="module")
def found() -> dict[str, list[tuple[int, str]]]:
    """Errors by file: line and code."""
    words = [sys.executable, "-m", "mypy", "--strict", "--config-file", "pyproject.toml"]
    cache = ["--cache-dir", str(ROOT / ".mypy_cache")]
    files = [str(path.relative_to(ROOT)) for path in sorted(PROGRAMS.glob("*.py"))]
    done = subprocess.run([*words, *cache, *files], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr + done.stdout
    errors: dict[str, list[tuple[int, str]]] = {}
    for file, line, code in ERROR.findall(done.stdout):
        errors.setdefault(Path(file).name, []).append((int(line), code))
    return errors


def test_right_programs_pass(found: dict[str, list[tuple[int, str]]]) -> None:
    assert set(found) == {"wrong.py"}, found


def test_each_mistake_is_found(found: dict[str, list[tuple[int, str]]]) -> None:
    lines = (PROGRAMS / "wrong.py").read_text().splitlines()
    marked = [
        (n, m[1]) for n, line in enumerate(lines, 1) if (m := re.search(r"  # ([a-z-]+)$", line))
    ]
    assert len(marked) > 20
    assert sorted(found["wrong.py"]) == marked


@pytest.mark.parametrize(
    ("client", "options"),
    [
        (pyrmq.Producer, option_types.ProducerOptions),
        (pyrmq.TransactionalProducer, option_types.TransactionalProducerOptions),
        (pyrmq.PushConsumer, consumer_options.PushConsumerOptions),
        (pyrmq.LitePullConsumer, consumer_options.LitePullConsumerOptions),
    ],
)
def test_the_options_are_those_of_the_client(client: Any, options: Any) -> None:
    """The same names everywhere, in the TypedDicts and in what help() shows."""
    there = {
        name
        for name, parameter in inspect.signature(client).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY and name != "listener"
    }
    assert set(get_type_hints(options)) == there
    for portal in (sync, aio):
        here = inspect.signature(getattr(portal, client.__name__)).parameters
        assert {n for n, p in here.items() if p.kind is p.KEYWORD_ONLY} - {"listener"} == there
        assert all(p.kind is not p.VAR_KEYWORD for p in here.values())


CLIENTS = ("Producer", "PushConsumer", "LitePullConsumer", "TransactionalProducer", "Admin")
OMS = ("Producer", "PushConsumer", "PullConsumer", "MessagingAccessPoint")


@pytest.mark.parametrize(
    ("portal", "names"),
    [(sync, CLIENTS), (aio, CLIENTS), (oms_sync, OMS), (oms_aio, OMS)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_help_speaks_of_what_the_client_is_for(portal: Any, names: tuple[str, ...]) -> None:
    for name in names:
        kind = getattr(portal, name)
        assert kind.__module__ == portal.__name__
        texts = [kind.__doc__, *(inspect.getdoc(m) for _, m in inspect.getmembers(kind, callable))]
        for text in filter(None, texts[: 1 if name == "Admin" else None]):
            assert "trio" not in text, text
            if portal in (sync, oms_sync):
                assert not re.search(r"\b(await|asyncio|async with|async for)\b", text), text
