"""Commands in blocks of the pages for operators work as they are shown, one after the other on one
broker, which has what they name. Servers and names stand for the broker's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import pyrmq.testing
from pyrmq.cli import main
from pyrmq.sync import ConsumeFrom, ConsumeResult, Message, Producer, PushConsumer
from tests.docs.e2e.test_walks import WALKS
from tests.docs.unit.test_commands import PAGES, blocks, call_of, words
from tests.support.waiting import eventually

RUN = (
    "access.md",
    "admin.md",
    "dead-letters.md",
    "operations.md",
    "replication.md",
    "rolling-restart.md",
    "security.md",
    "timers.md",
)
"""Pages of which every block of commands of `pyrmq admin`, `mqadmin` and `send` runs here."""
CANNOT = {
    "--access-key": "needs a server with access control: tests/auth/e2e",
    "--tls-ca": "needs a server with TLS: tests/cli/e2e",
    "--with-passwords": "needs a super user: tests/auth/e2e/test_transfer.py",
    "admin auth import": "needs a super user: tests/auth/e2e/test_transfer.py",
    "admin account": "needs a broker with aclEnable: tests/auth/e2e",
    "admin broker promote": "needs a pair: tests/system/ha/test_pair.py",
    "brokerRole": "needs a pair: tests/system/ha/test_pair.py",
    "admin monitor run": "runs until Ctrl-C: tests/admin/e2e/test_monitoring.py",
    "--to group": "needs a letter with that key: tests/admin/e2e/test_dead_letters.py",
}
"""By a part of a command, why it does not run here."""
BEFORE = {
    "admin.md": [
        "admin namesrv kv put ORDER_TOPIC_CONFIG orders broker-a:4",
        "admin export metadata -c DefaultCluster --folder old",
        "admin export cluster -c DefaultCluster",
    ],
    "dead-letters.md": ["admin user create support -c DefaultCluster"],
}
"""What a page takes for granted."""
PROGRAM = re.compile(
    r" *(\$ )?([A-Z_]+=\S+ )*([\w./]*/)?"
    r"(pyrmq|make|pip|docker|kubectl|systemctl|curl|openssl|spark-submit|mqadmin|pytest) "
)
"""A line of a block that runs a program."""
ELSEWHERE = {
    "README.md": "tests/cli/e2e, and the pages that it leads to",
    "bench.md": "tests/bench/e2e; its loads take minutes",
    "console.md": "tests/console",
    "configuration.md": "starts servers: tests/config/unit/test_config_environment.py",
    "docker.md": "needs Docker: tests/deploy/unit/test_images.py reads the files",
    "doctor.md": "depends on the machine: tests/doctor",
    "first-change.md": "tests/docs/e2e/test_first_change.py",
    "guide.md": "tests/cli/e2e/test_cli_txn.py",
    "health.md": "tests/cli/e2e/test_health_command.py",
    "install.md": "needs wheels: `make wheel-check`",
    "kubernetes.md": "needs Kubernetes: tests/deploy/unit/test_manifests.py reads the files",
    "logs.md": "tests/logs, tests/admin/e2e",
    "mcp.md": "tests/mcp",
    "metrics.md": "needs a port of its own: tests/broker/e2e/test_exporter.py",
    "monitoring.md": "runs until Ctrl-C: tests/admin/e2e/test_monitoring.py",
    "otel.md": "tests/otel/e2e/test_docs.py",
    "pop.md": "tests/admin/e2e/test_groups.py",
    "spark-cluster.md": "needs a cluster of Spark: tests/spark/e2e/proof",
    "spark.md": "tests/spark/e2e",
    "store.md": "tests/cli/e2e/test_cli_store.py",
    "systemd.md": "needs systemd and root: tests/deploy/unit/test_units.py reads the units",
    "tables.md": "tests/tables/e2e",
    "tls.md": "tests/cli/e2e/test_cli_tls.py",
}
"""Other pages with commands: who runs the same, or why nobody does."""
SECRETS = "secret-1\n" * 2
GROUP, TOPIC = "billing", "orders"


@dataclass(frozen=True)
class Place:
    """A broker, and a message in it."""

    namesrv: str
    broker: str
    message: str

    def put_in(self, text: str) -> str:
        text = re.sub(r"10\.0\.0\.\d+:9876|127\.0\.0\.1:9876", self.namesrv, text)
        text = re.sub(r"10\.0\.0\.\d+:10911|HOST:PORT", self.broker, text)
        text = re.sub(r"\b(?:ID|0A00000500C4A1B2C3D400F1E2D30001)\b", self.message, text)
        text = re.sub(r"\b(?:C1|CLUSTER)\b", "DefaultCluster", text)
        text = re.sub(r"\bGROUP\b|\border-service\b", GROUP, text)
        text = re.sub(r"\bTOPIC\b|\bSOME_TOPIC\b", TOPIC, text)
        return re.sub(r"\bBROKER\b", "broker-a", text).replace(" --watch 5", "")


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    """A message of `orders` was consumed by `billing`, another one is its dead letter."""
    with pyrmq.testing.broker(
        trace_topic_enable=True,
        authentication_metadata_provider="LocalAuthenticationMetadataProvider",
        authorization_metadata_provider="LocalAuthorizationMetadataProvider",
    ) as running:
        with Producer("shop", namesrv=running.namesrv, trace=True) as producer:
            sent = producer.send(Message(TOPIC, b"2 books", keys=["order-17", "o-991"]))
            producer.send(Message(TOPIC, b"damaged"))
            consumed = []

            def listener(message: pyrmq.ReceivedMessage) -> ConsumeResult:
                consumed.append(message.body)
                failed = message.body == b"damaged"
                return ConsumeResult.RECONSUME_LATER if failed else ConsumeResult.SUCCESS

            with PushConsumer(
                GROUP,
                {TOPIC: "*"},
                namesrv=running.namesrv,
                listener=listener,
                consume_from=ConsumeFrom.FIRST_OFFSET,
                max_reconsume_times=0,
            ):
                eventually(lambda: len(consumed) >= 2, "both are consumed")
        host, port = running.broker_address
        yield Place(running.namesrv, f"{host}:{port}", sent.msg_id)


def commands(page: Path) -> list[str]:
    """The calls in blocks of a page, without `pyrmq`."""
    lines = blocks(page)
    lines += re.findall(r"^    (pyrmq .*)", page.read_text("utf-8"), re.MULTILINE)
    calls = [call for line in lines if (call := call_of(line))]
    return [call for call in calls if call.startswith(("admin ", "mqadmin", "send "))]


def confirmed(call: list[str]) -> list[str]:
    """With --yes, where the command asks."""
    command: click.Command = main
    for word in call:
        if not isinstance(command, click.Group):
            break
        found = command.get_command(click.Context(command), word)
        assert found is not None, call
        command = found
    asks = any("--yes" in param.opts for param in command.params)
    return [*call, "--yes"] if asks and not {"--yes", "--dry-run"} & {*call} else call


@pytest.mark.parametrize("name", RUN)
def test_commands_work(name: str, place: Place, tmp_path: Path) -> None:
    (page,) = (page for page in PAGES if page.parent.name == "docs" and page.name == name)
    found = commands(page)
    assert found
    environment = {"HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    environment |= {"NAMESRV_ADDR": place.namesrv, "COLUMNS": "200"}
    wrong = []
    for line in [*BEFORE.get(name, []), *found]:
        if any(part in line for part in CANNOT):
            continue
        for call in words(place.put_in(line)):
            with chdir(tmp_path):
                done = CliRunner().invoke(main, confirmed(call), env=environment, input=SECRETS)
            if done.exit_code not in ((0, 3) if "cluster health" in line else (0,)):
                wrong.append(f"pyrmq {line}: {done.exit_code}: {done.output} {done.exception!r}")
    assert not wrong, "\n".join(wrong)


def test_every_page_with_commands_is_accounted_for() -> None:
    pages = {
        page.name
        for page in PAGES
        if any(PROGRAM.match(line) for line in blocks(page)) or commands(page)
    }
    assert pages == {*RUN, *WALKS, *ELSEWHERE}


def test_what_does_not_run_is_there() -> None:
    texts = "\n".join(call for page in PAGES if page.name in RUN for call in commands(page))
    assert [part for part in CANNOT if part not in texts] == []
