//! Delay levels: in SCHEDULE_TOPIC_XXXX a queue entry's tag code is the time of delivery.

pub const SCHEDULE_TOPIC: &[u8] = b"SCHEDULE_TOPIC_XXXX";

/// RocketMQ's default `messageDelayLevel`, milliseconds of levels 1 to 18.
const LEVELS_MS: [i64; 18] = [
    1_000, 5_000, 10_000, 30_000, 60_000, 120_000, 180_000, 240_000, 300_000, 360_000, 420_000,
    480_000, 540_000, 600_000, 1_200_000, 1_800_000, 3_600_000, 7_200_000,
];

/// Time of delivery of a record parked at `level` (DELAY as written; above 18 counts as 18).
pub fn deliver_time(level: &[u8], store_timestamp: i64) -> Option<i64> {
    let level: i64 = std::str::from_utf8(level).ok()?.trim().parse().ok()?;
    if level <= 0 {
        return None;
    }
    let index = (level as usize).min(LEVELS_MS.len()) - 1;
    Some(store_timestamp.saturating_add(LEVELS_MS[index]))
}

#[cfg(test)]
mod tests {
    use super::deliver_time;

    #[test]
    fn levels() {
        assert_eq!(deliver_time(b"3", 1_700_000_000_005), Some(0x18b_cfe5_8f15));
        assert_eq!(deliver_time(b"99", 0), Some(7_200_000));
        assert_eq!(deliver_time(b"0", 0), None);
        assert_eq!(deliver_time(b"x", 0), None);
    }
}
