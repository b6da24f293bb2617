use super::*;
use std::net::{Ipv4Addr, SocketAddr};

fn slow(code: i32) -> Slow {
    Slow {
        code,
        response: 0,
        peer: Host::new(SocketAddr::from((Ipv4Addr::LOCALHOST, 1))),
        queued: 1,
        processed: 20,
        written: 300,
        flushed: 4000,
        replicated: 50_000,
        place: None,
    }
}

#[test]
fn rows_are_by_kind_and_in_order() {
    let figures = RpcFigures::default();
    let oneway = Kind {
        fate: Fate::Oneway,
        ..Kind::answered(10, 0)
    };
    let parked = Kind {
        long_polling: true,
        ..Kind::answered(11, 19)
    };
    figures.record(Kind::answered(310, 0), 60, 64);
    figures.record(Kind::answered(310, 0), 4_000_000, 1);
    figures.record(oneway, 1, 1);
    figures.record(parked, 15_000_000, 2);
    figures.record(Kind::answered(310, 14), 1, 1);
    let rows = figures.rows();
    let kinds: Vec<_> = rows.iter().map(|(kind, _)| *kind).collect();
    let sends = [Kind::answered(310, 0), Kind::answered(310, 14)];
    assert_eq!(kinds, [oneway, parked, sends[0], sends[1]]);
    let (_, row) = &rows[2];
    assert_eq!(row[..3], [65, 4_003_840, 4_000_000]);
    assert_eq!((row[3 + 1], row[3 + 13]), (64, 1));
    assert_eq!(rows[1].1[..3], [2, 30_000_000, 15_000_000]);
}

#[test]
fn hostile_codes_share_a_row_once_there_are_many() {
    let figures = RpcFigures::default();
    for code in 0..2 * MOST_ROWS as i32 {
        figures.record(Kind::answered(1_000_000 + code, 3), 1, 1);
    }
    figures.record(Kind::answered(1_000_000, 3), 1, 1); // it has its row
    let rows = figures.rows();
    assert_eq!(rows.len(), MOST_ROWS + 1);
    let of = |code| {
        let found = rows.iter().find(|(kind, _)| kind.code == code);
        found.map(|(_, row)| row[0])
    };
    assert_eq!(of(OTHER_CODE), Some(MOST_ROWS as u64));
    assert_eq!(of(1_000_000), Some(2));
    figures.record(Kind::answered(310, 0), 1, 1);
    assert_eq!(figures.rows().len(), MOST_ROWS + 2);
}

#[test]
fn slow_requests_are_bounded_and_taken_once() {
    let figures = RpcFigures::default();
    assert!(!figures.is_slow(i64::MAX));
    figures.set_slow_ms(2);
    assert!(!figures.is_slow(2000) && figures.is_slow(2001));
    figures.set_slow_ms(0);
    assert!(!figures.is_slow(1 << 60));
    for code in 0..MOST_SLOW as i32 + 5 {
        figures.note_slow(|| slow(code));
    }
    let taken = figures.take_slow();
    assert_eq!((taken.requests.len(), taken.left_out), (MOST_SLOW, 5));
    assert_eq!(taken.requests[3], slow(3));
    assert_eq!(taken.requests[0].total(), 54_321);
    let taken = figures.take_slow();
    assert_eq!((taken.requests.len(), taken.left_out), (0, 0));
}

#[test]
fn fates_have_the_names_of_labels() {
    for fate in Fate::ALL {
        assert_eq!(Fate::from_name(fate.name()), Some(fate));
    }
    assert_eq!(Fate::from_name("Success"), None);
}
