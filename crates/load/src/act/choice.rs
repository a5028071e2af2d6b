//! Options whose value is one of a few words.
//!
//! Each is an enum that lists its own words, so that the option table, the parser and the echo
//! cannot disagree about them.

use super::sizes::Within;

/// An enum whose variants are written as words.
pub(crate) trait Choice: Copy + Sized + 'static {
    /// Every variant with its word, the default first.
    const WORDS: &'static [&'static str];

    /// The variant of a word of `WORDS`.
    fn from_word(word: &str) -> Option<Self>;

    /// The word of this variant.
    fn word(self) -> &'static str;
}

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl Choice for $name {
            const WORDS: &'static [&'static str] = &[$($word),+];

            fn from_word(word: &str) -> Option<Self> {
                match word {
                    $($word => Some(Self::$variant),)+
                    _ => None,
                }
            }

            fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

choice! {
    /// When the operations of a stream are intended to start.
    Arrival {
        /// Evenly spaced, one phase-shifted schedule for each device.
        #[default]
        Paced = "paced",
        /// Exponential gaps: independent clients.
        Poisson = "poisson",
        /// ACT 6's own pacing and its random choice of device for each request.
        Act = "act",
        /// The next as soon as one ends: a fixed number in flight, no intended rate.
        Closed = "closed",
    }
}

choice! {
    /// Where in its bucket of a histogram a size lies.
    SizeWithinBucket {
        /// Reads at the lower edge, writes at the upper: what the sizing paper's own results follow.
        #[default]
        Paper = "paper",
        /// At the lower edge.
        Lower = "lower",
        /// At the upper edge.
        Upper = "upper",
        /// Anywhere, each size as likely as another.
        Uniform = "uniform",
        /// Anywhere, each doubling as likely as another.
        LogUniform = "log-uniform",
    }
}

impl SizeWithinBucket {
    /// The rule for the sizes of reads.
    pub fn of_reads(self) -> Within {
        self.or(Within::Lower)
    }

    /// The rule for the sizes of writes.
    pub fn of_writes(self) -> Within {
        self.or(Within::Upper)
    }

    fn or(self, papers: Within) -> Within {
        match self {
            Self::Paper => papers,
            Self::Lower => Within::Lower,
            Self::Upper => Within::Upper,
            Self::Uniform => Within::Uniform,
            Self::LogUniform => Within::LogUniform,
        }
    }
}

choice! {
    /// How an issuing thread passes the time until the next operation is due.
    Pacing {
        /// Sleeps, wakes rarely and issues what is due.
        #[default]
        Sleep = "sleep",
        /// Spins on the clock: least lag, one core busy for each issuing thread.
        Spin = "spin",
    }
}

choice! {
    /// What carries operations to the kernel.
    Engine {
        /// `io_uring` where the kernel allows it, threads otherwise.
        #[default]
        Auto = "auto",
        /// `io_uring`, or the run is refused.
        Uring = "uring",
        /// Threads that block in pread and pwrite.
        Threads = "threads",
    }
}
