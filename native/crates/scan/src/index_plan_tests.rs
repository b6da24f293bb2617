//! Plans by queues and by the index, compared with the rows of made stores.

use super::*;
use crate::made::{Made, Put, Row, Way, make};
use crate::queues::tests::{puts, way};
use crate::{ReadOptions, Selection, Task};
use proptest::prelude::*;
use pyrmq_store::{Index, IndexConfig};
use std::collections::BTreeMap;

fn task(made: &Made, rule: &Rule, one: &IndexTask) -> Task {
    Task {
        broker: "b".to_owned(),
        root: made.store.root.clone(),
        files: made.store.files.clone(),
        place: None,
        start: one.start,
        end: one.end,
        log_end: one.end,
        rule: rule.clone().into(),
        how: ReadOptions::default(),
        fail_on_data_loss: true,
        span: None,
        by_entries: true,
        queues: one.queues.clone(),
        places: one.places.clone(),
    }
}

fn rule(selection: Selection) -> Rule {
    Rule {
        selection,
        ..Rule::default()
    }
}

fn selects(rule: &Rule, row: &Row) -> bool {
    let asker = Asker::new(rule).unwrap();
    let range = asker.offsets(row.topic, row.queue).unwrap();
    let by_tag = |tags: &Vec<String>| row.tag.is_some_and(|tag| tags.iter().any(|t| t == tag));
    range.is_some_and(|(from, before)| from <= row.offset && row.offset < before)
        && rule.selection.tags.as_ref().is_none_or(by_tag)
}

fn rules() -> impl Strategy<Value = Rule> {
    let topics = prop::sample::subsequence(vec!["A", "B", "SCHEDULE_TOPIC_XXXX"], 1..3);
    let tags = prop::option::of(prop::sample::subsequence(vec!["a", "b", "Aa"], 1..3));
    let bound = || prop::collection::btree_map(0..3i32, 0i64..40, 0..3);
    (topics, tags, bound(), bound()).prop_map(|(topics, tags, starts, ends)| {
        let names = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<Vec<_>>();
        let of_topic = |bounds: BTreeMap<i32, i64>| match bounds.is_empty() {
            true => BTreeMap::new(),
            false => BTreeMap::from([("A".to_owned(), bounds)]),
        };
        Rule {
            selection: Selection {
                topics: names(topics),
                tags: tags.map(names),
                ..Selection::default()
            },
            queues: None,
            starts: of_topic(starts),
            ends: of_topic(ends),
        }
    })
}

proptest! {
    #[test]
    fn tasks_and_scans_have_each_row_once(
        puts in puts(), way in way(), rule in rules(), size in 1u64..3000, most in 1usize..9,
        ends in (0.0..1.0f64, 0.0..1.0f64),
    ) {
        let made = make(&puts, &way);
        let edge = |part: f64| {
            let rows = &made.rows;
            let at = (rows.len() as f64 * part) as usize;
            rows.get(at).map_or(made.log_end, |row| row.phys)
        };
        let (low, high) = (edge(ends.0.min(ends.1)), edge(ends.0.max(ends.1)));
        let notes = Notes::default();
        let plan =
            by_queues(&made.store, &rule, (low, high), made.log_end, |_| size, None, &notes);
        let plan = plan.unwrap();
        let wanted: Vec<&Row> = made
            .rows
            .iter()
            .filter(|row| low <= row.phys && row.phys < high && selects(&rule, row))
            .collect();
        let mut named = BTreeMap::new();
        let mut last = low;
        let mut messages = 0;
        for one in &plan.tasks {
            prop_assert!(last <= one.start && one.start < one.end);
            last = one.end;
            let task = task(&made, &rule, one);
            let found = entries::positions(&task).unwrap();
            prop_assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0));
            messages += found.len() as u64;
            let parts = entries::at_most(&task, most).unwrap();
            let mut again = Vec::new();
            for part in &parts {
                let few = entries::positions(part).unwrap();
                prop_assert!(few.len() <= most);
                again.extend(few);
            }
            prop_assert_eq!(&again, &found);
            named.extend(found);
        }
        // Not known where an entry may stand for several messages.
        prop_assert!(plan.messages.is_none_or(|most| most == messages));
        prop_assert_eq!(plan.bytes, Some(named.values().map(|size| *size as u64).sum::<u64>()));
        let scanned = |row: &Row| plan.scans.iter().any(|r| r.0 <= row.phys && row.phys < r.1);
        for row in &wanted {
            let by_entry = named.get(&row.phys).is_some_and(|size| *size as u64 == row.size);
            prop_assert!(by_entry != scanned(row), "{row:?} {plan:?}");
        }
        // What is named is of the topics and queues; tags may be others of the same hash.
        let mut all = rule.clone();
        all.selection.tags = None;
        for phys in named.keys() {
            prop_assert!(made.rows.iter().any(|row| row.phys == *phys && selects(&all, row)));
        }
    }
}

