//! Where in a log a stream starts: earliest, latest, a time, or offsets by queue. How a limit of one
//! of its batches is shared by logs, and where it ends in a log.

use super::at_times::first_at;
use super::bounds::{
    QueueExtent, as_bounds, check_not_behind_end, of_broker, queue_extents, without_deleted,
};
use super::error::{Kind, Part, Result, SegmentError};
use super::log_ranges;
use super::notes::Notes;
use super::offsets::{EARLIEST, LATEST};
use super::queues::{Reach, dispatched, phys_at, place_of};
use super::read_options::ReadOptions;
use super::repr;
use super::selection::{Offsets, Rule, Selection};
use super::store::SegmentStore;
use super::walk_log::{self, Key, walk_log};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use pyrmq_arrow::{Column, Reader, RecordSource};
use std::collections::BTreeMap;

/// Bytes before a limit in which the start of a record is looked for.
const SEARCHED: u64 = 8 << 20;

/// A position in one broker's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub phys: u64,
    /// First queue offsets, for queues whose earlier messages stand behind `phys`.
    pub offsets: BTreeMap<Key, i64>,
    /// Physical offset from which on `offsets` select everything.
    pub until: u64,
    /// False: everything is older than the time that is asked for.
    pub found: bool,
}

impl Start {
    fn at(phys: u64) -> Self {
        Start {
            phys,
            offsets: BTreeMap::new(),
            until: 0,
            found: true,
        }
    }
}

/// Where a stream over a log that ends at `end` starts. Errors are those of the selection.
pub fn starting_at(
    store: &SegmentStore,
    end: u64,
    selection: &Selection,
    how: &ReadOptions,
    fail_on_data_loss: bool,
    notes: &Notes,
) -> Result<Start> {
    if let Some(time) = selection.start_time {
        for (low, high) in log_ranges::present_ranges(store, store.first(), end, false, notes)? {
            if let Some(phys) = first_at(store, (low, high), time, how.on_corruption)? {
                return Ok(Start::at(phys));
            }
        }
        return Ok(Start {
            found: false,
            ..Start::at(end)
        });
    }
    if selection.starting_offsets == Offsets::Latest {
        return Ok(Start::at(end));
    }
    let named = of_broker(&selection.starting_offsets, &store.name);
    if named.is_empty() {
        return Ok(Start::at(store.first()));
    }
    by_queue(store, end, selection, named, fail_on_data_loss, notes)
}

fn by_queue(
    store: &SegmentStore,
    end: u64,
    selection: &Selection,
    mut named: BTreeMap<Key, i64>,
    fail: bool,
    notes: &Notes,
) -> Result<Start> {
    let rule = selection.rule(&store.name, None, None);
    // What has no entry yet stands behind the last message that has one; looked for first, as a
    // broker may go on dispatching.
    let last = match store.queues {
        None => end,
        Some(_) => dispatched(store, end, end)?.max(store.first()),
    };
    let extents = queue_extents(store, &rule, store.first(), end, notes)?;
    for (key, offset) in &mut named {
        if *offset == LATEST {
            *offset = extents.get(key).map_or(0, |extent| extent.high);
        }
    }
    check_not_behind_end("starting_offsets", &named, &extents, &store.name)?;
    let wanted: BTreeMap<Key, i64> = named
        .iter()
        .filter(|&(_, &offset)| offset != EARLIEST)
        .map(|(key, &offset)| (key.clone(), offset))
        .collect();
    let wanted = without_deleted(wanted, &extents, &store.name, fail, notes)?;
    let places = places(store, &rule, &extents, &wanted, (last, end), notes)?;
    // Else some queue starts at its earliest; it may have no entry yet.
    let mut all = extents.keys().chain(named.keys());
    let phys = match all.all(|key| wanted.contains_key(key)) {
        true => places.values().copied().min().unwrap_or(end),
        false => store.first(),
    };
    let low = |key: &Key| extents.get(key).map_or(0, |extent| extent.low);
    let offsets: BTreeMap<Key, i64> = wanted
        .into_iter()
        .filter(|(key, offset)| *offset > low(key))
        .collect();
    let until = offsets.keys().map(|key| places[key]).max().unwrap_or(phys);
    Ok(match until > phys {
        true => Start {
            phys,
            offsets,
            until,
            found: true,
        },
        false => Start::at(phys),
    })
}

