//! Records that a run on a database read, and those that a verification refused.

use crate::units::{self, Grouped};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Records read in a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordsRead {
    /// Records that were answered; a request for a batch reads several.
    pub records: u64,
    /// Records that were refused; null without verification.
    pub refused: Option<Refused>,
}

/// Records that are no possible result of the writes to them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// An earlier write than the last acknowledged one.
    pub old: RefusedCount,
    /// No record.
    pub missing: RefusedCount,
    /// A value of another key, or of no write of this client.
    pub foreign: RefusedCount,
    /// A mix of two writes, or bytes that differ inside a write.
    pub torn: RefusedCount,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedCount {
    /// Reads with such a result.
    pub reads: u64,
    /// Records with such a result: each once, until it is written again.
    pub records: u64,
}

impl fmt::Display for RecordsRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Refused { old, missing, foreign, torn }) = self.refused else {
            return write!(f, "{} read", units::count(self.records, "record"));
        };
        write!(f, "{} read and verified", units::count(self.records, "record"))?;
        let kinds = [("old", old), ("missing", missing), ("foreign", foreign), ("torn", torn)];
        for (at, (kind, RefusedCount { reads, records })) in kinds.into_iter().enumerate() {
            let separator = if at == 0 { ":" } else { "," };
            match reads {
                0 => write!(f, "{separator} 0 {kind}")?,
                _ => {
                    let reads = units::count(reads, "read");
                    write!(f, "{separator} {} {kind} (in {reads})", Grouped(records))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_counted_in_words() {
        let of = |reads, records| RefusedCount { reads, records };
        let refused = Refused { old: of(12, 5), missing: of(1, 1), torn: of(2_000, 1_500), ..Refused::default() };
        let read = RecordsRead { records: 39_488, refused: Some(refused) };
        assert_eq!(
            read.to_string(),
            "39,488 records read and verified: 5 old (in 12 reads), 1 missing (in 1 read), 0 foreign, 1,500 torn (in 2,000 reads)"
        );
        assert_eq!(RecordsRead { records: 1, refused: None }.to_string(), "1 record read");
    }
}
