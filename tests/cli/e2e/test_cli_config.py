"""`pyrmq config`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.support.certificates import Authority
from tests.support.command import Serving, assert_refused, run


def said(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    done = run(*words, **env)
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


GOOD = "brokerName=b1\nmessageDelayLevel=1s 2s\nsendMessageThreadPoolNums=16\n"


def test_a_file_that_can_be_used(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text(GOOD)
    done = said("config", "check", str(file))
    assert done.returncode == 0, done.stderr
    assert "sendMessageThreadPoolNums=16 has no effect" in done.stdout
    assert done.stdout.endswith(f"{file} can be used: 3 keys\n")


def test_every_fault_is_named(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("listenPort=70000\nflushDisk=SYNC\nmessageDelayLevel=soon\nbrokerName=fine\n")
    done = said("config", "check", str(file))
    assert done.returncode == 1
    assert "listenPort=70000: must be 0 to 65535" in done.stdout
    assert "unknown configuration key 'flushDisk'; did you mean flushDiskType?" in done.stdout
    assert 'messageDelayLevel=soon: "soon" is no delay' in done.stdout
    assert f"3 of 4 keys of {file} cannot be used" in done.stderr


def test_the_files_of_tls_are_read(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("tls.server.mode=enforcing\n")
    done = said("config", "check", str(file))
    assert done.returncode != 0
    assert "tls.server.mode=enforcing needs tls.server.keyPath" in done.stderr
    own = Authority(tmp_path).issue("127.0.0.1")
    file.write_text(f"tls.server.keyPath={own.key}\ntls.server.certPath={own.cert}\n")
    assert said("config", "check", str(file)).returncode == 0
    own.cert.write_text("nothing")
    done = said("config", "check", str(file))
    assert done.returncode != 0
    assert f"tls.server.certPath: {own.cert} has no certificate" in done.stderr
    assert said("config", "check", str(file), PYRMQ_BROKER_CONF_TLS_SERVER_MODE="off").stdout


def test_the_defaults_are_a_file(tmp_path: Path) -> None:
    done = said("config", "defaults")
    assert "#listenPort=10911\n" in done.stdout
    file = tmp_path / "broker.conf"
    file.write_text(
        "".join(
            line.lstrip("#") + "\n"
            for line in done.stdout.splitlines()
            if "=" in line and not line.startswith("# ")
        )
    )
    assert said("config", "check", str(file)).returncode == 0
    printed = said("config", "print", str(file)).stdout
    assert printed.replace(f"# {file}\n", "") == said("config", "print").stdout
    assert f"# {file}\nosPageCacheBusyTimeOutMills=1000\n" in printed


def test_a_name_servers(tmp_path: Path) -> None:
    done = said("config", "defaults", "--namesrv")
    assert "#listenPort=9876\n" in done.stdout


PORT = "PYRMQ_BROKER_CONF_LISTEN_PORT"


def test_where_each_value_comes_from(tmp_path: Path) -> None:
    store = tmp_path / "store"
    updates = store / "config" / "brokerConfigUpdates.json"
    updates.parent.mkdir(parents=True)
    table = {
        "transactionCheckMax": {"value": "3", "configured": "15"},
        "brokerPermission": {"value": "4", "configured": "6"},
        "shortPollingTimeMills": {"value": "5", "configured": "6"},
    }
    updates.write_text(json.dumps({"updates": table}))
    file = tmp_path / "broker.conf"
    file.write_text(f"brokerName=b1\nlistenPort=1\nstorePathRootDir={store}\n")
    variables = {PORT: "2", "PYRMQ_BROKER_CONF_BROKER_PERMISSION": "2", "NAMESRV_ADDR": "h:1",
                 "ROCKETMQ_HOME": "/opt/mq"}  # fmt: skip
    printed = said("config", "print", str(file), **variables).stdout
    for lines in (
        f"# {file}\nbrokerName=b1\n",
        f"# environment: {PORT}\nlistenPort=2\n",
        "# environment: NAMESRV_ADDR\nnamesrvAddr=h:1\n",
        "# environment: ROCKETMQ_HOME\nrocketmqHome=/opt/mq\n",
        "# environment: PYRMQ_BROKER_CONF_BROKER_PERMISSION\nbrokerPermission=2\n",
        f"# update: {updates}\ntransactionCheckMax=3\n",
        "\nshortPollingTimeMills=1000\n",
        "\nmaxMessageSize=4194304\n",
    ):
        assert lines in printed
    again = tmp_path / "printed.conf"
    again.write_text(printed)
    assert said("config", "check", str(again)).returncode == 0, "it is a broker.conf"
    by_broker = said("broker", "-c", str(file), "-p", **variables).stdout
    assert by_broker == "".join(
        line + "\n" for line in printed.splitlines() if not line.startswith("#")
    )


def test_the_environment_is_checked(tmp_path: Path) -> None:
    done = said("config", "check", **{PORT: "1", "PYRMQ_SEED": "1"})
    assert (done.returncode, done.stdout) == (0, "the environment can be used: 1 variables\n")
    file = tmp_path / "broker.conf"
    file.write_text("listenPort=x\n")
    bad = {PORT: "70000", "PYRMQ_BROKER_CONF_LISTEN_PROT": "1", "PYRMQ_BROKER_NAME\x1b": "b"}
    done = said("config", "check", str(file), **bad)
    assert done.returncode == 1
    assert f"{PORT}: listenPort=70000: must be 0 to 65535\n" in done.stdout
    assert f"LISTEN_PROT sets no key; did you mean {PORT}" in done.stdout
    assert "listenPort=x: a number expected\n" in done.stdout
    assert f"3 of 3 keys of {file} and the environment cannot" in done.stderr


def test_the_environment_of_a_name_server_is_checked() -> None:
    """Also a variable whose beginning is mistaken."""
    good = {"PYRMQ_NAMESRV_CONF_LISTEN_PORT": "1", "PYRMQ_NAMESRV_PORT": "tcp://10.0.0.1:9876"}
    done = said("config", "check", "--namesrv", **good)
    assert (done.returncode, done.stdout) == (0, "the environment can be used: 1 variables\n")
    for variable in (
        "PYRMQ_LISTEN_PORT", "PYRMQ_NAMESRV_LISTEN_PORT", "PYRMQ_CONF_LISTEN_PORT",
        "PYRMQ_CONFIG_LISTEN_PORT", "PYRMQ_NAMESRV_CONFIG_LISTEN_PORT",
    ):  # fmt: skip
        done = said("config", "check", "--namesrv", **{variable: "1"})
        assert done.returncode == 1, variable
        assert f"{variable} sets no key; did you mean PYRMQ_NAMESRV_CONF_LISTEN_" in done.stdout


def test_servers_refuse_an_environment_that_cannot_be_meant() -> None:
    for command, variable in (
        ("broker", "PYRMQ_BROKER_CONF_LISTEN_PROT"),
        ("server", "PYRMQ_BROKER_CONF_LISTEN_PROT"),
        ("server", "PYRMQ_NAMESRV_CONF_LISTEN_PROT"),
        ("namesrv", "PYRMQ_NAMESRV_CONF_LISTEN_PROT"),
        ("broker", "PYRMQ_LISTEN_PORT"),
        ("broker", "PYRMQ_BROKER_LISTEN_PORT"),
        ("namesrv", "PYRMQ_NAMESRV_LISTEN_PORT"),
        ("namesrv", "PYRMQ_LISTEN_PORT"),
    ):
        assert_refused(
            run(command, **{variable: "1"}), variable, "did you mean", "CONF_LISTEN_PORT"
        )


def test_options_environment_file_default(tmp_path: Path) -> None:
    """Each goes before the next, for broker and name server."""
    file = tmp_path / "broker.conf"
    file.write_text("listenPort=3\nbindAddress=127.0.0.1\nnamesrvAddr=file:1\nregionId=file\n")
    env = {PORT: "2", "PYRMQ_BROKER_CONF_NAMESRV_ADDR": "env:1", "NAMESRV_ADDR": "other:1"}
    shown = said("broker", "-c", str(file), "-n", "option:1", "-p", **env).stdout
    for line in ("listenPort=2", "namesrvAddr=option:1", "regionId=file", "traceOn=true"):
        assert f"{line}\n" in shown
    assert "namesrvAddr=env:1\n" in said("broker", "-c", str(file), "-p", **env).stdout
    name_server = tmp_path / "namesrv.conf"
    name_server.write_text("listenPort=3\nscanNotActiveBrokerInterval=30\n")
    env = {"PYRMQ_NAMESRV_CONF_LISTEN_PORT": "4", PORT: "5"}
    shown = said("namesrv", "-c", str(name_server), "-p", **env).stdout
    assert "listenPort=4\n" in shown
    assert "scanNotActiveBrokerInterval=30\n" in shown


def test_a_server_by_its_environment_alone(tmp_path: Path) -> None:
    variables = {
        "PYRMQ_BROKER_CONF_STORE_PATH_ROOT_DIR": str(tmp_path / "store"),
        "PYRMQ_BROKER_CONF_LISTEN_PORT": "0",
        "PYRMQ_BROKER_CONF_BROKER_NAME": "by-environment",
        "PYRMQ_NAMESRV_CONF_LISTEN_PORT": "0",
    }
    with Serving(tmp_path / "log", "server", **variables) as server:
        assert server.facts["store"] == str(tmp_path / "store")
        sent = run("send", "-n", server.facts["namesrv"], "-t", "T", "-b", "x")
        assert b"broker=by-environment" in sent.stdout
        assert server.stop() == 0
