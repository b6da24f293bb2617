"""Running a command of mqadmin: its name, its options, the connection, its exit code.

0: done (also `-h`); 1: the command line is invalid; 2: it failed; 3: a part of it failed.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress

from click.shell_completion import CompletionItem

from pyrmq.admin.near import near
from pyrmq.cli.mqadmin.options import Command, Option, UsageError, Values, parse, usage
from pyrmq.cli.mqadmin.output import Output, describe

COMMANDS: dict[str, tuple[str, str]] = {
    "updateTopic": ("topic_changes", "Create a topic, or replace its configuration."),
    "updateTopicList": ("topic_changes", "Create or change the topics of a file."),
    "updateTopicPerm": ("topic_changes", "Say whether a topic can be read and written."),
    "updateOrderConf": ("topic_changes", "Show or change which queues an ordered topic has."),
    "updateStaticTopic": ("topic_changes", "Refused: pyrmq has no static topics."),
    "remappingStaticTopic": ("topic_changes", "Refused: pyrmq has no static topics."),
    "deleteTopic": ("topic_changes", "Delete a topic from brokers and name servers."),
    "topicRoute": ("topics", "Where a topic is."),
    "topicStatus": ("topics", "How far the queues of a topic are."),
    "topicClusterList": ("topics", "The clusters that have a topic."),
    "topicList": ("topics", "Fetch all topic list from name server."),
    "allocateMQ": ("topics", "How consumers would share the queues of a topic."),
    "statsAll": ("topics", "How busy topics and their groups are."),
    "queryMsgById": ("message_queries", "Query a message by its offset id, or its unique id."),
    "queryMsgByKey": ("message_queries", "Query messages by a key."),
    "queryMsgByUniqueKey": ("message_queries", "Query a message by its unique id."),
    "queryMsgByOffset": ("message_queries", "Query a message by its queue and offset."),
    "queryMsgTraceById": ("message_queries", "Query what clients did with a message."),
    "DecodeMessageId": ("message_queries", "Say what a unique message id holds."),
    "queryCq": ("topics", "Show entries of a consume queue."),
    "dumpCompactionLog": ("topics", "Show the messages of a file of a compaction log."),
    "printMsg": ("message_streams", "Print the messages of a topic."),
    "printMsgByQueue": ("message_streams", "Print the messages of a queue, or count tags."),
    "consumeMessage": (
        "message_streams",
        "Read messages of a topic, the oldest of a queue first.",
    ),
    "sendMessage": ("message_streams", "Send a message."),
    "checkMsgSendRT": ("message_streams", "Measure how long sends to each queue take."),
    "consumerProgress": (
        "progress",
        "How far consumer groups are, and what they have not consumed.",
    ),
    "consumer": ("progress", "The older consumerStatus."),
    "consumerStatus": ("progress", "How the members of a consumer group run."),
    "getConsumerConfig": ("groups", "The configuration of a consumer group on each broker."),
    "updateSubGroup": ("groups", "Create or change a consumer group."),
    "updateSubGroupList": ("groups", "Create or change the consumer groups of a file."),
    "deleteSubGroup": ("groups", "Delete a consumer group."),
    "setConsumeMode": ("groups", "Say whether a consumer group pulls a topic or pops it."),
    "consumerConnection": ("connections", "Who is connected of a consumer group, and its topics."),
    "producerConnection": ("connections", "Who is connected of a producer group."),
    "producer": ("connections", "All producers that a broker knows."),
    "resetOffsetByTime": ("offsets", "Move a consumer group to a time."),
    "resetOffsetByTimeOld": ("offsets", "Move a consumer group to a time, queue by queue."),
    "skipAccumulatedMessage": ("offsets", "Move a consumer group behind the last messages."),
    "cloneGroupOffset": ("offsets", "Give a consumer group the offsets of another."),
    "getConsumerStatus": ("offsets", "How far the members of a group say that they are."),
    "clusterList": ("clusters", "Brokers of clusters, and what they do."),
    "clusterRT": ("clusters", "Measure how long sends to each broker of clusters take."),
    "sendMsgStatus": ("clusters", "Send messages to a broker, and time each."),
    "brokerStatus": ("brokers", "Figures of brokers."),
    "getBrokerConfig": ("brokers", "Configuration of brokers."),
    "brokerConsumeStats": ("brokers", "How far all consumer groups of a broker are."),
    "haStatus": ("brokers", "How replication stands at brokers."),
    "getBrokerEpoch": ("brokers", "The epochs of the logs of brokers."),
    "getColdDataFlowCtrInfo": ("brokers", "Groups that read old messages of brokers."),
    "updateBrokerConfig": ("broker_changes", "Change a key of the configuration of brokers."),
    "cleanExpiredCQ": ("broker_changes", "Delete files of queues whose messages are gone."),
    "cleanUnusedTopic": ("broker_changes", "Delete what is left of topics that are gone."),
    "deleteExpiredCommitLog": ("broker_changes", "Delete files of logs that are past their time."),
    "resetMasterFlushOffset": ("broker_changes", "Say to a slave how far its master has flushed."),
    "updateColdDataFlowCtrGroupConfig": (
        "broker_changes",
        "Limit what a group reads of old messages.",
    ),
    "removeColdDataFlowCtrGroupConfig": ("broker_changes", "Lift such a limit."),
    "setCommitLogReadAheadMode": ("broker_changes", "Say how brokers read ahead in their logs."),
    "addBroker": ("broker_changes", "Start a broker in a container."),
    "removeBroker": ("broker_changes", "Stop a broker of a container."),
    "updateKvConfig": ("namesrv", "Set a value that name servers keep by namespace and key."),
    "deleteKvConfig": ("namesrv", "Delete such a value."),
    "getNamesrvConfig": ("namesrv", "Configuration of name servers."),
    "updateNamesrvConfig": ("namesrv", "Change a key of the configuration of name servers."),
    "wipeWritePerm": ("namesrv", "Let nobody write to a broker's topics, by name servers."),
    "addWritePerm": ("namesrv", "Let clients write to a broker's topics again."),
    "startMonitoring": ("clusters", "Watch groups and servers, and tell what is wrong."),
    "exportConfigs": ("exports", "Write the configuration of brokers to a file."),
    "exportMetadata": ("exports", "Write topics and groups to a file."),
    "exportMetrics": ("exports", "Write figures of brokers to a file."),
    "exportPopRecord": ("exports", "Have brokers give back what RocksDB has of popped messages."),
    "rocksDBConfigToJson": (
        "exports",
        "Have brokers write what RocksDB has of their configuration.",
    ),
    "checkRocksdbCqWriteProgress": ("exports", "Have brokers compare queues with RocksDB's."),
    "exportMetadataInRocksDB": ("exports", "Refused: pyrmq reads no files of RocksDB."),
    "getSyncStateSet": ("controllers", "Which replicas have what their master has."),
    "getControllerMetaData": ("controllers", "The group of a controller, and its leader."),
    "getControllerConfig": ("controllers", "Configuration of controllers."),
    "updateControllerConfig": ("controllers", "Change a key of the configuration of controllers."),
    "electMaster": ("controllers", "Have a controller make a broker the master."),
    "cleanBrokerMetadata": ("controllers", "Have controllers forget a broker."),
    "createUser": ("auth", "Create a user."),
    "updateUser": ("auth", "Change a user's password, type or status."),
    "deleteUser": ("auth", "Delete a user."),
    "getUser": ("auth", "Show a user."),
    "listUser": ("auth", "List users."),
    "copyUser": ("auth", "Give users of a broker to another one."),
    "createAcl": ("auth", "Create an access list."),
    "updateAcl": ("auth", "Change an access list."),
    "deleteAcl": ("auth", "Delete an access list, or its entries of a resource."),
    "getAcl": ("auth", "Show an access list."),
    "listAcl": ("auth", "List access lists."),
    "copyAcl": ("auth", "Give access lists of a broker to another one."),
    "updateAclConfig": ("accounts", "Create or change an account of ACL 1.0."),
    "deleteAclConfig": ("accounts", "Delete an account of ACL 1.0."),
    "getAclConfig": ("accounts", "Show accounts of ACL 1.0."),
    "clusterAclConfigVersion": ("accounts", "Versions of the access files of ACL 1.0."),
    "updateGlobalWhiteAddr": ("accounts", "Replace the global white list of ACL 1.0."),
}
"""By name: the module below `pyrmq.cli.mqadmin` whose COMMANDS has it, and its line in the list."""


OK, USAGE, FAILED, PARTLY = 0, 1, 2, 3
INTERRUPTED = 130
NOBODY = "127.0.0.1:1"
"""A name server for commands that ask none."""


def main(arguments: Sequence[str], output: Output | None = None) -> int:
    """Runs a command line without the program's name; returns the exit code."""
    out = output or Output()
    try:
        code = _main(list(arguments), out)
        out.flush()
    except BrokenPipeError:  # the reader has enough (`| head`)
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as e:  # the disk is full
        out.note(f"cannot print: {e.strerror or e}")
        return FAILED
    return code


