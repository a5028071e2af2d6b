//! The options of `verify`.

use super::super::content::BytePattern;
use super::method::Method;
use load::choice::with_defaults;

with_defaults! {
    #[derive(Debug, Clone, PartialEq)]
    pub struct VerifyOptions {
        pub method: Method = Method::None,
        pub pattern: Option<BytePattern> = None,
        /// Bytes of a block; each block has its own header.
        pub interval: Option<u64> = None,
        /// True if writes are read back.
        pub reads_back: bool = true,
        /// True if the job writes nothing, and reads the writes of an earlier job.
        pub only: bool = false,
        /// True if the job ends at the first wrong block.
        pub is_fatal: bool = false,
        /// True if wrong blocks are written to files.
        pub dumps: bool = false,
        /// Number of writes after which a batch is read back; 0: all writes are read back at the end.
        pub backlog: u64 = 0,
        /// Number of writes in a batch.
        pub batch: u64 = 0,
        /// True if the state of the writes is saved; `None`: only if the job ends early.
        pub saves_state: Option<bool> = None,
        pub loads_state: bool = false,
    }
}

impl VerifyOptions {
    /// Sets `verify_pattern`, which without `verify` means blocks of the pattern with a header.
    pub(in super::super) fn set_pattern(&mut self, pattern: BytePattern) {
        self.pattern = Some(pattern);
        if self.method == Method::None {
            self.method = Method::PatternHeader;
        }
    }
}
