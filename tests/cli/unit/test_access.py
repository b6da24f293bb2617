"""What commands connect with: options, the environment, files; and that no secret is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import trio
from click.testing import CliRunner, Result

from pyrmq import ConfigError, Credentials, Tls
from pyrmq.cli import main
from pyrmq.cli.access import OPTIONS, Access
from pyrmq.cli.admin import BRANCHES, admin
from tests.support.certificates import Authority
from tests.support.mqadmin import mqadmin
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.signatures import is_signed

SECRET = "s3cret-words"
VARIABLES = (
    "PYRMQ_ACCESS_KEY", "PYRMQ_SECRET_KEY", "PYRMQ_SECRET_KEY_FILE", "PYRMQ_TLS", "PYRMQ_TLS_CA",
    "PYRMQ_TLS_CERT", "PYRMQ_TLS_KEY", "PYRMQ_TLS_KEY_PASSWORD", "PYRMQ_TLS_SERVER_NAME",
    "PYRMQ_TLS_ANY_NAME", "PYRMQ_TLS_INSECURE", "PYRMQ_TLS_CONFIG", "ROCKETMQ_HOME",
)  # fmt: skip


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    found = tmp_path / "secret"
    found.write_text(SECRET + "\n")
    found.chmod(0o600)
    return found


def of(**given: Any) -> Access:
    return Access.of(given)


def test_nothing_is_said() -> None:
    assert of() == Access(None, None)


def test_where_keys_come_from(
    secret: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Options go before the environment, which goes before tools.yml."""
    (tmp_path / "conf").mkdir()
    tools = tmp_path / "conf" / "tools.yml"
    tools.write_text("accessKey: of file\nsecretKey: in file\n")
    tools.chmod(0o600)
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    assert of().credentials == Credentials("of file", "in file")
    assert not caplog.text
    monkeypatch.setenv("PYRMQ_ACCESS_KEY", "of variable")
    monkeypatch.setenv("PYRMQ_SECRET_KEY", "in variable")
    assert of().credentials == Credentials("of variable", "in variable")
    given = {"access_key": "me", "secret_key_file": str(secret)}
    assert of(**given).credentials == Credentials("me", SECRET)
    assert of(access_key="me").credentials == Credentials("me", "in variable")
    monkeypatch.delenv("PYRMQ_SECRET_KEY")
    monkeypatch.setenv("PYRMQ_SECRET_KEY_FILE", str(secret))
    assert of().credentials == Credentials("of variable", SECRET)


def test_a_tools_file_that_others_may_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """RocketMQ's tools need not mind, so that it is no error."""
    (tmp_path / "conf").mkdir()
    tools = tmp_path / "conf" / "tools.yml"
    tools.write_text(f"accessKey: me\nsecretKey: {SECRET}\n")
    tools.chmod(0o644)
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    assert of().credentials == Credentials("me", SECRET)
    assert "has a secret key and others may read it: chmod 600" in caplog.text
    assert SECRET not in caplog.text


def test_keys_that_cannot_be_used(secret: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="go together: --access-key and --secret-key-file"):
        of(access_key="me")
    with pytest.raises(ConfigError, match="go together"):
        of(secret_key_file=str(secret))
    secret.chmod(0o640)
    with pytest.raises(ConfigError, match=r"may be read by others \(mode 640\): chmod 600"):
        of(access_key="me", secret_key_file=str(secret))
    monkeypatch.setenv("PYRMQ_SECRET_KEY", SECRET)
    with pytest.raises(ConfigError, match="access_key contains a control character") as caught:
        of(access_key="m\ne")
    assert SECRET not in str(caught.value)
    monkeypatch.setenv("PYRMQ_SECRET_KEY_FILE", str(secret))
    with pytest.raises(ConfigError, match="exclude each other"):
        of(access_key="me")


def test_where_tls_comes_from(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert of(tls=True).tls == Tls()
    assert of(tls_ca="c").tls == Tls(ca="c")
    assert of(tls_cert="o", tls_key="k").tls == Tls(cert="o", key="k")
    assert of(tls_insecure=True).tls == Tls(insecure=True)
    assert of(tls_any_name=True).tls == Tls(check_hostname=False)
    assert of(tls_server_name="n").tls == Tls(server_hostname="n")
    assert of(tls=False, tls_ca="c").tls is None
    monkeypatch.setenv("PYRMQ_TLS", "true")
    assert of().tls == Tls()
    assert of(tls=False).tls is None
    monkeypatch.setenv("PYRMQ_TLS", "")
    assert of().tls is None
    monkeypatch.setenv("PYRMQ_TLS_CA", "of variable")
    monkeypatch.setenv("PYRMQ_TLS_CERT", "own")
    monkeypatch.setenv("PYRMQ_TLS_KEY_PASSWORD", "word")
    assert of().tls == Tls(ca="of variable", cert="own", key_password="word")
    assert of(tls_ca="c").tls == Tls(ca="c", cert="own", key_password="word")
    monkeypatch.setenv("PYRMQ_TLS", "no")
    assert of().tls is None


def test_properties_of_rocketmq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "tls.properties"
    file.write_text("tls.client.trustCertPath=/c\n")
    monkeypatch.setenv("PYRMQ_TLS_CONFIG", str(file))
    assert of().tls == Tls(ca="/c")
    assert of(tls_any_name=True).tls == Tls(ca="/c", check_hostname=False)
    with pytest.raises(ConfigError, match="--tls-config names the files: leave out --tls-ca"):
        of(tls_ca="c")


def test_tls_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="insecure of Tls verifies nothing"):
        of(tls_insecure=True, tls_ca="c")
    monkeypatch.setenv("PYRMQ_TLS", "perhaps")
    with pytest.raises(ConfigError, match="PYRMQ_TLS must be true or false"):
        of()


