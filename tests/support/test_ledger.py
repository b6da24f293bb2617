"""Each verdict of a ledger: a receiver that loses, repeats, reorders, moves or invents messages is
found out, and one that does none of it is not."""

from __future__ import annotations

import pytest

from tests.support.ledger import Ledger, Row, parsed


def told(ledger: Ledger, count: int, *, stream: str = "s") -> None:
    """So many messages were sent and acknowledged; number n is at 100 + n."""
    for number in range(count):
        ledger.sent(stream, number)
        ledger.acknowledged(stream, number, 100 + number)


def test_all_is_well() -> None:
    ledger = Ledger("l", in_place=True, ordered=True)
    told(ledger, 3)
    for number in (0, 1, 2, 1, 2):
        ledger.received("s", number, 100 + number)
    assert ledger.faults() == []
    ledger.check()
    assert ledger.row() == Row("l", sent=3, acknowledged=3, wanted=3, received=3, again=2)
    assert (ledger.owed(), ledger.oldest_owed(), ledger.receipts) == (0, None, 5)


def test_lost() -> None:
    ledger = Ledger("l")
    told(ledger, 3)
    ledger.received("s", 1)
    assert ledger.faults() == ["l: 2 lost, such as s-0 (at 100), s-2 (at 102)"]
    assert (ledger.owed(), ledger.oldest_owed()) == (2, 100)
    assert ledger.row().lost == 2
    assert ledger.newest == 102


def test_what_was_not_acknowledged_may_come_or_not() -> None:
    ledger = Ledger("l", in_place=True)
    ledger.sent("s", 0)
    ledger.sent("s", 1)
    ledger.received("s", 1, 7)
    assert ledger.faults() == []
    assert ledger.row() == Row("l", sent=2, received=1, unanswered=1)


def test_what_is_not_wanted_is_not_owed() -> None:
    ledger = Ledger("l")
    ledger.sent("s", 0)
    ledger.acknowledged("s", 0, 100, wanted=False)
    assert ledger.faults() == []
    assert ledger.row() == Row("l", sent=1, acknowledged=1)


def test_received_before_the_answer_is_read() -> None:
    ledger = Ledger("l", in_place=True)
    ledger.received("s", 0, 100)
    assert ledger.faults() == ["l: 1 never sent, first s-0"]
    ledger.sent("s", 0)
    ledger.acknowledged("s", 0, 100)
    assert ledger.faults() == []
    assert ledger.owed() == 0


def test_stored_twice() -> None:
    ledger = Ledger("l")
    told(ledger, 1)
    ledger.received("s", 0, 100)
    ledger.received("s", 0, 500)
    assert ledger.faults() == ["l: 1 stored twice, first s-0 at 100 and 500"]


def test_stored_twice_without_an_answer() -> None:
    ledger = Ledger("l")
    ledger.sent("s", 0)
    ledger.received("s", 0, 100)
    ledger.received("s", 0, 500)
    assert ledger.faults() == ["l: 1 stored twice, first s-0 at 100 and 500"]


def test_stored_twice_where_that_may_be() -> None:
    ledger = Ledger("l", once=False)
    told(ledger, 1)
    ledger.received("s", 0, 100)
    ledger.received("s", 0, 500)
    assert ledger.faults() == []
    assert ledger.row().again == 1


def test_received_twice() -> None:
    """Two entries of a queue that lead to one record."""
    ledger = Ledger("l", single=True)
    told(ledger, 2)
    for number in (0, 1, 0):
        ledger.received("s", number, 100 + number)
    assert ledger.faults() == ["l: 1 received twice, first s-0"]


@pytest.mark.parametrize("answer_first", [True, False])
def test_not_where_the_answer_said(answer_first: bool) -> None:
    ledger = Ledger("l", in_place=True)
    ledger.sent("s", 0)
    if answer_first:
        ledger.acknowledged("s", 0, 100)
    ledger.received("s", 0, 500)
    if not answer_first:
        ledger.acknowledged("s", 0, 100)
    assert ledger.faults() == ["l: 1 moved, first s-0 from 100 to 500"]


