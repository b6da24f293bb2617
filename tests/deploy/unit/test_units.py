"""The systemd units: what they start is there, and they stay hardened."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from pyrmq.cli import main
from pyrmq.deploy.files import files_of

FILES = {name: content.decode() for name, content in files_of("systemd").items()}
UNITS = ["pyrmq-broker.service", "pyrmq-namesrv.service"]
ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="there is no systemd-analyze")


def _settings(unit: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in FILES[unit].splitlines():
        if line and not line.startswith(("#", "[")):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


@pytest.mark.parametrize("unit", UNITS)
def test_what_a_unit_starts_takes_its_file(unit: str, tmp_path: Path) -> None:
    settings = _settings(unit)
    for line in (*settings["ExecStartPre"], *settings["ExecStart"]):
        program, *words = line.split()
        assert program == "/opt/pyrmq/bin/pyrmq"
        conf = tmp_path / Path(words[-1]).name
        assert words[-1].startswith("/etc/pyrmq/")
        conf.write_text(FILES[conf.name])
        words[-1] = str(conf)
        if words[0] != "config":
            words.append("--print-config")
        ran = CliRunner().invoke(main, words)
        assert ran.exit_code == 0, ran.output


@pytest.mark.parametrize("unit", UNITS)
def test_state_is_where_the_unit_may_write(unit: str) -> None:
    settings = _settings(unit)
    conf = FILES["broker.conf" if "broker" in unit else "namesrv.conf"]
    path = re.search(r"^(?:storePathRootDir|kvConfigPath)=(.*)$", conf, re.MULTILINE)
    assert path is not None
    assert path[1].startswith(f"/var/lib/{settings['StateDirectory'][0]}/")
    assert settings["Environment"][0] == f"HOME=/var/lib/{settings['StateDirectory'][0]}"
    assert settings["ProtectSystem"] == ["strict"]


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_notifies_and_is_watched(unit: str) -> None:
    settings = _settings(unit)
    assert settings["Type"] == ["notify"]
    assert int(settings["WatchdogSec"][0]) >= 30
    assert settings["KillMode"] == ["mixed"]
    assert settings["User"] == ["pyrmq"]
    assert "u pyrmq " in FILES["pyrmq-sysusers.conf"]


@needs_systemd
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_takes_the_unit(unit: str, tmp_path: Path) -> None:
    """Each directive is one that it knows; programs are those of this machine."""
    file = tmp_path / unit
    file.write_text(FILES[unit].replace("/opt/pyrmq/bin/pyrmq", "/bin/true"))
    ran = subprocess.run(
        [str(ANALYZE), "verify", "--man=no", str(file)], capture_output=True, text=True, check=False
    )
    said = [line for line in ran.stderr.splitlines() if unit in line]
    assert (ran.returncode, said) == (0, [])


@needs_systemd
@pytest.mark.parametrize("unit", UNITS)
def test_the_unit_is_hardened(unit: str, tmp_path: Path) -> None:
    file = tmp_path / unit
    file.write_text(FILES[unit])
    ran = subprocess.run(
        [str(ANALYZE), "security", "--offline=true", "--no-pager", "--threshold=20", str(file)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "--offline" in ran.stderr:
        pytest.skip("this systemd-analyze looks only at running units")
    assert ran.returncode == 0, ran.stdout[-200:]


def test_settings_of_the_kernel_satisfy_the_doctor() -> None:
    from pyrmq.doctor.facts import BROKER, Facts, Machine, Server
    from pyrmq.doctor.table import examine

    lines = [line for line in FILES["pyrmq-sysctl.conf"].splitlines() if not line.startswith("#")]
    values = dict(re.split(r"\s*=\s*", line) for line in lines)
    machine = Machine(sysctl=values, swap=1 << 30, python=(3, 12, 0))
    rows = examine(Facts(Server(BROKER, {}), machine))
    checks = {"mapped files", "swap", "new connections"}
    assert {(r.check, r.level) for r in rows if r.check in checks} == {(c, "ok") for c in checks}