fn plan(made: &Made, rule: &Rule, share: Option<f64>) -> Result<IndexPlan, NoIndex> {
    let (low, high) = (made.store.first(), made.log_end);
    by_queues(
        &made.store,
        rule,
        (low, high),
        high,
        |_| 1 << 30,
        share,
        &Notes::default(),
    )
}

fn topic(names: &[&str]) -> Rule {
    rule(Selection {
        topics: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Selection::default()
    })
}

fn why(found: Result<IndexPlan, NoIndex>) -> String {
    found.unwrap_err().to_string()
}

#[test]
fn what_makes_queues_unusable() {
    let mut puts = vec![Put::new("A", 0); 40];
    puts.push(Put::new("B", 0));
    let made = make(&puts, &Way::default());
    assert_eq!(
        why(plan(&made, &topic(&["A"]), Some(SHARE))),
        "the messages of the queues are too much of the log"
    );
    assert!(plan(&made, &topic(&["B"]), Some(SHARE)).is_ok());
    assert_eq!(
        why(plan(&made, &topic(&["B", "C"]), Some(SHARE))),
        "topic C has no queue folder"
    );
    assert!(plan(&made, &topic(&["B", "C"]), None).is_ok());
    // The second entry stands before the first one.
    let path = made
        .dir
        .path()
        .join("consumequeue/A/0")
        .join("0".repeat(20));
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[20..28].fill(0);
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(
        why(plan(&made, &topic(&["A"]), None)),
        "queue A-0 is damaged"
    );
    let path = path.with_file_name("00000000000000000160");
    std::fs::remove_file(path).unwrap();
    assert_eq!(
        why(plan(&made, &topic(&["A"]), None)),
        "a file of queue A-0 is missing"
    );
}

fn queue_file(made: &Made, topic: &str) -> std::path::PathBuf {
    let folder = made.dir.path().join("consumequeue").join(topic).join("0");
    folder.join("0".repeat(20))
}

/// Each message of one topic has a place that the other's has too.
fn two_topics() -> Made {
    let turns = ["A", "B"].into_iter().cycle().take(10);
    let puts: Vec<Put> = turns.map(|topic| Put::new(topic, 0)).collect();
    make(&puts, &Way::default())
}

#[test]
fn entries_of_another_queue() {
    let made = two_topics();
    let own = std::fs::read(queue_file(&made, "A")).unwrap();
    std::fs::copy(queue_file(&made, "B"), queue_file(&made, "A")).unwrap();
    let wrong = "entries of queue A-0 lead to messages that are not its own";
    assert_eq!(why(plan(&made, &topic(&["A"]), None)), wrong);
    // One entry is missing: those behind it say another offset.
    let mut bytes = own.clone();
    bytes.drain(20..40);
    bytes.extend([0; 20]);
    std::fs::write(queue_file(&made, "A"), bytes).unwrap();
    assert_eq!(why(plan(&made, &topic(&["A"]), None)), wrong);
    std::fs::write(queue_file(&made, "A"), own).unwrap();
    assert!(plan(&made, &topic(&["A"]), None).is_ok());
}

#[test]
fn a_file_that_is_cut_short() {
    let made = two_topics();
    let bytes = std::fs::read(queue_file(&made, "A")).unwrap();
    std::fs::write(queue_file(&made, "A"), &bytes[..60]).unwrap();
    assert_eq!(
        why(plan(&made, &topic(&["A"]), Some(1.0))),
        "the last file of queue A-0 may be cut short"
    );
    let path = queue_file(&made, "A");
    std::fs::rename(&path, path.with_file_name(format!("{:020}", 7))).unwrap();
    let said = why(plan(&made, &topic(&["A"]), None));
    assert!(said.ends_with("begins within an entry"), "{said}");
}

#[test]
fn a_queue_that_begins_late_may_lack_files() {
    let puts = vec![Put::new("A", 0), Put::new("B", 0), Put::new("B", 0)];
    let way = Way {
        first_offset: PER_FILE_TWICE,
        ..Way::default()
    };
    let made = make(&puts, &way);
    assert_eq!(
        why(plan(&made, &topic(&["A"]), Some(1.0))),
        "files in front of 16 of queue A-0 may be missing"
    );
    assert!(plan(&made, &topic(&["A"]), None).is_ok());
}

const PER_FILE_TWICE: u64 = 2 * crate::made::PER_FILE as u64;

