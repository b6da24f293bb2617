"""A cluster beside a file of what it should be: described, compared, changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import trio

from pyrmq.admin.broker_tables import user_groups, user_topics
from pyrmq.admin.brokers import Brokers
from pyrmq.admin.cluster_access import ACLS_KEPT, USERS_KEPT, ClusterAccess
from pyrmq.admin.cluster_plan import (
    ACL,
    CONFIG,
    CREATE,
    DELETE,
    GROUP,
    KEEP,
    TOPIC,
    USER,
    BrokerState,
    Plan,
    Step,
    batches,
    changed_attributes,
    described,
    group_members,
    group_of,
    steps_of,
    topic_members,
    topic_of,
)
from pyrmq.admin.desired import Desired
from pyrmq.admin.desired_access import TYPE, has_password
from pyrmq.admin.export_diff import same
from pyrmq.admin.groups import Groups
from pyrmq.admin.link import AT_ONCE, AdminLink, Part, Replica
from pyrmq.admin.long_lists import LIST_TIMEOUT
from pyrmq.admin.outcome import Outcome, Outcomes
from pyrmq.admin.shrinking import Hidden, hidden_by, refuse_hidden
from pyrmq.admin.topics import Topics
from pyrmq.config.files import format_properties
from pyrmq.errors import ClientError, ConfigError, ProtocolError, PyrmqError
from pyrmq.model.codes import RequestCode
from pyrmq.model.topic import TopicConfig
from pyrmq.net import fastjson

NOT_TAKEN = "the broker answered with success, and has not changed it"


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a step; `error` if it failed."""

    step: Step
    error: PyrmqError | None = None


