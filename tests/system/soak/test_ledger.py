"""What a book says of what was acknowledged and delivered."""

from __future__ import annotations

from tests.system.soak.ledger import Book, Ledger, Row


def told(book: Book, count: int, *, stream: str = "s") -> None:
    """So many messages were sent and acknowledged; number n is at 100 + n."""
    for number in range(count):
        book.sent(stream, number)
        book.acked(stream, number, 100 + number)


def test_all_is_well() -> None:
    book = Book("b", in_place=True, ordered=True)
    told(book, 3)
    for number in (0, 1, 2, 1, 2):
        book.delivered("s", number, 100 + number)
    assert book.faults() == []
    assert book.row() == Row("b", sent=3, acked=3, wanted=3, delivered=3, again=2)
    assert (book.owed(), book.oldest_owed()) == (0, None)


def test_lost() -> None:
    book = Book("b")
    told(book, 3)
    book.delivered("s", 1)
    assert book.faults() == ["b: 2 lost, such as s-0 (at 100), s-2 (at 102)"]
    assert (book.owed(), book.oldest_owed()) == (2, 100)
    assert book.newest == 102


def test_what_was_not_acknowledged_may_come_or_not() -> None:
    book = Book("b")
    book.sent("s", 1)
    book.delivered("s", 1, 7)
    assert book.faults() == []
    assert book.row() == Row("b", sent=2, delivered=1, unanswered=1)


def test_what_the_group_does_not_want_is_not_owed() -> None:
    book = Book("b")
    book.sent("s", 0)
    book.acked("s", 0, 100, wanted=False)
    assert book.faults() == []
    assert book.row() == Row("b", sent=1, acked=1)


def test_delivered_before_the_answer_is_read() -> None:
    book = Book("b", in_place=True)
    book.sent("s", 0)
    book.delivered("s", 0, 100)
    book.acked("s", 0, 100)
    assert book.faults() == []
    assert book.owed() == 0


def test_stored_twice() -> None:
    book = Book("b")
    told(book, 1)
    book.delivered("s", 0, 100)
    book.delivered("s", 0, 500)
    assert book.faults() == ["b: 1 stored twice, first s-0 at 100 and 500"]
    allowed = Book("b", once=False)
    told(allowed, 1)
    allowed.delivered("s", 0, 100)
    allowed.delivered("s", 0, 500)
    assert allowed.faults() == []


def test_not_where_the_answer_said() -> None:
    for answer_first in (True, False):
        book = Book("b", in_place=True)
        book.sent("s", 0)
        if answer_first:
            book.acked("s", 0, 100)
        book.delivered("s", 0, 500)
        if not answer_first:
            book.acked("s", 0, 100)
        assert book.faults() == ["b: 1 moved, first s-0 from 100 to 500"]


def test_a_detour_has_no_place() -> None:
    """Sent back by a consumer: the copy stands elsewhere."""
    book = Book("b", in_place=True)
    told(book, 1)
    book.delivered("s", 0)
    assert book.faults() == []


def test_the_order_of_first_deliveries() -> None:
    book = Book("b", ordered=True)
    told(book, 5)
    told(book, 2, stream="t")
    for number in (0, 1, 0, 1, 3, 2, 3):
        book.delivered("s", number, 100 + number)
    assert book.faults()[-1] == "b: 1 out of order, first s-2 first came after 3"
    assert book.row().wrong == {"out of order": 1}


def test_never_sent() -> None:
    book = Book("b")
    told(book, 1)
    book.delivered("s", 0)
    book.delivered("s", 1)
    assert book.faults() == ["b: 1 never sent, first s-1"]


def test_gone_from_the_log() -> None:
    """What stands before the log's first file was deleted on purpose."""
    book = Book("b", in_place=True)
    told(book, 4)
    for number in (0, 1, 3):
        book.delivered("s", number, 100 + number)
    book.miss({102}, low=101)
    assert book.row().wrong == {"not in the log any more": 2}
    assert "first s-1 at 101" in book.faults()[-1]


def test_the_ledger_sums_up() -> None:
    ledger = Ledger()
    told(ledger.plain, 2)
    told(ledger.delayed, 3)
    ledger.plain.delivered("s", 0, 100)
    ledger.sql.note("damaged", "s-1")
    assert ledger.owed() == 4
    assert ledger.oldest_owed() == 100
    assert ledger.newest() == 102
    assert ledger.deliveries() == 1
    assert len(ledger.faults()) == 3
