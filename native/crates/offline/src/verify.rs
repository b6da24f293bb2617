//! Log, queues and index compared with each other, in steps.

use super::entries::{EntryCounts, LogFacts, Owner, Place, QueueCheck, check_entries};
use super::files::Inventory;
use super::findings::{Finding, Findings, Severity, shown};
use super::index::{IndexCheck, IndexCounts};
use super::inspect::is_timer_queue;
use super::log::HeadReader;
use super::settings::{check_checkpoint, check_config, committed_offsets, known_topics};
use super::timers_verify::{Around, TimerCheckRun, TimerCounts};
use super::walk::{Event, Walker};
use pyrmq_format::checkpoint::Checkpoint;
use pyrmq_format::cq_entry::SIZE;
use pyrmq_format::record::{View, sys_flag};
use pyrmq_format::{crc31, index as index_format, names, properties};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// What a check covered.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    pub records: u64,
    /// Bytes of these records.
    pub bytes: u64,
    pub min_phys: u64,
    /// Where the valid part of the log ends.
    pub end_phys: u64,
    /// Bytes behind it that are not zero.
    pub tail: u64,
    pub damaged_parts: u64,
    pub damaged_bytes: u64,
    pub oldest: i64,
    pub newest: i64,
    /// Prepared or rolled back: in no queue.
    pub transactional: u64,
    /// Inner batches and records of batch topics: their queues are not checked.
    pub batch: u64,
    /// Records that the next start enters into their queues.
    pub to_dispatch: u64,
    /// Records of topics that the broker no longer knows.
    pub deleted_topics: u64,
    pub queues: u64,
    pub entries: EntryCounts,
    pub index: IndexCounts,
    pub timers: TimerCounts,
    pub clean: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Log,
    Queues(usize),
    Timers,
    Done,
}

pub struct Verifier {
    inv: Inventory,
    point: Checkpoint,
    out: Findings,
    sum: Summary,
    phase: Phase,
    walker: Walker,
    checks: Vec<QueueCheck>,
    /// Queues without a folder: number, first and last physical offset of their records.
    absent: BTreeMap<(Vec<u8>, i32), (u64, u64, u64)>,
    topics: Option<BTreeSet<String>>,
    index: IndexCheck,
    lost: Vec<(u64, u64)>,
    heads: HeadReader,
    /// The next start enters records from here on.
    replay_from: u64,
    queue_bytes: Vec<u64>,
    done: u64,
    total: u64,
    last_queue: Option<(Vec<u8>, i32, usize)>,
    /// The record at hand.
    record: Vec<u8>,
    log_only: bool,
    /// None before its phase, and without files of timers.
    timers: Option<TimerCheckRun>,
}

impl Verifier {
    /// `log_dirs` as in `Inventory::read`. With `log_only` queues and index are left out.
    pub fn new(root: PathBuf, log_dirs: &[PathBuf], log_only: bool) -> std::io::Result<Self> {
        let mut inv = Inventory::read(&root, log_dirs)?;
        let mut out = Findings::default();
        let point = check_checkpoint(&root, inv.log.files.is_empty(), &mut out);
        check_config(&root, &mut out);
        let heads = HeadReader::new(inv.log.clone());
        let paths = std::mem::take(&mut inv.index);
        let paths = if log_only { Vec::new() } else { paths };
        let index = IndexCheck::new(&root, paths, inv.log.min(), &mut out);
        let queue_bytes: Vec<u64> = inv
            .queues
            .queues
            .iter()
            .map(|q| q.files.iter().map(|f| f.1).sum())
            .collect();
        let queues = if log_only {
            0
        } else {
            queue_bytes.iter().sum()
        };
        let timer_bytes = if log_only { 0 } else { inv.bytes_of_timers() };
        let total = inv.log.files.iter().map(|f| f.len).sum::<u64>() + queues + timer_bytes;
        let mut verifier = Verifier {
            sum: Summary {
                min_phys: inv.log.min(),
                clean: !inv.abort,
                oldest: -1,
                newest: -1,
                queues: inv.queues.queues.len() as u64,
                ..Default::default()
            },
            walker: Walker::new(inv.log.clone()),
            checks: std::iter::repeat_with(QueueCheck::default)
                .take(inv.queues.queues.len())
                .collect(),
            absent: BTreeMap::new(),
            topics: known_topics(&root),
            lost: Vec::new(),
            replay_from: 0,
            phase: Phase::Log,
            done: 0,
            last_queue: None,
            record: Vec::new(),
            total,
            queue_bytes,
            log_only,
            timers: None,
            inv,
            point,
            out,
            index,
            heads,
        };
        verifier.check_files();
        verifier.replay_from = verifier.find_replay();
        Ok(verifier)
    }

