"""Transactional producers of the Java client and the Go client.

Every client runs its whole plan once, all clients at the same time against one broker; the tests
look at what came of it. PYRMQ_INTEROP_PEER=1 runs them against Apache RocketMQ, which may
deliver a message twice, and forgets the flag of what a check commits: see `only_ours`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from tests.support import thorough
from tests.support.client import Client
from tests.support.operators import await_hits, no_hits
from tests.support.records import Record, parse_message_id
from tests.support.server import ServerProcess

from . import checks, halves, toolchain
from .conftest import JAVA_CLIENTS, built, older
from .drivers import Driver, Line, body
from .txn import (
    CHECK_MAX,
    CONF,
    DECIDED_AT_ONCE,
    LOST,
    ORPHANS,
    PROBE,
    QUEUES,
    Run,
    TxnServer,
    after_a_probe,
    names_checked,
    names_of,
    plans_of,
    run_plans,
    serving,
    take_over,
    use_peer,
)

TRANSACTION_SHOULD_COMMIT, TRANSACTION_SHOULD_ROLLBACK = 200, 201

NEWEST = f"java-{toolchain.NEWEST}"
LEFT_OUT = ("java-5.1.4", "java-4.9.4")
"""All clients run at once, two processes each, with intervals of a second: no more than these."""
CLIENTS = [
    *(param for param in JAVA_CLIENTS if param.values[0] not in LEFT_OUT),
    pytest.param("go"),
]
PAIRS = [
    pytest.param((NEWEST, "go"), id=f"{NEWEST}-go"),
    pytest.param(("go", NEWEST), id=f"go-{NEWEST}"),
    pytest.param(("go", "java-4.9.8"), id="go-java-4.9.8", marks=older),
    pytest.param(("java-4.9.8", "java-5.3.3"), id="java-4.9.8-java-5.3.3", marks=older),
    pytest.param(("java-5.3.3", "go"), id="java-5.3.3-go", marks=older),
]
only_ours = pytest.mark.skipif(use_peer(), reason="Apache RocketMQ does not do this")


def in_this_form(params: list[Any]) -> list[Any]:
    """The values of those that this run is about: all, or those that are not left to `thorough`."""
    return [param.values[0] for param in params if thorough.THOROUGH or not param.marks]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TxnServer]:
    with serving(tmp_path_factory.mktemp("transactions")) as running:
        yield running


@pytest.fixture(scope="module")
def driver(server: TxnServer) -> Callable[[str], Driver]:
    def make(client: str) -> Driver:
        return Driver(client, tuple(built(client)), server.namesrv, server.state)

    return make


@pytest.fixture(scope="module")
def runs(server: TxnServer, driver: Callable[[str], Driver]) -> Iterator[dict[str, Future[Run]]]:
    """Each client whose tools are there, at work; the others are reported in `run`."""
    futures = {}
    with ThreadPoolExecutor(len(CLIENTS)) as pool:
        for client in in_this_form(CLIENTS):
            try:
                command = driver(client)
            except BaseException as missing:
                futures[client] = Future[Run]()
                futures[client].set_exception(missing)
            else:
                deliveries = 8 + 2 + len(names_of(client) - LOST)
                futures[client] = pool.submit(
                    run_plans, server, command, plans_of(client), deliveries
                )
        yield futures


@pytest.fixture(params=CLIENTS)
def run(request: pytest.FixtureRequest, runs: dict[str, Future[Run]]) -> Run:
    return runs[request.param].result()


def offset_in_log(line: Line) -> int:
    _, offset = parse_message_id(line["offsetMsgId"])
    return offset


def delivered_once(run: Run, name: str) -> Line:
    """One delivery (Apache's broker: one or more) of what was sent."""
    lines = run.delivered(name)
    assert lines if use_peer() else len(lines) == 1, name
    return lines[0]


def as_sent(run: Run, name: str) -> tuple[Line, Record]:
    """The message was delivered and stored as it was sent and with the marks of a transaction."""
    line, sent = delivered_once(run, name), run.sent(name)
    properties = line["properties"]
    assert body(line) == body(sent)
    assert (line["tags"] or "") == (sent["tags"] or "")
    assert (line["keys"] or "") == (sent["keys"] or "")
    assert line["msgId"] == sent["msgId"] == properties["UNIQ_KEY"]
    user = {key: sent["properties"].get(key) for key in ("name", "greeting", "PGROUP")}
    assert {key: properties.get(key) for key in user} == user
    assert properties["TRAN_MSG"] == "true"
    assert properties["__transactionId__"] == sent["msgId"]
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == (
        sent["topic"],
        str(line["queueId"]),
    )
    found = next(
        record
        for record in run.records[sent["topic"]]
        if (record.queue_id, record.queue_offset) == (line["queueId"], line["queueOffset"])
    )
    assert found.sys_flag & 0xC == halves.COMMIT
    if run.topics.client != "go":
        assert line["transactionId"] == sent["msgId"]
    if "offsetMsgId" in sent:
        assert line["queueId"] == sent["queueId"]
        assert sent["transactionId"] == sent["msgId"]
    return line, found


def without_check(run: Run, name: str) -> None:
    """Committed by the answer of the producer: of the first copy of the half, and never asked."""
    _, record = as_sent(run, name)
    assert not run.checks(name)
    assert halves.CHECK_TIMES not in record.properties
    assert record.prepared_offset == offset_in_log(run.sent(name))
    assert record.flag == run.sent(name)["flag"]


def by_check(run: Run, name: str, least: int = 1) -> None:
    """Committed by a check, not by the send: of the copy asked about, with its count."""
    _, record = as_sent(run, name)
    asked = {c["commitLogOffset"]: c["properties"][halves.CHECK_TIMES] for c in run.checks(name)}
    assert len(asked) >= least
    assert asked[record.prepared_offset] == record.properties[halves.CHECK_TIMES]
    if not use_peer():
        assert record.flag == run.sent(name)["flag"]


def asked_well(run: Run, name: str) -> None:
    """Each check shows the message as its producer knows it, and how often it was asked."""
    sent = run.sent(name)
    lines = run.checks(name)
    for line in lines:
        assert line["topic"] == sent["topic"]
        assert body(line) == body(sent)
        assert line["properties"]["UNIQ_KEY"] == line["transactionId"] == sent["msgId"]
        assert line["queueId"] == sent.get("queueId", line["queueId"])
        assert line["bornTimestamp"] == lines[0]["bornTimestamp"]
        if not use_peer():
            assert line["flag"] == sent["flag"]
    counts = [int(line["properties"][halves.CHECK_TIMES]) for line in lines]
    if counts:
        first = counts[0] if use_peer() else 1
        assert counts == list(range(first, first + len(counts)))
    assert len({line["commitLogOffset"] for line in lines}) == len(lines)


def test_sample_with_numbers(run: Run) -> None:
    """Num0 and Num1 are rolled back, Num8 and Num9 decided by the check: eight are consumed."""
    stored = run.names(run.topics.numbers)
    eight = {f"Num{i}" for i in range(2, 10)}
    assert set(stored) == eight
    assert {line["keys"] for line in run.received if line["topic"] == run.topics.numbers} == eight
    for i in range(2, 8):
        without_check(run, f"Num{i}")
    for name in ("Num8", "Num9"):
        by_check(run, name)
    assert {run.sent(f"Num{i}")["localState"] for i in (0, 1)} == {"ROLLBACK_MESSAGE"}
    assert {run.sent(f"Num{i}")["localState"] for i in (8, 9)} == {"UNKNOW"}
    assert not run.checks("Num0")
    assert not run.checks("Num1")


def test_sample_with_tags(run: Run) -> None:
    """TAGA is committed, TAGB rolled back, TAGC decided by the check: two are consumed."""
    assert set(run.names(run.topics.tags)) == {"a", "c"}
    received = [line for line in run.received if line["topic"] == run.topics.tags]
    assert {line["tags"] for line in received} == {"TAGA", "TAGC"}
    without_check(run, "a")
    by_check(run, "c")


def test_what_execute_says_counts(run: Run) -> None:
    for name in DECIDED_AT_ONCE & names_of(run.topics.client):
        if name not in LOST:
            without_check(run, name)
    assert not run.checks("rollback")


def test_what_checks_say_counts(run: Run) -> None:
    """Also after answers of "unknown", and after a listener that threw or returned nothing."""
    by_check(run, "check-commit")
    by_check(run, "third", least=3)
    for name in {"throw", "null"} & names_of(run.topics.client):
        by_check(run, name)
    for name in {"check-throw", "check-null"} & names_of(run.topics.client):
        by_check(run, name, least=2)
    assert run.checks("check-rollback")


def test_what_is_not_committed_is_not_there(run: Run) -> None:
    """What is stored is what had to be committed, once, and the consumer got just that."""
    committed = names_of(run.topics.client) - LOST | {PROBE}
    stored = run.names(run.topics.matrix)
    assert set(stored) == committed
    if not use_peer():
        assert set(stored.values()) == {1}
    received = [line for line in run.received if line["topic"] == run.topics.matrix]
    assert {line["properties"]["name"] for line in received} == committed
    everything = checks.ADDED_ON_THE_WAY | {"TAGS", "KEYS", "UNIQ_KEY", "name", "greeting", "queue"}
    everything |= {"TRAN_MSG", "PGROUP", "REAL_TOPIC", "REAL_QID", "__transactionId__"}
    everything |= {halves.CHECK_TIMES, "CHECK_IMMUNITY_TIME_IN_SECONDS"}
    if not use_peer():
        for line in received:
            assert set(line["properties"]) <= everything


def test_checks(run: Run) -> None:
    for line in run.report.sent:
        asked_well(run, line["name"])


def test_unknown_for_ever(run: Run) -> None:
    """Asked as often as the broker allows, then discarded, and never delivered."""
    counts = [int(line["properties"][halves.CHECK_TIMES]) for line in run.checks("forever")]
    assert counts == list(range(1, CHECK_MAX + 1))
    (discarded,) = (record for record in run.overflow if record.properties["name"] == "forever")
    sent = run.sent("forever")
    assert discarded.body == body(sent)
    assert discarded.properties["UNIQ_KEY"] == sent["msgId"]
    assert discarded.properties["REAL_TOPIC"] == sent["topic"]
    assert discarded.properties[halves.CHECK_TIMES] == str(CHECK_MAX)


@only_ours
def test_nothing_else_is_discarded(run: Run) -> None:
    """A commit of an older copy of a half settles its later copies: they are not asked about."""
    assert halves.names(run.overflow) == ["forever"]


def test_immunity(run: Run) -> None:
    """Not asked before the time that the message itself sets."""
    by_check(run, "immune")
    first = run.checks("immune")[0]
    assert first["receivedAt"] - first["bornTimestamp"] > 3000


def test_large_bodies_are_stored_compressed(run: Run) -> None:
    for name in ("large", "large-check"):
        line, record = as_sent(run, name)
        assert len(body(line)) >= 30_000
        assert record.sys_flag & checks.COMPRESSED
        assert len(record.body) < 15_000


def test_queue_is_chosen(run: Run) -> None:
    """By the sender (Go), or by the client in turn: what was chosen is where it goes."""
    if run.topics.client == "go":
        assert as_sent(run, "queue")[0]["queueId"] == 3
        assert as_sent(run, "queue-check")[0]["queueId"] == 2
    chosen = {run.sent(f"Num{i}")["queueId"] for i in range(2, 8)}
    assert len(chosen) > 1


def test_tags_and_keys_lead_to_what_is_committed(run: Run, server: TxnServer) -> None:
    """And to nothing else: what was rolled back is found under the half topic only."""
    with Client(server.address) as client:
        found = []
        for queue_id in range(QUEUES):
            pulled = client.pull(run.topics.matrix, queue_id, 0, subscription="TagX")
            found += pulled.records
        assert {record.properties["name"] for record in found} == {"commit", "check-commit"}
        await_hits(client, run.topics.matrix, "commit", 1)
        await_hits(client, run.topics.matrix, "check-commit", 1)
        assert no_hits(client, run.topics.matrix, "rollback")


def test_committed_after_a_check_began(run: Run) -> None:
    """The answer names a copy of the half that has a successor by then. Ours settles the last copy,
    Apache's broker the one that is named, and asks about the last one again."""
    _, record = as_sent(run, "late")
    assert run.sent("late")["localState"] == "COMMIT_MESSAGE"
    copies = {line["commitLogOffset"] for line in run.checks("late")}
    assert record.prepared_offset in copies | {offset_in_log(run.sent("late"))}
    if "late-check" in names_of(run.topics.client):
        by_check(run, "late-check", least=2)


@only_ours
def test_repeated_answers_change_nothing(run: Run, server: TxnServer) -> None:
    """Each message is committed and rolled back once more, by its first copy. Who comes with the
    other decision is told which one counts."""
    group = run.sent("commit")["properties"]["PGROUP"]
    with Client(server.address) as client:
        for line in run.report.sent:
            if "offsetMsgId" not in line:
                continue
            half = halves.Half(
                line["name"], line["topic"], line["msgId"], offset_in_log(line), line["queueOffset"]
            )
            if line["name"] == "forever":
                continue  # discarded: a late commit counts
            codes = {
                state: client.request(halves.end_command(half, group, state)).code
                for state in (halves.COMMIT, halves.ROLLBACK)
            }
            committed = {halves.COMMIT: 0, halves.ROLLBACK: TRANSACTION_SHOULD_COMMIT}
            rolled_back = {halves.COMMIT: TRANSACTION_SHOULD_ROLLBACK, halves.ROLLBACK: 0}
            assert codes in (committed, rolled_back), line["name"]
        for topic in run.topics.every:
            assert halves.stored(client, topic, QUEUES) == run.records[topic]


@pytest.fixture(scope="module")
def take_overs(
    server: TxnServer, driver: Callable[[str], Driver], runs: dict[str, Future[Run]]
) -> Iterator[dict[tuple[str, str], Future[list[str]]]]:
    """All pairs at once, when the clients are done with their plans."""
    futures = {}
    wait(runs.values())
    with ThreadPoolExecutor(len(PAIRS)) as pool:
        for pair in in_this_form(PAIRS):
            try:
                victim, heir = map(driver, pair)
            except BaseException as missing:
                futures[pair] = Future[list[str]]()
                futures[pair].set_exception(missing)
            else:
                futures[pair] = pool.submit(take_over, server, victim, heir)
        yield futures


@pytest.mark.parametrize("pair", PAIRS)
def test_another_producer_is_asked(
    pair: tuple[str, str], take_overs: dict[tuple[str, str], Future[list[str]]]
) -> None:
    """Also one with another client."""
    stored = [name for name in take_overs[pair].result() if name in ORPHANS]
    assert set(stored) == ORPHANS
    if not use_peer():
        assert len(stored) == len(ORPHANS)


@only_ours
def test_the_broker_is_killed(tmp_path: Path, topic: str) -> None:
    """kill -9 after the answers of the producer and before any check: what was committed is there
    once, and the producer is asked about the rest when it has found its way back."""
    decided = [f"{name}{i}" for name in ("commit", "rollback") for i in range(10)]
    open_ones = [f"{name}{i}" for name in ("open-commit", "open-rollback") for i in range(5)]
    plan = [f"{name}:{name[:-1]}" for name in decided]
    plan += [f"{name}:unknown>{name[5:-1]}" for name in open_ones]
    with ServerProcess(tmp_path / "store", conf=CONF) as process:
        server = TxnServer(process, "{}:{}".format(*process.namesrv), process.broker)
        driver = Driver(NEWEST, tuple(built(NEWEST)), server.namesrv, server.state)
        words: dict[str, Any] = {"topic": topic, "group": f"PG-{topic}", "plan": ";".join(plan)}
        with driver.start("produce-transaction", **words) as producer:
            producer.wait_for(lambda report: len(report.sent) == len(plan), "all sends")
            # Answers are oneway: what was committed is there when they have arrived.
            committed = {name for name in decided if name.startswith("commit")}
            with Client(server.address) as client:
                halves.await_stored(
                    client, topic, lambda records: committed <= set(halves.names(records)), QUEUES
                )
            process.kill()
            process.start()
            producer.wait_for(lambda report: bool(report.of("complete")), "a check of each")
            committed |= {name for name in open_ones if "commit" in name}
            stored = after_a_probe(server, producer, topic, committed)
            asked = names_checked(producer.report)
    assert stored == sorted(committed | {PROBE})
    # The last of the rollbacks may have been on its way when the broker was killed.
    assert set(open_ones) <= asked
    assert not asked & {name for name in decided if name.startswith("commit")}
