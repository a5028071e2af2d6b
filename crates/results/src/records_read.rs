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

/// Records that are no possible result of the writes to them: each once, until it is written again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// An earlier write than the last acknowledged one.
    pub old: u64,
    /// No record.
    pub missing: u64,
    /// A value of another key, or of no write of this client.
    pub foreign: u64,
    /// A mix of two writes, or bytes that differ inside a write.
    pub torn: u64,
}

impl fmt::Display for RecordsRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} read", units::count(self.records, "record"))?;
        let Some(Refused { old, missing, foreign, torn }) = self.refused else { return Ok(()) };
        let [old, missing, foreign, torn] = [old, missing, foreign, torn].map(Grouped);
        write!(f, " and verified: {old} old, {missing} missing, {foreign} foreign, {torn} torn")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_counted_in_words() {
        let refused = Refused { old: 5, missing: 1, torn: 1_500, ..Refused::default() };
        let read = RecordsRead { records: 39_488, refused: Some(refused) };
        let text = "39,488 records read and verified: 5 old, 1 missing, 0 foreign, 1,500 torn";
        assert_eq!(read.to_string(), text);
        assert_eq!(RecordsRead { records: 1, refused: None }.to_string(), "1 record read");
    }
}
