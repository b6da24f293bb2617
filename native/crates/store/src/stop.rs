//! How the threads of the store learn that it stops.

use parking_lot::{Condvar, Mutex};
use std::time::Duration;

#[derive(Default)]
pub struct StopSignal {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl StopSignal {
    pub fn set(&self) {
        *self.stopped.lock() = true;
        self.changed.notify_all();
    }

    /// Sleeps for `time`, or until the store stops. True if it stops.
    pub fn wait(&self, time: Duration) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            self.changed.wait_for(&mut stopped, time);
        }
        *stopped
    }
}