@pytest.mark.parametrize("answer_first", [True, False])
def test_an_answer_that_names_no_place_promises_none(answer_first: bool) -> None:
    ledger = Ledger("l", in_place=True)
    ledger.sent("s", 0)
    if answer_first:
        ledger.acknowledged("s", 0)
    ledger.received("s", 0, 500)
    if not answer_first:
        ledger.acknowledged("s", 0)
    assert ledger.faults() == []


def test_a_detour_has_no_place() -> None:
    """Sent back by a consumer: the copy stands elsewhere."""
    ledger = Ledger("l", in_place=True)
    told(ledger, 1)
    ledger.received("s", 0)
    assert ledger.faults() == []


def test_the_order_of_first_receipts() -> None:
    ledger = Ledger("l", ordered=True)
    told(ledger, 5)
    told(ledger, 2, stream="t")
    for number in (0, 1, 0, 1, 3, 2, 3):
        ledger.received("s", number, 100 + number)
    assert ledger.faults()[-1] == "l: 1 out of order, first s-2 first came after 3"
    assert ledger.row().wrong == {"out of order": 1}


def test_streams_have_no_order_among_each_other() -> None:
    ledger = Ledger("l", ordered=True)
    told(ledger, 2)
    told(ledger, 2, stream="t")
    for number in (0, 1):
        ledger.received("t", number)
    for number in (0, 1):
        ledger.received("s", number)
    assert ledger.faults() == []


def test_never_sent() -> None:
    """Also a number between those that were sent."""
    ledger = Ledger("l")
    told(ledger, 1)
    ledger.sent("s", 2)
    for number in range(3):
        ledger.received("s", number)
    assert ledger.faults() == ["l: 1 never sent, first s-1"]
    assert ledger.row().wrong == {"never sent": 1}


def test_sent_to_another_stream() -> None:
    ledger = Ledger("l")
    ledger.sent("s", 0)
    ledger.received("t", 0)
    assert ledger.faults() == ["l: 1 never sent, first t-0"]


@pytest.mark.parametrize("answer_first", [True, False])
def test_refused_but_there(answer_first: bool) -> None:
    ledger = Ledger("l")
    ledger.sent("s", 0)
    if answer_first:
        ledger.refused("s", 0)
    ledger.received("s", 0, 100)
    if not answer_first:
        ledger.refused("s", 0)
    assert ledger.faults() == ["l: 1 refused, but there, first s-0"]


def test_refused_and_not_there() -> None:
    ledger = Ledger("l")
    ledger.sent("s", 0)
    ledger.refused("s", 0)
    assert ledger.faults() == []


def test_gone_from_the_log() -> None:
    """What stands before the log's first file was deleted on purpose."""
    ledger = Ledger("l", in_place=True)
    told(ledger, 4)
    for number in (0, 1, 3):
        ledger.received("s", number, 100 + number)
    ledger.miss({102}, low=101)
    assert ledger.row().wrong == {"not in the log any more": 2}
    assert "first s-1 at 101" in ledger.faults()[-1]


def test_other_faults_are_noted() -> None:
    ledger = Ledger("l")
    ledger.note("damaged", "s-1")
    ledger.note("damaged", "s-2")
    assert ledger.faults() == ["l: 2 damaged, first s-1"]


def test_check_says_all_that_is_wrong() -> None:
    ledger = Ledger("l")
    told(ledger, 1)
    ledger.sent("s", 1)
    ledger.acknowledged("s", 1)
    ledger.received("t", 0)
    with pytest.raises(AssertionError) as caught:
        ledger.check("round 3")
    assert str(caught.value).splitlines()[:3] == [
        "round 3",
        "l: 2 lost, such as s-0 (at 100), s-1",
        "l: 1 never sent, first t-0",
    ]


def test_what_is_still_under_way_is_not_lost() -> None:
    ledger = Ledger("l")
    told(ledger, 1)
    ledger.check(settled=False)
    ledger.received("t", 0)
    assert ledger.faults(settled=False) == ["l: 1 never sent, first t-0"]


def test_a_receipt_that_is_taken_back() -> None:
    ledger = Ledger("l")
    told(ledger, 1)
    ledger.received("s", 0)
    assert ledger.forget() == "s-0"
    assert ledger.owed() == 1
    with pytest.raises(LookupError):
        ledger.forget()


def test_parsed() -> None:
    assert parsed("a-b-17") == ("a-b", 17)
