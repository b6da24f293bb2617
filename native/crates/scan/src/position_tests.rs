use super::*;
use proptest::prelude::*;
use serde_json::json;

fn log(of: &[(&str, u64)]) -> BTreeMap<String, u64> {
    of.iter().map(|&(name, at)| (name.to_owned(), at)).collect()
}

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|&text| text.to_owned()).collect()
}

fn assign(of: &[(&str, &str, &[i32])]) -> Assign {
    let mut out = Assign::new();
    for (topic, broker, queues) in of {
        let of_topic = out.entry((*topic).to_owned()).or_default();
        of_topic.insert((*broker).to_owned(), queues.to_vec());
    }
    out
}

fn named(topics: &[&str]) -> Selection {
    Selection {
        topics: texts(topics),
        ..Selection::default()
    }
}

fn assigned(of: &[(&str, &str, &[i32])]) -> Selection {
    Selection {
        assign: Some(assign(of)),
        ..Selection::default()
    }
}

/// A position of a query with this selection.
fn of(selection: &Selection) -> Position {
    Position::at(log(&[("b", 100)])).of_selection(selection)
}

#[test]
fn the_text_is_that_of_json_dumps() {
    let starts = BTreeMap::from([
        (
            "b".to_owned(),
            BTreeMap::from([("T".to_owned(), BTreeMap::from([(10, 1), (2, 5)]))]),
        ),
        (
            "a\u{e9}".to_owned(),
            BTreeMap::from([("T".to_owned(), BTreeMap::from([(0, 7)]))]),
        ),
    ]);
    let position = Position {
        log: log(&[("b", 5), ("a\u{e9}", 0)]),
        starts,
        until: log(&[("b", 9), ("a\u{e9}", 3)]),
        topics: Some(texts(&["T", "U\u{1f600}\"\n\u{7f}"])),
        assign: None,
    };
    assert_eq!(
        position.text(),
        r#"{"from": {"T": {"a\u00e9": {"0": 7}, "b": {"2": 5, "10": 1}}}, "log": {"a\u00e9": 0, "b": 5}, "topics": ["T", "U\ud83d\ude00\"\n\u007f"], "until": {"a\u00e9": 3, "b": 9}, "version": 1}"#
    );
    let position = of(&assigned(&[("T", "b", &[3, 1]), ("A", "b", &[0])]));
    assert_eq!(
        position.text(),
        r#"{"log": {"b": 100}, "assign": {"A": {"b": [0]}, "T": {"b": [1, 3]}}, "version": 1}"#
    );
    assert_eq!(
        of(&Selection::default()).text(),
        r#"{"log": {"b": 100}, "version": 1}"#
    );
}

#[test]
fn what_is_no_position_is_refused() {
    for value in [
        json!(null),
        json!([]),
        json!({}),
        json!({"version": 1}),
        json!({"version": 1, "log": {"b": -1}}),
        json!({"version": 1, "log": {"b": 1.5}}),
        json!({"version": 1, "log": {"b": true}}),
        json!({"version": 1, "log": {"b": 1u64 << 63}}),
        json!({"version": 1, "log": {}, "from": {"T": {"b": {"x": 1}}}}),
        json!({"version": 1, "log": {}, "from": {"T": {"b": {"1": "1"}}}}),
        json!({"version": 1, "log": {}, "topics": [1]}),
        json!({"version": 1, "log": {}, "assign": {}}),
        json!({"version": 1, "log": {}, "assign": {"T": {"b": []}}}),
        json!({"version": 1, "log": {}, "assign": {"T": {"b": [-1]}}}),
        json!({"version": 1, "log": {}, "until": []}),
    ] {
        let error = Position::of(&value).unwrap_err();
        assert_eq!(error.kind, Kind::Checkpoint);
        let text = error.to_string();
        assert!(
            text.starts_with("the checkpoint has no position: "),
            "{text}"
        );
    }
    let error = Position::of(&json!({"version": "2", "log": {}})).unwrap_err();
    let text = "the checkpoint has version '2', this reads 1";
    assert_eq!(
        (error.kind, error.to_string().as_str()),
        (Kind::Checkpoint, text)
    );
    assert!(Position::of(&json!({"version": 1.0, "log": {}, "topics": null})).is_ok());
}

#[test]
fn starts_are_left_out_once_the_log_has_passed_them() {
    let starts = |broker: &str| {
        let topics = BTreeMap::from([("T".to_owned(), BTreeMap::from([(0, 7)]))]);
        (broker.to_owned(), topics)
    };
    let position = Position {
        log: log(&[("a", 0), ("b", 0)]),
        starts: [starts("a"), starts("b")].into(),
        until: log(&[("a", 10), ("b", 20)]),
        ..Position::default()
    };
    let moved = position.moved(log(&[("a", 10), ("b", 19)]));
    assert_eq!(moved.starts, BTreeMap::from([starts("b")]));
    assert_eq!(moved.until, log(&[("b", 20)]));
    assert_eq!(moved.log, log(&[("a", 10), ("b", 19)]));
}

