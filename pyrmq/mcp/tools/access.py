"""Tools about access: users, access lists, accounts."""

from __future__ import annotations

from typing import Any

from pyrmq.admin.api import Admin
from pyrmq.mcp.arguments import Argument, Asked
from pyrmq.mcp.shown import page
from pyrmq.mcp.tool import BROKER, FILTER, LIMIT, OFFSET, ReadTool


async def _users(admin: Admin, asked: Asked) -> Any:
    found = (await admin.users.list(asked["filter"], broker=asked["broker"])).check_all()
    rows = [{"name": u.name, "type": u.type, "status": u.status} for u in found.values[0]]
    return page(rows, asked["offset"], asked["limit"])


async def _acls(admin: Admin, asked: Asked) -> Any:
    found = await admin.acls.list(asked["subject"], asked["resource"], broker=asked["broker"])
    return page(found.check_all().values[0], asked["offset"], asked["limit"])


async def _accounts(admin: Admin, asked: Asked) -> Any:
    found = (await admin.accounts.list(broker=asked["broker"])).check_all().values[0]
    return {
        "global_white_addresses": found.global_white_addresses,
        **page(found.accounts, asked["offset"], asked["limit"]),
    }


TOOLS = (
    ReadTool(
        "access_users", "Users", "The users of a broker. Passwords are never shown.",
        _users, (BROKER, FILTER, OFFSET, LIMIT),
    ),
    ReadTool(
        "access_lists", "Access lists", "What users may do, as a broker has it.",
        _acls,
        (
            BROKER,
            Argument("subject", "Only subjects with this text, such as User:a.", default=""),
            Argument("resource", "Only resources with this text.", default=""), OFFSET, LIMIT,
        ),
    ),
    ReadTool(
        "access_accounts", "Accounts of ACL 1.0",
        "The accounts of a broker with ACL 1.0 (plain_acl.yml). Secret keys are never shown.",
        _accounts, (BROKER, OFFSET, LIMIT),
    ),
)  # fmt: skip
