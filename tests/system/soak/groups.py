"""The consumer groups of a run, and who makes their members come and go."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from pyrmq.model.names import retry_topic
from tests.system.soak import delayed, halves, handling, keyed, replies
from tests.system.soak.handling import Handle
from tests.system.soak.locks import LockTable
from tests.system.soak.member import Group, Member
from tests.system.soak.settings import BROADCAST, ORDERED, PLAIN, QUEUES, REQUESTS, TAGGED
from tests.system.soak.shared import Role, Shared

ALL = ("TAG", "*")
MOVABLE = {"CG_moving": PLAIN, "CG_tags": TAGGED}
"""Groups whose offsets an operator moves, and of which topic."""
FAILING = "CG_failing"
LOCK_SECONDS = 60.0
"""A lock of a member that was cut off lives so long."""


@dataclass(slots=True)
class Staff:
    """The members of a group: at least one, at most `most`. keeps_ids: one that was cut off comes
    back under its id, as its queue locks stay its own for a minute."""

    group: Group
    most: int
    keeps_ids: bool = False
    members: list[Member] = field(default_factory=list)
    free_ids: list[str] = field(default_factory=list)
    made: int = 0


def staffs(shared: Shared) -> list[Staff]:
    ledgers = shared.ledgers

    def group(name: str, topic: str, queues: int, handle: Handle, kind: str, text: str) -> Group:
        return Group(name, {topic: (queues, kind, text)}, handle)

    def of(name: str, topic: str, handle: Handle, kind: str = "TAG", text: str = "*") -> Group:
        return group(name, topic, QUEUES[topic], handle, kind, text)

    failing = of(FAILING, PLAIN, handling.failing(shared, ledgers.failing))
    failing.topics[retry_topic(FAILING)] = (1, *ALL)
    ordered = of("CG_ordered", ORDERED, handling.by_key(ledgers.ordered))
    ordered.ordered = LockTable(ledgers.ordered)
    tags = handling.by_key(ledgers.tags, keyed.wants_tags)
    sql = handling.by_key(ledgers.sql, keyed.wants_sql)
    delays = handling.delayed(ledgers.delayed)
    committed = handling.transaction(ledgers.transactions)
    found = [
        Staff(of("CG_moving", PLAIN, handling.plain(shared, ledgers.plain)), 4),
        Staff(failing, 3),
        Staff(of("CG_tags", TAGGED, tags, "TAG", keyed.TAG_EXPRESSION), 2),
        Staff(of("CG_sql", TAGGED, sql, "SQL92", keyed.SQL_EXPRESSION), 2),
        Staff(group("CG_delayed", delayed.TOPIC, delayed.QUEUES, delays, *ALL), 2),
        Staff(group("CG_halves", halves.TOPIC, halves.QUEUES, committed, *ALL), 2),
        Staff(ordered, 3, keeps_ids=True),
        Staff(of("CG_replying", REQUESTS, replies.replying(shared)), 2),
    ]
    for ledger in ledgers.broadcast:
        each = of("CG_broadcast", BROADCAST, handling.by_key(ledger))
        each.places = {}
        found.append(Staff(each, 1))
    return found


class Management(Role):
    """Every now and then a member joins, leaves or is cut off; at the end each group has one."""

    def __init__(self, shared: Shared, groups: list[Staff], every: float) -> None:
        super().__init__(shared, "management")
        self._groups = groups
        self._every = every
        self._pool = 0

    def begin(self) -> None:
        for staff in self._groups:
            for _ in range(min(staff.most, 2)):
                self._join(staff)
        self.start()

    def work(self) -> None:
        while self.wanted():
            time.sleep(self.chance.uniform(0.5, 1.5) * self._every)
            self._change(self.chance.choice(self._groups))

    def _change(self, staff: Staff) -> None:
        """At random. A group that has lost its only member gets another at once."""
        present = len(staff.members)
        how = self.chance.choice(("join", "leave", "crash"))
        if how == "join" and present >= staff.most:
            how = "crash"
        if how != "join":
            self._go(staff, how)
        if how == "join" or present == 1:
            self._join(staff)

    def _join(self, staff: Staff) -> None:
        self.shared.count("members joined")
        if staff.free_ids:
            name = staff.free_ids.pop()
        else:
            staff.made += 1
            name = f"{staff.group.name}@{staff.made}"
            if staff.group.places is not None:  # two groups of one name, as each has a ledger
                name += f"-{self._groups.index(staff)}"
        member = Member(self.shared, staff.group, name)
        staff.members.append(member)
        member.start()

    def _go(self, staff: Staff, how: str) -> None:
        member = staff.members.pop(self.chance.randrange(len(staff.members)))
        crash = how == "crash"
        member.going = "crash" if crash else "leave"
        self.shared.count("members cut off" if crash else "members left")
        member.join(LOCK_SECONDS)
        if member.is_alive():
            self.shared.fault(f"{member.name} does not go")
        if crash and staff.keeps_ids:
            # Its locks are its own for a minute.
            staff.free_ids.append(member.client_id)
            self._join(staff)

    def end(self) -> None:
        """All leave in order."""
        members = [member for staff in self._groups for member in staff.members]
        for member in members:
            member.going = "leave"
        for member in members:
            member.join(LOCK_SECONDS)
            if member.is_alive():
                self.shared.fault(f"{member.name} does not leave")
