//! For tests: counts what was recorded.

use crate::run::{Failure, Sink, SinkError};
use results::cell::Interval;

/// Operations by cell.
#[derive(Default)]
pub(super) struct Counted(pub(super) Vec<u64>);

impl Sink for Counted {
    fn ready(&mut self) -> Result<(), SinkError> {
        Ok(())
    }

    fn interval(&mut self, interval: &Interval) -> Result<(), SinkError> {
        self.0.resize(interval.cells.len(), 0);
        self.0.iter_mut().zip(&interval.cells).for_each(|(count, cell)| *count += cell.ops);
        Ok(())
    }

    fn failure(&mut self, _: &Failure) {}

    fn idle(&mut self) {}
}
