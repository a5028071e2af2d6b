//! How the operations of a job are issued (`ioengine`).

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EngineKind {
    /// Through a queue of `iodepth` operations.
    #[default]
    Queued,
    /// System calls, one at a time.
    Calls,
    /// Page faults on mapped files, one at a time.
    Mapped,
    /// NVMe commands that bypass the block layer (`io_uring_cmd`).
    Passthrough,
    /// No data are moved; a simulated drive answers in a microsecond.
    Null,
}

impl EngineKind {
    /// Returns fio's name of the engine as well.
    pub(super) fn parse(text: &str) -> Result<(String, Self), String> {
        // fio compares only these letters.
        let is_libaio = text.starts_with("aio") || text.starts_with("linuxaio");
        let name = if is_libaio { "libaio" } else { text };
        let kind = match name {
            "io_uring" | "libaio" | "posixaio" => Self::Queued,
            "sync" | "psync" | "vsync" | "pvsync" | "pvsync2" => Self::Calls,
            "mmap" => Self::Mapped,
            "io_uring_cmd" => Self::Passthrough,
            "null" => Self::Null,
            _ => return Err("flashproof does not support this engine; without the option, flashproof would run: io_uring on the same files or devices - give ioengine=io_uring if that is acceptable".into()),
        };
        Ok((name.to_owned(), kind))
    }

    /// True if each operation blocks its thread, so that each clone has a thread of its own.
    pub fn is_synchronous(self) -> bool {
        matches!(self, Self::Calls | Self::Mapped)
    }
}