def run(*words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, words, input=stdin)


@pytest.mark.parametrize(
    "command",
    [
        ("send", "-t", "T", "-b", "x"),
        ("consume", "-t", "T"),
        ("admin", "topic", "list"),
        ("admin", "txn", "list"),
        ("store", "rejoin", ".", "--master", "a:1"),
    ],
)
def test_a_secret_is_no_option(command: tuple[str, ...]) -> None:
    ended = run(*command, "--secret-key", SECRET)
    assert ended.exit_code in (1, 2)
    assert "use --secret-key-file FILE (chmod 600), or set PYRMQ_SECRET_KEY" in ended.output
    assert SECRET not in ended.output


def commands() -> Iterator[tuple[str, click.Command]]:
    """Those of `pyrmq admin` that connect."""
    context = click.Context(admin)
    for branch in sorted(BRANCHES):
        group = admin.get_command(context, branch)
        assert isinstance(group, click.Group)
        for name, command in _below(branch, group):
            if any(p.name == "namesrv" for p in command.params):
                yield name, command


def _below(path: str, group: click.Group) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        if isinstance(found, click.Group):
            yield from _below(f"{path} {name}", found)
        elif found is not None:
            yield f"{path} {name}", found


def test_all_commands_that_connect_take_them() -> None:
    wanted = {"access_key", "secret_key_file", "tls", "tls_ca", "tls_cert", "tls_insecure"}
    lacking = [
        name for name, command in commands() if not wanted <= {str(p.name) for p in command.params}
    ]
    assert lacking == ["cluster forget"]  # it reads a file of this user alone
    assert len(OPTIONS) == 11


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


class Server(ScriptedCluster):
    def answers(self) -> Any:
        return super().answers() | dict.fromkeys((34, 35), lambda c: c.reply(0))


@pytest.fixture
def server(ca: Authority) -> Iterator[Server]:
    made = Server({"T": {"a": 1}}, secure=ca.issue("127.0.0.1").serving())
    with made.serving():
        yield made


def test_commands_with_both(server: Server, ca: Authority, secret: Path) -> None:
    words = (
        "-n", server.address, "--access-key", "me", "--secret-key-file", str(secret),
        "--tls-ca", str(ca.file),
    )  # fmt: skip
    ended = run("send", "-t", "T", "-b", "x", *words)
    assert ended.exit_code == 0, ended.output
    assert server.bodies() == [b"x"]
    ended = run("admin", "topic", "list", "-o", "json", *words)
    assert (ended.exit_code, ended.stdout) == (0, '["T"]\n')
    ended = run("admin", "message", "send", "-t", "T", "--body", "y", *words)
    assert ended.exit_code == 0, ended.output
    assert server.bodies() == [b"x", b"y"]
    assert {c.code for c in server.asked} >= {105, 206, 310, 35}
    assert all(is_signed(c, "me", SECRET) for c in server.asked)


async def test_mqadmin_with_both(
    server: Server, ca: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As RocketMQ's, it has no options for them."""
    monkeypatch.setenv("PYRMQ_ACCESS_KEY", "me")
    monkeypatch.setenv("PYRMQ_SECRET_KEY", SECRET)
    monkeypatch.setenv("PYRMQ_TLS", "true")
    monkeypatch.setenv("PYRMQ_TLS_CA", str(ca.file))
    with trio.fail_after(30):
        assert (await mqadmin(server.address, "topicList")).lines == ["T"]
        sent = await mqadmin(server.address, "sendMessage", "-t", "T", "-p", "x")
    assert sent.code == 0, sent.err
    assert {c.code for c in server.asked} >= {105, 206, 310, 35}
    assert all(is_signed(c, "me", SECRET) for c in server.asked)


def test_errors_say_what_to_do(server: Server, ca: Authority, tmp_path: Path) -> None:
    ended = run("admin", "topic", "list", "-n", server.address, "--tls")
    assert ended.exit_code == 2
    assert "not signed by an authority that is trusted" in ended.output
    ended = run("admin", "topic", "list", "-n", server.address)
    assert ended.exit_code == 2
    assert "TLS" in ended.output
    ended = run("admin", "topic", "list", "--tls-ca", str(tmp_path / "gone.pem"))
    assert ended.exit_code == 1
    assert "gone.pem cannot be read: No such file" in ended.output
