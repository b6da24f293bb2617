//! CONSUMER_SEND_MSG_BACK: a message that a consumer could not deal with goes to its group's retry
//! topic, after a delay, or to its dead-letter topic. [AbstractSendMessageProcessor]
//!
//! What is sent leaves room for the properties that a return adds (`broker::room`). A message of an
//! older log may not have it: then it does without those that nobody needs. It never stays with its
//! consumer, which would repeat it for ever.

use super::Delays;
use pyrmq_format::record::sys_flag;
use pyrmq_format::{delay, java, names, properties};
use pyrmq_store::{Appended, Result, StoreError, Stored, Wait};

/// A message that a consumer sends back, as it stands in the log.
pub struct Returned(Stored);

/// Where it goes.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    pub topic: &'a [u8],
    pub queue_id: u32,
    /// Delay level; 0: it is delivered at once.
    pub level: i32,
}

impl Returned {
    /// How often it was sent back before.
    pub fn reconsume_times(&self) -> i32 {
        self.0.view().reconsume_times
    }
}

impl Delays {
    /// The message whose record starts at a physical offset that a client names; None if none does.
    /// The disk is read only where `wait` allows it; else it may be `StoreError::Cold`.
    pub fn find_returned(&self, phys: u64, wait: Wait) -> Result<Option<Returned>> {
        let Some(stored) = Stored::read_if(&self.store, phys, wait)? else {
            return Ok(None);
        };
        let v = stored.view();
        // Nobody has seen what is not confirmed, or what the broker keeps in topics of its own.
        let is_own = names::is_brokers_own(stored.topic());
        if is_own || !self.store.barrier().is_confirmed(v.end().max(0) as u64) {
            return Ok(None);
        }
        let topic = self.store.topics().get(stored.topic());
        let queue = topic.and_then(|topic| topic.existing_queue(u32::try_from(v.queue_id).ok()?));
        let entry = match queue {
            Some(queue) => queue.entry_if(v.queue_offset, wait)?,
            None => None,
        };
        // A body may hold what looks like a record: the entry of its queue has to lead here.
        let leads_here = entry.is_some_and(|e| (e.cq.phys, e.cq.end()) == (v.phys, v.end()));
        Ok(leads_here.then_some(Returned(stored)))
    }

    /// Whether a message has room for what says where it goes; where it has none it can be a dead letter
    /// only. An error if it cannot be sent back at all.
    pub fn has_room(&self, returned: &Returned, to: &Destination<'_>) -> Result<bool> {
        match self.props_of(returned, to) {
            Ok(_) => Ok(true),
            Err(StoreError::PropertiesTooLong(_)) => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Stores a message that came back. What its sender set stays, and where it came from is added.
    pub fn send_back(&self, returned: &Returned, to: &Destination<'_>) -> Result<Appended> {
        let stored = &returned.0;
        let v = stored.view();
        let props = self.props_of(returned, to)?;
        let (name, queue_id) = match self.level_of(to) {
            Some(level) => (delay::SCHEDULE_TOPIC, level as u32 - 1),
            None => (to.topic, to.queue_id),
        };
        let tags_code = java::tag_code(properties::find(stored.props(), b"TAGS"));
        let topic = self.store.topics().topic(name)?;
        let flags = v.sys_flag & !sys_flag::TRANSACTION_MASK;
        let mut message = stored.again(&topic, queue_id, flags, 0);
        message.reconsume_times = v.reconsume_times.saturating_add(1);
        let content = stored.content(&props, b"", tags_code);
        self.store.put()?.append_again(&message, &content)
    }

    fn level_of(&self, to: &Destination<'_>) -> Option<usize> {
        let level = usize::try_from(to.level).ok().filter(|&level| level > 0)?;
        Some(level.min(self.levels.len()))
    }

    /// The properties that a message has there.
    fn props_of(&self, returned: &Returned, to: &Destination<'_>) -> Result<Vec<u8>> {
        let stored = &returned.0;
        if stored.view().sys_flag & (sys_flag::INNER_BATCH | sys_flag::NEED_UNWRAP) != 0 {
            let text = "a message of an inner batch cannot be sent back by its offset";
            return Err(StoreError::Illegal(text.into()));
        }
        let mut len = 0;
        for room in [Room::Enough, Room::Little, Room::None] {
            let mut props = own_props(stored, room);
            if room != Room::None {
                add_origin(&mut props, stored, room);
            }
            match self.level_of(to) {
                Some(_) if room == Room::None => break, // it must say where it belongs
                Some(level) => delay::push_place(&mut props, level, to.topic, to.queue_id),
                None => {}
            }
            // Separators that its sender left out count as well.
            if props.len() <= properties::MAX_LEN {
                return Ok(props);
            }
            len = len.max(props.len());
        }
        Err(StoreError::PropertiesTooLong(format!(
            "with what is added to them the properties have {len} bytes, {} are possible",
            properties::MAX_LEN
        )))
    }
}

/// How much room a record has for what a return adds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    Enough,
    /// Only for what a retry cannot do without. What the first broker added of itself is left out.
    Little,
    /// For nothing.
    None,
}

/// What its sender set, and what became of it on the way here.
fn own_props(stored: &Stored, room: Room) -> Vec<u8> {
    properties::without(stored.props(), |name| {
        // A committed message that comes back is no half.
        name == b"TRAN_MSG"
            || delay::is_place(name)
            || delay::is_timer(name)
            || room != Room::Enough && matches!(name, b"MSG_REGION" | b"TRACE_ON" | b"CLUSTER")
    })
}

/// RETRY_TOPIC and ORIGIN_MESSAGE_ID, unless it has come back before.
fn add_origin(props: &mut Vec<u8>, stored: &Stored, room: Room) {
    if properties::find(props, b"RETRY_TOPIC").is_none() {
        properties::push(props, b"RETRY_TOPIC", stored.topic());
    }
    if room == Room::Enough && properties::find(props, b"ORIGIN_MESSAGE_ID").is_none() {
        let mut id = Vec::new();
        stored.store_host().push_message_id(stored.phys(), &mut id);
        properties::push(props, b"ORIGIN_MESSAGE_ID", &id);
    }
}