def _main(arguments: list[str], out: Output) -> int:
    debug = "--debug" in arguments
    arguments = [a for a in arguments if a != "--debug"]
    if arguments and arguments[0].lower() in ("-h", "--help", "help"):
        del arguments[0]
        arguments[1:] = ["-h"]
    if arguments in ([], ["-h"]):
        _list(out)
        return OK
    name, *rest = arguments
    command = find(name)
    if command is None:
        out.note(f"The sub command {name} not exist{near(name, COMMANDS)}")
        return USAGE
    try:
        values = parse(command, rest)
    except UsageError as e:
        return _misused(command, e, out)
    if values.has("help"):
        for line in usage(command):
            out.line(line)
        return OK
    return _run(command, values, out, debug)


def find(name: str) -> Command | None:
    """The command of a name, in any case."""
    known = {one.lower(): one for one in COMMANDS}
    exact = known.get(name.lower())
    if exact is None:
        return None
    module = importlib.import_module(f"pyrmq.cli.mqadmin.{COMMANDS[exact][0]}")
    found: Command = module.COMMANDS[exact]
    return found


def _list(out: Output) -> None:
    out.line("The most commonly used mqadmin commands are:")
    for name, (_, line) in COMMANDS.items():
        out.line(f"   {name:<35} {line}")
    out.line()
    out.line("See 'pyrmq mqadmin help <command>' for more information on a specific command.")


