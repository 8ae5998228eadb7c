//! Gradients of the RTT's extremes, summed over a number of round trips.
use knee_core::convert::saturating_i64;

/// A pair of values that belong to the least and to the greatest RTT of a round trip, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Minmax {
    pub min: i64,
    pub max: i64,
}

impl Minmax {
    /// No RTT measured; RTTs are never zero.
    pub const NONE: Self = Self { min: 0, max: 0 };

    pub const fn is_none(self) -> bool {
        self.min == 0 && self.max == 0
    }

    /// Widens the range to `rtt`.
    pub fn add(&mut self, rtt: i64) {
        self.min = if self.min == 0 { rtt } else { self.min.min(rtt) };
        self.max = self.max.max(rtt);
    }

    pub const fn minus(self, other: Self) -> Self {
        Self { min: self.min - other.min, max: self.max - other.max }
    }

    const fn plus(self, other: Self) -> Self {
        Self { min: self.min + other.min, max: self.max + other.max }
    }
}

/// The last gradients and their sum.
#[derive(Clone)]
pub(super) struct Gradients {
    ring: Vec<Minmax>,
    sum: Minmax,
    tail: usize,
    filled: bool,
}

impl Gradients {
    pub fn new(window: usize) -> Self {
        Self { ring: vec![Minmax::default(); window.max(1)], sum: Minmax::default(), tail: 0, filled: false }
    }

    /// Takes the gradient of a round trip. Returns the sums, and the one to go by: that of the minima where it is
    /// positive, else that of the maxima, extrapolated while there are too few round trips.
    pub fn push(&mut self, gradient: Minmax) -> (Minmax, i64) {
        self.sum = self.sum.plus(gradient).minus(self.ring[self.tail]);
        self.ring[self.tail] = gradient;
        self.tail = (self.tail + 1) % self.ring.len();
        let followed = if self.sum.min > 0 { self.sum.min } else { self.sum.max };
        self.filled |= self.tail == 0;
        let places = |n: usize| saturating_i64(n as u64);
        let scaled = if self.filled { followed } else { followed * places(self.ring.len()) / places(self.tail) };
        (self.sum, scaled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gradients_add_up_over_the_window_and_the_oldest_drops_out() {
        let mut gradients = Gradients::new(2);
        let push = |g: &mut Gradients, min, max| g.push(Minmax { min, max }).1;
        // One of two round trips: extrapolated by two.
        assert_eq!(push(&mut gradients, 100, 50), 200);
        assert_eq!(push(&mut gradients, 30, 50), 130);
        // 30 - 50 is not positive, so the maxima count: 50 + 7.
        assert_eq!(push(&mut gradients, -50, 7), 57);
    }
}
