//! A selection compared with the stores: topics, brokers and queues that are named but not there.

use super::checks::option;
use super::config_folder;
use super::error::{Kind, Part, Result, SegmentError};
use super::near::close_matches;
use super::notes::Notes;
use super::path::join;
use super::place::Shape;
use super::queues::queue_id;
use super::repr;
use super::reserved::is_reserved;
use super::rule::Chooser;
use super::selection::{Offsets, Selection};
use super::store::SegmentStore;
use rustc_hash::FxHashSet;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const SHOWN_TOPICS: usize = 3;
const SHOWN_QUEUES: usize = 8;

impl Selection {
    /// UnknownTopicError and SegmentOptionError for what is named but not there.
    ///
    /// `may_come`: topics and queues may appear later, as in a stream.
    pub fn check_against(
        &self,
        stores: &[SegmentStore],
        may_come: bool,
        notes: &Notes,
    ) -> Result<()> {
        let chooser = Chooser::new(self)?;
        let check = |parameter, topic: &str, brokers: &[&str]| {
            check_named(&chooser, parameter, topic, brokers, stores)
        };
        for (topic, of) in self.assign.iter().flatten() {
            let brokers: Vec<_> = of.keys().map(String::as_str).collect();
            check("assign", topic, &brokers)?;
        }
        for (parameter, offsets) in [
            ("starting_offsets", &self.starting_offsets),
            ("ending_offsets", &self.ending_offsets),
        ] {
            let Offsets::Of(named) = offsets else {
                continue;
            };
            for (topic, of) in named {
                let brokers: Vec<_> = of.keys().map(String::as_str).collect();
                check(parameter, topic, &brokers)?;
            }
        }
        for (parameter, times) in [
            ("starting_times", &self.starting_times),
            ("ending_times", &self.ending_times),
        ] {
            for (topic, of) in times.iter().filter_map(Value::as_object).flatten() {
                let brokers = of.as_object().into_iter().flat_map(|of| of.keys());
                let brokers: Vec<_> = brokers.map(String::as_str).collect();
                check(parameter, topic, &brokers)?;
            }
        }
        if may_come {
            return Ok(());
        }
        match self.missing_topics(stores, notes)?.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// What would be raised for each topic that is named and not there; none where a log may hold any
    /// topic.
    pub fn missing_topics(
        &self,
        stores: &[SegmentStore],
        notes: &Notes,
    ) -> Result<Vec<SegmentError>> {
        let mut named: Vec<&str> = self.named_topics().unwrap_or_default();
        for offsets in [&self.starting_offsets, &self.ending_offsets] {
            if let Offsets::Of(of) = offsets {
                named.extend(of.keys().map(String::as_str));
            }
        }
        for times in [&self.starting_times, &self.ending_times] {
            let times = times.iter().filter_map(Value::as_object);
            named.extend(times.flat_map(|of| of.keys()).map(String::as_str));
        }
        if named.is_empty() {
            return Ok(Vec::new());
        }
        let mut known = BTreeSet::new();
        for store in stores {
            match store.topics(notes)? {
                Some(topics) => known.extend(topics),
                None => return Ok(Vec::new()),
            }
        }
        let mut seen = FxHashSet::default();
        let missing = named.into_iter().filter(|topic| seen.insert(*topic));
        let missing = missing.filter(|topic| !known.contains(*topic));
        Ok(missing
            .map(|topic| unknown_topic(topic, &known, "the store"))
            .collect())
    }
}

fn check_named(
    chooser: &Chooser<&Selection>,
    parameter: &'static str,
    topic: &str,
    named: &[&str],
    stores: &[SegmentStore],
) -> Result<()> {
    if !chooser.selects(topic)? {
        let what = format!(" names topic {}, which is not selected", repr::text(topic));
        return Err(option([Part::Name(parameter), what.into()])
            .hint("leave it out, or select the topic too"));
    }
    let mut unknown = named
        .iter()
        .filter(|name| stores.iter().all(|s| s.name != ***name));
    let Some(unknown) = unknown.by_ref().min() else {
        return Ok(());
    };
    let brokers: Vec<_> = stores.iter().map(|store| store.name.as_str()).collect();
    let what = format!(": there is no broker {}", repr::text(unknown));
    Err(option([Part::Name(parameter), what.into()]).hint([
        format!(
            "the stores are of {}{}; ",
            brokers.join(", "),
            folder_of(stores, unknown)
        )
        .into(),
        Part::Name("broker_names"),
        " sets other names".into(),
    ]))
}

/// What to say where a broker is named as the folder of a store that says another name.
fn folder_of(stores: &[SegmentStore], name: &str) -> String {
    match stores.iter().find(|store| store.folder_name == name) {
        Some(store) => {
            let own = &store.name;
            format!(" ({name} is only the folder's name: broker {own} wrote it)")
        }
        None => String::new(),
    }
}

/// Says which names are near.
pub fn unknown_topic(topic: &str, known: &BTreeSet<String>, place: &str) -> SegmentError {
    let by_fold: BTreeMap<String, &String> = known
        .iter()
        .map(|name| (name.to_lowercase(), name))
        .collect();
    let folded = by_fold.keys().map(String::as_str);
    let near = close_matches(&topic.to_lowercase(), folded, SHOWN_TOPICS, 0.6);
    let hint = if !near.is_empty() {
        let names: Vec<_> = near.iter().map(|name| by_fold[*name].as_str()).collect();
        format!("did you mean {}?", names.join(" or "))
    } else if known.is_empty() {
        format!("{place} has no topic yet")
    } else {
        let mut own: Vec<&str> = known.iter().map(String::as_str).collect();
        if own.iter().any(|name| !is_reserved(name)) {
            own.retain(|name| !is_reserved(name));
        }
        let more = if own.len() > SHOWN_TOPICS {
            ", …"
        } else {
            ""
        };
        let shown = own[..own.len().min(SHOWN_TOPICS)].join(", ");
        format!("there are {} topics: {shown}{more}", own.len())
    };
    let text = format!("topic {} is not in {place}", repr::text(topic));
    SegmentError::new(Kind::UnknownTopic, text).hint(hint)
}

/// SegmentOptionError for a queue of a topic that is there but has no such queue.
///
/// A queue is there if config/topics.json says so, also while it is empty, or if it has a folder. Where
/// the log alone was given, or queues are in RocksDB and there is no topics.json, nothing can be said.
pub fn check_assigned(selection: &Selection, stores: &[SegmentStore], notes: &Notes) -> Result<()> {
    let Some(assign) = &selection.assign else {
        return Ok(());
    };
    for store in stores {
        let own = assign
            .iter()
            .filter_map(|(topic, of)| Some((topic, of.get(&store.name)?)));
        let own: Vec<_> = own.filter(|(_, ids)| !ids.is_empty()).collect();
        if own.is_empty() || store.base.is_empty() {
            continue;
        }
        let config = join(&store.base, "config");
        let counts = config_folder::queue_counts(store.place(), &config, notes);
        let counts = counts.unwrap_or_default();
        for (topic, ids) in own {
            let there = queues_of(store, topic, counts.get(topic).copied().unwrap_or(0))?;
            let missing = ids.iter().find(|id| !there.contains(id));
            let Some(number) = missing.filter(|_| !there.is_empty()) else {
                continue;
            };
            let what = format!(
                ": there is no queue {number} of topic {topic} on broker {}",
                store.name
            );
            let shown: Vec<_> = there
                .iter()
                .take(SHOWN_QUEUES)
                .map(i32::to_string)
                .collect();
            let more = if there.len() > SHOWN_QUEUES {
                ", …"
            } else {
                ""
            };
            return Err(option([Part::Name("assign"), what.into()])
                .hint(format!("it has {}{more}", shown.join(", "))));
        }
    }
    Ok(())
}

/// Queue ids of a topic; none: they are not known.
fn queues_of(store: &SegmentStore, topic: &str, count: i32) -> Result<BTreeSet<i32>> {
    if matches!(topic, "." | "..") || topic.contains('/') {
        return Ok(BTreeSet::new());
    }
    let mut found: BTreeSet<i32> = (0..count).collect();
    for kind in ["consumequeue", "batchconsumequeue"] {
        let folder = join(&join(&store.base, kind), topic);
        if store.place().shape(&folder)? == Shape::Folder {
            let listed = store.place().list(&folder)?;
            let folders = listed.iter().filter(|one| !one.is_file);
            found.extend(folders.filter_map(|one| queue_id(&one.name)));
        }
    }
    Ok(found)
}
