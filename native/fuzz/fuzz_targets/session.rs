//! Frames from any stream of bytes, through a session that stores nothing.
//!
//! - A stream gives the same commands and the same error however it is cut into pieces, whether
//!   commands are taken at once or late, and whether a large frame is received in place.
//! - The frames of the commands are the stream, without a gap; every part lies inside its frame.
//! - The bounds hold: commands waiting, bytes of a frame, ext fields; the shared budget counts what
//!   is kept and gets all of it back.
//! - A session that says it has more makes progress when it is fed nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrmq_broker::wire::header::MAX_FIELDS;
use pyrmq_broker::wire::{Budget, Command, Session, WireError};
use pyrmq_format::MAX_FRAME;
use pyrmq_format::host::Host;
use pyrmq_format::json::Raw;
use pyrmq_fuzz::Dice;
use std::sync::Arc;

const MAX_COMMANDS: usize = 64;

/// How a stream is fed.
#[derive(Clone, Copy, PartialEq)]
enum Feeding {
    /// Commands are taken after every piece.
    Eager,
    /// Commands are taken when all pieces are in.
    Late,
    /// As `Eager`, and what is missing of a large frame is received into its place.
    InPlace,
}

type Seen = (Vec<Command>, Option<WireError>);

fuzz_target!(|data: &[u8]| {
    let mut dice = Dice::of(data);
    let whole = feed(&[data], Feeding::Eager);
    check(&whole, data);
    let (pieces, feeding) = match dice.below(3) {
        0 => (data.chunks(1 + data.len() / 256).collect(), Feeding::Eager),
        1 => (dice.pieces(data, 64), Feeding::Late),
        _ => (dice.pieces(data, 512), Feeding::InPlace),
    };
    same(&whole, &feed(&pieces, feeding));
});

fn feed(pieces: &[&[u8]], feeding: Feeding) -> Seen {
    let budget = Arc::new(Budget::new(usize::MAX));
    let host = Host::new("127.0.0.1:5".parse().unwrap());
    let mut session = Session::new(None, budget.clone(), host);
    let mut seen = (Vec::new(), None);
    let mut out = Vec::new();
    let mut fed = 0;
    for piece in pieces {
        fed += piece.len();
        let mut rest = *piece;
        if feeding == Feeding::InPlace && session.wants_space() {
            let space = session.space().expect("it was wanted");
            let (room, n) = (space.len(), rest.len().min(space.len()));
            space[..n].copy_from_slice(&rest[..n]);
            session.filled(room, n);
            rest = &rest[n..];
        }
        let fine = step(
            &mut session,
            rest,
            feeding != Feeding::Late,
            &mut seen,
            &mut out,
        );
        // Twice what came in, as a vector grows, and what a large frame is given at first.
        assert!(budget.used() <= 2 * fed + (1 << 20));
        if !fine {
            break;
        }
    }
    if feeding == Feeding::Late && seen.1.is_none() {
        drain(&mut session, &mut seen, &mut out);
    }
    assert!(out.is_empty(), "it has nothing to answer");
    drop(session);
    assert_eq!(budget.used(), 0);
    seen
}

/// Feeds one piece. False after an error.
fn step(s: &mut Session, data: &[u8], take: bool, seen: &mut Seen, out: &mut Vec<u8>) -> bool {
    let done = s.feed(data, 0, out);
    assert!(s.commands() <= MAX_COMMANDS);
    match done {
        Err(e) => {
            take_all(s, seen);
            seen.1 = Some(e);
            false
        }
        Ok(()) if take => drain(s, seen, out),
        Ok(()) => true,
    }
}

/// Takes all commands, feeding nothing as long as the session has more. False after an error.
fn drain(s: &mut Session, seen: &mut Seen, out: &mut Vec<u8>) -> bool {
    take_all(s, seen);
    while s.has_more() {
        let before = seen.0.len();
        if let Err(e) = s.feed(&[], 0, out) {
            take_all(s, seen);
            seen.1 = Some(e);
            return false;
        }
        assert!(s.commands() <= MAX_COMMANDS);
        take_all(s, seen);
        assert!(seen.0.len() > before, "no progress");
    }
    true
}

fn take_all(s: &mut Session, seen: &mut Seen) {
    seen.0.extend(std::iter::from_fn(|| s.next_command()));
}

fn check((commands, _): &Seen, data: &[u8]) {
    let mut at = 0;
    for c in commands {
        let end = at + c.parts.total;
        assert_eq!(c.frame, data[at..end]);
        at = end;
        assert!((8..=MAX_FRAME).contains(&c.parts.total));
        assert!((8..=c.parts.total).contains(&c.parts.header_end));
        assert_eq!(c.body().len(), c.parts.total - c.parts.header_end);
        assert!(c.header.ext.len() <= MAX_FIELDS);
        let inside =
            |r: &Raw| 8 <= r.start && r.start <= r.end && r.end as usize <= c.parts.header_end;
        assert!(c.header.ext.iter().all(|(k, v)| inside(k) && inside(v)));
        assert!(c.header.remark.iter().all(inside));
    }
}

fn same(a: &Seen, b: &Seen) {
    assert_eq!(a.1, b.1);
    assert_eq!(a.0.len(), b.0.len());
    for (a, b) in a.0.iter().zip(&b.0) {
        assert_eq!(a.frame, b.frame);
        assert_eq!(
            (a.parts.total, a.parts.header_end),
            (b.parts.total, b.parts.header_end)
        );
        assert_eq!(a.parts.codec, b.parts.codec);
        let (a, b) = (&a.header, &b.header);
        assert_eq!(
            (a.code, a.language, a.version),
            (b.code, b.language, b.version)
        );
        assert_eq!((a.opaque, a.flag, a.remark), (b.opaque, b.flag, b.remark));
        assert_eq!(a.ext, b.ext);
    }
}
