"""mqadmin's commands about clusters, how long sends to their brokers take, and startMonitoring."""

from __future__ import annotations

import time
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta, timezone

from pyrmq.admin.api import Admin
from pyrmq.admin.clusters import MAX_SIZE, ReplicaState
from pyrmq.admin.runtime_info import Runtime, Traffic, first_number, whole
from pyrmq.cli.mqadmin.brokers import MAX_INTERVAL, repeated
from pyrmq.cli.mqadmin.options import Command, Option, Values
from pyrmq.cli.mqadmin.output import Column, Output
from pyrmq.cli.mqadmin.text import send_result_text

MAX_AMOUNT = 1_000_000
_BEIJING = timezone(timedelta(hours=8))
_LIST = (
    Column("#Cluster Name", 22), Column("#Broker Name", 22), Column("#BID", 4),
    Column("#Addr", 22, gap=1), Column("#Version", 16), Column("#InTPS(LOAD)", 16, right=True),
    Column("#OutTPS(LOAD)", 30, right=True), Column("#Timer(Progress)", 22),
    Column("#PCWait(ms)", 11, right=True), Column("#Hour", 12), Column("#SPACE", 8),
    Column("#ACTIVATED", 10, right=True, gap=0),
)  # fmt: skip
_MORE = (
    Column("#Cluster Name", 16), Column("#Broker Name", 32, gap=1),
    Column("#InTotalYest", 14, right=True, gap=1), Column("#OutTotalYest", 14, right=True, gap=1),
    Column("#InTotalToday", 14, right=True, gap=1), Column("#OutTotalToday", 14, right=True, gap=0),
)  # fmt: skip
_TIMES = (
    Column("#Cluster Name", 24), Column("#Broker Name", 24), Column("#RT", 4, cells=8),
    Column("#successCount", 8, cells=16), Column("#failCount", 8, cells=16, gap=0),
)  # fmt: skip


async def cluster_list(admin: Admin, values: Values, out: Output) -> None:
    async def once() -> None:
        states = await admin.clusters.list(values.get("clusterName"))
        out.head(_MORE if values.has("moreStats") else _LIST)
        for state in states:
            if state.error is not None:
                out.failed(state.error, state.replica.address)
            else:
                out.succeeded()
            if values.has("moreStats"):
                _more(state, out)
            else:
                _base(state, out)

    await repeated(values, out, once, blank=None)


def _base(state: ReplicaState, out: Output) -> None:
    r, runtime = state.replica, state.runtime
    out.row(
        _LIST, r.cluster, r.broker_name, r.broker_id, r.address,
        runtime.get("brokerVersionDesc", ""), _in(runtime), _out(runtime), _timer(runtime),
        runtime.get("pageCacheLockTimeMills", ""), _hours(runtime), _space(runtime),
        runtime.get("brokerActive", "false"),
    )  # fmt: skip


def _more(state: ReplicaState, out: Output) -> None:
    traffic = Traffic.of(state.runtime)
    out.row(
        _MORE, state.replica.cluster, state.replica.broker_name, traffic.in_yesterday,
        traffic.out_yesterday, traffic.in_today, traffic.out_today,
    )  # fmt: skip


def _load(runtime: Runtime, pool: str) -> str:
    size = runtime.get(f"{pool}ThreadPoolQueueSize", "")
    wait = runtime.get(f"{pool}ThreadPoolQueueHeadWaitTimeMills", "")
    return f"{size},{wait}ms"


def _in(runtime: Runtime) -> str:
    return f"{first_number(runtime, 'putTps'):9.2f}({_load(runtime, 'send')})"


def _out(runtime: Runtime) -> str:
    acks = _load(runtime, "ack") if "ackThreadPoolQueueSize" in runtime else "N,Nms"
    tps = first_number(runtime, "getTransferredTps") or first_number(runtime, "getTransferedTps")
    return f"{tps:9.2f}({_load(runtime, 'pull')}|{acks})"