/// Physical offset at or before that of the first message of each queue from its offset on.
fn places(
    store: &SegmentStore,
    rule: &Rule,
    extents: &BTreeMap<Key, QueueExtent>,
    wanted: &BTreeMap<Key, i64>,
    (last, end): (u64, u64),
    notes: &Notes,
) -> Result<BTreeMap<Key, u64>> {
    let mut out = BTreeMap::new();
    if store.queues.is_none() {
        let chosen = Rule {
            starts: as_bounds(wanted),
            ends: Default::default(),
            ..rule.clone()
        };
        let found = walk_log(store, &chosen, store.first(), end, notes)?;
        for key in wanted.keys() {
            out.insert(key.clone(), found.get(key).map_or(end, |seen| seen.phys));
        }
        return Ok(out);
    }
    for (key, &offset) in wanted {
        let reach: Option<&Reach> = extents.get(key).and_then(|extent| extent.reach.as_ref());
        let phys = match reach {
            Some(reach) => phys_at(reach, place_of(reach, offset)?, end)?.min(last),
            None => last,
        };
        out.insert(key.clone(), phys);
    }
    Ok(out)
}

/// The names that the stores' folders give them.
pub fn by_folder(stores: &[SegmentStore]) -> Vec<&str> {
    stores
        .iter()
        .map(|store| match store.folder_name.as_str() {
            "" => store.name.as_str(),
            folder => folder,
        })
        .collect()
}

/// SegmentOptionError where the folder of one store has the name of another one's broker: a
/// checkpoint with that name might be of either.
pub fn check_names(stores: &[SegmentStore]) -> Result<()> {
    let roots: BTreeMap<&str, &str> = stores
        .iter()
        .map(|store| (store.name.as_str(), store.root.as_str()))
        .collect();
    for (store, folder) in stores.iter().zip(by_folder(stores)) {
        if folder == store.name {
            continue;
        }
        if let Some(other) = roots.get(folder) {
            let text = format!(
                "{} is of broker {}, but its folder has the name of the broker of {other}: a \
                 checkpoint could mean either",
                store.root,
                repr::text(&store.name),
            );
            return Err(SegmentError::new(Kind::Option, text).hint([
                "give ".into(),
                Part::Name("broker_names"),
                ", one for each path".into(),
            ]));
        }
    }
    Ok(())
}

/// The start of a record: `start`, or one shortly before `end`.
pub fn record_near(store: &SegmentStore, start: u64, end: u64) -> Result<u64> {
    record_within(store, start, end, SEARCHED)
}

/// The same within so many bytes before `end`.
fn record_within(store: &SegmentStore, start: u64, end: u64, searched: u64) -> Result<u64> {
    let near = end.saturating_sub(searched);
    if near <= start {
        return Ok(start);
    }
    let source = RecordSource::Range {
        file_set: store.file_set(log_ranges::overlapping(&store.files, near, end))?,
        range: (near, end),
        log_end: end,
        exact: false,
    };
    let settings = walk_log::settings(&[Column::CommitLogOffset], 1);
    let mut reader = Reader::new(source, pyrmq_arrow::Selection::new(None), settings)?;
    Ok(match reader.next_batch()? {
        Some(batch) => batch.column(0).as_primitive::<Int64Type>().value(0) as u64,
        None => start,
    })
}

