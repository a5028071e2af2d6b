//! A simulated drive of any model.

use super::counted::Counted;
use super::{Done, DriveModel, DriveSpec, FtlModel, QueueModel};
use results::telemetry::Column;
use sys::op::Op;

/// A drive of one of the models; drives in a run can have different models.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "there are a few, and every operation would follow the box")]
pub enum Drive {
    /// Channels and service times.
    Queue(QueueModel),
    /// Flash with garbage collection.
    Ftl(FtlModel),
}

impl Drive {
    /// A drive with the parameters of `spec`. Randomness depends on the seed of `spec`, or on `seed` if `spec` has
    /// none. Errors: an invalid FTL; never for a description parsed from text, which is checked.
    pub fn new(spec: &DriveSpec, seed: u64) -> Result<Self, ::ftl::SpecError> {
        Ok(match &spec.ftl {
            Some(ftl) => Self::Ftl(FtlModel::new(spec, ftl, seed)?),
            None => Self::Queue(QueueModel::new(spec, seed)),
        })
    }

    /// The columns of the counters of such a drive.
    pub fn columns(spec: &DriveSpec) -> Vec<Column> {
        match &spec.ftl {
            Some(_) => FtlModel::columns(),
            None => Counted::COLUMNS.to_vec(),
        }
    }
}

impl DriveModel for Drive {
    #[inline]
    fn submit(&mut self, op: &Op, now_ns: u64) {
        match self {
            Self::Queue(model) => model.submit(op, now_ns),
            Self::Ftl(model) => model.submit(op, now_ns),
        }
    }

    #[inline]
    fn next_event_ns(&self) -> u64 {
        match self {
            Self::Queue(model) => model.next_event_ns(),
            Self::Ftl(model) => model.next_event_ns(),
        }
    }

    #[inline]
    fn advance(&mut self) -> Option<Done> {
        match self {
            Self::Queue(model) => model.advance(),
            Self::Ftl(model) => model.advance(),
        }
    }

    fn counters(&self) -> Vec<(Column, u64)> {
        match self {
            Self::Queue(model) => model.counters(),
            Self::Ftl(model) => model.counters(),
        }
    }
}
