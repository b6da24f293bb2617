use super::*;
use pyrmq_arrow::TopicRule;
impl Selection {
    pub fn named_topics(&self) -> Option<Vec<String>> {
        match &self.assign {
            Some(a) => Some(a.keys().cloned().collect()),
            None => (!self.topics.is_empty()).then(|| self.topics.clone()),
        }
    }
    pub fn selects(&self, topic: &str) -> bool {
        !self.without.contains(topic)
            && self
                .named_topics()
                .is_none_or(|n| n.iter().any(|t| t == topic))
    }
}
impl Rule {
    pub fn answer(&self, topic: &str) -> TopicRule {
        if !self.selection.selects(topic) {
            return TopicRule::Nothing;
        }
        let mut named = (!self.selection.queues.is_empty()).then(|| self.selection.queues.clone());
        if let Some(q) = &self.queues {
            match q.get(topic) {
                Some(l) if !l.is_empty() => named = Some(l.clone()),
                _ => return TopicRule::Nothing,
            }
        }
        let e = Default::default();
        let (starts, ends) = (
            self.starts.get(topic).unwrap_or(&e),
            self.ends.get(topic).unwrap_or(&e),
        );
        if named.is_none() && starts.is_empty() && ends.is_empty() {
            return TopicRule::All;
        }
        let all: Vec<i32> = named
            .clone()
            .unwrap_or_else(|| starts.keys().chain(ends.keys()).copied().collect());
        TopicRule::Queues {
            named: all
                .into_iter()
                .map(|q| {
                    (
                        q,
                        (
                            *starts.get(&q).unwrap_or(&0),
                            *ends.get(&q).unwrap_or(&i64::MAX),
                        ),
                    )
                })
                .collect(),
            other: named.is_none().then_some((0, i64::MAX)),
        }
    }
}
impl Task {
    pub fn describe(&self) -> String {
        format!("log {} to {}", self.start, self.end)
    }
}
