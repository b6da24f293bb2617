//! What the slaves of a master have, and what follows from it: how far the log is replicated, and
//! whether there are enough slaves. [GroupTransferService, DefaultHAService.inSyncReplicasNums]

use crate::Store;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many replicas are wanted; the master is one of them.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// inSyncReplicas
    pub in_sync: usize,
    /// minInSyncReplicas: with fewer, messages are refused
    pub least: usize,
    /// enableAutoInSyncReplicas: as many are waited for as are in sync, `least` at least
    pub auto: bool,
    /// haMaxGapNotInSync, bytes: a slave that is further behind is not in sync
    pub max_gap: u64,
}

impl Rule {
    /// How many slaves must have a record, when so many replicas (with the master) are in sync.
    pub fn wanted(&self, in_sync: usize) -> usize {
        let wanted = if self.auto {
            self.in_sync.min(in_sync).max(self.least)
        } else {
            self.in_sync
        };
        wanted.saturating_sub(1)
    }
}

/// One slave that is connected.
#[derive(Clone, Debug)]
pub struct Replica {
    pub peer: String,
    /// Its log is there below this offset.
    pub acked: u64,
    /// What it is sent next; None before its first report.
    pub next: Option<u64>,
    /// Bytes that it was sent, and how many of them a second when that was `sampled` last.
    pub sent: u64,
    pub per_second: u64,
    /// When (ms), and `sent` then.
    sampled: (i64, u64),
    pub connected_at: i64,
    /// When it had all of the log last, ms; the time of its connection before it ever had.
    pub caught_up_at: i64,
    pub in_sync: bool,
}

struct Table {
    rule: Rule,
    rows: BTreeMap<u64, Replica>,
    next_id: u64,
    /// What the barrier was told.
    waits: Option<bool>,
    short: Option<(usize, usize)>,
}

pub struct Replicas {
    store: Arc<Store>,
    table: Mutex<Table>,
}

impl Replicas {
    pub fn new(store: Arc<Store>, rule: Rule) -> Self {
        let replicas = Replicas {
            store,
            table: Mutex::new(Table {
                rule,
                rows: BTreeMap::new(),
                next_id: 0,
                waits: None,
                short: None,
            }),
        };
        replicas.recount(&mut replicas.table.lock());
        replicas
    }

    /// Changes how many replicas are wanted, inSyncReplicas and minInSyncReplicas. It counts at once, also
    /// for what waits already.
    pub fn want(&self, in_sync: usize, least: usize) {
        let mut table = self.table.lock();
        (table.rule.in_sync, table.rule.least) = (in_sync, least);
        self.recount(&mut table);
    }

    /// A slave is connected. Returns the number that it is known by.
    pub fn add(&self, peer: &str, now: i64) -> u64 {
        let mut table = self.table.lock();
        table.next_id += 1;
        let id = table.next_id;
        table.rows.insert(
            id,
            Replica {
                peer: peer.into(),
                acked: 0,
                next: None,
                sent: 0,
                per_second: 0,
                sampled: (now, 0),
                connected_at: now,
                caught_up_at: now,
                in_sync: false,
            },
        );
        id
    }

    /// How a slave stands. Only what it has acknowledged moves the barrier.
    pub fn update(&self, id: u64, acked: u64, next: Option<u64>, sent: u64, now: i64) {
        let mut table = self.table.lock();
        let Some(row) = table.rows.get_mut(&id) else {
            return;
        };
        let moved = row.acked != acked || row.next.is_some() != next.is_some();
        (row.acked, row.next, row.sent) = (acked, next, sent);
        let (at, before) = row.sampled;
        if acked >= self.store.barrier().local() {
            row.caught_up_at = now;
        }
        if now - at >= 1000 {
            row.per_second = (sent - before) * 1000 / (now - at) as u64;
            row.sampled = (now, sent);
        }
        if moved {
            self.recount(&mut table);
        }
    }

    /// A slave is connected no longer.
    pub fn remove(&self, id: u64) {
        let mut table = self.table.lock();
        table.rows.remove(&id);
        self.recount(&mut table);
    }

    /// Looks again at who is in sync: the log grows while a slave stands still.
    pub fn look_again(&self, now: i64) {
        let mut table = self.table.lock();
        let end = self.store.barrier().local();
        for row in table.rows.values_mut().filter(|row| row.acked >= end) {
            row.caught_up_at = now;
        }
        self.recount(&mut table);
    }

    /// All that are connected, in the order in which they came.
    pub fn rows(&self) -> Vec<Replica> {
        self.table.lock().rows.values().cloned().collect()
    }

    /// Says who is in sync, and moves the barrier by that.
    fn recount(&self, table: &mut Table) {
        let rule = table.rule;
        let end = self.store.log().max_offset();
        for row in table.rows.values_mut() {
            let gap = end.saturating_sub(row.acked);
            // One that has nothing says nothing: it may be a stranger.
            let has_something = row.acked > 0 || end == 0;
            row.in_sync = row.next.is_some() && has_something && gap < rule.max_gap;
        }
        let barrier = self.store.barrier();
        if !barrier.policy().replicated {
            return;
        }
        let in_sync = 1 + table.rows.values().filter(|row| row.in_sync).count();
        let wanted = rule.wanted(in_sync);
        if table.waits != Some(wanted > 0) {
            table.waits = Some(wanted > 0);
            self.store.wait_for_slaves(wanted > 0);
        }
        let mut acked: Vec<_> = table.rows.values().map(|row| row.acked).collect();
        acked.sort_unstable_by(|a, b| b.cmp(a));
        if wanted > 0
            && let Some(offset) = acked.get(wanted - 1)
        {
            barrier.replicated_to(*offset);
        }
        let short = (in_sync < rule.least).then_some((in_sync, rule.least));
        if table.short != short {
            table.short = short;
            self.store.set_short_of_replicas(short);
            match short {
                Some((in_sync, least)) => log::warn!(
                    "{in_sync} of minInSyncReplicas={least} are in sync: messages are refused"
                ),
                None => log::info!("{in_sync} replicas are in sync: messages are taken again"),
            }
        }
    }
}
