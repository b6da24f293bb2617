//! How check points and acknowledgements are stored: as timer messages for the revive topic.

use super::Pops;
use pyrmq_format::pop::{Ack, CheckPoint, Kind};
use pyrmq_format::{properties, timer};
use pyrmq_store::{Appended, Content, Message, PutGuard, Result};
use std::cell::RefCell;

/// Memory in which one record after the other is made.
#[derive(Default)]
pub(super) struct Scratch {
    body: Vec<u8>,
    props: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<[Scratch; 2]> = RefCell::default();
}

/// A record that is made and not appended yet.
struct Made<'s> {
    kind: Kind,
    scratch: &'s Scratch,
}

impl<'s> Made<'s> {
    fn content(&self) -> Content<'s> {
        Content {
            flag: 0,
            body: &self.scratch.body,
            props: [&self.scratch.props, b"", b"", b""],
            tags_code: self.kind.tags_code(),
            count: 1,
        }
    }
}

impl Pops {
    fn message(&self) -> Message<'_> {
        Message {
            topic: &self.timer_topic,
            queue_id: 0,
            sys_flag: 0,
            born_timestamp: self.store.now_ms(),
            born_host: *self.store.store_host(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
        }
    }

    /// Adds when and where it is delivered. (Apache's reviver goes by TIMER_DELIVER_MS.)
    fn set_timer(&self, scratch: &mut Scratch, due: i64, revive_queue: u32) {
        properties::push_number(&mut scratch.props, timer::DELIVER_MS, due);
        // A forged handle may be of 1970: the timers take no time before that.
        let out = timer::out_time(due, self.settings.precision).max(0);
        timer::push_place(&mut scratch.props, out, &self.revive_topic, revive_queue);
    }

    fn make_check_point<'s>(
        &self,
        ck: &CheckPoint<'_>,
        revive_queue: u32,
        scratch: &'s mut Scratch,
    ) -> Made<'s> {
        clear(scratch);
        ck.push_body(&mut scratch.body);
        ck.push_props(&mut scratch.props);
        self.set_timer(scratch, ck.due(), revive_queue);
        let kind = Kind::CheckPoint;
        Made { kind, scratch }
    }

    fn make_ack<'s>(
        &self,
        ack: &Ack<'_>,
        due: i64,
        revive_queue: u32,
        scratch: &'s mut Scratch,
    ) -> Made<'s> {
        clear(scratch);
        ack.push_body(&mut scratch.body);
        ack.push_props(&mut scratch.props);
        self.set_timer(scratch, due, revive_queue);
        let kind = ack.kind();
        Made { kind, scratch }
    }

    /// Appends a check point.
    pub fn append_check_point(
        &self,
        guard: &mut PutGuard<'_>,
        ck: &CheckPoint<'_>,
        revive_queue: u32,
    ) -> Result<Appended> {
        SCRATCH.with_borrow_mut(|[scratch, _]| {
            let made = self.make_check_point(ck, revive_queue, scratch);
            let done = guard.append(&self.message(), &made.content())?;
            self.totals
                .stored_check_point(&ck.popped.topic, &ck.popped.group);
            Ok(done)
        })
    }

    /// Appends an acknowledgement, which is in the revive topic at `due`, ms.
    pub fn append_ack(
        &self,
        guard: &mut PutGuard<'_>,
        ack: &Ack<'_>,
        due: i64,
        revive_queue: u32,
    ) -> Result<Appended> {
        SCRATCH.with_borrow_mut(|[scratch, _]| {
            let made = self.make_ack(ack, due, revive_queue, scratch);
            let done = guard.append(&self.message(), &made.content())?;
            self.totals.stored_ack(&ack.popped.topic, &ack.popped.group);
            Ok(done)
        })
    }

    /// Appends a check point and the acknowledgement of an older one, one behind the other in one file:
    /// both are placed, or neither. Returns where the second one ends.
    pub(super) fn append_both(
        &self,
        guard: &mut PutGuard<'_>,
        ck: &CheckPoint<'_>,
        (ack, due): (&Ack<'_>, i64),
        revive_queue: u32,
    ) -> Result<u64> {
        SCRATCH.with_borrow_mut(|[first, second]| {
            let made = [
                self.make_check_point(ck, revive_queue, first),
                self.make_ack(ack, due, revive_queue, second),
            ];
            let message = self.message();
            let mut total = 0;
            for made in &made {
                let c = made.content();
                total += guard.measure(&message, c.body.len(), c.props_len())?;
            }
            let mut end = 0;
            let contents = made.iter().map(Made::content);
            guard.append_batch(&message, 2, total, contents, |done| end = done.end())?;
            self.totals
                .stored_check_point(&ck.popped.topic, &ck.popped.group);
            self.totals.stored_ack(&ack.popped.topic, &ack.popped.group);
            Ok(end)
        })
    }
}

fn clear(scratch: &mut Scratch) {
    scratch.body.clear();
    scratch.props.clear();
}
