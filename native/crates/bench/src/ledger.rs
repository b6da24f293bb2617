//! What became of each message: three bits each, in pages that are let go when nothing in them is open.

use parking_lot::Mutex;
use std::collections::VecDeque;

const PAGE: u64 = 4096;
const WORDS: usize = PAGE as usize / 64;

struct Bits([u64; WORDS]);

impl Default for Bits {
    fn default() -> Self {
        Bits([0; WORDS])
    }
}

impl Bits {
    /// Whether it was not set before.
    fn set(&mut self, at: u64) -> bool {
        let (word, bit) = ((at / 64) as usize, 1u64 << (at % 64));
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }
}

#[derive(Default)]
struct Page {
    acknowledged: Bits,
    refused: Bits,
    received: Bits,
    closed: u64,
}

/// The messages of one producer.
#[derive(Default)]
struct Book {
    sent: u64,
    /// The number of the first page that is kept.
    low: u64,
    pages: VecDeque<Option<Box<Page>>>,
    /// Of the pages that were let go: all in them was acknowledged, and received where that counts.
    closed: u64,
}

/// What became of all messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub sent: u64,
    pub acknowledged: u64,
    pub refused: u64,
    pub unknown: u64,
    pub received: u64,
    pub twice: u64,
    pub lost: u64,
    pub unknown_received: u64,
    pub refused_received: u64,
}

/// What a delivery was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    First,
    Again,
    /// Nobody sent it.
    NeverSent,
}

/// Of all producers of a run. Which of them are one-way: nobody acknowledges what these send.
pub struct Ledger {
    books: Vec<Mutex<Book>>,
    oneway: Vec<bool>,
    /// Whether messages are received: without, what is acknowledged is closed.
    consumed: bool,
    twice: Mutex<u64>,
}

impl Book {
    /// The page of a message that was sent, `None` if it was let go.
    fn page(&mut self, sequence: u64) -> Option<&mut Page> {
        let index = (sequence / PAGE).checked_sub(self.low)? as usize;
        while self.pages.len() <= index {
            self.pages.push_back(Some(Box::default()));
        }
        self.pages[index].as_deref_mut()
    }

    /// One more of a page is closed: lets it go if that was the last.
    fn close_one(&mut self, sequence: u64) {
        let Some(index) = (sequence / PAGE).checked_sub(self.low) else {
            return;
        };
        let place = &mut self.pages[index as usize];
        if let Some(page) = place {
            page.closed += 1;
            if page.closed == PAGE {
                *place = None;
                self.closed += PAGE;
            }
        }
        while let Some(None) = self.pages.front() {
            self.pages.pop_front();
            self.low += 1;
        }
    }
}

impl Ledger {
    pub fn new(oneway: Vec<bool>, consumed: bool) -> Ledger {
        Ledger {
            books: oneway.iter().map(|_| Mutex::default()).collect(),
            oneway,
            consumed,
            twice: Mutex::new(0),
        }
    }

    /// The producer sends this one next; the numbers of a producer rise by one.
    pub fn sent(&self, producer: u16, sequence: u64) {
        self.books[producer as usize].lock().sent = sequence + 1;
        if self.oneway[producer as usize] {
            self.acknowledged(producer, sequence);
        }
    }

    pub fn acknowledged(&self, producer: u16, sequence: u64) {
        let mut book = self.books[producer as usize].lock();
        let Some(page) = book.page(sequence) else {
            return;
        };
        let at = sequence % PAGE;
        let new = page.acknowledged.set(at);
        let there = page.received.0[(at / 64) as usize] >> (at % 64) & 1 == 1;
        if new && (there || !self.consumed) {
            book.close_one(sequence);
        }
    }

    pub fn refused(&self, producer: u16, sequence: u64) {
        if let Some(page) = self.books[producer as usize].lock().page(sequence) {
            page.refused.set(sequence % PAGE);
        }
    }

    pub fn received(&self, producer: u16, sequence: u64) -> Delivery {
        let Some(book) = self.books.get(producer as usize) else {
            return Delivery::NeverSent;
        };
        let mut book = book.lock();
        if sequence >= book.sent {
            return Delivery::NeverSent;
        }
        let mut new = false;
        if let Some(page) = book.page(sequence) {
            let at = sequence % PAGE;
            new = page.received.set(at);
            if new && page.acknowledged.0[(at / 64) as usize] >> (at % 64) & 1 == 1 {
                book.close_one(sequence);
            }
        }
        drop(book);
        if new {
            return Delivery::First;
        }
        *self.twice.lock() += 1;
        Delivery::Again
    }