#[test]
fn topics_that_are_named_later_are_added() {
    let more = |selection: &Selection, low: &Selection| {
        added(selection, &of(low), &of(selection)).unwrap()
    };
    let (one, two) = (named(&["A"]), named(&["C", "A"]));
    let new = more(&two, &one).unwrap();
    assert_eq!((new.topics, new.pattern), (texts(&["C"]), None));
    assert_eq!(more(&one, &two), None, "what is left out is no addition");
    assert_eq!(
        more(&two, &named(&["A", "C"])),
        None,
        "their order says nothing"
    );
    assert_eq!(
        more(&two, &Selection::default()),
        None,
        "all was read before"
    );
    let all = more(&Selection::default(), &one).unwrap();
    assert_eq!(all.without, BTreeSet::from(["A".to_owned()]));
    let like = Selection {
        pattern: Some("A|B".to_owned()),
        ..Selection::default()
    };
    let rest = more(&like, &one).unwrap();
    assert!(!rest.selects("A").unwrap() && rest.selects("B").unwrap());
}

#[test]
fn queues_that_are_named_later_are_added() {
    let low = assigned(&[("A", "b", &[0, 1]), ("B", "b", &[0])]);
    let high = assigned(&[("A", "b", &[1, 2]), ("A", "c", &[0]), ("B", "b", &[0])]);
    let new = added(&high, &of(&low), &of(&high)).unwrap().unwrap();
    assert_eq!(
        new.assign,
        Some(assign(&[("A", "b", &[2]), ("A", "c", &[0])]))
    );
    assert_eq!(added(&low, &of(&low), &of(&low)).unwrap(), None);
    // From topics to queues, and back.
    let topics = named(&["A"]);
    let new = added(&low, &of(&topics), &of(&low)).unwrap().unwrap();
    assert_eq!(new.assign, Some(assign(&[("B", "b", &[0])])));
    let new = added(&named(&["A", "C"]), &of(&low), &of(&named(&["A", "C"])));
    assert_eq!(new.unwrap().unwrap().topics, texts(&["C"]));
}

#[test]
fn a_batch_that_is_run_again_reads_what_it_read() {
    let (one, two) = (named(&["A"]), named(&["A", "C"]));
    assert_eq!(within(&two, &of(&one)).unwrap(), Some(one.clone()));
    assert_eq!(within(&one, &of(&two)).unwrap(), Some(one.clone()));
    assert_eq!(within(&named(&["C"]), &of(&one)).unwrap(), None);
    assert_eq!(
        within(&one, &of(&Selection::default())).unwrap(),
        Some(one.clone())
    );
    let (few, many) = (
        assigned(&[("A", "b", &[1])]),
        assigned(&[("A", "b", &[0, 1]), ("B", "b", &[0])]),
    );
    assert_eq!(within(&many, &of(&few)).unwrap(), Some(few.clone()));
    assert_eq!(within(&few, &of(&many)).unwrap(), Some(few.clone()));
    let queues = within(&one, &of(&many)).unwrap().unwrap();
    assert_eq!(queues.assign, Some(assign(&[("A", "b", &[0, 1])])));
    assert!(queues.topics.is_empty());
    assert_eq!(within(&named(&["C"]), &of(&many)).unwrap(), None);
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof!["[a-c]", "\\PC{0,5}"]
}

fn places() -> impl Strategy<Value = BTreeMap<String, u64>> {
    prop::collection::btree_map(names(), 0..=i64::MAX as u64, 0..4)
}

prop_compose! {
    fn positions()(
        log in places(),
        starts in prop::collection::btree_map(names(), prop::collection::btree_map(
            names(), prop::collection::btree_map(0..=i32::MAX, 0..=i64::MAX, 1..4), 1..3), 0..3),
        until in places(),
        mut topics in prop::option::of(prop::collection::vec(names(), 0..4)),
        assign in prop::option::of(prop::collection::btree_map(names(),
            prop::collection::btree_map(names(),
                prop::collection::btree_set(0..=i32::MAX, 1..4), 1..3), 1..3)),
    ) -> Position {
        topics.iter_mut().for_each(|topics| topics.sort());
        let ids = |of: BTreeMap<String, BTreeSet<i32>>| {
            of.into_iter().map(|(broker, ids)| (broker, ids.into_iter().collect())).collect()
        };
        let assign = assign.map(|of| of.into_iter().map(|(topic, of)| (topic, ids(of))).collect());
        Position { log, starts, until, topics, assign }
    }
}

proptest! {
    #[test]
    fn a_position_comes_back_from_its_text(position in positions()) {
        let text = position.text();
        prop_assert!(text.is_ascii());
        let value: Value = serde_json::from_str(&text).unwrap();
        let again = Position::of(&value).unwrap();
        prop_assert_eq!(&again, &position);
        prop_assert_eq!(serde_json::to_value(&again).unwrap(), value);
    }

    #[test]
    fn batches_have_each_topic_once(
        before in prop::collection::btree_set("[A-E]", 1..5),
        now in prop::collection::btree_set("[A-E]", 1..5),
        topic in "[A-E]",
    ) {
        let selection = |names: &BTreeSet<String>| Selection {
            topics: names.iter().cloned().collect(),
            ..Selection::default()
        };
        let (low, high) = (selection(&before), selection(&now));
        let has = |of: Option<Selection>| of.is_some_and(|of| of.selects(&topic).unwrap());
        let old = has(added(&high, &of(&low), &of(&high)).unwrap());
        let new = has(within(&high, &of(&high)).unwrap());
        prop_assert_eq!(new, now.contains(&topic));
        prop_assert_eq!(old, now.contains(&topic) && !before.contains(&topic));
    }
}
