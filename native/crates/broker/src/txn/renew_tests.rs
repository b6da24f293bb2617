//! Copies that are staged: the tables have them, and the log's file does not have them yet.

use super::super::testing::{Rig, Sent};
use super::*;
use std::time::Duration;

/// A half that was asked about; its copy is staged. Returns the half and the copy's queue offset.
fn staged_copy(rig: &Rig) -> (Half, i64) {
    let sent = rig.send(&Sent::new("K"));
    let mut copies = Vec::new();
    let mut guard = rig.store().put().unwrap();
    guard.write().unwrap();
    let half = Half::read(rig.store(), sent.phys).unwrap().unwrap();
    (rig.txn)
        .renew_one(&mut guard, sent.queue_offset, true, &mut copies)
        .unwrap();
    rig.txn.write_ops(&mut guard).unwrap();
    guard.keep_staged();
    let [copy] = &copies[..] else {
        panic!("{} copies", copies.len());
    };
    let read = Half::read(rig.store(), copy.phys).unwrap();
    assert!(read.is_none(), "it cannot be read yet");
    (half, copy.offset)
}

#[test]
fn a_copy_that_is_staged_is_found() {
    for slow in [false, true] {
        let rig = Rig::new();
        if slow {
            let stalls = rig.store().stalls();
            stalls.during_write(|| std::thread::sleep(Duration::from_millis(150)));
        }
        let (half, copy) = staged_copy(&rig);
        let live = rig.txn.live(&half, half.view().queue_offset).unwrap();
        assert_eq!(live, Some(copy), "slow: {slow}");
    }
}

/// Clients may ask as often as they like.
#[test]
fn an_end_of_what_is_settled_writes_nothing() {
    let rig = Rig::new();
    let sent = rig.send(&Sent::new("K"));
    rig.txn.settle(sent.queue_offset, true).unwrap();
    let half = Half::read(rig.store(), sent.phys).unwrap().unwrap();
    let mut guard = rig.store().put().unwrap();
    let staged = rig.append(&mut guard, b"Orders", b"", b"body", 0);
    guard.keep_staged();
    drop(guard);
    assert_eq!(rig.txn.live(&half, sent.queue_offset).unwrap(), None);
    assert_eq!(rig.store().log().max_offset(), staged.phys);
}

/// Nothing takes a half for gone because it is staged.
#[test]
fn a_copy_that_is_staged_is_not_lost() {
    type Act = fn(&Rig, i64);
    let acts: [Act; 4] = [
        |rig, copy| assert!(rig.txn.settle(copy, true).is_ok()),
        |rig, copy| assert!(rig.txn.settle(copy, false).is_ok()),
        |rig, copy| assert_eq!(rig.txn.renew(&[copy], true).unwrap().len(), 1),
        |rig, copy| assert!(rig.txn.discard(copy).is_ok()),
    ];
    for act in acts {
        let rig = Rig::new();
        let (_, copy) = staged_copy(&rig);
        act(&rig, copy);
        assert_eq!(rig.txn.figures().lost, 0);
    }
}
