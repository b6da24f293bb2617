"""`pyrmq config`."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.e2e.command import run


def said(*words: str) -> subprocess.CompletedProcess[str]:
    done = run(*words)
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
    assert printed == said("config", "print").stdout
    assert "osPageCacheBusyTimeOutMills=1000\n" in printed


def test_a_name_servers(tmp_path: Path) -> None:
    done = said("config", "defaults", "--namesrv")
    assert "#listenPort=9876\n" in done.stdout
