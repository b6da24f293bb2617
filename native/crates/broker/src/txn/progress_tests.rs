//! How far all is settled, asked for while another thread stores.

use super::testing::*;
use super::*;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

#[test]
fn a_half_that_is_being_stored_is_not_stepped_over() {
    let rig = Rig::new();
    let sent = Sent::new("K");
    let (to_us, progress) = mpsc::channel();
    std::thread::scope(|threads| {
        let mut guard = rig.store().put().unwrap();
        // In its queue, and not in the tables yet.
        let done = rig.append(
            &mut guard,
            HALF_TOPIC,
            &sent.props(),
            &body_of(&sent.key),
            sent.born,
        );
        threads.spawn(|| to_us.send(rig.txn.progress().unwrap().half).unwrap());
        let early = progress.recv_timeout(Duration::from_millis(200));
        assert_eq!(early, Err(RecvTimeoutError::Timeout), "the put goes on");
        let props = sent.props();
        rig.txn.written(&done, sent.born, &Fields::read(&props));
        drop(guard);
        assert_eq!(progress.recv().unwrap(), done.queue_offset);
    });
}