    /// Works on about `budget` bytes; returns how many are done and how many there are.
    pub fn step(&mut self, budget: u64) -> (u64, u64) {
        let until = self.done.saturating_add(budget.max(1));
        while self.done < until && self.phase != Phase::Done {
            match self.phase {
                Phase::Log => self.step_log(),
                Phase::Queues(n) if n < self.inv.queues.queues.len() && !self.log_only => {
                    self.check_queue(n);
                    self.done += self.queue_bytes[n];
                    self.phase = Phase::Queues(n + 1);
                }
                Phase::Queues(_) => {
                    self.check_offsets();
                    self.begin_timers();
                }
                Phase::Timers => self.step_timers(budget),
                Phase::Done => {}
            }
        }
        if self.phase == Phase::Done {
            self.done = self.total;
        }
        (self.done.min(self.total), self.total)
    }

    pub fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// What was found since the last call.
    pub fn findings(&mut self) -> Vec<Finding> {
        self.out.take()
    }

    /// (damage, warnings, notes, findings left out of the list) so far.
    pub fn counts(&self) -> (u64, u64, u64, u64) {
        let f = &self.out;
        (f.damage, f.warnings, f.notes, f.left_out)
    }

    pub fn summary(&self) -> Summary {
        let mut sum = self.sum.clone();
        sum.index = self.index.counts;
        sum
    }

    /// Records of each queue that the log has: (topic, queue id, records).
    pub fn records_by_queue(&self) -> Vec<(String, u32, u64)> {
        let queues = self.inv.queues.queues.iter().zip(&self.checks);
        queues
            .map(|(q, c)| (q.topic.clone(), q.id, c.records))
            .collect()
    }

    /// Names and lengths, without reading the files.
    fn check_files(&mut self) {
        let log = &self.inv.log;
        for (i, file) in log.files.iter().enumerate() {
            let last = i + 1 == log.files.len();
            if file.len != log.size && !(last && file.len == 0) {
                let text = format!("{} bytes, {} were expected", file.len, log.size);
                self.out.damage("file", &file.shown, file.len, text);
            }
            let Some(next) = log.files.get(i + 1) else {
                continue;
            };
            let end = file.base.saturating_add(log.size);
            if next.base > end {
                self.lost.push((end, next.base));
                let text = format!("a file is missing: {end} to {} are nowhere", next.base);
                self.out.damage("file", &next.shown, None, text);
            } else if next.base < end {
                let text = format!("it begins at {}, inside of the file before", next.base);
                self.out.damage("file", &next.shown, None, text);
            }
        }
        if self.log_only {
            return;
        }
        if self.inv.rocksdb {
            let text = "the queues are in a RocksDB, which is not read here".to_owned();
            self.out
                .add(Severity::Note, "file", "consumequeue", None, text);
        }
        let size = self.inv.queues.file_size;
        for queue in &self.inv.queues.queues {
            for (i, &(base, len)) in queue.files.iter().enumerate() {
                let (path, _) = queue.place((base / SIZE as u64) as i64);
                let last = i + 1 == queue.files.len();
                if len != size && !(last && len == 0) {
                    let text = format!("{len} bytes, {size} were expected");
                    self.out.damage("file", &path, len, text);
                }
                if base % SIZE as u64 != 0 {
                    let text = "its name is no multiple of 20".to_owned();
                    self.out.damage("file", &path, None, text);
                }
                if i > 0 && base != queue.files[i - 1].0.saturating_add(size) {
                    let before = queue.files[i - 1].0.saturating_add(size);
                    let text = format!("a file that begins at {before} is missing before it");
                    self.out.damage("file", &path, None, text);
                }
            }
        }
    }