def _misused(command: Command, error: UsageError, out: Output) -> int:
    out.note(str(error))
    for line in usage(command):
        out.note(line)
    return USAGE


def _run(command: Command, values: Values, out: Output, debug: bool) -> int:
    import trio

    from pyrmq.admin.api import Admin
    from pyrmq.cli.access import Access
    from pyrmq.cli.tools_file import expected, missed
    from pyrmq.errors import ConfigError, PyrmqError, leaves

    namesrv = values.get("namesrvAddr") or os.environ.get("NAMESRV_ADDR", "")
    if not namesrv and not command.local and command.needs_name_server:
        out.note("no name server is known: give -n host:port, or set NAMESRV_ADDR")
        return USAGE
    try:
        Admin(namesrv or NOBODY)
        access = Access.from_environment()
        should_be = expected(namesrv) if namesrv and not command.local else None
    except ConfigError as e:
        return _misused(command, UsageError(str(e)), out)
    interrupted = False

    async def work() -> None:
        nonlocal interrupted
        async with trio.open_nursery() as nursery:
            await nursery.start(stop_on_signal, nursery.cancel_scope)
            known = namesrv or NOBODY
            if command.local:
                await command.run(Admin(known), values, out)
            else:
                progress = out.progress if command.progress else None
                async with Admin(
                    known,
                    progress=progress,
                    credentials=access.credentials,
                    tls=access.tls,
                    expected=should_be,
                ) as admin:
                    await command.run(admin, values, out)
                    out.lacks(missed(admin))
            nursery.cancel_scope.cancel()

    async def stop_on_signal(
        scope: trio.CancelScope, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        nonlocal interrupted
        if threading.current_thread() is not threading.main_thread():
            task_status.started()  # a test's thread: signals are the main thread's
            return
        with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            task_status.started()
            async for _ in signals:
                interrupted = True
                scope.cancel()

    try:
        try:
            trio.run(work)
        finally:
            out.progress.clear()
            out.finish()
    except BaseException as error:
        parts = leaves(error)
        if debug:
            traceback.print_exc()
        for part in parts:
            if isinstance(part, UsageError):
                return _misused(command, part, out)
        for part in parts:
            if isinstance(part, BrokenPipeError):
                raise part from None
        if not all(isinstance(p, PyrmqError | OSError) for p in parts):
            raise
        for part in parts:
            out.note(f"{command.name} failed: {describe(part)}")
        return PARTLY if out.successes else FAILED
    if interrupted:
        return INTERRUPTED
    return out.exit_code


FILES = {"file", "filename", "mapFile", "configPath", "exportFile", "path"}
FOLDERS = {"filePath", "bodyPath"}
TRUTHS = {"true", "false"}


def completions(words: Sequence[str], incomplete: str) -> list[CompletionItem]:
    """What may stand where `incomplete` stands, behind `words`: commands, options, values."""
    if not words:
        names = {"help": "List the commands, or the options of one.", **_lines()}
        return [CompletionItem(n, help=t) for n, t in names.items() if _begins(n, incomplete)]
    if words[0].lower() == "help":
        rest = _lines() if len(words) == 1 else {}
        return [CompletionItem(n, help=t) for n, t in rest.items() if _begins(n, incomplete)]

    command = find(words[0])
    if command is None:
        return []
    option = _waiting(command, words)
    if option is not None:
        return list(_values(option, incomplete))
    return list(_options(command, words, incomplete))


def _begins(name: str, incomplete: str) -> bool:
    return name.lower().startswith(incomplete.lower())


def _lines() -> dict[str, str]:
    return {name: line for name, (_, line) in COMMANDS.items()}


def _waiting(command: Command, words: Sequence[str]) -> Option | None:
    """The option of the last word, if it wants a value."""
    last = words[-1]
    if len(words) < 2 or not last.startswith("-"):
        return None
    for option in command.all_options:
        if not option.flag and last in (f"-{option.short}", f"--{option.long}"):
            return option
    return None


def _values(option: Option, incomplete: str) -> Iterator[CompletionItem]:
    if option.long in FILES:
        yield CompletionItem(incomplete, type="file")
    elif option.long in FOLDERS:
        yield CompletionItem(incomplete, type="dir")
    elif option.default in TRUTHS:
        yield from (CompletionItem(v) for v in sorted(TRUTHS) if v.startswith(incomplete))


def _options(command: Command, words: Sequence[str], incomplete: str) -> Iterator[CompletionItem]:
    """The options that were not given, by their long names; by the short ones for a single dash."""
    given = {word.partition("=")[0] for word in words[1:]}
    for option in command.all_options:
        if given & {f"-{option.short}", f"--{option.long}"}:
            continue
        for name in (f"--{option.long}", f"-{option.short}" if option.short else ""):
            short = name[:2] != "--"
            if name and name.startswith(incomplete) and (not short or incomplete == "-"):
                yield CompletionItem(name, help=option.help)
