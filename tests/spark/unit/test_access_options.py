"""Credentials and TLS of the source and the sink: options, what tasks do with them, and secrets."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pyrmq import Credentials, Tls
from pyrmq.errors import ConfigError, ConnectError
from pyrmq.net.client.blocking_channel import BlockingChannels
from spark_ext.broker.access import credentials_of, tls_of
from spark_ext.broker.cluster import Cluster
from spark_ext.broker.plan import access
from spark_ext.catalog import of_statement
from spark_ext.jobs.lag import command as lag
from spark_ext.jobs.source import Source
from spark_ext.option import Query
from spark_ext.option_table import OPTIONS, SECRETS
from spark_ext.options import Options
from spark_ext.sink.task import Task
from tests.support.certificates import Authority
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.signatures import is_signed

pa = pytest.importorskip("pyarrow")

SECRET = "s3cret-words"
REDACTED = re.compile("(?i)secret|password|token|access[.]?key")
"""The default of spark.redaction.regex."""


def broker(**given: str) -> Options:
    return Options({"nameServer": "a:1", **given}, Query.BROKER_BATCH)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "secret"
    found.write_text(SECRET)
    found.chmod(0o600)
    return found


def test_without_them() -> None:
    assert credentials_of(broker()) is None
    assert tls_of(broker()) is None


def test_credentials(file: Path) -> None:
    assert credentials_of(broker(accessKey="me", secretKey=SECRET)) == Credentials("me", SECRET)
    given = broker(accessKey="me", secretKeyFile=str(file), securityToken="tok")
    assert credentials_of(given) == Credentials("me", SECRET, "tok")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"accessKey": "me"}, "options accessKey and secretKeyFile .* go together"),
        ({"secretKey": SECRET}, "options accessKey and secretKeyFile .* go together"),
        ({"securityToken": SECRET}, "options accessKey and secretKeyFile .* go together"),
        ({"accessKey": "me", "secretKey": SECRET + "\n"}, "secret_key contains a control chara"),
        ({"accessKey": "me", "secretKey": ""}, "option secretKey is empty"),
        (
            {"accessKey": "me", "secretKey": SECRET, "secretKeyFile": "f"},
            "secretKeyFile and secretKey exclude each other|secretKey and secretKeyFile exclude",
        ),
    ],
)
def test_credentials_that_cannot_be(given: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        credentials_of(broker(**given))
    assert SECRET not in str(caught.value)


def test_a_file_that_others_may_read(file: Path) -> None:
    file.chmod(0o644)
    with pytest.raises(ConfigError, match=r"option secretKeyFile .* \(mode 644\): chmod 600"):
        access(broker(accessKey="me", secretKeyFile=str(file)))


def test_tls() -> None:
    assert tls_of(broker(tls="true")) == Tls()
    assert tls_of(broker(tls="false")) is None
    given = broker(
        tlsCaFile="ca", tlsCertFile="own", tlsKeyFile="key", tlsKeyPassword="word",
        tlsServerName="b",
    )  # fmt: skip
    made = Tls(ca="ca", cert="own", key="key", key_password="word", server_hostname="b")
    assert tls_of(given) == made
    assert tls_of(broker(tlsInsecure="true")) == Tls(insecure=True)
    assert tls_of(broker(tlsAnyName="true")) == Tls(check_hostname=False)
    with pytest.raises(ConfigError, match="option tlsCaFile needs tls=true"):
        tls_of(broker(tls="false", tlsCaFile="ca"))
    with pytest.raises(ConfigError, match="insecure of Tls verifies nothing"):
        tls_of(broker(tlsInsecure="true", tlsCaFile="ca"))


def test_a_read_of_files_has_none_of_them() -> None:
    with pytest.raises(ConfigError, match="accessKey"):
        Options({"path": "/store", "accessKey": "me"}, Query.BATCH)


def test_spark_redacts_the_names() -> None:
    for name in (*SECRETS, "accessKey", "secretKeyFile"):
        assert REDACTED.search(name), name
        assert any(option.name == name for option in OPTIONS)


def test_a_table_of_the_catalog_keeps_no_secret() -> None:
    for name in SECRETS:
        with pytest.raises(ConfigError, match=f"{name} would be kept in the catalog") as caught:
            of_statement({"provider": "rocketmq", "nameServer": "a:1", name: SECRET})
        assert SECRET not in str(caught.value)
    kept = {"nameserver": "a:1", "accesskey": "me", "secretkeyfile": "/f", "tls": "true"}
    assert of_statement({"provider": "rocketmq", **kept}) == kept


def test_what_travels_to_tasks_shows_no_secret() -> None:
    given = {"accessKey": "me", "secretKey": SECRET, "tlsCertFile": "c", "tlsKeyPassword": SECRET}
    reading = access(broker(**given))
    task = Task.of(Options({"nameServer": "a:1", "topic": "T", **given}, Query.WRITE))
    source = Source(name_server="a:1", options=given)
    for one in (reading, task, source, broker(**given)):
        assert SECRET not in f"{one}{one!r}"
    assert pickle.loads(pickle.dumps(task)) == task
    assert pickle.loads(pickle.dumps(reading)).credentials == Credentials("me", SECRET)


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def cluster(ca: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedCluster]:
    monkeypatch.setattr(BlockingChannels, "pause", lambda self, seconds: None)
    made = ScriptedCluster({"T": {"a": 2}}, secure=ca.issue("127.0.0.1").serving())
    with made.serving():
        yield made


def connecting(cluster: ScriptedCluster, ca: Authority) -> dict[str, str]:
    return {
        "nameServer": cluster.address,
        "accessKey": "me",
        "secretKey": SECRET,
        "tlsCaFile": str(ca.file),
    }


def test_a_task_of_the_sink(cluster: ScriptedCluster, ca: Authority) -> None:
    options = {"topic": "T", **connecting(cluster, ca)}
    task = pickle.loads(pickle.dumps(Task.of(Options(options, Query.WRITE))))
    bodies = [b"%06d" % n for n in range(500)]
    task.write([pa.record_batch({"body": pa.array(bodies, pa.binary())})])
    assert sorted(cluster.bodies()) == bodies
    assert {c.code for c in cluster.asked} >= {105, 320}
    assert all(is_signed(c, "me", SECRET) for c in cluster.asked)


def test_what_a_read_asks(cluster: ScriptedCluster, ca: Authority) -> None:
    how = access(Options(connecting(cluster, ca), Query.BROKER_BATCH))
    with Cluster(pickle.loads(pickle.dumps(how))) as asked:
        assert asked.topics() == {"T"}
        queues = asked.route("T").subscribe_queues("T")
        assert asked.bounds(sorted(queues, key=lambda q: q.queue_id)) == dict.fromkeys(
            queues, (0, 0)
        )
    assert {c.code for c in cluster.asked} >= {105, 206, 30, 31}
    assert all(is_signed(c, "me", SECRET) for c in cluster.asked)


def test_a_task_says_why_it_cannot_connect(cluster: ScriptedCluster, ca: Authority) -> None:
    given: dict[str, Any] = {**connecting(cluster, ca), "fetchOffset.numRetries": "0"}
    del given["tlsCaFile"]
    for tls, text in (({"tls": "true"}, "an authority that is trusted"), ({}, "TLS")):
        how = access(Options({**given, **tls}, Query.BROKER_BATCH))
        with Cluster(how) as asked, pytest.raises(ConnectError, match=text):
            asked.topics()
    assert not cluster.asked


@pytest.mark.parametrize("name", [*SECRETS, "SECRETKEY"])
def test_no_job_takes_a_secret_from_its_command_line(name: str) -> None:
    ended = CliRunner().invoke(lag, ["-n", "a:1", "-o", f"{name}={SECRET}"])
    assert ended.exit_code != 0
    assert "use --secret-key-file FILE, or the environment" in " ".join(ended.output.split())
    assert SECRET not in ended.output
