//! How far a stream is behind: bytes of the logs, messages of the chosen queues.

use super::error::{Kind, Result, SegmentError};
use super::queues::{Queue, end_place, entry_at};
use super::rule::Asker;
use super::selection::Rule;
use super::store::SegmentStore;
use serde::Serialize;
use std::collections::BTreeMap;

/// Topics and queues whose messages are counted: that is some reads in each queue.
pub const MOST_TOPICS: usize = 500;
pub const MOST_QUEUES: usize = 2_000;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Behind {
    /// By broker, of the whole log.
    pub bytes: BTreeMap<String, u64>,
    /// Of each queue of the chosen topics; None where no queues say, or too many.
    pub messages: Option<Vec<QueueBehind>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueBehind {
    pub broker: String,
    pub topic: String,
    pub queue: i32,
    pub messages: u64,
}

/// The same as it stands in the progress of a query. None: no queues say, or there are none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Backlog {
    pub bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_messages: Option<u64>,
    /// With one digit behind the point.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avg_messages: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_messages: Option<u64>,
}

impl Behind {
    pub fn summary(&self) -> Backlog {
        let all = || self.messages.iter().flatten().map(|one| one.messages);
        let sum: Option<u64> = all().next().map(|_| all().sum());
        // As Python rounds: the text is exact, and halves go to the even digit.
        let rounded = |average: f64| format!("{average:.1}").parse().unwrap_or(average);
        let average = |sum: u64| rounded(sum as f64 / all().count() as f64);
        Backlog {
            bytes: self.bytes.values().sum(),
            messages: sum,
            min_messages: all().min(),
            avg_messages: sum.map(average),
            max_messages: all().max(),
        }
    }
}

/// From `at`, where a batch ends, to the ends of the logs; brokers that are not in `at` are not
/// counted.
pub fn behind(
    stores: &[SegmentStore],
    rule: impl Fn(&SegmentStore) -> Rule,
    at: &BTreeMap<String, u64>,
    ends: &BTreeMap<String, u64>,
) -> Result<Behind> {
    let mut out = Behind {
        bytes: BTreeMap::new(),
        messages: Some(Vec::new()),
    };
    for store in stores {
        let Some(&start) = at.get(&store.name) else {
            continue;
        };
        let end = ends.get(&store.name).copied().unwrap_or(start);
        out.bytes
            .insert(store.name.clone(), end.saturating_sub(start));
        let Some(sum) = &mut out.messages else {
            continue;
        };
        match messages(store, &rule(store), start, end)? {
            Some(found) if sum.len() + found.len() <= MOST_QUEUES => sum.extend(found),
            _ => out.messages = None,
        }
    }
    Ok(out)
}

fn messages(
    store: &SegmentStore,
    rule: &Rule,
    start: u64,
    end: u64,
) -> Result<Option<Vec<QueueBehind>>> {
    let Some(folder) = &store.queues else {
        return Ok(None);
    };
    let asker = Asker::new(rule)?;
    let mut topics = 0;
    for found in store.place().list(folder)? {
        topics += usize::from(asker.wants(&found.name)?);
    }
    if topics > MOST_TOPICS {
        return Ok(None);
    }
    let queues = asker.queues(store)?;
    if queues.len() > MOST_QUEUES {
        return Ok(None);
    }
    let mut out = Vec::new();
    for (queue, _) in queues {
        let count = match start >= end {
            true => 0,
            false => offset_behind(&queue, end)? - offset_behind(&queue, start)?,
        };
        out.push(QueueBehind {
            broker: store.name.clone(),
            topic: queue.topic,
            queue: queue.id,
            messages: count.max(0) as u64,
        });
    }
    Ok(Some(out))
}

/// Queue offset behind the last message in front of a place of the log.
fn offset_behind(queue: &Queue, phys: u64) -> Result<i64> {
    let place = end_place(queue, phys)?;
    if place > queue.first() {
        return match entry_at(queue, place - 1)? {
            Some(entry) => Ok(entry.behind),
            None => Err(SegmentError::new(
                Kind::Segment,
                format!("the files of queue {} are deleted meanwhile", queue.shown()),
            )),
        };
    }
    Ok(entry_at(queue, queue.first())?.map_or(0, |entry| entry.offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(counts: &[u64]) -> Behind {
        let one = |(queue, &messages): (usize, &u64)| QueueBehind {
            broker: "b".to_owned(),
            topic: "T".to_owned(),
            queue: queue as i32,
            messages,
        };
        Behind {
            bytes: BTreeMap::from([("a".to_owned(), 5), ("b".to_owned(), 7)]),
            messages: Some(counts.iter().enumerate().map(one).collect()),
        }
    }

    #[test]
    fn the_summary_has_the_names_of_progress() {
        let shown = serde_json::to_value(of(&[1, 2, 2]).summary()).unwrap();
        let wanted = json!({"bytes": 12, "messages": 5, "minMessages": 1, "avgMessages": 1.7,
            "maxMessages": 2});
        assert_eq!(shown, wanted);
    }

    #[test]
    fn halves_go_to_the_even_digit() {
        let average = |counts: &[u64]| of(counts).summary().avg_messages;
        assert_eq!(average(&[0, 0, 0, 1]), Some(0.2));
        assert_eq!(average(&[0, 0, 0, 3]), Some(0.8));
    }

    #[test]
    fn without_queues_there_are_bytes_only() {
        for behind in [
            of(&[]),
            Behind {
                messages: None,
                ..of(&[])
            },
        ] {
            let shown = serde_json::to_value(behind.summary()).unwrap();
            assert_eq!(shown, json!({"bytes": 12}));
        }
    }
}
