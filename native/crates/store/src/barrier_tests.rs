use super::*;
use crate::config::StoreConfig;

const END: u64 = 300;
const LIMIT: i64 = 5000;

/// A barrier in front of a log that ends at `END`.
fn barrier(dir: &std::path::Path, mode: FlushMode) -> Barrier {
    let log = Arc::new(CommitLog::open(&StoreConfig::new(dir)).unwrap());
    log.set_max_offset(END);
    Barrier::new(mode.into(), log).unwrap()
}

fn is_signalled(barrier: &Barrier) -> bool {
    rustix::io::read(barrier.event_fd(), &mut [0; 8]) == Ok(8)
}

fn error() -> StoreError {
    StoreError::io(
        "flush",
        "file",
        &std::io::Error::from_raw_os_error(libc::EIO),
    )
}

#[test]
fn outcomes_as_a_table() {
    use Outcome::{Confirmed, Failed, FlushTimedOut, Pending};
    let dir = tempfile::tempdir().unwrap();
    // Flush mode, where the flush is, whether it failed, time waited: what a record's answer says.
    let table = [
        (FlushMode::Sync, END, false, 0, Confirmed),
        (FlushMode::Sync, END, true, LIMIT, Confirmed),
        (FlushMode::Sync, END + 1, true, LIMIT, Confirmed),
        (FlushMode::Sync, END - 1, false, 0, Pending),
        (FlushMode::Sync, END - 1, false, LIMIT - 1, Pending),
        (FlushMode::Sync, END - 1, false, LIMIT, FlushTimedOut),
        (FlushMode::Sync, END - 1, true, 0, Failed),
        (FlushMode::Sync, END - 1, true, LIMIT, Failed),
        (FlushMode::Async, 0, false, LIMIT, Confirmed),
        (FlushMode::Async, 0, true, LIMIT, Confirmed),
    ];
    for (mode, flushed, failed, waited, outcome) in table {
        let barrier = barrier(dir.path(), mode);
        barrier.start_at(flushed, None);
        if failed {
            barrier.fail(error());
        }
        let case = (mode, flushed, failed, waited);
        assert_eq!(barrier.outcome(END, waited, LIMIT), outcome, "{case:?}");
        assert_eq!(barrier.is_confirmed(END), outcome == Confirmed, "{case:?}");
    }
}

#[test]
fn confirmed_is_what_the_policy_requires() {
    let dir = tempfile::tempdir().unwrap();
    for (mode, confirmed) in [(FlushMode::Sync, 100), (FlushMode::Async, END)] {
        let barrier = barrier(dir.path(), mode);
        barrier.start_at(50, None);
        assert!(!is_signalled(&barrier));
        barrier.flushed_to(100);
        assert_eq!((barrier.confirmed(), barrier.flushed()), (confirmed, 100));
        // Only an input that somebody may wait for wakes the event loop.
        assert_eq!(is_signalled(&barrier), barrier.policy().flushed);
    }
}

#[test]
fn the_first_failure_counts_and_wakes_in_either_mode() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [FlushMode::Sync, FlushMode::Async] {
        let barrier = barrier(dir.path(), mode);
        assert!(!barrier.has_failed() && barrier.failure().is_none());
        barrier.fail(error());
        barrier.fail(StoreError::NotAvailable("a later one".into()));
        assert!(barrier.has_failed() && is_signalled(&barrier));
        let why = barrier.failure().unwrap().to_string();
        assert!(why.starts_with("flush file"), "{why}");
    }
}
