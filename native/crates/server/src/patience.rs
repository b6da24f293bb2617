//! How long the loop waits for a flush before it goes back to its caller.
//!
//! Going back and returning costs more than a small request, and the log's event comes as soon as the
//! disk has written. So where sessions keep answers the loop waits for it for a moment. Where that was
//! in vain, as flushes take longer, it does not wait the next times: more of them after each miss.

/// Longest wait for the event, ns.
const WAIT: i64 = 200_000;
/// Most waits in a row that are left out.
const MOST: u32 = 256;

#[derive(Default)]
pub struct Patience {
    /// So many waits are left out after the next miss.
    penalty: u32,
    /// So many waits are left out from now on.
    left_out: u32,
}

impl Patience {
    /// How long the next wait is, ns; 0: none.
    pub fn wait_ns(&mut self) -> i64 {
        if self.left_out > 0 {
            self.left_out -= 1;
            return 0;
        }
        WAIT
    }

    /// The event came.
    pub fn came(&mut self) {
        self.penalty /= 2;
    }

    /// A wait has ended and nothing came.
    pub fn missed(&mut self) {
        self.penalty = (2 * self.penalty).clamp(1, MOST);
        self.left_out = self.penalty;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits that are left out before the next one.
    fn left_out(patience: &mut Patience) -> u32 {
        (0..).find(|_| patience.wait_ns() == WAIT).unwrap()
    }

    #[test]
    fn it_waits_less_often_the_more_often_nothing_came() {
        let mut patience = Patience::default();
        assert_eq!(left_out(&mut patience), 0);
        for expected in [1, 2, 4, 8] {
            patience.missed();
            assert_eq!(left_out(&mut patience), expected);
        }
        patience.came();
        assert_eq!(left_out(&mut patience), 0);
        patience.missed();
        assert_eq!(left_out(&mut patience), 8);
        for _ in 0..20 {
            patience.missed();
        }
        assert_eq!(left_out(&mut patience), MOST);
    }
}
