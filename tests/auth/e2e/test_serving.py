"""What `pyrmq server` wants of a configuration with access control."""

from __future__ import annotations

from pathlib import Path

from tests.support.command import assert_refused, run

CONF = """\
authenticationEnabled=true
authenticationMetadataProvider=org.apache.rocketmq.auth.authentication.provider.\
LocalAuthenticationMetadataProvider
"""
SECRET = "r00t-secret"
USER = f'initAuthenticationUser={{"username":"root","password":"{SECRET}"}}\n'


def served(folder: Path, conf: str) -> tuple[str, ...]:
    file = folder / "broker.conf"
    file.write_text(f"{conf}storePathRootDir={folder / 'store'}\nlistenPort=0\n")
    return ("server", "-c", str(file), "--namesrv-port=0")


def test_without_a_super_user_it_does_not_start(tmp_path: Path) -> None:
    result = run("broker", "-c", served(tmp_path, CONF)[2])
    assert_refused(result, "initAuthenticationUser")


def test_secrets_are_not_printed(tmp_path: Path) -> None:
    file = served(tmp_path, CONF + USER)[2]
    for words in (("config", "print", file), ("broker", "-c", file, "--print-config")):
        result = run(*words)
        assert result.returncode == 0
        assert b"initAuthenticationUser=******" in result.stdout
        assert SECRET.encode() not in result.stdout + result.stderr


def test_secrets_are_not_in_errors(tmp_path: Path) -> None:
    wrong = f'initAuthenticationUser={{"username":"root","secret":"{SECRET}"}}\n'
    result = run("config", "check", served(tmp_path, CONF + wrong)[2])
    assert result.returncode == 1
    assert b"initAuthenticationUser=******: a JSON object" in result.stdout
    assert SECRET.encode() not in result.stdout + result.stderr
