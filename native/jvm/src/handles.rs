//! The table of tasks that are read. Java knows each by a number that is never given twice.

use super::failure::{Failure, Result};
use pyrmq_scan::Kind;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Tasks that are open at once in one JVM. Spark has one a core; more are a leak.
pub const MAX_OPEN: usize = 10_000;

pub struct Handles<T> {
    open: Mutex<HashMap<i64, Arc<Mutex<T>>>>,
    last: AtomicI64,
    what: &'static str,
}

impl<T> Handles<T> {
    pub fn new(what: &'static str) -> Self {
        Handles {
            open: Mutex::new(HashMap::new()),
            last: AtomicI64::new(0),
            what,
        }
    }

    pub fn add(&self, value: T) -> Result<i64> {
        let mut open = lock(&self.open);
        if open.len() >= MAX_OPEN {
            let what = self.what;
            return Err(Failure::new(
                Kind::Segment,
                format!("{MAX_OPEN} {what}s are open at once in this process"),
                format!("close each {what} that is not read any more"),
            ));
        }
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        open.insert(handle, Arc::new(Mutex::new(value)));
        Ok(handle)
    }

    pub fn get(&self, handle: i64) -> Result<Arc<Mutex<T>>> {
        let found = lock(&self.open).get(&handle).cloned();
        found.ok_or_else(|| {
            let what = self.what;
            Failure::misuse(format!("{what} {handle} is closed, or was never open"))
        })
    }

    /// Whether it was open. Its memory goes when the last call that uses it has returned.
    pub fn remove(&self, handle: i64) -> bool {
        lock(&self.open).remove(&handle).is_some()
    }

    pub fn len(&self) -> usize {
        lock(&self.open).len()
    }
}

/// A panic under a lock left its task as it was: the task that panicked is closed by its reader.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_given_once() {
        let table = Handles::new("task");
        let first = table.add("a").unwrap();
        assert!(table.remove(first));
        assert!(!table.remove(first));
        let second = table.add("b").unwrap();
        assert_ne!(first, second);
        assert!(table.get(first).unwrap_err().message.contains("is closed"));
        assert_eq!(*lock(&table.get(second).unwrap()), "b");
    }

    #[test]
    fn what_was_never_given_is_an_error() {
        let table = Handles::<()>::new("task");
        for handle in [0, 1, -1, i64::MIN, i64::MAX] {
            assert!(table.get(handle).is_err());
            assert!(!table.remove(handle));
        }
    }

    #[test]
    fn the_table_is_bounded() {
        let table = Handles::new("task");
        let first = table.add(()).unwrap();
        for _ in 1..MAX_OPEN {
            table.add(()).unwrap();
        }
        assert!(table.add(()).is_err());
        table.remove(first);
        assert!(table.add(()).is_ok());
    }

    /// A call that is under way keeps what it uses.
    #[test]
    fn closed_while_it_is_used() {
        let table = Handles::new("task");
        let handle = table.add(vec![7; 100]).unwrap();
        let used = table.get(handle).unwrap();
        assert!(table.remove(handle));
        assert_eq!(lock(&used).len(), 100);
    }
}
