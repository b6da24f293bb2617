//! Whether the loop does what pays only where flushes are quick.
//!
//! After each time that it did not, more of the next times are left out.

/// Most in a row that are left out.
const MOST: u32 = 256;

#[derive(Default)]
pub struct Patience {
    /// So many are left out after the next miss.
    penalty: u32,
    /// So many are left out from now on.
    left_out: u32,
}

impl Patience {
    /// Whether to do it this time.
    pub fn tries(&mut self) -> bool {
        let is_tried = self.left_out == 0;
        self.left_out = self.left_out.saturating_sub(1);
        is_tried
    }

    /// It paid.
    pub fn came(&mut self) {
        self.penalty /= 2;
    }

    /// It took so long that most of the next ones are left out.
    pub fn is_over(&mut self) {
        (self.penalty, self.left_out) = (MOST, MOST);
    }

    /// It took too long.
    pub fn missed(&mut self) {
        self.penalty = (2 * self.penalty).clamp(1, MOST);
        self.left_out = self.penalty;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many are left out before the next one.
    fn left_out(patience: &mut Patience) -> u32 {
        (0..).find(|_| patience.tries()).unwrap()
    }

    #[test]
    fn it_tries_less_often_the_more_often_that_took_too_long() {
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
