//! The files or devices of a job.

use load::choice::with_defaults;

/// Choice of the file of an operation (`file_service_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOrder {
    InTurn,
    Random,
    /// Each file after the previous file is complete.
    OneByOne,
}

with_defaults! {
    #[derive(Debug, Clone)]
    pub struct FileOptions {
        /// Files or devices; empty: the job has its own files.
        pub names: Vec<String> = Vec::new(),
        /// Directories of the job's own files; the clones use the directories in turn.
        pub directories: Vec<String> = Vec::new(),
        /// Number of the job's own files.
        pub count: u64 = 1,
        /// Pattern for the names of the job's own files.
        pub name_format: String = "$jobname.$jobnum.$filenum".into(),
        /// Smallest and largest size of new files, bytes.
        pub sizes: Option<[u64; 2]> = None,
        /// Choice of the next file, after `ops` operations.
        pub order: FileOrder = FileOrder::InTurn,
        pub ops: u64 = 1,
        /// True if cached pages of the files are kept at the start.
        pub keeps_cache: bool = false,
        /// True if the used range of each file is read into the page cache before the job begins.
        pub pre_reads: bool = false,
        /// True if writes append to each file.
        pub appends: bool = false,
        /// True if the job only creates its files.
        pub creates_only: bool = false,
        /// True if missing files are written once before the job begins.
        pub overwrite: bool = false,
        /// True if the writes allocate the blocks of new files.
        pub sparse: bool = false,
        /// True if the file grows with the writes. Not an option of fio.
        pub grows: bool = false,
    }
}
