"""Scrapes share pages; the process's own figures."""

from __future__ import annotations

import gc
import os
import socket

import pytest
import trio
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
from trio.testing import MockClock

from pyrmq.errors import ConfigError
from pyrmq.http.messages import Reply, Request
from pyrmq.metrics import exposition as exposition_module
from pyrmq.metrics import process as process_module
from pyrmq.metrics.exposition import FRESH, MOST_FRESH, Exposition
from pyrmq.metrics.families import gauge
from pyrmq.metrics.page import Format, Page
from pyrmq.metrics.process import ProcessFigures
from pyrmq.metrics.service import MetricsService, metrics_listeners
from pyrmq.namesrv.config import NamesrvConfig

VALUE = gauge("value", "A value.")
OPEN_METRICS = Request("GET", "/metrics", headers={"accept": Format.OPEN_METRICS.value})


class Source:
    """Counts how often it is asked."""

    def __init__(self, fail: bool = False) -> None:
        self.asked = 0
        self.fail = fail

    async def __call__(self, page: Page) -> None:
        self.asked += 1
        await trio.lowlevel.checkpoint()
        if self.fail:
            raise OSError("no figures")
        page.add(VALUE, self.asked)


async def body(reply: Reply) -> str:
    assert not isinstance(reply.chunks, bytes)
    return b"".join([chunk async for chunk in reply.chunks]).decode()


async def value(exposition: Exposition) -> float:
    families = {f.name: f for f in parse(await body(await exposition(OPEN_METRICS)))}
    return float(families["value"].samples[0].value)


async def test_both_formats() -> None:
    exposition = Exposition({"node_id": "n"}, [Source()])
    reply = await exposition(OPEN_METRICS)
    assert reply.content_type == Format.OPEN_METRICS.value
    assert (await body(reply)).endswith("# EOF\n")
    reply = await exposition(Request("GET", "/metrics"))
    assert reply.content_type == Format.PLAIN.value
    assert "# EOF" not in await body(reply)


async def test_scrapes_at_the_same_time_share_a_page() -> None:
    source = Source()
    exposition = Exposition({"node_id": "n"}, [source])
    found: list[float] = []

    async def scrape() -> None:
        found.append(await value(exposition))

    async with trio.open_nursery() as nursery:
        for _ in range(1000):
            nursery.start_soon(scrape)
    assert (source.asked, set(found)) == (1, {1})


async def test_a_page_is_made_anew_after_a_moment(autojump_clock: MockClock) -> None:
    exposition = Exposition({"node_id": "n"}, [Source()])
    assert await value(exposition) == 1
    await trio.sleep(MOST_FRESH)
    assert await value(exposition) == 2


@pytest.mark.parametrize(("took", "fresh"), [(0.001, FRESH), (0.1, 2.0), (100.0, MOST_FRESH)])
async def test_a_dear_page_is_given_for_longer(
    took: float, fresh: float, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = iter([0.0, took, 0.0, took])
    monkeypatch.setattr(exposition_module.time, "perf_counter", lambda: next(ticks))
    exposition = Exposition({"node_id": "n"}, [Source()])
    assert await value(exposition) == 1
    mock_clock.jump(fresh * 0.99)
    assert await value(exposition) == 1
    mock_clock.jump(fresh * 0.02)
    assert await value(exposition) == 2


async def test_after_a_failure_the_next_scrape_tries_again() -> None:
    source = Source(fail=True)
    exposition = Exposition({"node_id": "n"}, [source])
    with pytest.raises(OSError, match="no figures"):
        await exposition(OPEN_METRICS)
    source.fail = False
    assert await value(exposition) == 2


async def test_the_lag_of_the_loop(mock_clock: MockClock) -> None:
    figures = ProcessFigures()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(figures.run)
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(process_module.LOOK_EVERY + 0.04)  # 40 ms late
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    page = Page({"node_id": "n"})
    await figures(page)
    families = {f.name: f for f in parse(b"".join(page.chunks(Format.OPEN_METRICS)).decode())}
    counts = {
        s.labels["le"]: s.value
        for s in families["pyrmq_loop_lag_seconds"].samples
        if s.name.endswith("_bucket")
    }
    assert (counts["0.025"], counts["0.05"], counts["+Inf"]) == (0, 1, 1)


async def test_figures_of_the_process() -> None:
    page = Page({"node_id": "n"})
    gc.collect()  # what other tests left open is closed before anything is counted
    reader, writer = socket.socketpair()
    with reader, writer:
        await ProcessFigures()(page)
        descriptors = len(os.listdir("/proc/self/fd"))
    families = {f.name: f for f in parse(b"".join(page.chunks(Format.OPEN_METRICS)).decode())}
    values = {name: family.samples[0].value for name, family in families.items()}
    assert 0 < values["process_resident_memory_bytes"] < values["process_virtual_memory_bytes"]
    assert values["process_cpu_seconds"] > 0
    # Threads of other tests may close one meanwhile.
    assert abs(values["process_open_fds"] - descriptors) <= 4
    assert values["process_open_fds"] < values["process_max_fds"]
    assert values["pyrmq_threads"] >= 1
    assert values["process_start_time_seconds"] > 0
    assert families["pyrmq_build"].samples[0].labels["version"]


async def test_many_descriptors_are_counted_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "_FEW", 0)
    figures = ProcessFigures()
    for _ in range(2):
        page = Page({"node_id": "n"})
        await figures(page)
        assert b"process_open_fds" in b"".join(page.chunks(Format.PLAIN))


def test_no_sockets_where_nothing_is_served() -> None:
    assert metrics_listeners(NamesrvConfig(metrics_prom_exporter_port=0)) == []


async def test_a_port_in_use_names_the_key() -> None:
    config = NamesrvConfig(metrics_exporter_type="PROM", metrics_prom_exporter_port=0)
    sockets = metrics_listeners(config)
    service = MetricsService("test", sockets, config, {"node_id": "n"}, [], {})
    taken = NamesrvConfig(
        metrics_exporter_type="PROM", metrics_prom_exporter_port=service.address[1]
    )
    with pytest.raises(ConfigError, match="metricsPromExporterPort"):
        metrics_listeners(taken)
    sockets[0].close()
