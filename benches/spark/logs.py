"""Logs to measure with: one segment of a size, written by the engine's own store.

Eight topics of four queues, eight tags, five properties of about 110 bytes and bodies of JSON-like
text whose words come from a fixed seed, so that two runs have the same bytes but for times. No two
bodies are alike: Parquet's dictionary would hold few that come again and again.
"""

from __future__ import annotations

import random
from pathlib import Path

from pyrmq.engine import Store

TOPICS = [f"orders-{i}" for i in range(8)]
QUEUES = 4
TAGS = [f"tag-{i}" for i in range(8)]
SIZES = {"1K": (768, 1280), "100B": (75, 125)}
WORDS = ["paid", "cart", "user", "item", "price", "stock", "berlin", "lagos", "retry", "batch"]
_SEED = 20260612
POOL = 16 << 20
"""Bytes of text that bodies are cut from, far more than snappy looks back."""


def _text(dice: random.Random) -> bytes:
    parts = []
    length = 0
    while length < POOL:
        chance = int(dice.random() * 1e10)
        part = f'"{WORDS[chance % 10]}{chance // 10 % 1000}":{chance // 10_000},'
        parts.append(part)
        length += len(part)
    return "".join(parts).encode()


def write_log(
    root: Path,
    kind: str,
    nbytes: int,
    segment: int | None = None,
    *,
    queues: int = QUEUES,
    topics: int = len(TOPICS),
) -> Path:
    """A store of about `nbytes` under `root`, made once; its folder. `segment`: bytes of a file,
    `queues`: of each of the first `topics` topics."""
    few = "" if topics == len(TOPICS) else f"-{topics}"
    folder = root / f"{kind}-{nbytes}-{segment or 0}-{queues}{few}"
    if (folder / "done").exists():
        return folder
    dice = random.Random(_SEED)
    low, high = SIZES[kind]
    text = _text(dice)
    store = Store(
        folder,
        commit_log_file_size=segment or nbytes,
        index_enable=False,
        max_mapped_queue_files=64,
    )
    for topic in TOPICS[:topics]:
        store.set_topic(topic, read_queues=queues, write_queues=queues)
    stop = nbytes - (2 << 20) if segment is None else nbytes
    n = place = 0
    while place < stop:
        properties = (
            f"TAGS\x01{TAGS[dice.randrange(8)]}\x02KEYS\x01order-{n:09d}\x02"
            f"UNIQ_KEY\x017F0000010A2B18B4AAC2{n:012X}\x02CLUSTER\x01Default\x02WAIT\x01true\x02"
        )
        topic = TOPICS[dice.randrange(topics)]
        at, size = dice.randrange(POOL - high), dice.randint(low, high)
        body = b'{"n":%d,%s}' % (n, text[at : at + size])
        put = store.put(topic, n % queues, body, properties, born_timestamp=n)
        place = put[0]
        n += 1
    store.close()
    (folder / "done").touch()
    return folder