#[test]
fn entries_that_are_deleted_before_they_are_read() {
    let made = make(&vec![Put::new("A", 0); 20], &Way::default());
    let rule = topic(&["A"]);
    let found = plan(&made, &rule, None).unwrap();
    let mut one = task(&made, &rule, &found.tasks[0]);
    one.queues[0].files.remove(0);
    let error = entries::positions(&one).unwrap_err();
    assert_eq!(error.kind, Kind::DataLoss);
    let text = error.to_string();
    assert!(
        text.contains("the entries of queue A-0 from 0 on were deleted before they were read"),
        "{text}"
    );
}

#[test]
fn keys_are_found_by_the_index() {
    let keyed = |topic, key| Put {
        key: Some(key),
        ..Put::new(topic, 0)
    };
    let mut puts: Vec<Put> = (0..30)
        .map(|n| keyed("A", ["x", "y", "z"][n % 3]))
        .collect();
    puts.push(keyed("B", "x"));
    let made = make(&puts, &Way::default());
    let dir = made.dir.path().join("index");
    let by = |made: &Made, names: &[&str], key: &str| {
        let mut rule = topic(names);
        rule.selection.key = Some(key.to_owned());
        by_key(&made.store, &rule, (made.store.first(), made.log_end))
    };
    assert_eq!(why(by(&made, &["A"], "x")), "the store has no index folder");
    let cfg = IndexConfig {
        dir: dir.clone(),
        slots: 16,
        entries: 64,
    };
    let index = Index::open(cfg).unwrap();
    index.recover(true, 0).unwrap();
    // The first and the last messages are not indexed.
    for row in &made.rows[3..28] {
        let seed = pyrmq_format::index::topic_seed(row.topic.as_bytes());
        let hash = pyrmq_format::index::key_hash(seed, row.key.unwrap().as_bytes());
        index.put(hash, row.phys, 1000).unwrap();
    }
    index.flush(true).unwrap();
    drop(index);
    let made = Made {
        store: SegmentStore {
            index: Some(dir.to_string_lossy().into_owned()),
            ..made.store.clone()
        },
        ..made
    };
    let found = by(&made, &["A", "B"], "x").unwrap();
    let places: Vec<u64> = (made.rows.iter())
        .filter(|row| row.key == Some("x") && row.phys >= made.rows[3].phys)
        .take_while(|row| row.phys < made.rows[27].phys)
        .map(|row| row.phys)
        .collect();
    assert_eq!(found.tasks.len(), 1);
    assert_eq!(found.tasks[0].places, places);
    assert_eq!(
        found.scans,
        [(0, made.rows[3].phys), (made.rows[27].phys, made.log_end)]
    );
    assert_eq!(
        why(by(&made, &[], "x")),
        "the index finds a key of a topic that is named"
    );
    std::fs::create_dir_all(made.dir.path().join("batchconsumequeue/B")).unwrap();
    assert_eq!(
        why(by(&made, &["B"], "x")),
        "topic B has inner batches, whose keys are not in the index"
    );
}

#[test]
fn an_index_that_grows_between_two_topics() {
    let puts: Vec<Put> = (0..20).map(|n| Put::new(["A", "B"][n % 2], 0)).collect();
    let mut made = make(&puts, &Way::default());
    made.store.index = Some("index".to_owned());
    let mut rule = topic(&["A", "B"]);
    rule.selection.key = Some("x".to_owned());
    let (middle, end) = (made.rows[10].phys, made.log_end);
    let mut asked = Vec::new();
    let found = by_key_with(&made.store, &rule, (0, end), |_, topic, _| {
        asked.push(topic.to_owned());
        Ok(match asked.len() {
            1 => (vec![made.rows[2].phys], Some((0, middle))),
            _ => (vec![made.rows[15].phys], Some((0, end))),
        })
    });
    let found = found.unwrap();
    assert_eq!(asked, ["A", "B"]);
    // What only one of the looks covers is scanned, and what it found there is left to that.
    assert_eq!(found.scans, [(middle, end)]);
    assert_eq!(found.tasks[0].places, [made.rows[2].phys]);
}

#[test]
fn a_crash_leaves_doubt() {
    let made = make(&[Put::new("A", 0)], &Way::default());
    assert_eq!(why_incomplete(&made.store), "");
    std::fs::write(made.dir.path().join("abort"), "1").unwrap();
    assert_eq!(
        why_incomplete(&made.store),
        "the last stop of its broker was a crash"
    );
    assert_eq!(
        refuse("it lacks queues").to_string(),
        "plan=index is not possible here: it lacks queues"
    );
}