class ClusterFiles(Part):
    """The part of `admin.clusters` that is about a cluster as it should be: its masters, their
    configuration, topics, groups, users and access lists. Works with Apache RocketMQ's brokers
    too."""

    def __init__(self, link: AdminLink) -> None:
        super().__init__(link)
        self._access = ClusterAccess(link)

    async def describe(self, cluster: str) -> Desired:
        """A cluster as it is, as a file has it, without passwords. It is complete, or an error: of
        a master that does not answer, or ClientError if there is no such cluster."""
        outcomes = await self._states(await self._link.masters(cluster=cluster))
        return described(cluster, outcomes.check_all().values)

    async def plan(self, desired: Desired, *, prune: bool = False) -> Plan:
        """What has to change so that a cluster is as a file says. It changes nothing. `prune`: what
        is there and not in the file is to be deleted. Raises ClientError if the file is of another
        cluster: there is none of that name, or it has none of the file's brokers."""
        masters = await self._link.masters(cluster=desired.cluster)
        there = {m.broker_name for m in masters}
        if desired.brokers and not there & set(desired.brokers):
            raise ClientError(
                f"cluster {desired.cluster} has the brokers {', '.join(sorted(there)[:8])}, and "
                f"the file names {', '.join(desired.brokers[:8])}: it is of another cluster"
            )
        outcomes = await self._states(masters, desired)
        steps = [
            step for state in outcomes.values for step in steps_of(desired, state, prune=prune)
        ]
        failed: list[Outcome[Any]] = list(outcomes.failed)
        failed += [one for state in outcomes.values for one in _keeps_none(desired, state)]
        named = {*desired.brokers, *desired.broker_config}
        for rows in desired.parts:
            named |= {name for row in (rows or {}).values() for name in row.on or ()}
        for name in sorted(named - there):
            why = ClientError(f"broker {name} of the file is not in cluster {desired.cluster}")
            failed.append(Outcome(name, error=why, name=name))
        notes = [
            f"broker {name} is not in the file's list: it is compared all the same"
            for name in sorted(there - set(desired.brokers))
            if desired.brokers
        ]
        steps, spared = self._sparing(steps)
        notes += spared
        notes += [
            f"user {name} is new, and the file does not say where its password is: create it "
            "first, or give it passwordFile or passwordEnv"
            for name in sorted(
                {s.name for s in steps
                 if s.kind == USER and s.change == CREATE and not has_password(s.members)}
            )
        ]  # fmt: skip
        deleted = {s.name for s in steps if s.kind == TOPIC and s.change == DELETE}
        orphans = frozenset(deleted - set(desired.topics or ()))
        return Plan(desired.cluster, steps, failed, notes, frozenset() if failed else orphans)

    async def apply(self, plan: Plan, *, force: bool = False) -> list[Done]:
        """Carries out the steps of a plan, several brokers at a time, and looks whether the brokers
        have taken them. A step that fails does not end the others. If fewer queues would be read,
        and messages in the others are not consumed, it raises UnreadQueuesError and changes
        nothing, unless `force`."""
        by_broker: dict[str, list[Step]] = {}
        for step in plan.changes:
            by_broker.setdefault(step.address, []).append(step)
        if not force:
            await self._refuse_hidden(by_broker)
        done: dict[int, Done] = {}
        total, limit = len(plan.changes), trio.CapacityLimiter(AT_ONCE)

        async def one(steps: Sequence[Step]) -> None:
            async with limit:
                for batch in batches(steps):
                    if len(batch) > 1 and await self._put_list(batch):
                        done.update((id(step), Done(step)) for step in batch)
                    else:
                        for step in batch:
                            done[id(step)] = await self._carry_out(step, plan)
                    self._link.progress("changes", len(done), total)

        async with trio.open_nursery() as nursery:
            for steps in by_broker.values():
                nursery.start_soon(one, steps)
        found = [done[id(step)] for step in plan.changes]
        found = await self._verified(found)
        return found + await self._forgotten(plan, found)

    def _sparing(self, steps: list[Step]) -> tuple[list[Step], list[str]]:
        """The same steps, but for users that are not deleted by the way: super users, as brokers
        sign with one, and who signs these requests, as nobody could finish."""
        own = self._link.credentials.access_key if self._link.credentials else ""
        spared: dict[str, str] = {}

        def spare(step: Step) -> Step:
            if step.change != DELETE or step.kind not in (USER, ACL):
                return step
            name = step.name.removeprefix("User:") if step.kind == ACL else step.name
            if name == own and own:
                spared[name] = f"user {name} signs these requests: it is not deleted"
            elif step.kind == USER and step.members.get(TYPE) == "Super":
                spared[name] = (
                    f"super user {name} is not deleted, as brokers may sign with it: pyrmq admin "
                    f"user delete {name}"
                )
            else:
                return step
            return dataclasses.replace(step, change=KEEP)

        return [spare(step) for step in steps], [spared[name] for name in sorted(spared)]

    async def _states(
        self, masters: Sequence[Replica], desired: Desired | None = None
    ) -> Outcomes[BrokerState]:
        """What masters have. `desired`: only what is to be compared with it of users and access
        lists."""
        names = {m.address: m.broker_name for m in masters}

        async def one(address: str) -> BrokerState:
            topics = (await user_topics(self._link, address, special=False))["topicConfigTable"]
            groups = (await user_groups(self._link, address))["subscriptionGroupTable"]
            config = await Brokers(self._link).config_of(address)
            try:
                members = {name: group_members(name, row) for name, row in groups.items()}
            except ConfigError as e:
                raise ProtocolError(f"{address}: {e}") from None
            access = self._access
            wants_users = desired is None or desired.users is not None
            wants_acls = desired is None or desired.acls is not None
            return BrokerState(
                names[address],
                address,
                {name: topic_members(row) for name, row in topics.items()},
                members,
                config,
                await access.users_at(address, config) if wants_users else None,
                await access.acls_at(address, config) if wants_acls else None,
            )

        return await self._link.on_each(masters, one)

    async def _refuse_hidden(self, by_broker: dict[str, list[Step]]) -> None:
        async def one(address: str) -> list[Hidden]:
            found = []
            for step in by_broker[address]:
                fewer = [f for f in step.fields if f.field == "readQueueNums" and f.old is not None]
                if step.kind == TOPIC and fewer and fewer[0].new < fewer[0].old:
                    before = TopicConfig(step.name, fewer[0].old)
                    now = topic_of(step)
                    found += await hidden_by(self._link, address, step.broker, before, now)
            return found

        refuse_hidden(await self._link.on_each(list(by_broker), one))

    async def _put_list(self, steps: Sequence[Step]) -> bool:
        """Makes or changes topics, or groups, by one request. False if the broker does not know it,
        or refuses one of them: then they are sent one by one, to see which."""
        if steps[0].kind == TOPIC:
            code, name = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, "topicConfigList"
            rows = [
                {**topic_of(step).to_json(), "attributes": changed_attributes(step)}
                for step in steps
            ]
        else:
            code, name = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, "groupConfigList"
            rows = [group_of(step).to_json() for step in steps]
        try:
            await self._link.ask(
                steps[0].address, code, body=fastjson.dumps({name: rows}),
                timeout=self._link.patience(LIST_TIMEOUT),
            )  # fmt: skip
        except PyrmqError:
            return False
        return True

    async def _carry_out(self, step: Step, plan: Plan) -> Done:
        try:
            if step.kind == TOPIC and step.change == DELETE and step.name not in plan.orphans:
                await self._close(step)
            await self._work(step)(step)
        except PyrmqError as e:
            return Done(step, e)
        return Done(step)

    def _work(self, step: Step) -> Callable[[Step], Awaitable[None]]:
        if step.kind == CONFIG:
            return self._set_config
        if step.kind in (USER, ACL):
            return self._put_access
        if step.change == DELETE:
            return self._delete
        return self._put_topic if step.kind == TOPIC else self._put_group

    async def _set_config(self, step: Step) -> None:
        body = format_properties({step.name: str(step.fields[0].new)}).encode()
        await self._link.ask(step.address, RequestCode.UPDATE_BROKER_CONFIG, body=body)

    async def _put_topic(self, step: Step) -> None:
        words = [
            name if name.startswith("-") else f"{name}={value}"
            for name, value in changed_attributes(step).items()
        ]
        # What would be hidden was looked at before.
        outcomes = await Topics(self._link).update(
            topic_of(step), broker=step.address, attributes=",".join(words), force=True
        )
        outcomes.check_all()

    async def _put_group(self, step: Step) -> None:
        (await Groups(self._link).update(group_of(step), broker=step.address)).check_all()

    async def _put_access(self, step: Step) -> None:
        access, gone = self._access, step.change == DELETE
        if step.kind == USER and gone:
            await access.delete_user(step.broker, step.name)
        elif step.kind == USER:
            await access.put_user(step.broker, step.name, step.members)
        elif gone:
            await access.delete_acl(step.broker, step.name)
        else:
            await access.put_acl(step.broker, step.name, step.members)

    async def _close(self, step: Step) -> None:
        """Takes all permissions from a topic that other brokers keep: name servers would go on to
        have this broker in its route, and clients go on to send here."""
        config = dataclasses.replace(topic_of(step), perm=0)
        (await Topics(self._link).update(config, broker=step.address, force=True)).check_all()

    async def _delete(self, step: Step) -> None:
        if step.kind == TOPIC:
            await self._link.ask(
                step.address, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": step.name}
            )
        else:
            # RocketMQ's broker makes the group again if its offsets are to stay.
            groups = Groups(self._link)
            outcomes = await groups.delete(step.name, remove_offsets=True, broker=step.address)
            outcomes.check_all()

    async def _verified(self, found: list[Done]) -> list[Done]:
        """Steps that brokers have not taken although they answered with success."""
        addresses = list(dict.fromkeys(d.step.address for d in found if d.error is None))
        names = {d.step.address: d.step.broker for d in found}
        masters = [Replica("", names[a], 0, a) for a in addresses]
        states = {o.target: o.value for o in await self._states(masters) if o.value is not None}
        return [
            Done(d.step, ClientError(f"{d.step.address}: {NOT_TAKEN}"))
            if d.error is None and not _taken(d.step, states.get(d.step.address))
            else d
            for d in found
        ]

    async def _forgotten(self, plan: Plan, found: Sequence[Done]) -> list[Done]:
        """Has name servers forget topics that no broker has any more. Returns the failures."""
        failures = {d.step.name for d in found if d.error is not None and d.step.kind == TOPIC}
        failed = []
        for topic in sorted(plan.orphans - failures):
            outcomes = await self._link.ask_name_servers(
                RequestCode.DELETE_TOPIC_IN_NAMESRV,
                {"topic": topic, "clusterName": plan.cluster},
            )
            for o in outcomes.failed:
                failed.append(Done(Step(TOPIC, topic, "", o.target, DELETE), o.error))
        return failed


