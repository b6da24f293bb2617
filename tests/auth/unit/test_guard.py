"""The check before requests: who signed, who may, how long that counts."""

from __future__ import annotations

import logging

import pytest
import trio
import trio.testing

from pyrmq.auth import failures
from pyrmq.auth.failures import FREE, MOST_DELAY, MOST_WAIT
from pyrmq.auth.guard import MAX_DECISIONS, UNKNOWN, Guard, Kind
from pyrmq.auth.model import PolicyType, UserChange, UserStatus
from pyrmq.engine import Command
from pyrmq.errors import NoPermissionError
from pyrmq.model.codes import RequestCode as Code
from tests.auth.unit.commands import command, taken
from tests.auth.unit.conftest import Staged
from tests.auth.unit.stage import ALICE, DONE, REFUSED, ROOT, Stage
from tests.support import wire

PUB_T = {"resource": "Topic:T", "actions": ["Pub"]}


def send(topic: str = "T", by: tuple[str, str] | None = ALICE, body: bytes = b"x") -> Command:
    return command(Code.SEND_MESSAGE_V2, {"b": topic}, body, by=by)


@pytest.fixture
def alice(stage: Stage) -> Stage:
    """A stage with a user who may send to T."""
    stage.user(*ALICE)
    stage.allow("alice", PUB_T)
    return stage


async def test_the_signature_covers_a_body_that_nobody_reads(alice: Stage) -> None:
    """The dispatcher forgets bodies of requests that have none, but not before."""
    alice.allow("alice", {"resource": "Topic:T", "actions": ["Get"]})
    long = b"x" * 100_000
    asked = command(Code.GET_MAX_OFFSET, {"topic": "T"}, long, by=ALICE)
    assert alice.ask(asked) == DONE
    assert alice.called[0].body == b""
    signed = dict(command(Code.GET_MAX_OFFSET, {"topic": "T"}, long, by=ALICE).ext)
    assert alice.ask(command(Code.GET_MAX_OFFSET, signed, long[:-1] + b"y")) == REFUSED


async def test_bounds_of_bodies_hold_before_rights_are_looked_up(alice: Stage) -> None:
    long = b" " * (5 << 20) + b"{}"
    assert alice.ask(command(Code.HEART_BEAT, {}, long, by=ALICE)) == 13
    assert not alice.called


