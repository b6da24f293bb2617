//! Names that are near to another one, by the measure of Python's `difflib.get_close_matches`: twice
//! the characters that match, of all characters of both.

use rustc_hash::FxHashMap;

/// Characters of a text that are compared; names are shorter.
const MAX_COMPARED: usize = 512;
/// From this length on, characters that are common in a text do not begin a match.
const LONG: usize = 200;

/// At most `count` of the names, the nearest first, that have at least `cutoff`.
pub fn close_matches<'a>(
    word: &str,
    names: impl IntoIterator<Item = &'a str>,
    count: usize,
    cutoff: f64,
) -> Vec<&'a str> {
    let matcher = Matcher::new(word);
    let mut found: Vec<(f64, &str)> = Vec::new();
    for name in names {
        if let Some(ratio) = matcher.ratio(name, cutoff) {
            found.push((ratio, name));
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| b.1.cmp(a.1)));
    found.truncate(count);
    found.into_iter().map(|(_, name)| name).collect()
}

/// A word that names are compared with.
struct Matcher {
    word: Vec<char>,
    places: FxHashMap<char, Vec<usize>>,
    counts: FxHashMap<char, usize>,
}

impl Matcher {
    fn new(word: &str) -> Self {
        let word: Vec<char> = word.chars().take(MAX_COMPARED).collect();
        let mut places: FxHashMap<char, Vec<usize>> = FxHashMap::default();
        for (at, &c) in word.iter().enumerate() {
            places.entry(c).or_default().push(at);
        }
        let counts = places.iter().map(|(&c, at)| (c, at.len())).collect();
        if word.len() >= LONG {
            let common = word.len() / 100 + 1;
            places.retain(|_, at| at.len() <= common);
        }
        Matcher {
            word,
            places,
            counts,
        }
    }

    /// How alike they are, if at least `cutoff`.
    fn ratio(&self, name: &str, cutoff: f64) -> Option<f64> {
        let name: Vec<char> = name.chars().take(MAX_COMPARED).collect();
        let total = name.len() + self.word.len();
        let of = |matches: usize| match total {
            0 => 1.0,
            _ => 2.0 * matches as f64 / total as f64,
        };
        if of(name.len().min(self.word.len())) < cutoff || of(self.in_common(&name)) < cutoff {
            return None;
        }
        let ratio = of(self.matched(&name));
        (ratio >= cutoff).then_some(ratio)
    }

    /// Characters that both have, in any order.
    fn in_common(&self, name: &[char]) -> usize {
        let mut left = self.counts.clone();
        let mut common = 0;
        for c in name {
            if let Some(count) = left.get_mut(c).filter(|count| **count > 0) {
                *count -= 1;
                common += 1;
            }
        }
        common
    }

    /// Characters in matching blocks: the longest one, and those in front of it and behind it.
    fn matched(&self, name: &[char]) -> usize {
        let mut total = 0;
        let mut parts = vec![((0, name.len()), (0, self.word.len()))];
        while let Some(((a_low, a_high), (b_low, b_high))) = parts.pop() {
            let (a, b, size) = self.longest(name, (a_low, a_high), (b_low, b_high));
            if size == 0 {
                continue;
            }
            total += size;
            parts.push(((a_low, a), (b_low, b)));
            parts.push(((a + size, a_high), (b + size, b_high)));
        }
        total
    }

    /// The longest run that `name` has in common with the word, within bounds; of several the first.
    fn longest(
        &self,
        name: &[char],
        (a_low, a_high): (usize, usize),
        (b_low, b_high): (usize, usize),
    ) -> (usize, usize, usize) {
        let (mut a, mut b, mut size) = (a_low, b_low, 0);
        // Length of the run that ends at each place of the word, and at the character before.
        let mut before: FxHashMap<usize, usize> = FxHashMap::default();
        for (at, c) in name.iter().enumerate().take(a_high).skip(a_low) {
            let mut now = FxHashMap::default();
            for &place in self.places.get(c).map_or(&[][..], Vec::as_slice) {
                if place < b_low {
                    continue;
                }
                if place >= b_high {
                    break;
                }
                let run = 1 + place
                    .checked_sub(1)
                    .and_then(|p| before.get(&p).copied())
                    .unwrap_or(0);
                now.insert(place, run);
                if run > size {
                    (a, b, size) = (at + 1 - run, place + 1 - run, run);
                }
            }
            before = now;
        }
        // Common characters extend a run that others began.
        while a > a_low && b > b_low && name[a - 1] == self.word[b - 1] {
            (a, b, size) = (a - 1, b - 1, size + 1);
        }
        while a + size < a_high && b + size < b_high && name[a + size] == self.word[b + size] {
            size += 1;
        }
        (a, b, size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_first() {
        let names = ["ape", "apple", "peach", "puppy"];
        assert_eq!(close_matches("appel", names, 3, 0.6), ["apple", "ape"]);
        assert_eq!(close_matches("wheel", names, 3, 0.6), [""; 0]);
        assert_eq!(close_matches("apple", names, 1, 0.6), ["apple"]);
        // Of equal ones the later name comes first.
        assert_eq!(close_matches("ab", ["abc", "abd"], 3, 0.6), ["abd", "abc"]);
    }

    #[test]
    fn measures_of_difflib() {
        let ratio = |a: &str, b: &str| Matcher::new(b).ratio(a, 0.0).unwrap();
        assert_eq!(ratio("abcd", "bcde"), 0.75);
        assert_eq!(ratio("orders", "order"), 10.0 / 11.0);
        assert_eq!(ratio("", ""), 1.0);
        assert_eq!(ratio("qabxcd", "abycdf"), 8.0 / 12.0);
        assert_eq!(ratio("aa", "b"), 0.0);
    }

    #[test]
    fn common_characters_of_a_long_word_begin_no_match() {
        // difflib.SequenceMatcher(None, "x" + "b" * 210, "b" * 200).ratio() is 0 for the same reason.
        let long = Matcher::new(&"b".repeat(LONG));
        assert_eq!(long.matched(&['b'; 210]), 200);
        let other: Vec<char> = format!("x{}", "b".repeat(210)).chars().collect();
        assert_eq!(long.matched(&other), 0);
    }
}