    /// From where on the next start enters records into queues. [CommitLog.recover]
    fn find_replay(&mut self) -> u64 {
        if !self.inv.abort {
            // After a clean stop: from behind the newest record that has an entry.
            let queues = self.inv.queues.queues.iter_mut();
            return queues.map(|q| q.max_phys()).max().unwrap_or(0).max(0) as u64;
        }
        let known = self.point.min_timestamp();
        for i in (0..self.inv.log.files.len()).rev() {
            let time = self.heads.first_time(i).unwrap_or(0);
            if time != 0 && time <= known {
                return self.inv.log.files[i].base;
            }
        }
        0
    }

    fn around_timers(&self) -> Around {
        let queues = &self.inv.queues.queues;
        let queue = queues.iter().find(|q| is_timer_queue(&q.topic, q.id));
        Around {
            end_phys: self.sum.end_phys,
            clean: self.sum.clean,
            queue_end: queue.map(|q| q.end()),
        }
    }

    fn begin_timers(&mut self) {
        if !self.log_only {
            let around = self.around_timers();
            self.timers = TimerCheckRun::new(&self.inv.root, &around, &mut self.out);
        }
        self.phase = match self.timers {
            Some(_) => Phase::Timers,
            None => Phase::Done,
        };
    }

    fn step_timers(&mut self, budget: u64) {
        if let Some(run) = &mut self.timers {
            self.done += run.step(budget, &mut self.out);
            self.sum.timers = run.counts;
            if !run.is_done() {
                return;
            }
        }
        self.phase = Phase::Done;
    }

    fn step_log(&mut self) {
        let before = self.walker.phys();
        match self.walker.next() {
            Some(Event::Record(view)) => {
                let mut bytes = std::mem::take(&mut self.record);
                bytes.clear();
                bytes.extend_from_slice(self.walker.bytes());
                self.done += view.total as u64;
                if bytes.len() == view.total {
                    self.on_record(&view, &bytes);
                }
                self.record = bytes;
            }
            Some(Event::Blank { phys, fits }) => {
                let (path, at) = self.inv.log.place(phys);
                if !fits {
                    let text = "the blank record does not state what is left".to_owned();
                    self.out.add(Severity::Warning, "record", &path, at, text);
                }
                self.done += self.inv.log.size.saturating_sub(at.unwrap_or(0));
                let (end, next) = (
                    phys + self.inv.log.size - at.unwrap_or(0),
                    self.walker.phys(),
                );
                if next > end {
                    self.index.lost(end, next, &mut self.out);
                }
            }
            Some(Event::Damage { from, to, why }) => {
                let (path, at) = self.inv.log.place(from);
                let text = format!("{why}; lost are the {} bytes up to {to}", to - from);
                self.out.damage("record", &path, at, text);
                self.sum.damaged_parts += 1;
                self.sum.damaged_bytes += to - from;
                self.lost.push((from, to));
                self.index.lost(from, to, &mut self.out);
                self.done += to.saturating_sub(before);
            }
            Some(Event::End {
                phys,
                data_end,
                why,
            }) => self.on_end(phys, data_end, &why),
            None => {
                self.done = self.inv.log.files.iter().map(|f| f.len).sum();
                self.phase = Phase::Queues(0);
            }
        }
    }

    fn on_end(&mut self, phys: u64, data_end: u64, why: &str) {
        self.sum.end_phys = phys;
        self.sum.tail = data_end - phys;
        let (path, at) = self.inv.log.place(phys);
        let clean = self.sum.clean;
        if data_end > phys {
            let text = format!(
                "{why}; {} bytes to {data_end} are no records",
                data_end - phys
            );
            if !clean {
                let text = format!("{text}; the next start cuts them off");
                self.out.add(Severity::Note, "record", &path, at, text);
            } else if why == "zeros" || why.starts_with("no record") {
                self.out.add(Severity::Warning, "record", &path, at, text);
            } else {
                self.out.damage("record", &path, at, text);
            }
        } else if why.starts_with("cannot be read") {
            self.out.damage("record", &path, at, why.to_owned());
        }
        if self.sum.newest >= 0 && self.point.physic_msg_timestamp > self.sum.newest {
            let text = format!(
                "records up to time {} were on disk, the log ends at time {}",
                self.point.physic_msg_timestamp, self.sum.newest
            );
            self.out
                .add(Severity::Warning, "checkpoint", "checkpoint", 0, text);
        }
        self.lost.sort_unstable();
        self.index.finish(phys, clean, &mut self.out);
        self.report_absent();
    }

