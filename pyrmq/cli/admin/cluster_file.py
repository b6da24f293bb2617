"""`pyrmq admin cluster diff` and `apply`: a cluster beside a file, and two exports compared."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from pyrmq.cli.admin.session import Session, session

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.cluster_files import Done
    from pyrmq.admin.cluster_plan import Plan, Step
    from pyrmq.cli.admin.view import View

_FILE = click.Path(dir_okay=False)
_STYLES = {
    "create": "green", "added": "green", "change": "yellow", "changed": "yellow",
    "delete": "red", "removed": "red",
}  # fmt: skip
_prune = click.option(
    "--prune", is_flag=True, help="Delete what is there and not in the file, but for configuration."
)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _rows(steps: list[Step]) -> list[dict[str, Any]]:
    """A row for each member that changes; one for what is made or deleted as a whole."""
    rows = []
    for step in steps:
        head = {"kind": step.kind, "name": step.name, "broker": step.broker, "change": step.change}
        if step.change == "create":
            made = {f.field: f.new for f in step.fields}
            rows.append({**head, "field": "", "from": None, "to": made})
        elif step.fields:
            rows += [{**head, "field": f.field, "from": f.old, "to": f.new} for f in step.fields]
        else:
            rows.append({**head, "field": "", "from": None, "to": None})
    return rows


def _columns() -> tuple[Any, ...]:
    from pyrmq.cli.admin.view import Column

    return (
        Column("KIND", "kind"), Column("NAME", "name"), Column("BROKER", "broker"),
        Column("CHANGE", lambda r: "not in file" if r["change"] == "keep" else r["change"],
               style=lambda r: _STYLES.get(r["change"], "")),
        Column("FIELD", "field"), Column("IN CLUSTER", lambda r: _text(r["from"])),
        Column("IN FILE", lambda r: _text(r["to"])),
    )  # fmt: skip


def _plan_view(plan: Plan) -> View:
    from pyrmq.cli.admin.view import View

    rows = _rows(plan.steps)
    notes = list(plan.notes)
    if any(step.change == "keep" for step in plan.steps):
        notes.append("what is not in the file stays; --prune deletes it")
    data = {
        "cluster": plan.cluster,
        "equal": plan.equal,
        "changes": rows,
        "notes": plan.notes,
        "failed": [{"target": o.target, "message": str(o.error)} for o in plan.failed],
    }
    failed = [o.problem for o in plan.failed]
    return View(data, rows, _columns(), notes, "no difference", failed)


@click.command()
@session()
@click.argument("old", metavar="FILE", type=_FILE)
@click.argument("new", metavar="[FILE]", type=_FILE, required=False)
@click.option("--exit-code", is_flag=True, help="End with 3 if they differ.")
@_prune
def diff(session: Session, old: str, new: str | None, exit_code: bool, prune: bool) -> None:
    """Compare a cluster with a file of what it should be; or two exports with each other.

    With one FILE, of `pyrmq admin export cluster`: what `cluster apply` would change. With two:
    configs.json, metadata.json, topic.json, subscriptionGroup.json or metrics.json, of `pyrmq admin
    export` or of RocketMQ's mqadmin. When they were made does not count.

    Ends with 0 also if they differ, unless --exit-code is given.
    """
    from pyrmq.cli.admin.session import PARTLY

    if new is not None:
        if prune:
            raise click.UsageError("--prune is for one file and a cluster")
        _exports(session, old, new, exit_code)
        return

    async def work(admin: Admin) -> Plan:
        from pyrmq.admin.desired import read

        return await admin.clusters.plan(await read(old), prune=prune)

    plan = session.run(work)
    view = _plan_view(plan)
    session.show(view)
    session.partly(list(view.failed))
    if exit_code and not plan.equal:
        raise click.exceptions.Exit(PARTLY)


@click.command()
@session(destroys=True)
@click.argument("file", type=_FILE)
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@_prune
@click.option(
    "--force", is_flag=True, help="Also if messages would be hidden that groups have not consumed."
)
def apply(session: Session, file: str, dry_run: bool, prune: bool, force: bool) -> None:
    """Change a cluster so that it is as FILE says, of `pyrmq admin export cluster`.

    Shows each change, and asks. What is there and not in FILE stays, unless --prune is given. A
    change that fails does not end the others; a second run does what is left.
    """
    from pyrmq.admin.desired import read
    from pyrmq.errors import ClientError

    async def look(admin: Admin) -> Plan:
        return await admin.clusters.plan(await read(file), prune=prune)

    plan = session.run(look)
    view = _plan_view(plan)
    if dry_run:
        session.show(view)
        session.partly(list(view.failed))
        return
    if session.output == "table":
        session.show(view)
    elif not plan.changes:
        session.show(_done_view(plan, []))
    problems = list(view.failed)
    if not plan.changes:
        session.partly(problems)
        return
    session.confirm(_question(plan))

    async def work(admin: Admin) -> list[Done]:
        now = await admin.clusters.plan(await read(file), prune=prune)
        if now.steps != plan.steps:
            raise ClientError("the cluster or the file has changed meanwhile: nothing is done; "
                              "look at the changes again")  # fmt: skip
        return await admin.clusters.apply(plan, force=force)

    done = session.run(work)
    session.show(_done_view(plan, done))
    bad = [one for one in done if one.error is not None]
    problems += [f"{d.step.kind} {d.step.name} on {d.step.broker}: {d.error}" for d in bad]
    session.partly(problems, all_failed=len(bad) == len(done))


def _question(plan: Plan) -> str:
    from collections import Counter

    count = Counter(step.change for step in plan.changes)
    parts = [f"{word} {count[word]}" for word in ("create", "change", "delete") if count[word]]
    return f"{', '.join(parts)} on cluster {plan.cluster}?"


def _done_view(plan: Plan, done: list[Done]) -> View:
    from pyrmq.cli.admin.view import Column, View

    rows = [
        {
            "kind": one.step.kind,
            "name": one.step.name,
            "broker": one.step.broker or one.step.address,
            "change": one.step.change,
            "ok": one.error is None,
            "message": None if one.error is None else str(one.error),
        }
        for one in done
    ]
    columns = (
        Column("KIND", "kind"), Column("NAME", "name"), Column("BROKER", "broker"),
        Column("CHANGE", "change"),
        Column("RESULT", lambda r: "ok" if r["ok"] else "failed",
               style=lambda r: "green" if r["ok"] else "red"),
        Column("", "message"),
    )  # fmt: skip
    return View({"cluster": plan.cluster, "done": rows}, rows, columns, empty="no difference")


def _exports(session: Session, old: str, new: str, exit_code: bool) -> None:
    import trio

    from pyrmq.admin.export_diff import Difference, compare, read
    from pyrmq.cli.admin.session import PARTLY
    from pyrmq.cli.admin.view import Column, View

    async def work() -> Difference:
        return compare(await read(old), await read(new))

    try:
        found = trio.run(work)
    except BaseException as e:
        session.fail(e)

    def value(name: str) -> Any:
        return lambda change: _text(getattr(change, name)) if change.field else ""

    columns = (
        Column("KIND", "kind"), Column("NAME", "name"),
        Column("CHANGE", "change", style=lambda c: _STYLES[c.change]), Column("FIELD", "field"),
        Column("OLD", value("old")), Column("NEW", value("new")),
    )  # fmt: skip
    notes = [
        f"not compared, only in {file}: {', '.join(kinds)}"
        for file, kinds in ((old, found.only_old), (new, found.only_new))
        if kinds
    ]
    data = {
        "equal": found.equal,
        "compared": found.compared,
        "only_old": found.only_old,
        "only_new": found.only_new,
        "changes": found.changes,
    }
    session.show(View(data, found.changes, columns, notes, empty="no difference"))
    if exit_code and not found.equal:
        raise click.exceptions.Exit(PARTLY)
