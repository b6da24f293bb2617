//! How many queue files are mapped at a time.
//!
//! The kernel bounds the mappings of a process (vm.max_map_count, 65,530 by default), and every
//! mapping costs page tables. A store with many queues therefore maps a queue's file when it is
//! touched and unmaps one that was not touched lately when there are too many (a clock, as in
//! page replacement). A segment that somebody still uses stays mapped until they drop it.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Weak;

/// Other users of mappings: libraries, thread stacks, the commit log, index files.
const LEFT_FOR_OTHERS: usize = 4096;
const DEFAULT_MAX_MAP_COUNT: usize = 65_530;
/// Steps of the clock that one new mapping pays for.
const STEPS: usize = 64;

/// The files of one queue, each of which may be mapped.
pub trait QueueMappings: Send + Sync {
    /// Whether the file that starts at `base` is mapped.
    fn is_mapped(&self, base: u64) -> bool;

    /// Gives up the mapping of the file that starts at `base`. False if it was touched lately;
    /// with `force` that does not matter.
    fn unmap(&self, base: u64, force: bool) -> bool;
}

/// A file that was mapped: its queue, and where it starts.
type Mapped = (Weak<dyn QueueMappings>, u64);

pub struct Maps {
    limit: usize,
    clock: Mutex<VecDeque<Mapped>>,
}

impl Maps {
    /// `limit` of 0: three quarters of what the kernel allows.
    pub fn new(limit: usize) -> Self {
        let limit = if limit == 0 { limit_of_kernel() } else { limit };
        Maps {
            limit,
            clock: Mutex::default(),
        }
    }

    pub fn mapped(&self) -> usize {
        let mut clock = self.clock.lock();
        clock.retain(|(files, base)| {
            let files = files.upgrade();
            files.is_some_and(|files| files.is_mapped(*base))
        });
        clock.len()
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Notes a file that was mapped just now. The caller has no lock of a queue.
    pub fn note(&self, files: Weak<dyn QueueMappings>, base: u64) {
        let mut clock = self.clock.lock();
        clock.push_back((files, base));
        if clock.len() > self.limit {
            let goal = self.limit;
            shrink(&mut clock, goal);
        }
    }

    /// Gives up a quarter of all mappings, after the kernel refused one.
    pub fn relieve(&self) {
        let mut clock = self.clock.lock();
        let goal = clock.len() * 3 / 4;
        shrink(&mut clock, goal);
    }
}

fn shrink(clock: &mut VecDeque<Mapped>, goal: usize) {
    let mut chances = STEPS;
    while clock.len() > goal {
        let Some((files, base)) = clock.pop_front() else {
            return;
        };
        let Some(strong) = files.upgrade() else {
            continue;
        };
        if !strong.unmap(base, chances == 0) {
            clock.push_back((files, base));
            chances -= 1;
        }
    }
}

fn limit_of_kernel() -> usize {
    let count = std::fs::read_to_string("/proc/sys/vm/max_map_count")
        .ok()
        .and_then(|text| text.trim().parse::<usize>().ok())
        .unwrap_or(DEFAULT_MAX_MAP_COUNT);
    (count / 4 * 3).saturating_sub(LEFT_FOR_OTHERS).max(64)
}