    fn on_record(&mut self, v: &View, bytes: &[u8]) {
        let phys = v.phys as u64;
        let topic = &bytes[v.topic.clone()];
        let props = &bytes[v.props.clone()];
        self.sum.records += 1;
        self.sum.bytes += v.total as u64;
        if self.sum.records == 1 {
            self.sum.oldest = v.store_timestamp;
        }
        self.sum.newest = self.sum.newest.max(v.store_timestamp);
        self.check_properties(phys, bytes, props);
        if self.log_only {
            self.count_queue(topic, v.queue_id);
            return;
        }
        let kind = v.sys_flag & sys_flag::TRANSACTION_MASK;
        if kind != sys_flag::ROLLBACK {
            let seed = index_format::topic_seed(topic);
            let keys: Vec<(i32, &[u8])> = index_format::message_keys(props)
                .map(|k| (index_format::key_hash(seed, k), k))
                .collect();
            let clean = self.sum.clean;
            self.index
                .record(phys, v.store_timestamp, &keys, clean, &mut self.out);
        }
        if kind == sys_flag::PREPARED || kind == sys_flag::ROLLBACK {
            self.sum.transactional += 1;
            return;
        }
        if v.sys_flag & sys_flag::INNER_BATCH != 0 {
            self.sum.batch += 1;
            return;
        }
        if !names::is_stored_topic(topic) || v.queue_id < 0 || v.queue_offset < 0 {
            let (path, at) = self.inv.log.place(phys);
            let text = format!(
                "no queue can have topic {:?}, queue {}, offset {}",
                shown(topic),
                v.queue_id,
                v.queue_offset
            );
            self.out.damage("record", &path, at, text);
            return;
        }
        if !self.inv.rocksdb {
            self.check_place(v, topic, props, phys);
        }
    }

    /// The queue of a record, if it has a folder.
    fn queue_of(&mut self, topic: &[u8], id: i32) -> Option<usize> {
        if let Some((t, q, index)) = &self.last_queue
            && t == topic
            && *q == id
        {
            return Some(*index);
        }
        let name = std::str::from_utf8(topic).ok()?;
        let index = self.inv.queues.find(name, u32::try_from(id).ok()?)?;
        self.last_queue = Some((topic.to_vec(), id, index));
        Some(index)
    }

    fn count_queue(&mut self, topic: &[u8], id: i32) {
        if let Some(index) = self.queue_of(topic, id) {
            self.checks[index].records += 1;
        }
    }

    fn check_place(&mut self, v: &View, topic: &[u8], props: &[u8], phys: u64) {
        let to_come = phys >= self.replay_from;
        let Some(index) = self.queue_of(topic, v.queue_id) else {
            if to_come {
                self.sum.to_dispatch += 1;
                return;
            }
            let key = (topic.to_vec(), v.queue_id);
            let seen = self.absent.entry(key).or_insert((0, phys, phys));
            (seen.0, seen.2) = (seen.0 + 1, phys);
            return;
        };
        let owner = Owner {
            phys,
            size: v.total,
            offset: v.queue_offset,
            topic,
            props,
            store_timestamp: v.store_timestamp,
        };
        let log = &self.inv.log;
        let place = self.checks[index].record(
            &mut self.inv.queues.queues[index],
            &owner,
            to_come,
            !self.lost.is_empty(),
            &mut self.out,
            || log.place(phys),
        );
        if place == Place::Missing && to_come {
            self.sum.to_dispatch += 1;
        }
    }

