"""What the engine's connections do for each load."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyrmq.bench.bodies import bodies, packed
from pyrmq.bench.options import AT_A_RATE, DELAY_LEVELS, OptionError, Options, parse_time
from pyrmq.bench.result import BenchError
from pyrmq.bench.secured import native
from pyrmq.bench.where import Places
from pyrmq.escape import escape

Role = dict[str, Any]
"""A role as the engine wants it: see native/crates/bench/src/config.rs."""


def producer(
    options: Options, places: Places, topics: list[str], files: list[bytes] | None = None
) -> Role:
    """`files`: what the payload files have, if they were read already."""
    if files is not None and options.payload_files:
        payloads = packed(files, options.compression)
    else:
        payloads = bodies(options.size, options.payload_files, options.compression)
    kind = options.load if options.load in KINDS else "send"
    return {
        **_common(options, options.connections),
        "kind": kind,
        "delay": _delay(options, places),
        "rate": options.rate,
        "payloads": payloads,
        "targets": [target for topic in topics for target in places.write[topic]],
    }


def consumer(
    options: Options, places: Places, topics: list[str], connections: int, *, held: bool = False
) -> Role:
    kind = options.load if options.load in ("pull", "pop") else "push"
    targets = [target for topic in topics for target in places.read[topic]]
    if kind == "pop":  # one for all queues of a topic at a broker
        targets = list(dict.fromkeys((topic, name, ip, 0) for topic, name, ip, _ in targets))
    return {
        **_common(options, connections),
        "kind": kind,
        "targets": targets,
        "from_start": options.from_start,
        "held": held,
    }


KINDS = {"batch", "oneway", "transaction", "delay", "timer"}


def _common(options: Options, connections: int) -> Role:
    return {
        "batch": options.batch,
        "oneway_end": options.oneway_end,
        "delay": (0, 0),
        "invisible": round(options.invisible_time * 1000),
        "connections": connections,
        "in_flight": options.in_flight,
        "rate": None,
        "payloads": [],
        "compressed": options.compression != "none",
        "wait": options.flush_wait,
        "tags": options.tags,
        "keys": options.keys,
        "properties": options.properties,
        "group": options.group,
        "max_msgs": options.max_msgs,
        "subscription": options.sql or options.subscription,
        "expression": "SQL92" if options.sql else "TAG",
        "from_start": False,
        "held": False,
    }


def _delay(options: Options, places: Places) -> tuple[int, int]:
    """The level, and milliseconds."""
    if options.load == "timer":
        return 0, round(options.timer_delay * 1000)
    if options.load != "delay":
        return 0, 0
    return options.delay_level, _delay_ms(options, places)


def _delay_ms(options: Options, places: Places) -> int:
    levels = (places.facts.get("messageDelayLevel") or DELAY_LEVELS).split()
    if options.delay_level > len(levels):
        raise OptionError(f"--delay-level {options.delay_level}: the broker has {len(levels)}")
    level = levels[options.delay_level - 1]
    text = re.sub(r"d$", "", level)
    days = 24.0 if text != level else 1.0
    try:
        return round(parse_time(f"{text}h" if days > 1 else text) * days * 1000)
    except OptionError:
        raise BenchError(
            f"the broker's messageDelayLevel has {escape(level[:40])!r}, which is no time"
        ) from None


def roles(options: Options, places: Places, files: list[bytes] | None = None) -> list[Role]:
    """Of every load but `mixed`. `files`: see `producer`."""
    topics = options.topic_names()
    if options.reads_only:
        return [consumer(options, places, topics, options.connections)]
    found = [producer(options, places, topics, files)]
    if options.load in AT_A_RATE:
        found.append(consumer(options, places, topics, options.consumers))
    elif options.verify:
        found.append(consumer(options, places, topics, options.consumers, held=True))
    return found


def config(options: Options, found: list[Role], hosts: Mapping[str, str]) -> dict[str, Any]:
    """What the engine runs. `hosts`: see `secured.native`. OptionError."""
    signer = options.credentials
    return {
        "roles": found,
        "threads": options.threads,
        "duration": options.duration,
        "count": options.count,
        "warmup": options.warmup,
        "timeout": options.timeout,
        "settle": options.settle,
        "go_on": options.on_error == "go-on",
        "binary": options.serialize == "rocketmq",
        "verify": options.verify,
        "pids": options.pids,
        "hdr": options.hdr,
        "credentials": signer and (signer.access_key, signer.secret_key, signer.security_token),
        "tls": options.tls and native(options.tls, hosts),
    }
