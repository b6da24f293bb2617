"""Switching on and off; what it takes when it is off, or not installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
from opentelemetry.instrumentation.instrumentor import (  # type: ignore[attr-defined]
    BaseInstrumentor,
)

import pyrmq.otel
from pyrmq import ClientError, LitePullConsumer, Producer, PushConsumer, SimpleConsumer
from pyrmq.client import telemetry
from pyrmq.otel import PyrmqInstrumentor
from tests.otel.spans import recording

NAMESRV = "127.0.0.1:1"
ROOT = Path(__file__).parents[3]


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert not done.stderr, done.stderr
    return done.stdout


def test_the_entry_point() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (entry,) = project["entry-points"]["opentelemetry_instrumentor"].values()
    module, _, name = entry.partition(":")
    assert getattr(import_module(module), name) is PyrmqInstrumentor
    assert issubclass(PyrmqInstrumentor, BaseInstrumentor)
    instrumentor = PyrmqInstrumentor()
    assert instrumentor.instrumentation_dependencies() == ()
    # As `opentelemetry-instrument` calls it.
    instrumentor.instrument(raise_exception_on_conflict=True)
    assert len(telemetry._installed) == 2
    instrumentor.uninstrument()
    assert telemetry._installed == ()
    with recording(metrics=False):
        assert len(telemetry._installed) == 1


def test_opentelemetry_instrument_finds_it(tmp_path: Path) -> None:
    """The program of OpenTelemetry, with the entry point as an installed package has it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ((name, value),) = project["entry-points"]["opentelemetry_instrumentor"].items()
    installed = tmp_path / "pyrmq_found-1.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: pyrmq-found\nVersion: 1\n")
    entry = f"[opentelemetry_instrumentor]\n{name} = {value}\n"
    (installed / "entry_points.txt").write_text(entry)
    program = tmp_path / "program.py"
    program.write_text(
        "from pyrmq.sync import Producer\n"
        "print(Producer('p', namesrv='127.0.0.1:1')._client._telemetry is not None)\n"
    )
    start = "from opentelemetry.instrumentation.auto_instrumentation import run; run()"
    done = subprocess.run(
        [sys.executable, "-c", start, sys.executable, str(program)],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


def test_a_second_call_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with recording():
        before = telemetry._installed
        pyrmq.otel.instrument(link_only=True)
        assert telemetry._installed == before
    assert telemetry._installed == ()
    pyrmq.otel.uninstrument()


@pytest.mark.parametrize("option", ["link_only", "create_spans", "metrics", "logs"])
def test_bad_options(option: str) -> None:
    with pytest.raises(ClientError, match=f"{option} is str; True or False"):
        pyrmq.otel.instrument(**{option: "yes"})  # type: ignore[arg-type]
    assert telemetry._installed == ()
    assert not PyrmqInstrumentor().is_instrumented_by_opentelemetry
    with pytest.raises(TypeError):
        PyrmqInstrumentor().instrument(nonsense=True)


def test_clients_that_are_not_instrumented_have_no_hooks() -> None:
    producer = Producer("p", namesrv=NAMESRV)
    assert (producer._hooks, producer._telemetry) == (None, None)
    for consumer in (
        PushConsumer("g", {"T": "*"}, namesrv=NAMESRV, listener=print),
        LitePullConsumer("g", {"T": "*"}, namesrv=NAMESRV),
        SimpleConsumer("g", {"T": "*"}, namesrv=NAMESRV),
    ):
        assert consumer._telemetry is None  # type: ignore[attr-defined]
        assert getattr(consumer, "_observer", None) is None
    with recording():
        assert Producer("p", namesrv=NAMESRV)._hooks is not None


def test_nothing_else_imports_it() -> None:
    assert (
        run(
            "import sys, pyrmq, pyrmq.aio, pyrmq.sync, pyrmq.outbox, pyrmq.cli, pyrmq.server;"
            "pyrmq.Producer, pyrmq.PushConsumer, pyrmq.TransactionalProducer;"
            "print([n for n in sys.modules if n.startswith(('opentelemetry', 'pyrmq.otel'))])"
        )
        == "[]\n"
    )


@pytest.mark.parametrize("missing", ["opentelemetry", "opentelemetry.instrumentation", "wrapt"])
def test_without_the_extra(missing: str) -> None:
    said = run(
        f"import sys; sys.modules[{missing!r}] = None\n"
        "try: import pyrmq.otel\n"
        "except ModuleNotFoundError as e: print(e)"
    )
    assert "pip install 'pyrmq-broker[otel]'" in said
