"""What has to change so that a cluster is as a file says. Pure: nothing is asked here."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyrmq.admin.desired import Desired, Members, Wanted, combined, exported_keys
from pyrmq.admin.desired_access import NEW_USER, POLICIES, REFERENCES, differing
from pyrmq.admin.export_diff import same
from pyrmq.admin.groups import GroupConfig
from pyrmq.admin.outcome import Outcome
from pyrmq.model.topic import TopicConfig

TOPIC, GROUP, CONFIG, USER, ACL = "topic", "group", "config", "user", "access list"
CREATE, CHANGE, KEEP, DELETE = "create", "change", "keep", "delete"
ATTRIBUTES = "attributes"
MOST_AT_ONCE = 100
"""Topics, or groups, that one request makes or changes."""


@dataclass(frozen=True, slots=True)
class BrokerState:
    """What a master has."""

    name: str
    address: str
    topics: Mapping[str, Members]
    groups: Mapping[str, Members]
    config: Mapping[str, str]
    users: Mapping[str, Members] | None = None
    acls: Mapping[str, Members] | None = None
    """None: it keeps none, or was not asked."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A member that differs. `old` None: it is not there."""

    field: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Step:
    """One change of one broker. `keep`: it is there and not in the file, and stays."""

    kind: str
    """`topic`, `group`, `config`, `user` or `access list`."""
    name: str
    broker: str
    address: str
    change: str
    """`create`, `change`, `keep` or `delete`."""
    fields: tuple[FieldChange, ...] = ()
    members: Members = field(default_factory=dict)
    """What it should be, whole; what it is, if it is to be deleted. Nothing of `config`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of all brokers. `failed`: brokers that could not be asked; what they need is not
    known."""

    cluster: str
    steps: list[Step]
    failed: list[Outcome[Any]]
    notes: list[str] = field(default_factory=list)
    orphans: frozenset[str] = frozenset()
    """Topics to delete that no broker of the file should have: name servers forget them too."""

    @property
    def changes(self) -> list[Step]:
        """The steps that change something."""
        return [step for step in self.steps if step.change != KEEP]

    @property
    def equal(self) -> bool:
        """Whether the cluster is as the file says, and has nothing else."""
        return not self.steps and not self.failed


def topic_members(row: Mapping[str, Any]) -> Members:
    """A topic's members, those that a broker left out with their default."""
    members = TopicConfig.from_json("", row).to_json()
    del members["topicName"]
    return members


def group_members(name: str, row: Mapping[str, Any]) -> Members:
    """A group's members. ConfigError for what is none."""
    members = GroupConfig.from_json({**row, "groupName": name}).members()
    del members["groupName"]
    return {k: v for k, v in members.items() if v is not None}


_NEW_TOPIC = topic_members({"readQueueNums": 8, "writeQueueNums": 8})


def steps_of(desired: Desired, state: BrokerState, *, prune: bool) -> Iterator[Step]:
    """What has to change at one broker, in an order in which that can be done: a user is there when
    its access list is made, and until that is deleted."""
    for key, value in sorted(desired.config_of(state.name).items()):
        have = state.config.get(key)
        if have != value:
            yield Step(CONFIG, key, state.name, state.address, CHANGE,
                       (FieldChange("", have, value),))  # fmt: skip
    if desired.topics is not None:
        yield from _rows(TOPIC, desired.topics, state.topics, state, prune)
    if desired.groups is not None:
        yield from _rows(GROUP, desired.groups, state.groups, state, prune)
    users: list[Step] = []
    if desired.users is not None and state.users is not None:
        users += _rows(USER, desired.users, state.users, state, prune)
    yield from (step for step in users if step.change != DELETE)
    if desired.acls is not None and state.acls is not None:
        yield from _rows(ACL, desired.acls, state.acls, state, prune)
    yield from (step for step in users if step.change == DELETE)


def _default(kind: str, name: str) -> Members:
    """What is made if a file says nothing of its members."""
    if kind == TOPIC:
        return _NEW_TOPIC
    if kind == GROUP:
        return group_members(name, {})
    return dict(NEW_USER) if kind == USER else {}


