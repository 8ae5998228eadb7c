//! Counts of what has arrived, at the ends of intervals and at marks.

use crate::record::{EndRecord, Progress};
use crate::task::Task;

/// The times at which arrivals are counted, ns.
pub struct Ticks {
    interval: u64,
    tick: u64,
    marks: Vec<u64>,
}

impl Ticks {
    /// Times at the task's interval and at its marks.
    pub fn new(task: &Task) -> Self {
        let mut marks = task.marks.clone();
        marks.sort_unstable_by(|a, b| b.cmp(a));
        Self { interval: task.interval, tick: task.interval, marks }
    }

    /// The next one.
    pub fn next(&self) -> u64 {
        self.marks.last().map_or(self.tick, |&mark| mark.min(self.tick))
    }

    /// Counts for all times that have come.
    pub fn count(&mut self, now: u64, bytes: u64, record: &mut EndRecord) {
        while self.next() <= now {
            let at_ns = self.next();
            record.progress.push(Progress { at_ns, bytes });
            while self.marks.last() == Some(&at_ns) {
                self.marks.pop();
            }
            if self.tick == at_ns {
                self.tick += self.interval;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tick_and_mark_is_counted_once_in_order_of_time() {
        let mut ticks = Ticks { interval: 10, tick: 10, marks: vec![25, 20, 15] };
        let mut record = EndRecord::default();
        ticks.count(9, 1, &mut record);
        ticks.count(21, 2, &mut record);
        ticks.count(30, 3, &mut record);
        let seen: Vec<_> = record.progress.iter().map(|row| (row.at_ns, row.bytes)).collect();
        assert_eq!(seen, [(10, 2), (15, 2), (20, 2), (25, 3), (30, 3)]);
        assert_eq!(ticks.next(), 40);
    }
}