    pub fn totals(&self) -> Totals {
        let mut all = Totals {
            twice: *self.twice.lock(),
            ..Totals::default()
        };
        for (book, oneway) in self.books.iter().zip(&self.oneway) {
            let book = book.lock();
            let (mut acknowledged, mut refused) = (book.closed, 0);
            let mut received = if self.consumed { book.closed } else { 0 };
            for page in book.pages.iter().flatten() {
                for word in 0..WORDS {
                    let a = page.acknowledged.0[word];
                    let f = page.refused.0[word];
                    let r = page.received.0[word];
                    let count = |bits: u64| u64::from(bits.count_ones());
                    acknowledged += count(a);
                    refused += count(f);
                    received += count(r);
                    all.lost += count(a & !r);
                    all.refused_received += count(f & r);
                    all.unknown_received += count(r & !a & !f);
                }
            }
            all.sent += book.sent;
            all.received += received;
            if *oneway {
                all.unknown += book.sent;
                all.unknown_received += received;
            } else {
                all.acknowledged += acknowledged;
                all.refused += refused;
                all.unknown += book.sent - acknowledged - refused;
            }
        }
        if !self.consumed {
            all.lost = 0;
        }
        all
    }

    #[cfg(test)]
    fn kept(&self) -> usize {
        let pages = |b: &Mutex<Book>| b.lock().pages.iter().flatten().count();
        self.books.iter().map(pages).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_message_is_accounted_for() {
        let ledger = Ledger::new(vec![false, false], true);
        for n in 0..10 {
            ledger.sent(1, n);
        }
        (0..6).for_each(|n| ledger.acknowledged(1, n));
        ledger.refused(1, 6);
        ledger.refused(1, 7);
        // 8 and 9: unknown. Received: 1 to 4, 4 again, a refused one, an unknown one, one never sent.
        for n in [2, 1, 3, 4, 6, 8] {
            assert_eq!(ledger.received(1, n), Delivery::First);
        }
        assert_eq!(ledger.received(1, 4), Delivery::Again);
        assert_eq!(ledger.received(1, 10), Delivery::NeverSent);
        assert_eq!(ledger.received(0, 0), Delivery::NeverSent);
        assert_eq!(ledger.received(2, 0), Delivery::NeverSent);
        assert_eq!(
            ledger.totals(),
            Totals {
                sent: 10,
                acknowledged: 6,
                refused: 2,
                unknown: 2,
                received: 6,
                twice: 1,
                lost: 2,
                unknown_received: 1,
                refused_received: 1,
            }
        );
    }

    #[test]
    fn a_delivery_before_the_answer_counts() {
        let ledger = Ledger::new(vec![false], true);
        ledger.sent(0, 0);
        assert_eq!(ledger.received(0, 0), Delivery::First);
        ledger.acknowledged(0, 0);
        let all = ledger.totals();
        assert_eq!((all.received, all.lost, all.unknown), (1, 0, 0));
    }

    #[test]
    fn one_way_messages_are_unknown_and_may_be_lost() {
        let ledger = Ledger::new(vec![true], true);
        (0..5).for_each(|n| ledger.sent(0, n));
        (0..3).for_each(|n| assert_eq!(ledger.received(0, n), Delivery::First));
        let all = ledger.totals();
        assert_eq!((all.sent, all.acknowledged, all.unknown), (5, 0, 5));
        assert_eq!((all.received, all.unknown_received, all.lost), (3, 3, 2));
    }

    #[test]
    fn memory_is_for_what_is_open() {
        let ledger = Ledger::new(vec![false], true);
        let many = PAGE * 20;
        for n in 0..many {
            ledger.sent(0, n);
            ledger.acknowledged(0, n);
            // Received in another order, within a page or two.
            if n >= 100 {
                ledger.received(0, n - 100);
            }
            assert!(ledger.kept() <= 2);
        }
        // What comes again after its page was let go is known.
        assert_eq!(ledger.received(0, 5), Delivery::Again);
        let all = ledger.totals();
        assert_eq!(
            (all.sent, all.acknowledged, all.received),
            (many, many, many - 100)
        );
        assert_eq!((all.twice, all.lost), (1, 100));
    }

    #[test]
    fn without_a_consumer_answers_close_it() {
        let ledger = Ledger::new(vec![false], false);
        for n in 0..PAGE * 3 + 1 {
            ledger.sent(0, n);
            ledger.acknowledged(0, n);
        }
        let all = ledger.totals();
        assert_eq!((ledger.kept(), all.acknowledged), (1, PAGE * 3 + 1));
        assert_eq!((all.received, all.lost), (0, 0));
    }
}