def _rows(
    kind: str,
    wanted: Mapping[str, Wanted],
    have: Mapping[str, Members],
    state: BrokerState,
    prune: bool,
) -> Iterator[Step]:
    for name in sorted({*wanted, *have}):
        row = wanted[name].at(state.name) if name in wanted else None
        before = have.get(name)
        if row is None:
            if before is not None:
                change = DELETE if prune else KEEP
                yield Step(kind, name, state.name, state.address, change, (), before)
        elif before is None:
            members = {**_default(kind, name), **row}
            made = tuple(FieldChange(k, None, v) for k, v in sorted(row.items()))
            yield Step(kind, name, state.name, state.address, CREATE, made, members)
        elif fields := tuple(_differences(before, row)):
            members = {**before, **row}
            yield Step(kind, name, state.name, state.address, CHANGE, fields, members)


def _differences(before: Members, row: Members) -> Iterator[FieldChange]:
    for key, value in sorted(row.items()):
        have = before.get(key)
        if key in REFERENCES:
            continue
        if key == POLICIES:
            yield from (FieldChange(*one) for one in differing(before, row))
        elif key == ATTRIBUTES:
            old, new = have or {}, value or {}
            for name in sorted({*old, *new}):
                if old.get(name) != new.get(name):
                    yield FieldChange(f"{ATTRIBUTES}.{name}", old.get(name), new.get(name))
        elif not same(have, value):
            yield FieldChange(key, have, value)


def batches(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Steps of one broker, in their order: topics that are made or changed together, groups too,
    everything else alone."""
    batch: list[Step] = []
    for step in steps:
        joins = step.kind in (TOPIC, GROUP) and step.change in (CREATE, CHANGE)
        if batch and not (joins and batch[0].kind == step.kind and len(batch) < MOST_AT_ONCE):
            yield batch
            batch = []
        batch.append(step)
        if not joins:
            yield batch
            batch = []
    if batch:
        yield batch


def changed_attributes(step: Step) -> dict[str, str]:
    """The attributes that a step changes, as brokers take them: `+name`, `-name`."""
    if step.change == CREATE:
        return {f"+{k}": str(v) for k, v in (step.members.get(ATTRIBUTES) or {}).items()}
    prefix = f"{ATTRIBUTES}."
    changes = [(f.field.removeprefix(prefix), f.new) for f in step.fields if prefix in f.field]
    return {f"-{k}" if v is None else f"+{k}": "" if v is None else str(v) for k, v in changes}


def topic_of(step: Step) -> TopicConfig:
    """The topic that a step wants, without attributes."""
    found = TopicConfig.from_json(step.name, step.members)
    return dataclasses.replace(found, attributes={})


def group_of(step: Step) -> GroupConfig:
    """The group that a step wants, with the changes of its attributes."""
    found = GroupConfig.from_json({**step.members, "groupName": step.name})
    return dataclasses.replace(found, attributes=changed_attributes(step))


def described(cluster: str, states: Sequence[BrokerState]) -> Desired:
    """A cluster as it is, in the form of a file."""
    names = tuple(state.name for state in states)
    kept = [{k: v for k, v in state.config.items() if k in exported_keys()} for state in states]
    common = {
        k: v for k, v in sorted(kept[0].items()) if all(one.get(k) == v for one in kept)
    } if kept else {}  # fmt: skip
    own = {
        state.name: {k: v for k, v in sorted(one.items()) if k not in common}
        for state, one in zip(states, kept, strict=True)
    }
    return Desired(
        cluster,
        names,
        common,
        {name: rows for name, rows in own.items() if rows},
        _described({state.name: state.topics for state in states}),
        _described({state.name: state.groups for state in states}),
        _described_if_kept({state.name: state.users for state in states}),
        _described_if_kept({state.name: state.acls for state in states}),
    )


def _described_if_kept(
    tables: Mapping[str, Mapping[str, Members] | None],
) -> dict[str, Wanted] | None:
    """None if no broker keeps any."""
    if all(rows is None for rows in tables.values()):
        return None
    return _described({name: rows or {} for name, rows in tables.items()})


def _described(tables: Mapping[str, Mapping[str, Members]]) -> dict[str, Wanted]:
    names = sorted({name for rows in tables.values() for name in rows})
    return {
        name: combined({b: rows[name] for b, rows in tables.items() if name in rows}, tables)
        for name in names
    }
