//! The requests under way on a connection.

use crate::frame::FIRST_OPAQUE;

/// A request under way, and what its producer or consumer wants to know of it when its answer comes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slot {
    opaque: i32,
    turn: u32,
    pub busy: bool,
    /// What it is to its producer or consumer.
    pub stage: u8,
    /// When it was due (open loop), or else sent.
    pub from: u64,
    pub sent: u64,
    /// Given up then.
    pub deadline: u64,
    /// Sequence number of its first message, how many, and bytes of their bodies.
    pub first: u64,
    pub messages: u32,
    pub bytes: u32,
    /// Which target of the role.
    pub target: u32,
}

/// A window of requests. An opaque's low bits are the slot, the rest grows with each use, so an answer
/// finds its request whatever order answers come in, and one that comes too late finds none.
pub struct Slots {
    all: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    pub fn new(in_flight: usize) -> Slots {
        Slots {
            all: vec![Slot::default(); in_flight.max(1).next_power_of_two()],
            free: (0..in_flight as u32).rev().collect(),
        }
    }

    pub fn any_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Takes a free place: its index, and the opaque of its next request.
    pub fn take(&mut self) -> Option<(usize, i32)> {
        let index = self.free.pop()? as usize;
        Some((index, self.use_again(index)))
    }

    /// The next request of a place that stays taken, or is not of those that `take` gives.
    pub fn use_again(&mut self, index: usize) -> i32 {
        let places = self.all.len() as u32;
        let slot = &mut self.all[index];
        slot.turn = slot.turn.wrapping_add(1);
        let low = slot.turn.wrapping_mul(places).wrapping_add(index as u32) & ((1 << 30) - 1);
        slot.opaque = FIRST_OPAQUE + low as i32;
        slot.busy = true;
        slot.opaque
    }

    pub fn get(&mut self, index: usize) -> &mut Slot {
        &mut self.all[index]
    }

    /// The request that an answer with this opaque is for.
    pub fn find(&self, opaque: i32) -> Option<usize> {
        let low = opaque.wrapping_sub(FIRST_OPAQUE) as u32 as usize;
        let index = low & (self.all.len() - 1);
        let slot = &self.all[index];
        (slot.busy && slot.opaque == opaque).then_some(index)
    }

    /// The request has ended.
    pub fn release(&mut self, index: usize) {
        self.all[index].busy = false;
        self.free.push(index as u32);
    }

    /// The request has ended; the place is one that `use_again` takes.
    pub fn end(&mut self, index: usize) {
        self.all[index].busy = false;
    }

    pub fn busy(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.all.len()).filter(|&i| self.all[i].busy)
    }

    /// Those whose deadline has passed.
    pub fn expired(&self, now: u64) -> Vec<usize> {
        self.busy()
            .filter(|&i| self.all[i].deadline <= now)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_finds_its_request_alone() {
        let mut slots = Slots::new(3);
        let taken: Vec<_> = (0..3).map(|_| slots.take().unwrap()).collect();
        assert!(slots.take().is_none());
        for &(index, opaque) in taken.iter().rev() {
            assert_eq!(slots.find(opaque), Some(index));
        }
        let (index, old) = taken[1];
        slots.release(index);
        assert_eq!(slots.find(old), None);
        let (again, new) = slots.take().unwrap();
        assert_eq!((again, slots.find(old)), (index, None));
        assert_eq!(slots.find(new), Some(index));
        for opaque in [0, -1, i32::MAX, FIRST_OPAQUE] {
            assert_eq!(slots.find(opaque), None);
        }
    }

    #[test]
    fn what_is_late_is_found() {
        let mut slots = Slots::new(2);
        let (first, _) = slots.take().unwrap();
        slots.get(first).deadline = 10;
        let (second, _) = slots.take().unwrap();
        slots.get(second).deadline = 20;
        assert_eq!(slots.expired(9), []);
        assert_eq!(slots.expired(10), [first]);
        assert_eq!(slots.expired(20).len(), 2);
    }
}
