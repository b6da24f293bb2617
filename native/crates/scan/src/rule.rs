//! What is asked for of each topic, as readers of a log and plans ask it.

use super::error::{Result, SegmentError};
use super::pattern::Pattern;
use super::queues::{Queue, list_queues};
use super::reserved::is_reserved;
use super::selection::{Bounds, Filters, Offsets, Rule, Selection};
use super::store::SegmentStore;
use pyrmq_arrow::{ScanError, TopicRule, TopicRules};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

/// Up to so many names are compared one by one.
const FEW: usize = 8;

impl Selection {
    /// The topics that are named one by one; None where they are not.
    pub fn named_topics(&self) -> Option<Vec<&str>> {
        match &self.assign {
            Some(assign) => Some(assign.keys().map(String::as_str).collect()),
            None if self.topics.is_empty() => None,
            None => Some(self.topics.iter().map(String::as_str).collect()),
        }
    }

    /// Whether a stream starts where the logs end by then.
    pub fn starts_at_end(&self) -> bool {
        let by_time = self.start_time.is_some() || self.starting_times.is_some();
        self.starting_offsets == Offsets::Latest && !by_time
    }

    /// Whether messages of a topic are asked for. Who asks for many topics makes a `Chooser`.
    pub fn selects(&self, topic: &str) -> Result<bool> {
        Chooser::new(self)?.selects(topic)
    }

    /// What the reader of a broker's log asks; `starts` and `ends` bound queue offsets.
    pub fn rule(&self, broker: &str, starts: Option<Bounds>, ends: Option<Bounds>) -> Rule {
        let queues = self.assign.as_ref().map(|assign| {
            let own = |of: &std::collections::BTreeMap<String, Vec<i32>>| {
                of.get(broker).cloned().unwrap_or_default()
            };
            let topics = assign.iter();
            topics.map(|(topic, of)| (topic.clone(), own(of))).collect()
        });
        // The offsets of every broker would travel with every task.
        let selection = Selection {
            starting_offsets: Offsets::Earliest,
            ending_offsets: Offsets::Latest,
            starting_times: None,
            ending_times: None,
            ..self.clone()
        };
        Rule {
            selection,
            queues,
            starts: starts.unwrap_or_default(),
            ends: ends.unwrap_or_default(),
        }
    }
}

/// A selection, ready to be asked about many topics.
pub struct Chooser<S> {
    selection: S,
    /// Where many topics are named.
    named: Option<FxHashSet<String>>,
    pattern: Option<Arc<Pattern>>,
}

impl<S: Deref<Target = Selection>> Chooser<S> {
    pub fn new(selection: S) -> Result<Self> {
        let named = selection.named_topics().filter(|names| names.len() > FEW);
        let named = named.map(|names| names.into_iter().map(str::to_owned).collect());
        let pattern = selection.pattern.as_deref().map(Pattern::of).transpose()?;
        Ok(Chooser {
            named,
            pattern,
            selection,
        })
    }

    pub fn selects(&self, topic: &str) -> Result<bool> {
        let chosen = &*self.selection;
        if chosen.without.contains(topic) {
            return Ok(false);
        }
        if let Some(named) = &self.named {
            return Ok(named.contains(topic));
        }
        if let Some(named) = chosen.named_topics() {
            return Ok(named.contains(&topic));
        }
        if is_reserved(topic) && !chosen.include_system_topics {
            return Ok(false);
        }
        match &self.pattern {
            Some(pattern) => pattern.matches(topic),
            None => Ok(true),
        }
    }
}

/// Where the selection of a rule is.
pub struct Within<R>(R);

impl<R: Deref<Target = Rule>> Deref for Within<R> {
    type Target = Selection;

    fn deref(&self) -> &Selection {
        &self.0.selection
    }
}

/// A rule, ready to be asked about many topics.
pub struct Asker<R> {
    chooser: Chooser<Within<R>>,
}

impl<R: Deref<Target = Rule>> Asker<R> {
    pub fn new(rule: R) -> Result<Self> {
        Ok(Asker {
            chooser: Chooser::new(Within(rule))?,
        })
    }

    /// What is asked for of a topic, the filters among it.
    pub fn answer(&self, topic: &str) -> Result<TopicRule> {
        let rule = &*self.chooser.selection.0;
        let chosen = &rule.selection;
        let filters = &chosen.filters;
        let filtered = filters.topics.as_ref();
        if filtered.is_some_and(|topics| !topics.contains(topic)) || !self.chooser.selects(topic)? {
            return Ok(TopicRule::Nothing);
        }
        let mut named = (!chosen.queues.is_empty()).then_some(&chosen.queues);
        if let Some(queues) = &rule.queues {
            match queues.get(topic) {
                Some(queues) if !queues.is_empty() => named = Some(queues),
                _ => return Ok(TopicRule::Nothing),
            }
        }
        let (starts, ends) = (rule.starts.get(topic), rule.ends.get(topic));
        let bounds = starts.into_iter().chain(ends);
        let range = |queue: i32| {
            let of = |bounds: Option<&std::collections::BTreeMap<i32, i64>>| {
                bounds.and_then(|bounds| bounds.get(&queue).copied())
            };
            (of(starts).unwrap_or(0), of(ends).unwrap_or(i64::MAX))
        };
        let ids: BTreeSet<i32> = match named {
            Some(named) => named.iter().copied().collect(),
            None => bounds.flat_map(|bounds| bounds.keys().copied()).collect(),
        };
        if named.is_none() && ids.is_empty() {
            return Ok(with_filters(TopicRule::All, filters));
        }
        let answer = TopicRule::Queues {
            named: ids.into_iter().map(|queue| (queue, range(queue))).collect(),
            other: named.is_none().then_some((0, i64::MAX)),
        };
        Ok(with_filters(answer, filters))
    }

