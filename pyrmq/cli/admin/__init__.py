"""`pyrmq admin …`: what operators ask of servers that are running, as a tree of commands.

A file for each branch, loaded when it is used: `pyrmq admin --help` imports none. `session.py` has
what all commands share (options, connection, exit codes), `view.py` what they print.
"""

from __future__ import annotations

import click

from pyrmq.cli.admin.lazy import LazyGroup

BRANCHES = {
    "account": ("pyrmq.cli.admin.account", "Accounts of ACL 1.0, in plain_acl.yml."),
    "acl": ("pyrmq.cli.admin.auth", "Access lists: what users may do."),
    "auth": ("pyrmq.cli.admin.access", "Users and access lists to a file, and from it."),
    "broker": ("pyrmq.cli.admin.broker", "Brokers: state, configuration, cleaning up."),
    "cluster": (
        "pyrmq.cli.admin.cluster",
        "Clusters: their brokers, times of sends, what changed.",
    ),
    "controller": ("pyrmq.cli.admin.controller", "Controllers of Apache RocketMQ."),
    "dlq": ("pyrmq.cli.admin.dlq", "Dead letters of groups: list, look, resend, export."),
    "export": ("pyrmq.cli.admin.export", "Files that say what a cluster is."),
    "message": ("pyrmq.cli.admin.message", "Messages: find, print, send."),
    "group": ("pyrmq.cli.admin.group", "Consumer groups: progress, members, configuration."),
    "monitor": ("pyrmq.cli.admin.monitor", "Watching groups and servers, and raising alarms."),
    "namesrv": (
        "pyrmq.cli.admin.namesrv",
        "Name servers: configuration, values by key, permissions of brokers.",
    ),
    "offset": ("pyrmq.cli.admin.offset", "Offsets of groups: reset, skip, clone."),
    "producer": ("pyrmq.cli.admin.producer", "Producers that are connected."),
    "timer": ("pyrmq.cli.admin.timer", "Timer messages: how many wait, and until when."),
    "topic": ("pyrmq.cli.admin.topic", "Topics: list, create, change, delete, where they are."),
    "user": ("pyrmq.cli.admin.auth", "Users: who may sign requests."),
    "txn": ("pyrmq.cli.admin.txn", "Transactions: what is pending, and deciding it."),
}
"""By name: the module that has a click group of that name, and its line in the help."""


@click.group(cls=LazyGroup, branches=BRANCHES)
def admin() -> None:
    """Look into servers that are running, and change them: pyrmq's, or Apache RocketMQ's.

    Exit codes: 0 done, 1 the command line is invalid, 2 failed, 3 a part of it failed.
    """
