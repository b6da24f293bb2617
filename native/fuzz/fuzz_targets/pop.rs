//! What POP reads of a log or of a peer, from any bytes: check points, acknowledgements, handles.
//!
//! - What is read is bounded, and means the same when it is written and read again.
//! - A handle that is written is the same handle.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrmq_format::pop::{Ack, CheckPoint, Handle, MAX_ACKED, MAX_MESSAGES};

fuzz_target!(|data: &[u8]| {
    let (mut diffs, mut offsets) = (Vec::new(), Vec::new());
    let (mut more_diffs, mut more_offsets) = (Vec::new(), Vec::new());
    let mut again = Vec::new();
    if let Ok(ck) = CheckPoint::read(data, &mut diffs) {
        assert!(ck.diffs.len() <= MAX_MESSAGES);
        assert!(ck.due() <= ck.revive_time());
        for (n, (offset, _)) in ck.offsets().enumerate() {
            assert!(offset == i64::MAX || ck.index_of(offset) == Some(n));
        }
        ck.push_body(&mut again);
        match CheckPoint::read(&again, &mut more_diffs) {
            Ok(same) => assert_eq!(same, ck),
            Err(e) => assert!(again.len() > 1024, "no name is too long: {e}"),
        }
    }
    again.clear();
    if let Ok(ack) = Ack::read(data, &mut offsets) {
        assert!((1..=MAX_ACKED).contains(&ack.offsets.len()));
        ack.push_body(&mut again);
        match Ack::read(&again, &mut more_offsets) {
            Ok(same) => assert_eq!(same, ack),
            Err(e) => assert!(again.len() > 1024, "no name is too long: {e}"),
        }
    }
    again.clear();
    if let Some(handle) = Handle::parse(data) {
        handle.push(&mut again);
        assert_eq!(Handle::parse(&again), Some(handle));
    }
});