    /// The queue offsets that are asked for of a queue; None: nothing of it.
    pub fn offsets(&self, topic: &str, queue: i32) -> Result<Option<(i64, i64)>> {
        if !self.chooser.selection.filters.has_id(queue) {
            return Ok(None);
        }
        Ok(match self.answer(topic)? {
            TopicRule::Nothing => None,
            TopicRule::All => Some((0, i64::MAX)),
            TopicRule::Queues { named, other } => named.get(&queue).copied().or(other),
        })
    }

    /// The queues of a store of which anything is asked for, with those offsets.
    pub fn queues(&self, store: &SegmentStore) -> Result<Vec<(Queue, (i64, i64))>> {
        let mut out = Vec::new();
        for queue in list_queues(store, |topic| self.wants(topic))? {
            if let Some(range) = self.offsets(&queue.topic, queue.id)? {
                out.push((queue, range));
            }
        }
        Ok(out)
    }

    /// Whether any message of a topic is asked for.
    pub fn wants(&self, topic: &str) -> Result<bool> {
        Ok(self.answer(topic)? != TopicRule::Nothing)
    }
}

/// The answer of what the filters leave of queues and queue offsets.
fn with_filters(answer: TopicRule, filters: &Filters) -> TopicRule {
    let ids = filters.queue_ids;
    if filters.queues.is_none() && filters.queue_offsets.is_none() && ids.is_none() {
        return answer;
    }
    let (mut named, mut other) = match answer {
        TopicRule::Nothing => return TopicRule::Nothing,
        TopicRule::All => (FxHashMap::default(), Some((0, i64::MAX))),
        TopicRule::Queues { named, other } => (named, other),
    };
    if let Some(queues) = &filters.queues {
        named.retain(|queue, _| queues.contains(queue));
        if let Some(range) = other.take() {
            for &queue in queues {
                named.entry(queue).or_insert(range);
            }
        }
    }
    named.retain(|&queue, _| filters.has_id(queue));
    if ids.is_some_and(|(from, before)| from >= before) {
        other = None;
    }
    if let Some((from, before)) = filters.queue_offsets {
        let cut = |range: &mut (i64, i64)| *range = (range.0.max(from), range.1.min(before));
        named.values_mut().for_each(cut);
        other.iter_mut().for_each(cut);
    }
    match named.is_empty() && other.is_none() {
        true => TopicRule::Nothing,
        false => TopicRule::Queues { named, other },
    }
}

impl<R: Deref<Target = Rule> + Send> TopicRules for Asker<R> {
    fn rule_of(&mut self, topic: &str) -> std::result::Result<TopicRule, ScanError> {
        let failed = |error: SegmentError| ScanError::TopicRules(Box::new(error));
        self.answer(topic).map_err(failed)
    }
}

impl Filters {
    /// Whether the range of queue ids has this one.
    fn has_id(&self, queue: i32) -> bool {
        self.queue_ids
            .is_none_or(|(from, before)| (from..before).contains(&i64::from(queue)))
    }

    /// What of them a rule does not decide, as the engine's reader takes it.
    pub(crate) fn of_records(&self) -> pyrmq_arrow::Filters {
        let texts = |values: &BTreeSet<Option<String>>| {
            pyrmq_arrow::Texts::new(values.iter().map(Option::as_deref))
        };
        pyrmq_arrow::Filters {
            brokers: self.brokers.clone(),
            queue_ids: self.queue_ids,
            commit_log_offsets: self.commit_log_offsets,
            store_times: self.store_times,
            born_times: self.born_times,
            tags: self.tags.as_ref().map(texts),
            keys: self.keys.as_ref().map(texts),
            limit: self.limit,
        }
    }
}

