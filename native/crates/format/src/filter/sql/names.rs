//! The properties that an expression names, and where their values go.

use super::tree::Slot;
use crate::properties;

/// Up to this many names are compared one by one.
pub(super) const FEW: usize = 8;

#[derive(Debug)]
pub(super) struct Names {
    /// Sorted by name.
    slots: Box<[(Box<[u8]>, Slot)]>,
    /// Which lengths the names have; all from 63 on count as one.
    lengths: u64,
    /// By slot: how often the expression uses the property.
    uses: Box<[u32]>,
}

#[inline]
fn length_bit(name: &[u8]) -> u64 {
    1 << name.len().min(63)
}

impl Names {
    /// Every name has the slot of its place.
    pub fn new(names: &[&str], uses: Vec<u32>) -> Self {
        let with_slots = names.iter().zip(0..);
        let mut slots: Box<[(Box<[u8]>, Slot)]> = with_slots
            .map(|(name, slot)| (name.as_bytes().into(), slot))
            .collect();
        slots.sort_unstable();
        let lengths = slots.iter().map(|(name, _)| length_bit(name));
        Names {
            lengths: lengths.fold(0, |all, bit| all | bit),
            slots,
            uses: uses.into(),
        }
    }

    /// Bytes that an evaluation looks at, at most.
    #[inline]
    pub fn work(&self, slots: &[Option<&[u8]>]) -> usize {
        let used = self.uses.iter().zip(slots);
        used.map(|(uses, value)| *uses as usize * value.map_or(0, <[u8]>::len))
            .sum()
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    pub fn slot(&self, name: &[u8]) -> Option<Slot> {
        if self.lengths & length_bit(name) == 0 {
            return None;
        }
        if self.slots.len() <= FEW {
            // Most names of one length differ in their first byte.
            let alike = |n: &[u8]| n.first() == name.first() && n == name;
            return self
                .slots
                .iter()
                .find(|(n, _)| alike(n))
                .map(|(_, slot)| *slot);
        }
        let found = self.slots.binary_search_by(|(n, _)| (**n).cmp(name));
        found.ok().map(|place| self.slots[place].1)
    }

    /// Puts the values of the named properties into their slots; of several the last, as in Java's
    /// map.
    #[inline]
    pub fn fill<'p>(&self, props: &'p [u8], slots: &mut [Option<&'p [u8]>]) {
        for (name, value) in properties::pairs(props) {
            if let Some(slot) = self.slot(name) {
                slots[usize::from(slot)] = Some(value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_names() {
        for count in [0, 1, FEW, FEW + 1, 1000] {
            let owned: Vec<String> = (0..count)
                .map(|i| format!("{}n{i}", "x".repeat(i % 70)))
                .collect();
            let listed: Vec<&str> = owned.iter().map(String::as_str).collect();
            let names = Names::new(&listed, vec![1; count]);
            assert_eq!(names.len(), count);
            let mut props = Vec::new();
            for name in listed.iter().rev() {
                properties::push(&mut props, name.as_bytes(), b"first");
                properties::push(&mut props, format!("{name}x").as_bytes(), b"other");
                properties::push(&mut props, name.as_bytes(), name.as_bytes());
            }
            let mut slots = vec![None; count];
            names.fill(&props, &mut slots);
            for (name, slot) in listed.iter().zip(slots) {
                assert_eq!(slot, Some(name.as_bytes()));
            }
        }
    }
}
