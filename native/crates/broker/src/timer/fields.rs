//! What the properties of a timer message say.

use pyrmq_format::{java, parse_i64, properties, timer};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

#[derive(Clone, Copy, Default)]
pub struct Fields<'a> {
    pub out_ms: Option<i64>,
    pub topic: &'a [u8],
    pub queue_id: Option<u32>,
    pub unique_key: &'a [u8],
    /// What a delete takes back.
    pub deletes: Option<&'a [u8]>,
    pub roll_times: i64,
    tags: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    pub fn read(props: &'a [u8]) -> Self {
        let mut f = Fields::default();
        for (name, value) in properties::pairs(props) {
            match name {
                timer::OUT_MS => f.out_ms = parse_i64(value),
                timer::REAL_TOPIC => f.topic = value,
                timer::REAL_QID => {
                    f.queue_id = parse_i64(value).and_then(|id| u32::try_from(id).ok());
                }
                timer::DEL_UNIQKEY => f.deletes = Some(value),
                timer::ROLL_TIMES => f.roll_times = parse_i64(value).unwrap_or(0).max(0),
                b"UNIQ_KEY" => f.unique_key = value,
                b"TAGS" => f.tags = Some(value),
                _ => {}
            }
        }
        f
    }

    pub fn tags_code(&self) -> i64 {
        java::tag_code(self.tags)
    }

    /// Whether both are the same message, rolled or delivered perhaps.
    pub fn is_same(&self, other: &Fields<'_>) -> bool {
        let of = |f: &Fields<'_>| (f.out_ms, f.queue_id, f.deletes.is_some());
        of(self) == of(other) && self.topic == other.topic && self.unique_key == other.unique_key
    }
}

/// Stands for what a delete names. Of 128 bits, with keys that nobody knows: no two are the same.
pub(super) fn key(text: &[u8]) -> u128 {
    static STATES: LazyLock<[RandomState; 2]> =
        LazyLock::new(|| [RandomState::new(), RandomState::new()]);
    let [high, low] = STATES.each_ref().map(|state| state.hash_one(text));
    (high as u128) << 64 | low as u128
}