def _keeps_none(desired: Desired, state: BrokerState) -> Iterator[Outcome[Any]]:
    """What a file wants of a broker that keeps no users, or no access lists."""
    for what, wanted, have, key in (
        ("users", desired.users, state.users, USERS_KEPT),
        ("access lists", desired.acls, state.acls, ACLS_KEPT),
    ):
        if have is None and any(row.at(state.name) is not None for row in (wanted or {}).values()):
            why = ClientError(f"broker {state.name} keeps no {what}: set {key} in its broker.conf")
            yield Outcome(state.address, error=why, name=state.name)


def _taken(step: Step, state: BrokerState | None) -> bool:
    """Whether a broker is as a step wants it; True if it could not be asked again."""
    if state is None:
        return True
    if step.kind == CONFIG:
        return same(state.config.get(step.name), step.fields[0].new)
    rows = {TOPIC: state.topics, GROUP: state.groups, USER: state.users, ACL: state.acls}[step.kind]
    if step.change == DELETE:
        return step.name not in (rows or {})
    if rows is None or step.name not in rows:
        return False
    row = rows[step.name]
    if step.kind == ACL:
        return bool(row == step.members)
    if step.change == CREATE:
        return True
    return all(
        (row.get("attributes") or {}).get(f.field.partition(".")[2]) == f.new
        if f.field.startswith("attributes.")
        else same(row.get(f.field), f.new)
        for f in step.fields
    )
