//! Writes for those who must not wait: on a slow disk a thread writes what they have staged.

use super::barrier::Barrier;
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
pub struct LateWriter {
    asked: Mutex<bool>,
    changed: Condvar,
    /// Something was left for the thread and is not written yet.
    pending: AtomicBool,
    stop: AtomicBool,
}

impl LateWriter {
    /// Has the thread write what is staged now.
    pub fn ask(&self) {
        self.pending.store(true, Ordering::Release);
        let mut asked = self.asked.lock();
        *asked = true;
        self.changed.notify_one();
    }

    /// Whether something was left that the thread has not tried to write yet.
    pub fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// Ends `run`; what is staged then is left to whoever closes the store.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let _asked = self.asked.lock();
        self.changed.notify_one();
    }

    /// The thread's work, until `stop`. `write` writes what is staged; who waits is told by the barrier.
    pub fn run(&self, barrier: &Barrier, write: impl Fn()) {
        loop {
            {
                let mut asked = self.asked.lock();
                while !*asked && !self.stop.load(Ordering::Acquire) {
                    self.changed.wait(&mut asked);
                }
                if self.stop.load(Ordering::Acquire) {
                    return;
                }
                *asked = false;
            }
            write();
            let asked = self.asked.lock();
            if !*asked {
                self.pending.store(false, Ordering::Release);
            }
            drop(asked);
            barrier.signal();
        }
    }
}
