"""Runs cases: a process with the failing calls preloaded that forks one child per case.

Arguments: a folder to work in. Reads one case as JSON per line, answers each with one line. A case
is lived through by one child, calls failing; a second one, without a fault, opens what is left.
"""

from __future__ import annotations

import gc
import json
import os
import select
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyrmq.engine import Store
from tests.store.tools import copy_sparse
from tests.system.faults.inject import tables, transactions
from tests.system.faults.inject.calls import FailingCalls, Fault
from tests.system.faults.inject.lives import (
    FAILED,
    LIVES,
    Trial,
    make_damaged,
    make_image,
    options_of,
    put,
)
from tests.system.faults.inject.seen import Seen

Report = dict[str, Any]
IMAGES = {"recovery": make_image, "reopened": make_image, "damaged": make_damaged}
"""What makes the store that a life begins with; returns the messages in it."""
LIMIT = 30.0
"""Seconds after which a child counts as hanging."""


def in_child(stderr: Path, work: Callable[[], Report]) -> tuple[Report, str]:
    """What `work` returned in a process of its own, and how that process died, if it did."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read_end)
            errors = os.open(stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(errors, 2)
            answer = json.dumps(work()).encode()
            while answer:
                answer = answer[os.write(write_end, answer) :]
            os._exit(0)
        except BaseException as error:
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
    os.close(write_end)
    pieces: list[bytes] = []
    hangs = False
    deadline = time.monotonic() + LIMIT
    while True:
        ready, _, _ = select.select([read_end], [], [], max(0.0, deadline - time.monotonic()))
        piece = os.read(read_end, 1 << 16) if ready else b""
        if not piece:
            hangs = not ready
            break
        pieces.append(piece)
    os.close(read_end)
    if hangs:
        os.kill(pid, 9)
    _, status = os.waitpid(pid, 0)
    if hangs:
        return {}, f"hung for {LIMIT} s"
    code = os.waitstatus_to_exitcode(status)
    if code:
        return {}, f"signal {-code}" if code < 0 else f"exit status {code}"
    return json.loads(b"".join(pieces)), ""


def live(kind: str, root: Path, calls: FailingCalls, fault: Fault, acked: list[int]) -> Report:
    trial = Trial(root, calls, fault, Seen(acked=list(acked)), options_of(kind, root))
    others = {"tables": tables.write, "transactions": transactions.transactional}
    life = others.get(kind) or LIVES[kind]
    calls.arm(root, fault)
    life(trial)
    return trial.seen.as_dict() | {
        "places": calls.places(), "fired": calls.fired, "hits": calls.hits(),
        "ranges": calls.ranges(),
    }  # fmt: skip


def live_on(kind: str, root: Path, calls: FailingCalls, seen: Seen) -> Report:
    """Without a fault everything is there and goes on, twice."""
    if kind == "tables":
        if (found := tables.versions(root / "config")) != seen.acked:
            seen.wrong.append(f"found {found} where {seen.acked} was")
        return {"wrong": seen.wrong + tables.write_again(root)}
    if kind == "transactions":
        calls.arm(root, Fault())
        transactions.finish(root, options_of(kind, root), seen)
        return {"wrong": seen.wrong + [f"{where}: {text}" for where, _, text in seen.errors]}
    abort = root / "abort"
    unsure = abort.exists() and abort.read_bytes().endswith(FAILED)
    calls.arm(root, Fault())
    for number in (200, 201):
        store = Store(root, **options_of(kind, root))
        if unsure and number == 200:
            check_written_again(store, root, calls, seen)
        seen.check(store, f"reopened for {number}")
        seen.check_keys(store, f"reopened for {number}")
        put(store, seen, number)
        store.close()
    if abort.exists():
        seen.wrong.append("abort is still there after a clean stop")
    return {"wrong": seen.wrong + [f"{where}: {text}" for where, _, text in seen.errors]}


def check_written_again(store: Store, root: Path, calls: FailingCalls, seen: Seen) -> None:
    """After a failed flush nothing of the log counts as being on disk."""
    end = store.stats()["maxPhyOffset"]
    for path in sorted([*root.glob("commitlog*/0*")]):
        size = min(end - int(path.name), path.stat().st_size)
        if size > 0 and not calls.synced(path, 0, written(path, size)):
            seen.wrong.append(f"{path} is not flushed anew after a failed flush")


def written(path: Path, size: int) -> int:
    """How much of the first bytes of a file is not the zeros at its end."""
    return len(path.read_bytes()[:size].rstrip(b"\0"))


def cut_power(root: Path, ranges: list[tuple[str, int, int]]) -> None:
    """Of the log stays what successful flushes covered."""
    for path in (root / "commitlog").iterdir():
        kept = bytearray(path.stat().st_size)
        content = path.read_bytes()
        for name, start, end in ranges:
            if name == str(path):
                kept[start:end] = content[start:end]
        path.write_bytes(kept)


def run_case(
    work: Path, calls: FailingCalls, case: dict[str, Any], images: dict[str, list[int]]
) -> Report:
    kind, fault = case["life"], Fault(*case["fault"])
    root, stderr = work / "store", work / "stderr"
    shutil.rmtree(root, ignore_errors=True)
    stderr.unlink(missing_ok=True)
    acked = []
    if kind in IMAGES:
        shutil.copytree(work / kind, root, copy_function=copy_sparse)
        acked = images[kind]
    report, died = in_child(stderr, lambda: live(kind, root, calls, fault, acked))
    wrong = [f"the process died: {died}"] if died else report["wrong"]
    if not died:
        if kind == "killed" and (root / "commitlog").exists():
            cut_power(root, report["ranges"])
        seen = Seen(*(report[name] for name in ("acked", "refused", "unknown", "cleaned")))
        after, died = in_child(stderr, lambda: live_on(kind, root, calls, seen))
        wrong += [f"opening again died: {died}"] if died else after["wrong"]
    text = stderr.read_text("utf-8", "replace") if stderr.exists() else ""
    if "panicked" in text:
        wrong.append("something panicked")
    return report | {"wrong": wrong, "stderr": text[-2000:]}


def main(work: Path) -> None:
    calls = FailingCalls()
    images: dict[str, list[int]] = {}
    for life, make in IMAGES.items():
        made, died = in_child(
            work / "stderr", lambda life=life, make=make: {"acked": make(work / life)}
        )
        if died:
            raise SystemExit(f"cannot make the image: {died}: {(work / 'stderr').read_text()}")
        images[life] = made["acked"]
    gc.disable()
    gc.freeze()  # children share these pages
    for line in sys.stdin:
        print(json.dumps(run_case(work, calls, json.loads(line), images)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
