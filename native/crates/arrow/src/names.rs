//! Numbers of names that come again and again, such as topics.

use rustc_hash::FxHashMap;

/// Names that are found without a hash: those that were met lately, by their last bytes. Names often
/// end in a digit.
const LATELY: usize = 64;

/// Names with numbers from 0 on. It grows with each name: whoever fills it bounds it.
#[derive(Clone, Debug)]
pub struct Names {
    numbers: FxHashMap<Box<[u8]>, u32>,
    names: Vec<Box<[u8]>>,
    lately: [u32; LATELY],
}

impl Default for Names {
    fn default() -> Self {
        Names {
            numbers: FxHashMap::default(),
            names: Vec::new(),
            lately: [0; LATELY],
        }
    }
}

impl Names {
    /// The number of a name that was added.
    #[inline]
    pub fn find(&mut self, name: &[u8]) -> Option<u32> {
        let ending = name.last().map_or(0, |&last| last as usize) % LATELY;
        let number = self.lately[ending];
        if let Some(known) = self.names.get(number as usize)
            && **known == *name
        {
            return Some(number);
        }
        let number = *self.numbers.get(name)?;
        self.lately[ending] = number;
        Some(number)
    }

    /// Adds a name that is not there yet.
    pub fn add(&mut self, name: &[u8]) -> u32 {
        let number = self.names.len() as u32;
        self.numbers.insert(name.into(), number);
        self.names.push(name.into());
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_numbers() {
        let mut names = Names::default();
        assert_eq!(names.find(b""), None);
        let all: Vec<String> = (0..300).map(|n| format!("{n}-topic")).collect();
        for (number, name) in all.iter().enumerate() {
            assert_eq!(names.find(name.as_bytes()), None);
            assert_eq!(names.add(name.as_bytes()), number as u32);
        }
        assert_eq!(names.add(b""), 300);
        for _ in 0..2 {
            // All of them have one ending: each takes the place of the one before.
            for (number, name) in all.iter().enumerate() {
                assert_eq!(names.find(name.as_bytes()), Some(number as u32));
            }
            assert_eq!(names.find(b""), Some(300));
            assert_eq!(names.find(b"topic"), None);
        }
    }
}
