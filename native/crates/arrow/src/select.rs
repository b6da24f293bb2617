//! Which messages are wanted.

use super::error::{Result, ScanError};
use super::filters::Filters;
use super::inflate::children;
use super::names::Names;
use pyrmq_format::properties;
use pyrmq_format::record::{View, sys_flag};
use rustc_hash::FxHashMap;

/// Bytes of topic names whose rules are remembered; a log that was made to hold more costs time, not
/// memory.
const MAX_NAMES: usize = 16 << 20;

/// What is wanted of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicRule {
    Nothing,
    All,
    /// Of each queue the queue offsets `from..to`; `other` for queues that are not named.
    Queues {
        named: FxHashMap<i32, (i64, i64)>,
        other: Option<(i64, i64)>,
    },
}

/// Says what is wanted of each topic; called once for each.
pub trait TopicRules: Send {
    fn rule_of(&mut self, topic: &str) -> std::result::Result<TopicRule, ScanError>;
}

struct Topic {
    name: String,
    rule: TopicRule,
}

pub struct Selection {
    rules: Option<Box<dyn TopicRules>>,
    topics: Vec<Topic>,
    /// Their names, as the log has them.
    known: Names,
    names: usize,
    /// Store time, from and before.
    pub times: (i64, i64),
    pub tags: Option<Vec<String>>,
    pub key: Option<String>,
    filters: Option<Box<Filters>>,
    /// Whether a filter is decided by the heads of records, or by their properties.
    by_head: bool,
    by_text: bool,
}

/// A record that is wanted, as far as its head says.
#[derive(Clone, Copy)]
pub struct Wanted {
    pub topic: usize,
    /// Queue offsets, from and before.
    pub offsets: (i64, i64),
}

impl Wanted {
    /// Whether a message with this queue offset is.
    #[inline]
    pub fn has(&self, queue_offset: i64) -> bool {
        between(queue_offset, self.offsets)
    }
}

/// From the one and before the other; the largest number stands for no bound.
#[inline]
fn between(n: i64, (from, before): (i64, i64)) -> bool {
    n >= from && (n < before || before == i64::MAX)
}

impl Selection {
    pub fn new(rules: Option<Box<dyn TopicRules>>) -> Self {
        Selection {
            rules,
            topics: Vec::new(),
            known: Names::default(),
            names: 0,
            times: (i64::MIN, i64::MAX),
            tags: None,
            key: None,
            filters: None,
            by_head: false,
            by_text: false,
        }
    }

    /// Only messages for which the filters hold too.
    #[must_use]
    pub fn filtered(mut self, filters: Filters) -> Self {
        (self.by_head, self.by_text) = (filters.by_head(), filters.by_properties());
        self.filters = Some(Box::new(filters));
        self
    }

    pub fn filters(&self) -> Option<&Filters> {
        self.filters.as_deref()
    }

    pub fn topic_name(&self, index: usize) -> &str {
        &self.topics[index].name
    }

    #[inline]
    fn topic(&mut self, name: &[u8]) -> Result<usize> {
        match self.known.find(name) {
            Some(number) => Ok(number as usize),
            None => self.new_topic(name),
        }
    }

    fn new_topic(&mut self, name: &[u8]) -> Result<usize> {
        let text = String::from_utf8_lossy(name).into_owned();
        let rule = match &mut self.rules {
            Some(rules) => rules.rule_of(&text)?,
            None => TopicRule::All,
        };
        self.names += name.len() + 100;
        if self.names > MAX_NAMES {
            self.topics.clear();
            self.known = Names::default();
            self.names = name.len();
        }
        self.topics.push(Topic { name: text, rule });
        Ok(self.known.add(name) as usize)
    }

    /// Whether the head of a record lets it through.
    #[inline]
    pub fn wants(&mut self, view: &View, bytes: &[u8]) -> Result<Option<Wanted>> {
        if !between(view.store_timestamp, self.times) {
            return Ok(None);
        }
        if self.by_head && !self.filters().is_none_or(|filters| filters.has_head(view)) {
            return Ok(None);
        }
        let topic = self.topic(&bytes[view.topic.clone()])?;
        let offsets = match &self.topics[topic].rule {
            TopicRule::Nothing => return Ok(None),
            TopicRule::All => (i64::MIN, i64::MAX),
            TopicRule::Queues { named, other } => {
                match named.get(&view.queue_id).copied().or(*other) {
                    Some(range) => range,
                    None => return Ok(None),
                }
            }
        };
        let wanted = Wanted { topic, offsets };
        let batch = view.sys_flag & sys_flag::INNER_BATCH != 0;
        Ok((batch || wanted.has(view.queue_offset)).then_some(wanted))
    }

    /// Whether tags or keys have to be compared.
    #[inline]
    pub fn by_properties(&self) -> bool {
        self.tags.is_some() || self.key.is_some() || self.by_text
    }

    /// Whether a property string lets its message through.
    pub fn wants_properties(&self, props: &[u8]) -> bool {
        let (mut tags, mut keys, mut unique) = (None, None, None);
        for (name, value) in properties::pairs(props) {
            match name {
                b"TAGS" => tags = Some(value),
                b"KEYS" => keys = Some(value),
                b"UNIQ_KEY" => unique = Some(value),
                _ => {}
            }
        }
        let by_tag = self.tags.as_ref().is_none_or(|wanted| {
            let tags = tags.unwrap_or(b"");
            wanted.iter().any(|t| t.as_bytes() == tags)
        });
        let by_filter = self
            .filters()
            .is_none_or(|filters| filters.has_properties(tags, keys));
        by_tag
            && by_filter
            && self.key.as_ref().is_none_or(|key| {
                let key = key.as_bytes();
                unique == Some(key)
                    || keys.is_some_and(|k| k.split(|&b| b == b' ').any(|word| word == key))
            })
    }

    /// How many messages of a record are selected by topic, queue, offset and time.
    pub fn count(&mut self, view: &View, bytes: &[u8]) -> Result<u64> {
        let Some(wanted) = self.wants(view, bytes)? else {
            return Ok(0);
        };
        if view.sys_flag & sys_flag::INNER_BATCH == 0 {
            return Ok(1);
        }
        if view.sys_flag & sys_flag::COMPRESSED != 0 {
            let stated = properties::find(&bytes[view.props.clone()], b"INNER_NUM");
            let number = stated.and_then(|n| std::str::from_utf8(n).ok()?.parse::<u64>().ok());
            return Ok(number.unwrap_or(1).min(i16::MAX as u64)); // as an entry of its queue states it
        }
        let mut messages = children(&bytes[view.body.clone()]);
        let count = messages.by_ref().count() as i64;
        let offset = |i: i64| view.queue_offset.saturating_add(i);
        let inside = (0..count).filter(|&i| wanted.has(offset(i))).count();
        Ok(if messages.broken { 0 } else { inside as u64 })
    }
}
