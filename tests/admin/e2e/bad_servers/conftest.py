"""A broker in the state of the table of mqadmin's commands, behind a door that may lie."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.admin.e2e.bad_servers.between import Address, Between, honest
from tests.admin.e2e.bad_servers.commands import Behind
from tests.support.client import Client
from tests.system.interop.table.case import Who
from tests.system.interop.table.state import prepared, servers

CONSUMER_SEND_MSG_BACK = 36
WANTED = """\
format: pyrmq-cluster/1
cluster: DefaultCluster
config: {maxAutoCreatedTopics: 20001}
topics:
  Wanted: {readQueueNums: 4, attributes: {message.type: NORMAL}}
groups:
  Wanted-group: {retryMaxTimes: 3}
"""


@pytest.fixture(scope="module")
def _behind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Behind]:
    folder = tmp_path_factory.mktemp("bad")
    files = folder / "files"
    files.mkdir()
    wanted = files / "wanted.yaml"
    wanted.write_text(WANTED)
    with servers(Who.OURS, folder) as (namesrv, broker):
        host, _, port = namesrv.rpartition(":")
        names = host, int(port)
        with (
            prepared(namesrv, broker, files) as places,
            Between(names, broker) as door,
        ):
            _dead_letter(broker, places["offset-id-3"])
            through = {"namesrv": door.address_of(names), "broker": door.address_of(broker)}
            own = {"wanted": str(wanted)}
            yield Behind(door, names, broker, {**places, **through, **own}, files)


def _dead_letter(broker: Address, offset_id: str) -> None:
    """Makes a message of Asked a dead letter of the group Behind."""
    offset = int(offset_id[-16:], 16)
    with Client(broker) as client:
        back = client.call(
            CONSUMER_SEND_MSG_BACK, offset=offset, group="Behind", delayLevel=-1,
            originMsgId=offset_id, originTopic="Asked",
        )  # fmt: skip
        assert back.code == 0, back.remark


@pytest.fixture
def behind(_behind: Behind, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    """Honest at first, and again afterwards."""
    monkeypatch.chdir(_behind.files)
    door = _behind.door
    door.passes, door.silent = honest, set()
    yield _behind
    door.passes, door.silent = honest, set()
    door.hang_up()
