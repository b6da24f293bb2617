//! The size that the files of a set should have, found out from what is there.

use std::collections::BTreeMap;

/// The size that most of these files have, counting gaps between neighbours too; the larger one of
/// several. 0 if there is nothing to go by.
pub fn common_size(sizes: impl Iterator<Item = u64>) -> u64 {
    let mut votes: BTreeMap<u64, u64> = BTreeMap::new();
    for size in sizes.filter(|&s| s > 0) {
        *votes.entry(size).or_default() += 1;
    }
    votes
        .into_iter()
        .max_by_key(|&(size, n)| (n, size))
        .map_or(0, |(size, _)| size)
}
