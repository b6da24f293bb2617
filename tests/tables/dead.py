"""Topics with bodies that do not fit, and a writer of them that is killed at a chosen step:
`python -m tests.tables.dead FOLDER STEP`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyrmq.tables.bodies.plan import BodyPlan
from pyrmq.tables.bodies.spec import BodySpec
from pyrmq.tables.bodies.staging import DLQ, Staging
from pyrmq.tables.catalog import Catalog
from pyrmq.tables.write import Run, create_table
from tests.segments.making import put, small
from tests.tables.bodies import schema_file
from tests.tables.killer import after, before
from tests.tables.making import TABLE, TOPIC, World, impatient, source_of

DEAD = TABLE + "_dlq"
BOTH = ("table", "dead")
SCHEMA = {
    "type": "object",
    "properties": {"id": {"type": "integer"}},
    "required": ["id"],
}
LATER = {"type": "object", "properties": {"id": {"type": "integer"}, "x": {"type": "string"}}}
"""A schema that takes bodies without an id, which SCHEMA does not."""
STEPS = (
    "dead file written", "before the dead commit", "after the dead commit", "before the commit",
    "after the commit",
)  # fmt: skip


def bodies(first: int, count: int) -> list[bytes]:
    """Each fifth does not fit SCHEMA, each tenth nothing."""
    return [
        b'{"id":%d}' % at if at % 5 else (b'{"x":"%d"}' % at if at % 10 else b"none %d" % at)
        for at in range(first, first + count)
    ]


def fill(world: World, found: Sequence[bytes]) -> None:
    """Adds messages to TOPIC, to three queues in turn."""
    with small(world.log().root) as store:
        for at, body in enumerate(found):
            put(store, TOPIC, at % 3, body, "t", "k")


def run_of(
    world: World,
    schema: Any = SCHEMA,
    on_error: str = DLQ,
    catalog: Catalog | None = None,
    **how: Any,
) -> Run:
    plan = BodyPlan(BodySpec("json", (schema_file(schema),)))
    source = source_of(world.log())
    there = catalog or world.catalog
    if there.find(TABLE) is not None:
        plan.evolve(there, TABLE)
    create_table(there, TABLE, TOPIC, plan.columns(source.schema), properties=plan.properties())
    stage = Staging(plan, there, TABLE, TOPIC, source.schema, on_error)
    how.setdefault("waiting", impatient())
    return Run(there, TABLE, source, plan.columns(source.schema), stage=stage, **how)


def write(world: World, schema: Any = SCHEMA, on_error: str = DLQ, **how: Any) -> Run:
    run = run_of(world, schema, on_error, **how)
    source: Any = run._source
    source.pin()
    run.catch_up()
    return run


def there(world: World) -> tuple[Counter[Any], Counter[Any]]:
    """What both tables have: positions with the id, positions with the body."""
    place = ("queueId", "queueOffset")
    good: Counter[Any] = Counter()
    table = world.catalog.find(TABLE)
    if table is not None:
        for row in table.scan(selected_fields=(*place, "value")).to_arrow().to_pylist():
            good[row["queueId"], row["queueOffset"], row["value"]["id"]] += 1
    bad: Counter[Any] = Counter()
    dead = world.catalog.find(DEAD)
    if dead is not None:
        for row in dead.scan(selected_fields=(*place, "body", "error")).to_arrow().to_pylist():
            assert row["error"]
            bad[row["queueId"], row["queueOffset"], row["body"]] += 1
    return good, bad


def check(world: World, found: Sequence[Sequence[bytes]]) -> None:
    """Each message of these calls of `fill` is in one of the tables, once: in the dead one if it
    does not fit SCHEMA."""
    import json

    good: Counter[Any] = Counter()
    bad: Counter[Any] = Counter()
    ends = Counter[int]()
    for one in found:
        for at, body in enumerate(one):
            queue = at % 3
            if body.startswith(b'{"id"'):
                good[queue, ends[queue], json.loads(body)["id"]] += 1
            else:
                bad[queue, ends[queue], body] += 1
            ends[queue] += 1
    assert there(world) == (good, bad)


def main(folder: str, step: str) -> None:
    from pyrmq.tables import commit, parquet

    world = World(Path(folder))
    run = run_of(world)
    if step == "dead file written":
        after(parquet.Writer, "close", 2)
    elif step == "before the dead commit":
        before(commit, "_attempt")
    elif step == "after the dead commit":
        after(commit, "_attempt")
    elif step == "before the commit":
        before(commit, "_attempt", 2)
    else:
        assert step == "after the commit"
        after(commit, "_attempt", 2)
    source: Any = run._source
    source.pin()
    run.catch_up()


if __name__ == "__main__":
    main(*sys.argv[1:])