    /// What the body's CRC does not cover.
    fn check_properties(&mut self, phys: u64, bytes: &[u8], props: &[u8]) {
        let mut fault = None;
        if std::str::from_utf8(props).is_err() {
            fault = Some("properties are not UTF-8");
        } else {
            let mut chunks = props.split(|&b| b == properties::VALUE_END);
            let odd = |c: &[u8]| !c.is_empty() && !c.contains(&properties::NAME_END);
            if chunks.any(odd) {
                fault = Some("a property has no name");
            }
        }
        if let Some(text) = fault {
            let (path, at) = self.inv.log.place(phys);
            let text = text.to_owned();
            self.out.add(Severity::Warning, "record", &path, at, text);
        }
        if let Some(stated) = record_crc(props)
            && stated != crc31(&bytes[..bytes.len() - CRC_LEN])
        {
            let (path, at) = self.inv.log.place(phys);
            let text = "the record's own CRC (property __CRC32#) differs".to_owned();
            self.out.damage("record", &path, at, text);
        }
    }

    fn report_absent(&mut self) {
        for ((topic, id), (n, first, last)) in std::mem::take(&mut self.absent) {
            let name = String::from_utf8_lossy(&topic).into_owned();
            let batch = self.inv.root.join("batchconsumequeue").join(&name);
            if batch.is_dir() {
                self.sum.batch += n;
                continue;
            }
            let known = self.topics.as_ref().is_none_or(|t| t.contains(&name));
            if !known && !self.inv.queues.has_topic(&name) {
                self.sum.deleted_topics += n;
                continue;
            }
            let path = format!("consumequeue/{name}/{id}");
            let text = format!("there is no such queue, but {n} records of it, {first} to {last}");
            self.out.damage("queue", &path, None, text);
        }
    }

    fn check_queue(&mut self, n: usize) {
        let queue = &mut self.inv.queues.queues[n];
        let mut facts = LogFacts {
            heads: &mut self.heads,
            min: self.sum.min_phys,
            end: self.sum.end_phys,
            lost: &self.lost,
            clean: self.sum.clean,
        };
        let c = check_entries(queue, &mut self.checks[n], &mut facts, &mut self.out);
        let all = &mut self.sum.entries;
        all.entries += c.entries;
        all.expired += c.expired;
        all.behind += c.behind;
        all.lost += c.lost;
        all.shared += c.shared;
    }

    /// Groups that committed more than their queue has would skip what comes next.
    fn check_offsets(&mut self) {
        if self.log_only || self.inv.rocksdb || self.sum.to_dispatch > 0 {
            return;
        }
        for (group, topic, id, offset) in committed_offsets(&self.inv.root) {
            let Some(n) = self.inv.queues.find(&topic, id) else {
                continue;
            };
            let end = self.inv.queues.queues[n].end();
            if offset > end {
                let text = format!(
                    "group {} has offset {offset} of {}-{id}, which ends at {end}",
                    shown(group.as_bytes()),
                    shown(topic.as_bytes())
                );
                let path = "config/consumerOffset.json";
                self.out.add(Severity::Warning, "config", path, None, text);
            }
        }
    }
}

/// Length of the property that holds a record's own CRC, at its very end.
const CRC_LEN: usize = 20;

/// The CRC that `enabledAppendPropCRC` put behind the other properties: ten digits, the least
/// significant first. [MessageExtEncoder]
fn record_crc(props: &[u8]) -> Option<i32> {
    let tail = props.last_chunk::<CRC_LEN>()?;
    let digits = tail.strip_prefix(b"__CRC32#\x01")?.strip_suffix(b"\x02")?;
    let mut value: i64 = 0;
    for &digit in digits.iter().rev() {
        value = value * 10 + digit.is_ascii_digit().then(|| (digit - b'0') as i64)?;
    }
    i32::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use super::record_crc;

    #[test]
    fn crc_of_the_worked_example() {
        let text = b"TAGS\x01a\x02__CRC32#\x019452110800\x02";
        assert_eq!(record_crc(text), Some(80112549));
        assert_eq!(record_crc(b"TAGS\x01a\x02"), None);
        assert_eq!(record_crc(b"__CRC32#\x0194521108x0\x02"), None);
    }
}
