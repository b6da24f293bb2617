"""Accounts of ACL 1.0 as users and access lists of ACL 2.0."""

from __future__ import annotations

from pyrmq.admin.auth import Acl, User
from pyrmq.auth.plain.accounts import access_file
from pyrmq.auth.plain.document import read
from pyrmq.auth.plain.migrate import rules_to_v2
from pyrmq.auth.plain.rules import combined

TEXT = b"""
globalWhiteRemoteAddresses: [10.9.*.*]
accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms: [topicA=DENY, topicB=PUB|SUB, topicC=SUB]
  groupPerms: [groupC=SUB]
- accessKey: rocketmq2
  secretKey: 12345678
  whiteRemoteAddress: 192.168.1.*
  admin: true
- accessKey: nothing
  secretKey: 12345678
"""


def test_accounts_become_users_and_lists() -> None:
    migrated = rules_to_v2(combined([access_file("f", read(TEXT))]))
    assert [User.from_json(row) for row in migrated.users] == [
        User("RocketMQ", "12345678", "Normal", "enable"),
        User("rocketmq2", "12345678", "Super", "enable"),
        User("nothing", "12345678", "Normal", "enable"),
    ]
    (row,) = migrated.acls
    assert Acl.from_json(row).subject == "User:RocketMQ"
    assert [(e.policy, e.resource, e.actions, e.decision) for e in Acl.from_json(row).entries] == [
        ("Custom", "Topic:topicA", ("All",), "Deny"),
        ("Custom", "Topic:topicB", ("Pub", "Sub"), "Allow"),
        ("Custom", "Topic:topicC", ("Sub",), "Allow"),
        ("Custom", "Group:groupC", ("Sub",), "Allow"),
        ("Default", "Group:*", ("Sub",), "Allow"),
    ]


def test_what_has_no_counterpart_is_said() -> None:
    notes = rules_to_v2(combined([access_file("f", read(TEXT))])).notes
    assert len(notes) == 3
    assert "rocketmq2 needed no signature from 192.168.1.*" in notes[0]
    assert "nothing has no permission" in notes[1]
    assert "10.9.*.*" in notes[2]
    assert not any("12345678" in note for note in notes)
