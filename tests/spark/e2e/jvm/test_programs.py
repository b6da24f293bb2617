"""The jar as a new user starts it: spark-submit, spark-sql and Spark Connect, each a process, with
a Python that does not have the wheel; class paths and folders that are not as they should be."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from tests.spark import bare_python, jvm_jar, small_store
from tests.spark.conftest import need_java
from tests.spark.small_store import Sent
from tests.support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.thorough("each test starts JVMs of its own")]

HOME = Path(pyspark.__file__).parent
LOCAL = ["--master", "local[2]", "--driver-memory", "1g", "--conf", "spark.ui.enabled=false"]
LOCAL += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
frame = spark.read.format("rocketmq").load(sys.argv[1])
rows = frame.where("tags = 'A'").groupBy("topic").count().orderBy("topic").collect()
print("ROWS", json.dumps([list(row) for row in rows]))
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("programs") / "broker-a"


@pytest.fixture(scope="module")
def sent(store: Path) -> list[Sent]:
    need_java()
    return small_store.write(store, 300)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with PySpark, but without pyrmq."""
    made = bare_python.make(tmp_path_factory.mktemp("bare") / "venv")
    return bare_python.for_spark(made)


def counted(sent: list[Sent]) -> list[list[object]]:
    return [
        [topic, sum(one.topic == topic and one.tag == "A" for one in sent)]
        for topic in small_store.TOPICS
    ]


def environment(folder: Path, python: Path) -> dict[str, str]:
    left_out = ("PYTHONPATH", "SPARK_HOME", "SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS")
    own = {key: value for key, value in os.environ.items() if key not in left_out}
    names = {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**own, **names, "SPARK_HOME": str(HOME), "HOME": str(folder)}


