"""Measures what it costs sends that a broker is seen from outside: `python -m benches.observed`.

Two servers run side by side, each with 5,000 topics. One is scraped (metricsExporterType=PROM),
writes its log as JSON to a file and reports slow requests; the other does nothing of this. With
`--beside CHECKOUT` the other is of an older checkout with its own .venv: one from before the
engine's figures and the broker's history, which cannot be switched off.
"""

from __future__ import annotations

import argparse
import json
import socket
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benches.paired_servers import HEAD, LOADS, compare, served
from benches.release_build import require_release_build

TOPICS = 5000


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def _topics(store: Path) -> None:
    """RocketMQ's file of topics."""
    rows = {
        name: {
            "topicName": name, "readQueueNums": 4, "writeQueueNums": 4, "perm": 6,
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": False,
        }
        for name in (f"Topic{n:05}" for n in range(TOPICS))
    }  # fmt: skip
    (store / "config").mkdir()
    (store / "config" / "topics.json").write_text(json.dumps({"topicConfigTable": rows}))


@contextmanager
def _scraped(port: int, every: float) -> Iterator[list[int]]:
    """The bytes of each page."""
    ended = threading.Event()
    pages: list[int] = []

    def scrape() -> None:
        while not ended.wait(every):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                pages.append(len(answer.read()))

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield pages
    finally:
        ended.set()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser(prog="benches.observed", description=__doc__)
    parser.add_argument("--load", action="append", choices=LOADS)
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--every", type=float, default=15.0, help="seconds between two scrapes")
    options = parser.parse_args()
    require_release_build()
    port = _free_port()
    keys = {
        "metricsExporterType": "PROM", "metricsPromExporterPort": str(port), "slowLogMs": "500",
    }  # fmt: skip
    with ExitStack() as stack:
        if options.beside:
            python = str(options.beside.absolute() / ".venv/bin/python")
            there = served({}, _topics, python=python, checkout=options.beside)
        else:
            there = served({}, _topics)
        without = stack.enter_context(there)
        arguments = ["--log-level", "info", "--log-format", "json", "--log-file"]
        log = Path(stack.enter_context(tempfile.TemporaryDirectory()), "broker.log")
        seen = stack.enter_context(served(keys, _topics, arguments=[*arguments, str(log)]))
        pages = stack.enter_context(_scraped(port, options.every))
        print(" " * 7 + HEAD)
        for load in options.load or LOADS:
            line = compare(load, without, seen, options.rounds, options.seconds, (None, None))
            print(f"{load:6} {line}", flush=True)
        print(f"{len(pages)} scrapes, {max(pages, default=0):,} bytes the largest")


if __name__ == "__main__":
    main()
