"""`pyrmq admin broker drain`, `bring-back`, `drain-status`: brokers out of service and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pyrmq.cli.admin.session import Session, session

if TYPE_CHECKING:
    from pyrmq.admin.api import Admin
    from pyrmq.admin.draining import DrainState
    from pyrmq.cli.admin.view import View

_broker = click.argument("broker", metavar="BROKER")


@click.command()
@session()
@_broker
@click.option("--reads", is_flag=True, help="Consumers leave as well, once all is consumed.")
@click.option("--wait", type=click.FloatRange(0, 86_400), default=0, metavar="SECONDS",
              help="Wait so long until all is consumed.")  # fmt: skip
def drain(session: Session, broker: str, reads: bool, wait: float) -> None:
    """Take a BROKER (a name, or HOST:PORT) out of the routes of producers.

    It goes on to serve, so nothing fails. Clients of pyrmq leave at once, others within 30 s. Then
    the command shows what still waits, as `drain-status` does. `bring-back` ends it; until then it
    holds, also over a restart of a broker of pyrmq. If the broker cannot save that, as its disk is
    full, it is drained all the same, and a note says that a restart forgets it.

    With --reads consumers leave too. That is refused while messages are not consumed: give --wait.
    """

    async def work(admin: Admin) -> View:
        (await admin.draining.drain(broker)).check()
        state = await admin.draining.wait(broker, wait)
        if reads:
            (await admin.draining.drain(broker, reads=True)).check()
            state = await admin.draining.state(broker)
        return _view(state)

    session.report(work)


@click.command("bring-back")
@session()
@_broker
def bring_back(session: Session, broker: str) -> None:
    """Put a BROKER (a name, or HOST:PORT) back into all routes."""

    async def work(admin: Admin) -> View:
        (await admin.draining.bring_back(broker)).check()
        return _view(await admin.draining.state(broker))

    session.report(work)


@click.command("drain-status")
@session(watch=True)
@_broker
def drain_status(session: Session, broker: str) -> None:
    """Show how far a BROKER (a name, or HOST:PORT) is drained, and what still waits."""

    async def work(admin: Admin) -> View:
        return _view(await admin.draining.state(broker))

    session.report(work)


def _view(state: DrainState) -> View:
    from pyrmq.admin.draining import NO_DRAIN
    from pyrmq.cli.admin.view import Column, View

    groups = ", ".join(f"{u.group} in {u.topic}: {u.messages}" for u in state.groups)
    rows = [
        ("broker", f"{state.broker_name} ({state.address})"),
        ("brokerDrain", state.drain or "not known: not a broker of pyrmq"),
        ("producers find it", _yes(state.routed_for_writes)),
        ("consumers find it", _yes(state.routed_for_reads)),
        ("producers connected", state.producers),
        (
            "messages a second",
            None if state.puts_per_second is None else f"{state.puts_per_second:.1f}",
        ),
        ("not consumed", f"{state.unread}{f' ({groups})' if groups else ''}"),
        ("transactions pending", state.pending_halves),
        ("delayed, not delivered", state.delayed),
    ]
    if state.drain != NO_DRAIN:
        waits = "; ".join(state.waits_for) or "nothing: the broker can be stopped"
        rows.append(("waits for", waits))
    notes = (
        [f"the broker could not save this ({state.unsaved}): a restart forgets it"]
        if state.unsaved
        else []
    )
    columns = (Column("WHAT", lambda r: r[0]), Column("VALUE", lambda r: r[1]))
    return View({"state": state, "waits_for": state.waits_for}, rows, columns, notes)


def _yes(value: bool | None) -> str:
    return "not known" if value is None else "yes" if value else "no"
