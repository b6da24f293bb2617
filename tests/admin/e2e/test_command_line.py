"""The command lines as such: names, options, exit codes."""

from __future__ import annotations

import pytest

from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values, parse, usage
from pyrmq.server import Running
from tests.support.mqadmin import admin, mqadmin


async def _nothing(*_: object) -> None:
    raise AssertionError


COMMAND = Command(
    "aCommand",
    (
        Option("t", "topic", "topic name", required=True),
        Option("b", "brokerAddr", "broker"),
        Option("c", "clusterName", "cluster"),
        Option("a", "attributes", "attributes"),
        Option("qn", "totalQueueNum", "queues", default="8"),
        Option("m", "moreStats", "more", flag=True),
    ),
    _nothing,
    exactly_one=(("brokerAddr", "clusterName"),),
)


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("-t T -b h:1", {"topic": "T", "brokerAddr": "h:1"}),
        ("--topic=T --brokerAddr h:1", {"topic": "T", "brokerAddr": "h:1"}),
        ("-tT -cC -qn3", {"topic": "T", "clusterName": "C", "totalQueueNum": "3"}),
        ("--top T -c C -a -m", {"topic": "T", "clusterName": "C", "attributes": "-m"}),
        ("-t T -c C --more", {"topic": "T", "clusterName": "C", "moreStats": ""}),
        ("-t=T -clusterName C", {"topic": "T", "clusterName": "C"}),
    ],
)  # fmt: skip
def test_options_as_the_original_takes_them(words: str, given: dict[str, str]) -> None:
    assert parse(COMMAND, words.split()).given == given


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-b h:1", "Missing required option: t"),
        ("-t", "Missing argument for option: t"),
        ("-t T", "give one of --brokerAddr, --clusterName"),
        ("-t T -b h:1 -c C", "give only one of --brokerAddr, --clusterName"),
        ("-t T -x -b h:1", "Unrecognized option: -x"),
        ("-t T --tropic X -b h:1", "did you mean --topic"),
        ("-t T more -b h:1", "Unrecognized argument: more"),
        ("-t T -b h:1 --moreStats=1", "takes no value"),
    ],
)
def test_command_lines_that_cannot_be_meant(words: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse(COMMAND, words.split())


def test_values_and_help() -> None:
    values = parse(COMMAND, ["-t", " T ", "-b", "h:1"])
    assert values["topic"] == "T"
    assert values.number("totalQueueNum", 1, 8) == 8
    with pytest.raises(UsageError, match="from 1 to 7"):
        values.number("totalQueueNum", 1, 7)
    assert parse(COMMAND, ["-h"]).has("help")
    text = "\n".join(usage(COMMAND))
    for option in COMMAND.all_options:
        assert option.names in text


async def test_names_and_exit_codes(embedded: Running) -> None:
    assert (await mqadmin("")).code == 0
    unknown = await mqadmin("", "DecodeMesageId")
    assert unknown.code == 1
    assert "sub command DecodeMesageId not exist: did you mean DecodeMessageId" in unknown.err
    listed = await mqadmin(embedded.namesrv, "TOPICLIST")
    assert listed.code == 0
    assert "TBW102" in listed.lines
    assert (await mqadmin(embedded.namesrv, "topicList", "-q")).code == 1
    assert "usage: mqadmin topicList" in (await mqadmin("", "help", "topicList")).out
    nobody = await mqadmin("127.0.0.1:1", "topicList")
    assert nobody.code == 2
    assert "127.0.0.1:1" in nobody.err
    assert "Traceback" not in nobody.err


async def test_the_tree(embedded: Running) -> None:
    shown = await admin(embedded.namesrv, "topic", "list")
    assert shown.code == 0
    assert "TBW102" in shown.lines
    assert '"TBW102"' in (await admin(embedded.namesrv, "topic", "list", "-o", "json")).out
    assert "- TBW102" in (await admin(embedded.namesrv, "topic", "list", "-o", "yaml")).lines
    nobody = await admin("127.0.0.1:1", "topic", "list")
    assert nobody.code == 2
    assert "127.0.0.1:1" in nobody.err
    assert "Did you mean topic?" in (await admin("", "topik")).err
    assert (await admin("", "topik")).code == 1


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("topi",), "topic"),
        (("topic", "statu"), "status"),
        (("namesrv", "kv", "puts"), "put"),
        (("monitor", "rum"), "run"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else value,
)
async def test_a_command_of_the_tree_that_may_have_been_meant(
    words: tuple[str, ...], meant: str
) -> None:
    ran = await admin("", *words)
    assert ran.code == 1
    assert f"Did you mean {meant}" in ran.err


def test_blanks_that_belong_to_a_value() -> None:
    """What Java's String.trim leaves: a key may end with one."""
    words = ["-t", "\t T \n", "-b", "\u3000k\u00a0"]
    values = Values(COMMAND, parse(COMMAND, words).given)
    assert (values["topic"], values["brokerAddr"]) == ("T", "\u3000k\u00a0")