impl Rule {
    /// What the engine's reader selects by.
    pub fn wanted(self: &Arc<Self>) -> Result<pyrmq_arrow::Selection> {
        let asker = Asker::new(self.clone())?;
        let mut out = pyrmq_arrow::Selection::new(Some(Box::new(asker)));
        let chosen = &self.selection;
        out.times = (
            chosen.start_time.unwrap_or(i64::MIN),
            chosen.end_time.unwrap_or(i64::MAX),
        );
        (out.tags, out.key) = (chosen.tags.clone(), chosen.key.clone());
        Ok(out.filtered(chosen.filters.of_records()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn answer(rule: &Rule, topic: &str) -> TopicRule {
        Asker::new(rule).unwrap().answer(topic).unwrap()
    }

    fn queues(named: &[(i32, (i64, i64))], other: Option<(i64, i64)>) -> TopicRule {
        TopicRule::Queues {
            named: named.iter().copied().collect(),
            other,
        }
    }

    fn texts(all: &[&str]) -> Vec<String> {
        all.iter().map(|&text| text.to_owned()).collect()
    }

    const ALL: (i64, i64) = (0, i64::MAX);

    #[test]
    fn topics_by_name_and_by_pattern() {
        let selects = |selection: &Selection, topic: &str| selection.selects(topic).unwrap();
        let users = Selection::default();
        assert!(selects(&users, "orders") && selects(&users, "%RETRY%g"));
        assert!(!selects(&users, "SCHEDULE_TOPIC_XXXX"));
        let named = Selection {
            topics: texts(&["TBW102", "a"]),
            ..Selection::default()
        };
        assert!(selects(&named, "TBW102") && !selects(&named, "orders"));
        let many: Vec<String> = (0..100).map(|n| format!("t{n}")).collect();
        let many = Selection {
            topics: many,
            without: BTreeSet::from(["t5".to_owned()]),
            ..Selection::default()
        };
        assert!(selects(&many, "t99") && !selects(&many, "t5") && !selects(&many, "t100"));
        let like = Selection {
            pattern: Some("o.*|rmq_sys_x".to_owned()),
            include_system_topics: true,
            ..Selection::default()
        };
        assert!(selects(&like, "orders") && selects(&like, "rmq_sys_x") && !selects(&like, "x"));
    }

    #[test]
    fn queues_and_bounds() {
        let all = Selection::default().rule("b", None, None);
        assert_eq!(answer(&all, "T"), TopicRule::All);
        let starts = BTreeMap::from([("T".to_owned(), BTreeMap::from([(1, 5)]))]);
        let ends = BTreeMap::from([("T".to_owned(), BTreeMap::from([(1, 9), (2, 3)]))]);
        let bound = Selection::default().rule("b", Some(starts), Some(ends));
        let expected = queues(&[(1, (5, 9)), (2, (0, 3))], Some(ALL));
        assert_eq!(answer(&bound, "T"), expected);
        assert_eq!(answer(&bound, "U"), TopicRule::All);
        let own = super::super::offsets::parse_assign(r#"{"T":{"b":[1],"c":[2]}}"#, "a").unwrap();
        let assigned = Selection {
            assign: Some(own),
            ..Selection::default()
        };
        let none = |broker| assigned.rule(broker, None, None);
        assert_eq!(answer(&none("b"), "T"), queues(&[(1, ALL)], None));
        assert_eq!(answer(&none("d"), "T"), TopicRule::Nothing);
    }

    #[test]
    fn filters_leave_a_part() {
        let filtered = |filters: Filters| {
            let selection = Selection {
                queues: vec![1, 2],
                filters,
                ..Selection::default()
            };
            answer(&selection.rule("b", None, None), "T")
        };
        let topics = Filters {
            topics: Some(BTreeSet::from(["U".to_owned()])),
            ..Filters::default()
        };
        assert_eq!(filtered(topics), TopicRule::Nothing);
        let one = Filters {
            queues: Some(BTreeSet::from([2, 3])),
            queue_offsets: Some((5, 7)),
            ..Filters::default()
        };
        assert_eq!(filtered(one), queues(&[(2, (5, 7))], None));
        let none = Filters {
            queues: Some(BTreeSet::new()),
            ..Filters::default()
        };
        assert_eq!(filtered(none), TopicRule::Nothing);
        let ids = |from, before| Filters {
            queue_ids: Some((from, before)),
            ..Filters::default()
        };
        assert_eq!(filtered(ids(2, i64::MAX)), queues(&[(2, ALL)], None));
        assert_eq!(filtered(ids(3, 9)), TopicRule::Nothing);
        let of_all = |filters| {
            let selection = Selection {
                filters,
                ..Selection::default()
            };
            selection.rule("b", None, None)
        };
        assert_eq!(answer(&of_all(ids(3, 3)), "T"), TopicRule::Nothing);
        let from_three = of_all(ids(3, i64::MAX));
        let asker = Asker::new(&from_three).unwrap();
        assert_eq!(asker.offsets("T", 2).unwrap(), None);
        assert_eq!(asker.offsets("T", 3).unwrap(), Some(ALL));
        let all = Selection {
            filters: Filters {
                queues: Some(BTreeSet::from([4])),
                ..Filters::default()
            },
            ..Selection::default()
        };
        let all = all.rule("b", None, None);
        assert_eq!(answer(&all, "T"), queues(&[(4, ALL)], None));
    }
}