/// A limit shared by what there is to do, at least 1 each as far as it goes; the rest of a division
/// goes to the one with the most. None: no limit.
pub fn shares(limit: Option<u64>, todo: &BTreeMap<String, u64>) -> BTreeMap<String, Option<u64>> {
    let mut busy: Vec<(&String, u64)> = todo
        .iter()
        .map(|(name, &size)| (name, size))
        .filter(|(_, size)| *size > 0)
        .collect();
    busy.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let all = |share: Option<u64>| todo.keys().map(move |name| (name.clone(), share)).collect();
    let Some(limit) = limit.filter(|_| !busy.is_empty()) else {
        return all(None);
    };
    let mut out: BTreeMap<String, Option<u64>> = all(Some(0));
    let count = busy.len() as u64;
    if limit < count {
        for (name, _) in &busy[..limit as usize] {
            out.insert((*name).clone(), Some(1));
        }
        return out;
    }
    let (spare, total) = (limit - count, todo.values().map(|&size| size as u128).sum());
    let share = |size: u64| 1 + (spare as u128 * size as u128 / Ord::max(total, 1u128)) as u64;
    let given: u64 = busy.iter().map(|(_, size)| share(*size)).sum();
    for (number, (name, size)) in busy.iter().enumerate() {
        let rest = if number == 0 { limit - given } else { 0 };
        out.insert((*name).clone(), Some(share(*size) + rest));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{Put, Way, make};
    use proptest::prelude::*;

    fn todo(sizes: &[u64]) -> BTreeMap<String, u64> {
        let sizes = sizes.iter().enumerate();
        sizes.map(|(n, &size)| (format!("b{n}"), size)).collect()
    }

    #[test]
    fn a_limit_in_bytes_is_met_without_walking_to_it() {
        let puts: Vec<Put> = (0..100)
            .map(|n| Put {
                body: n * 13 % 120,
                ..Put::new("A", 0)
            })
            .collect();
        let made = make(&puts, &Way::default());
        let starts: Vec<u64> = made.rows.iter().map(|row| row.phys).collect();
        let mut searched = 0;
        for end in (1..made.log_end).step_by(37) {
            let found = record_within(&made.store, 0, end, 600).unwrap();
            assert!(found <= end && starts.contains(&found), "{found} for {end}");
            assert!(end - found <= 600 || found == 0, "{found} for {end}");
            searched += u64::from(found > 0);
        }
        assert!(searched > 100);
        assert_eq!(
            record_within(&made.store, starts[5], starts[6], 600).unwrap(),
            starts[5]
        );
    }

    #[test]
    fn the_biggest_gets_the_rest() {
        let shared = shares(Some(10), &todo(&[1, 1, 0, 4]));
        let all: Vec<_> = shared.values().copied().collect();
        assert_eq!(all, [Some(2), Some(2), Some(0), Some(6)]);
    }

    #[test]
    fn a_small_limit_goes_to_the_biggest() {
        let shared = shares(Some(1), &todo(&[1, 5, 5]));
        let all: Vec<_> = shared.values().copied().collect();
        assert_eq!(all, [Some(0), Some(1), Some(0)]);
    }

    proptest! {
        #[test]
        fn shares_add_up(limit in 1..=u64::MAX / 2, sizes in prop::collection::vec(0..=i64::MAX as u64, 0..8)) {
            let todo = todo(&sizes);
            let shared = shares(Some(limit), &todo);
            prop_assert_eq!(shared.len(), todo.len());
            let busy = todo.values().filter(|&&size| size > 0).count() as u64;
            if busy == 0 {
                prop_assert!(shared.values().all(Option::is_none));
            } else {
                let sum: u64 = shared.values().map(|share| share.unwrap()).sum();
                prop_assert_eq!(sum, limit);
                for (name, &size) in &todo {
                    let share = shared[name].unwrap();
                    prop_assert_eq!(share > 0, size > 0 && (limit >= busy || share > 0));
                }
            }
        }
    }
}