async def test_what_no_request_has_is_refused_before_its_signature_is_looked_at(
    alice: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def identify(*request: object) -> str:
        raise AssertionError("the signature was looked at")

    monkeypatch.setattr(Guard, "identify", identify)
    assert alice.ask(command(Code.HEART_BEAT, {}, b" " * (5 << 20))) == 13
    assert alice.ask(command(Code.GET_MAX_OFFSET, {"topic": "T" * (2 << 20)})) == 13


async def test_who_may_be_asked_about_a_topics_transactions(alice: Stage) -> None:
    """Whoever has signed on the connection, as long as that counts."""
    peer, other = alice.peer(), alice.peer()
    alice.user("bob", "of-bob")

    def may(topic: str = "T") -> tuple[bool, bool]:
        return (
            alice.guard.may_publish(peer.connection, topic),
            alice.guard.may_publish(other.connection, topic),
        )

    assert may() == (False, False)
    alice.ask(command(Code.HEART_BEAT, {}, b"{}", by=("alice", "wrong")), peer)
    assert may() == (False, False)
    alice.ask(command(Code.HEART_BEAT, {}, b"{}", by=ALICE), peer)
    alice.ask(command(Code.HEART_BEAT, {}, b"{}", by=("bob", "of-bob")), other)
    assert may() == (True, False)
    assert may("U") == (False, False)
    alice.ask(command(Code.HEART_BEAT, {}, b"{}", by=ROOT), other)
    assert may("U") == (False, True)
    alice.user("alice", "another")  # whoever knew the old password only
    assert may() == (False, True)
    alice.ask(command(Code.HEART_BEAT, {}, b"{}", by=("alice", "another")), peer)
    assert may() == (True, True)
    await alice.access.delete_user(alice.guard.asker(other.connection, send(by=ROOT)), "alice")
    assert may() == (False, True)


async def test_connections_of_one_user(alice: Stage) -> None:
    alice.user("bob", "of-bob")
    peers = [alice.peer() for _ in range(5)]
    for peer, by in zip(peers, (ALICE, ("bob", "of-bob"), ALICE, None, None), strict=True):
        alice.ask(command(Code.HEART_BEAT, {}, b"{}", by=by), peer)
    one, bobs, again, nobodys, nobodys_too = (peer.connection for peer in peers)
    assert alice.guard.same_user(one, again)
    assert alice.guard.same_user(nobodys, nobodys_too)
    for other in (bobs, nobodys):
        assert not alice.guard.same_user(one, other)
        assert not alice.guard.same_user(other, one)


async def test_without_authorization_each_user_may_be_asked(staged: Staged) -> None:
    stage = staged(authorization=False)
    assert stage.guard.may_publish(stage.peer().connection, "T")


async def test_all_failures_look_alike(alice: Stage) -> None:
    alice.user("idle", "of-idle")
    await alice.access.update_user(
        alice.guard.asker(alice.peer().connection, send(by=ROOT)), "idle",
        UserChange(status=UserStatus.DISABLE),
    )  # fmt: skip
    peer = alice.peers[0]
    texts = set()
    for by in (("nobody", "x"), ("alice", "wrong"), ("idle", "of-idle"), ("idle", "wrong")):
        alice.dispatcher.process(peer.connection, send(by=by))
        (answer,) = peer.answers()
        assert answer.code == REFUSED
        texts.add(answer.remark)
    assert texts == {UNKNOWN}


async def test_a_right_counts_until_it_is_taken_away(alice: Stage) -> None:
    asker = alice.guard.asker(alice.peer().connection, send(by=ROOT))
    assert alice.ask(send()) == DONE
    await alice.access.delete_acl(asker, "User:alice", PolicyType.CUSTOM, None)
    assert alice.ask(send()) == REFUSED
    await alice.access.create_user(asker, "bob", UserChange("of-bob"))
    alice.allow("bob", PUB_T)
    assert alice.ask(send(by=("bob", "of-bob"))) == DONE
    await alice.access.update_user(asker, "bob", UserChange("changed"))
    assert alice.ask(send(by=("bob", "of-bob"))) == REFUSED
    assert alice.ask(send(by=("bob", "changed"))) == DONE
    await alice.access.delete_user(asker, "bob")
    assert alice.ask(send(by=("bob", "changed"))) == REFUSED


async def test_decisions_are_by_user_and_need(alice: Stage) -> None:
    alice.user("bob", "of-bob")
    assert alice.ask(send()) == DONE
    assert alice.ask(send(by=("bob", "of-bob"))) == REFUSED
    assert alice.ask(send("U")) == REFUSED
    assert alice.ask(send()) == DONE


async def test_decisions_of_a_connection_are_bounded_and_go_with_it(alice: Stage) -> None:
    alice.allow("alice", {"resource": "Topic:*", "actions": ["Pub"]})
    peer = alice.peer()
    for number in range(MAX_DECISIONS + 10):
        assert alice.ask(send(f"t{number}"), peer) == DONE
    (known,) = alice.guard._known.values()
    assert len(known.decisions) <= MAX_DECISIONS
    peer.close()
    assert not alice.guard._known


async def test_names_that_no_resource_has_are_not_kept(alice: Stage) -> None:
    """A client may state any, and many of them."""
    alice.allow("alice", {"resource": "Topic:*", "actions": ["Pub"]})
    peer = alice.peer()
    assert alice.ask(send("t" * 10_000), peer) == DONE
    assert alice.ask(send("t"), peer) == DONE
    (known,) = alice.guard._known.values()
    names = {need.resource.name for _, needs in known.decisions for need in needs}
    assert names == {"t"}
    assert {topic for _, _, topic in alice.granted.rights} == {"t"}


async def test_a_request_that_needs_no_right_grants_none(staged: Staged) -> None:
    stage = staged(unchecked={int(Code.END_TRANSACTION)})
    stage.user(*ALICE)
    assert stage.ask(command(Code.END_TRANSACTION, {"topic": "T"}, by=ALICE)) == DONE
    assert not stage.granted.rights
    assert stage.ask(send(by=ALICE)) == REFUSED


async def test_a_check_of_a_connection_that_is_closed_keeps_nothing(alice: Stage) -> None:
    alice.allow("alice", PUB_T)
    peer = alice.peer()
    sent = send()
    assert alice.ask(sent, peer) == DONE
    peer.close()
    alice.guard.check_topic(peer.connection, command(Code.END_TRANSACTION, by=ALICE), "T")
    assert not alice.guard._known


async def test_entries_for_source_addresses(alice: Stage) -> None:
    alice.allow("alice", {**PUB_T, "sourceIps": ["10.0.0.0/8"]})
    assert alice.ask(send(), alice.peer("10.9.9.9:1")) == DONE
    assert alice.ask(send(), alice.peer("11.0.0.1:1")) == REFUSED
    assert alice.ask(send(), alice.peer("[::ffff:10.0.0.1]:1")) == DONE


async def test_lists_of_codes_that_need_less(staged: Staged) -> None:
    code = int(Code.GET_MAX_OFFSET)
    stage = staged(unsigned={code}, unchecked={code})
    ext = {"topic": "T"}
    assert stage.ask(command(code, ext)) == DONE
    assert stage.ask(command(code, ext, by=("nobody", "x"))) == REFUSED
    assert stage.ask(command(Code.GET_MIN_OFFSET, ext)) == REFUSED
    stage = staged(unsigned={code})
    assert stage.ask(command(code, ext)) == REFUSED
    stage.user(*ALICE)
    stage = staged(unchecked={code})
    stage.user(*ALICE)
    assert stage.ask(command(code, ext, by=ALICE)) == DONE
    assert stage.ask(command(code, ext)) == REFUSED


async def test_without_authorization_each_user_may_do_everything(staged: Staged) -> None:
    stage = staged(authorization=False)
    stage.user(*ALICE)
    assert stage.ask(command(Code.UPDATE_BROKER_CONFIG, {}, b"a=b", by=ALICE)) == DONE
    assert stage.ask(command(Code.UPDATE_BROKER_CONFIG, {}, b"a=b")) == REFUSED
    assert stage.ask(send()) == DONE
    assert ("alice", Kind.SEND, "T") in stage.granted.rights


async def test_what_is_granted_to_the_engine(alice: Stage) -> None:
    both = {("alice", Kind.SEND, "T"), ("alice", Kind.END, "T")}
    assert alice.ask(send()) == DONE
    assert alice.granted.rights == both
    alice.granted.rights.clear()
    end = command(Code.END_TRANSACTION, {"topic": "T"}, by=ALICE)
    assert alice.ask(end) == DONE
    assert alice.granted.rights == both
    alice.granted.rights.clear()
    alice.allow(
        "alice",
        {"resource": "Group:G", "actions": ["Sub"]},
        {"resource": "Topic:T", "actions": ["Sub"]},
    )
    for code in (Code.ACK_MESSAGE, Code.CHANGE_MESSAGE_INVISIBLETIME):
        for group, rights in (("G", {("alice", Kind.ACK, "T\nG")}), ("Other", set())):
            alice.ask(command(code, {"topic": "T", "consumerGroup": group}, by=ALICE))
            assert alice.granted.rights == rights
            alice.granted.rights.clear()
    alice.allow("alice", {"resource": "Group:G", "actions": ["Sub"]})
    assert not alice.granted.rights
    assert alice.ask(send("%RETRY%G")) == DONE
    assert not alice.granted.rights  # its topic is for the processor to make
    assert alice.ask(send("U")) == REFUSED
    assert not alice.granted.rights


async def test_a_refused_request_that_is_one_way_is_counted(alice: Stage) -> None:
    asked = command(Code.SEND_MESSAGE_V2, {"b": "U"}, b"x", by=ALICE, oneway=True)
    assert alice.ask(asked) is None
    assert not alice.called
    assert (alice.guard.refusals.count, alice.guard.refusals.unanswered) == (1, 1)


async def test_answers_to_our_own_questions_need_no_signature(alice: Stage) -> None:
    asked = taken(wire.Command(Code.SEND_MESSAGE_V2, {"b": "T"}, flag=wire.FLAG_RESPONSE))
    assert alice.ask(asked) is None
    assert alice.guard.refusals.count == 0


async def test_a_body_without_names_is_refused_as_such(alice: Stage) -> None:
    for body in (b"", b"[]", b"{"):
        assert alice.ask(command(Code.HEART_BEAT, {}, body, by=ALICE)) == REFUSED
    assert not alice.called


async def test_guessing_gets_slow(alice: Stage, autojump_clock: trio.testing.MockClock) -> None:
    peer = alice.peer()
    async with trio.open_nursery() as nursery:
        alice.dispatcher.nursery = nursery
        for _ in range(FREE):
            assert alice.ask(send(by=("alice", "wrong")), peer) == REFUSED
        for _ in range(12):
            assert alice.ask(send(by=("alice", "wrong")), peer) is None
            await trio.sleep(MOST_DELAY + 1)
            assert [answer.code for answer in peer.answers()] == [REFUSED]
        start = trio.current_time()
        alice.dispatcher.process(peer.connection, send(by=("alice", "wrong")))
    assert trio.current_time() - start == MOST_WAIT
    assert [answer.code for answer in peer.answers()] == [REFUSED]


async def test_who_guesses_a_user_is_refused_there_and_others_are_not(
    alice: Stage, autojump_clock: trio.testing.MockClock
) -> None:
    alice.user("bob", "of-bob")
    alice.allow("bob", PUB_T)
    known, guessing = alice.peer(), alice.peer("10.0.0.5:40001")
    fresh, elsewhere = alice.peer("10.0.0.5:40002"), alice.peer("10.0.0.6:1")
    assert alice.ask(send(), known) == DONE
    async with trio.open_nursery() as nursery:
        alice.dispatcher.nursery = nursery
        for _ in range(FREE + 4):
            alice.dispatcher.process(guessing.connection, send(by=("alice", "wrong")))
        guessing.answers()
        assert alice.ask(send(), fresh) is None  # not even with the right password, for a while
        alice.guard.revoke()
        assert alice.ask(send(), known) == DONE  # it has signed right here
        assert alice.ask(send(), elsewhere) == DONE
        assert alice.ask(send(by=("bob", "of-bob")), guessing) == DONE
        await trio.sleep(60)
        assert [a.code for a in fresh.answers()] == [REFUSED]
        assert alice.ask(send(), fresh) == DONE


async def test_the_audit_log_has_refusals_but_not_all(
    alice: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "pyrmq.audit"):
        for _ in range(100):
            alice.ask(send("U"))
    lines = [r.getMessage() for r in caplog.records if r.name == "pyrmq.audit"]
    assert 0 < len(lines) < 50
    assert "alice at 10.0.0.5:40000" in lines[0]
    assert "310 SEND_MESSAGE_V2" in lines[0]
    assert "of-alice" not in "".join(lines)


async def test_nothing_waits_for_a_request_without_an_answer(alice: Stage) -> None:
    """There is no nursery: a delay would need one."""
    peer = alice.peer()
    for _ in range(FREE + 5):
        asked = command(Code.SEND_MESSAGE_V2, {"b": "T"}, b"x", by=("alice", "wrong"), oneway=True)
        assert alice.ask(asked, peer) is None
    assert peer.connection.awaited == 0
    assert not alice.called


async def test_so_many_refusals_wait(
    alice: Stage, autojump_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each one takes memory, and strangers have many connections."""
    monkeypatch.setattr(failures, "MAX_DELAYED", 3)
    peer = alice.peer()
    for _ in range(2):
        async with trio.open_nursery() as nursery:
            alice.dispatcher.nursery = nursery
            for n in range(FREE + 7):
                alice.dispatcher.process(peer.connection, send(by=(f"user{n}", "wrong")))
            at_once = len(peer.answers())
            assert peer.connection.awaited == 3
        assert at_once + len(peer.answers()) == FREE + 7


async def test_who_has_messages_of_a_topic_deleted_needs_delete(alice: Stage) -> None:
    commit = command(Code.UPDATE_CONSUMER_OFFSET, {"topic": "T", "consumerGroup": "g"}, by=ALICE)
    peer = alice.peer()
    sub = [{"resource": "Topic:T", "actions": ["Sub"]}, {"resource": "Group:g", "actions": ["Sub"]}]
    alice.allow("alice", *sub)
    assert alice.ask(commit, peer) == DONE, "what the request itself needs"
    with pytest.raises(NoPermissionError, match="Delete"):
        alice.guard.check_deletes(peer.connection, commit, "T")
    alice.allow("alice", *sub, {"resource": "Topic:T", "actions": ["Delete"]})
    alice.guard.check_deletes(peer.connection, commit, "T")
    with pytest.raises(NoPermissionError):
        alice.guard.check_deletes(peer.connection, commit, "Other")
    by_root = command(Code.UPDATE_CONSUMER_OFFSET, {}, by=ROOT)
    alice.guard.check_deletes(peer.connection, by_root, "Other")


async def test_lists_that_free_commits_free_no_deletion(staged: Staged) -> None:
    code = int(Code.UPDATE_CONSUMER_OFFSET)
    fields = {"topic": "T", "consumerGroup": "g"}
    for authorization in (True, False):
        stage = staged(unsigned={code}, unchecked={code}, authorization=authorization)
        peer, unsigned = stage.peer(), command(code, fields)
        assert stage.ask(unsigned, peer) == DONE
        with pytest.raises(NoPermissionError):
            stage.guard.check_deletes(peer.connection, unsigned, "T")
    stage = staged(unsigned={code}, unchecked={code})
    stage.user(*ALICE)
    peer, signed = stage.peer(), command(code, fields, by=ALICE)
    assert stage.ask(signed, peer) == DONE
    with pytest.raises(NoPermissionError, match="Delete"):
        stage.guard.check_deletes(peer.connection, signed, "T")
    deletes = int(Code.DELETE_TOPIC_IN_BROKER)
    stage = staged(unsigned={code, deletes}, unchecked={code, deletes})
    stage.guard.check_deletes(stage.peer().connection, command(code, fields), "T")