def _timer(runtime: Runtime) -> str:
    waiting = whole(runtime, "timerCongestNum") / 10_000
    enqueued = first_number(runtime, "timerEnqueueTps")
    dequeued = first_number(runtime, "timerDequeueTps")
    return (
        f"{whole(runtime, 'timerReadBehind')}-{whole(runtime, 'timerOffsetBehind')}"
        f"({waiting:.1f}w, {enqueued:.1f}, {dequeued:.1f})"
    )


def _hours(runtime: Runtime) -> str:
    earliest = whole(runtime, "earliestMessageTimeStamp")
    if earliest <= 0:
        return ""
    return f"{(time.time_ns() // 1_000_000 - earliest) / 3_600_000:.2f}"


def _space(runtime: Runtime) -> str:
    if "commitLogDiskRatio" not in runtime:
        return ""
    return f"{first_number(runtime, 'commitLogDiskRatio'):.4f}"


async def cluster_rt(admin: Admin, values: Values, out: Output) -> None:
    line = values.truth("printlog")
    trips = admin.clusters.round_trips(
        cluster=values.get("cluster"),
        amount=values.number("amount", 1, MAX_AMOUNT),
        size=values.number("size", 1, MAX_SIZE),
        interval=values.number("interval", 0, MAX_INTERVAL),
        rounds=values.number("rounds", 0, MAX_AMOUNT),
    )
    if not line:
        out.head(_TIMES)
        out.flush()
    async with aclosing(trips) as rows:
        async for row in rows:
            if line:
                now = datetime.now(UTC).astimezone(_BEIJING).strftime("%Y-%m-%d %H:%M:%S")
                whole_ms = int(row.average_ms + 0.5)
                room = values["machineroom"]
                out.line(f"{now}|{room}|{row.cluster}|{row.broker_name}|{whole_ms}")
            else:
                out.row(
                    _TIMES, row.cluster, row.broker_name, f"{row.average_ms:.2f}",
                    row.successes, row.failures,
                )  # fmt: skip
            if row.successes:
                out.succeeded()
            if row.error is not None:
                out.failed(row.error, row.broker_name)
            out.flush()


async def send_status(admin: Admin, values: Values, out: Output) -> None:
    probes = admin.clusters.probe(
        values["brokerName"],
        count=values.number("count", 1, MAX_AMOUNT),
        size=values.number("messageSize", 1, MAX_SIZE),
    )
    async with aclosing(probes) as sent:
        async for one in sent:
            out.succeeded()
            out.line(f"rt={one.ms}ms, SendResult={send_result_text(one.result)}")
            out.flush()


_CLUSTER_COMMANDS = {
    command.name: command
    for command in (
        Command(
            "clusterList",
            (
                Option("m", "moreStats", "messages of yesterday and today", flag=True),
                Option("i", "interval", "repeat it, so many seconds apart"),
                Option("c", "clusterName", "only this cluster"),
            ),
            cluster_list,
        ),
        Command(
            "clusterRT",
            (
                Option("a", "amount", "how many messages to each broker", default="100"),
                Option("s", "size", "bytes of each body", default="128"),
                Option("c", "cluster", "only this cluster"),
                Option("p", "printlog", "true: lines for a log, not a table", default="false"),
                Option("m", "machineroom", "room that such lines name", default="noname"),
                Option("i", "interval", "seconds between two rounds", default="10"),
                Option("r", "rounds", "how many rounds, 0: until it is interrupted", default="0"),
            ),
            cluster_rt,
        ),
        Command(
            "sendMsgStatus",
            (
                Option("b", "brokerName", "name of a broker, which is a topic's", required=True),
                Option("s", "messageSize", "bytes of each body", default="128"),
                Option("c", "count", "how many messages", default="50"),
            ),
            send_status,
        ),
    )
}


async def start_monitoring(admin: Admin, values: Values, out: Output) -> None:
    from pyrmq.admin.monitoring import Monitor
    from pyrmq.admin.monitoring.monitor import run_until_signal

    def write(line: str) -> None:
        out.line(line)
        out.flush()

    with suppress(BrokenPipeError):  # the reader has enough (`| head`)
        await run_until_signal(Monitor.of(admin, write=write))


_MONITORING = {"startMonitoring": Command("startMonitoring", (), start_monitoring, progress=False)}
COMMANDS = {**_CLUSTER_COMMANDS, **_MONITORING}