def ran(folder: Path, python: Path, program: str, *words: object) -> tuple[int, str]:
    """What a program of Spark says, and its exit status."""
    done = subprocess.run(
        [str(HOME / "bin" / program), *map(str, words)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environment(folder, python),
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout


def submitted(folder: Path, python: Path, store: Path, *options: object) -> tuple[int, str]:
    script = folder / "job.py"
    script.write_text(PROGRAM)
    return ran(folder, python, "spark-submit", *LOCAL, *options, script, store)


def rows_of(said: str) -> object:
    found = re.search(r"^ROWS (.*)$", said, re.MULTILINE)
    assert found is not None, said[-6000:]
    return json.loads(found[1])


def test_spark_submit(tmp_path: Path, store: Path, sent: list[Sent], python: Path) -> None:
    _, said = submitted(tmp_path, python, store, "--jars", jvm_jar.built())
    assert rows_of(said) == counted(sent)


def test_spark_sql(tmp_path: Path, store: Path, sent: list[Sent], python: Path) -> None:
    catalog = ["--conf", "spark.sql.catalog.mq=pyrmq.spark.RocketMQCatalog"]
    catalog += ["--conf", f"spark.sql.catalog.mq.path={store}", "--jars", str(jvm_jar.built())]
    text = (
        "SHOW TABLES IN mq.default; "
        "SELECT 'ROW', tags, count(*) FROM mq.default.orders GROUP BY tags ORDER BY tags"
    )
    status, said = ran(tmp_path, python, "spark-sql", *LOCAL, *catalog, "-e", text)
    assert status == 0, said[-6000:]
    assert re.search(r"^(default\t)?orders\b", said, re.MULTILINE), said[-6000:]
    rows = [line.split("\t")[1:] for line in said.splitlines() if line.startswith("ROW\t")]
    orders = [one for one in sent if one.topic == "orders"]
    assert rows == [[tag, str(sum(o.tag == tag for o in orders))] for tag in "ABC"]


@contextmanager
def connect_server(folder: Path, python: Path, *options: object) -> Iterator[str]:
    """Spark Connect's server with these options; its address."""
    kind = "org.apache.spark.sql.connect.service.SparkConnectServer"
    command = [str(HOME / "bin" / "spark-submit"), *LOCAL, "--class", kind, *map(str, options)]
    command += ["--conf", "spark.connect.grpc.binding.port=0"]
    command += ["--conf", "spark.connect.grpc.binding.address=127.0.0.1", "spark-internal"]
    log = folder / "connect.log"
    with log.open("wb") as out:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=environment(folder, python),
        )

    def port() -> str | None:
        text = log.read_text(errors="replace")
        assert server.poll() is None, text[-6000:]
        found = re.search(r"Spark Connect server started at: .*?:(\d+)\s", text)
        return found and found[1]

    try:
        yield f"sc://127.0.0.1:{eventually(port, 'the server starts', 120)}"
    finally:
        server.kill()
        server.wait()


def test_spark_connect(tmp_path: Path, store: Path, sent: list[Sent], python: Path) -> None:
    """The server has the jar; the client has neither it nor a JVM."""
    pytest.importorskip("grpc")
    from pyspark.sql.connect.session import SparkSession

    with connect_server(tmp_path, python, "--jars", jvm_jar.built()) as address:
        client = SparkSession.builder.remote(address).create()
        frame = client.read.format("rocketmq").load(str(store))
        rows = frame.where("tags = 'A'").groupBy("topic").count().orderBy("topic").collect()
        assert [list(row) for row in rows] == counted(sent)
        with pytest.raises(Exception, match=str(store / "missing")):
            client.read.format("rocketmq").load(str(store / "missing")).count()
        client.stop()


def test_the_jar_twice(tmp_path: Path, store: Path, sent: list[Sent], python: Path) -> None:
    """Two names of one jar."""
    again = tmp_path / "other.jar"
    shutil.copy(jvm_jar.built(), again)
    _, said = submitted(tmp_path, python, store, "--jars", f"{jvm_jar.built()},{again}")
    assert rows_of(said) == counted(sent)


def test_two_versions_of_the_jar(
    tmp_path: Path, store: Path, sent: list[Sent], python: Path
) -> None:
    """The classes of one may meet the library of the other; then each query says so."""
    other = tmp_path / "other.jar"
    with zipfile.ZipFile(jvm_jar.built()) as jar, zipfile.ZipFile(other, "w") as out:
        for name in jar.namelist():
            content = jar.read(name)
            if name.endswith("build.properties"):
                content = re.sub(rb"version=\S+", b"version=9.9.9", content)
            out.writestr(name, content)
    for both in (f"{jvm_jar.built()},{other}", f"{other},{jvm_jar.built()}"):
        _, said = submitted(tmp_path, python, store, "--jars", both)
        if "ROWS " in said:
            assert rows_of(said) == counted(sent)
        else:
            assert re.search(r"SparkSetupError: .*9\.9\.9", said), said[-6000:]


def test_another_line_of_spark(tmp_path: Path, store: Path, sent: list[Sent], python: Path) -> None:
    """Spark says that it is 4.0: the jar refuses, and says which lines it is for."""
    with zipfile.ZipFile(next((HOME / "jars").glob("spark-common-utils_*.jar"))) as jar:
        text = jar.read("spark-version-info.properties").decode()
    front = tmp_path / "front"
    front.mkdir()
    changed = re.sub(r"(?m)^version=.*$", "version=4.0.1", text)
    (front / "spark-version-info.properties").write_text(changed)
    option = ["--driver-class-path", front]
    _, said = submitted(tmp_path, python, store, "--jars", jvm_jar.built(), *option)
    assert "this jar is for Spark 4.1, 4.2 and 4.3, but here runs Spark 4.0.1" in said, said[-6000:]
    assert "SparkSetupError" in said
    assert "ROWS" not in said


def test_a_temporary_folder_by_a_link(
    tmp_path: Path, store: Path, sent: list[Sent], python: Path
) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    option = ["--driver-java-options", f"-Djava.io.tmpdir={link}"]
    _, said = submitted(tmp_path, python, store, "--jars", jvm_jar.built(), *option)
    assert rows_of(said) == counted(sent)
    assert not list(real.glob("pyrmq*"))
