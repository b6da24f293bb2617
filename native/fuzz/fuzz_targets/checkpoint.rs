//! The checkpoint file from any bytes.
//!
//! - Everything with its five fields is read, nothing shorter is.
//! - What is read is written back as the same 40 bytes with zeros behind, but for what it says of
//!   slaves, and is read again alike.
//! - The time up to which all is durable is never negative and never later than either part's.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pyrmq_format::checkpoint::{Checkpoint, REPLICATED_AT, SIZE};

fuzz_target!(|data: &[u8]| {
    let Some(c) = Checkpoint::read(data) else {
        assert!(data.len() < 40);
        return;
    };
    let written = c.encode();
    assert_eq!(written[..40], data[..40]);
    assert_eq!(written[40..REPLICATED_AT], [0; REPLICATED_AT - 40]);
    match c.replicated {
        Some(offset) => {
            assert!(offset >= 0);
            assert_eq!(written[REPLICATED_AT..], data[REPLICATED_AT..SIZE]);
        }
        None => assert_eq!(written[REPLICATED_AT..], [0; SIZE - REPLICATED_AT]),
    }
    assert_eq!(Checkpoint::read(&written), Some(c));
    let min = c.min_timestamp();
    assert!(min >= 0);
    assert!(min <= c.physic_msg_timestamp.max(0) && min <= c.logics_msg_timestamp.max(0));
});
