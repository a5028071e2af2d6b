//! Helpers for all configurations: enums that are written as words, structs with defaults, and suggestions for
//! misspelled names.
//!
//! Each enum lists its own words, so the option table, the parser and the printed configuration cannot disagree.

use results::cell::Arrivals;

/// An enum whose variants are written as words.
pub trait Choice: Copy + Sized + 'static {
    /// Every variant with its word, the default first.
    const WORDS: &'static [&'static str];

    fn from_word(word: &str) -> Option<Self>;

    fn word(self) -> &'static str;
}

#[macro_export]
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $crate::choice::Choice for $name {
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
                f.pad($crate::choice::Choice::word(*self))
            }
        }
    };
}

pub use choice;

/// Declares a struct and its `Default`, with the default of each field beside the field.
#[macro_export]
macro_rules! with_defaults {
    ($(#[$doc:meta])* pub struct $name:ident { $($(#[$field_doc:meta])* pub $field:ident: $type:ty = $default:expr,)+ }) => {
        $(#[$doc])*
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }
    };
}

pub use with_defaults;

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
        /// Closed loop: a fixed number of operations in flight, no intended rate.
        Closed = "closed",
    }
}

impl Arrival {
    pub fn recorded(self) -> Arrivals {
        match self {
            Self::Paced => Arrivals::Even,
            Self::Poisson | Self::Act => Arrivals::Random,
            Self::Closed => Arrivals::Unknown,
        }
    }
}

choice! {
    /// How an issuing thread waits until the next operation is due.
    Pacing {
        /// Sleeps, wakes rarely and issues all due operations.
        #[default]
        Sleep = "sleep",
        /// Spins on the clock: least lag, one core busy for each issuing thread.
        Spin = "spin",
    }
}

choice! {
    /// The interface that submits operations to the kernel.
    Engine {
        /// `io_uring` where the kernel allows it, else Linux AIO, else threads.
        #[default]
        Auto = "auto",
        /// `io_uring`; without it the run is refused.
        Uring = "uring",
        /// Linux AIO (io_submit); without it the run is refused.
        Aio = "aio",
        /// Threads that block in pread and pwrite.
        Threads = "threads",
        /// NVMe commands on the namespace's character device, past the block layer.
        Passthrough = "passthrough",
    }
}

/// The most similar name that begins with `word` or differs in at most a third of its letters.
pub fn similar(word: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    // All names are shorter, and the cost grows with the product of both lengths.
    const LEN_MAX: usize = 64;
    if word.len() > LEN_MAX {
        return None;
    }
    let is_prefix = |name: &str| word.len() >= 4 && name.starts_with(word);
    names
        .map(|name| {
            (
                if is_prefix(name) {
                    1
                } else {
                    strsim::osa_distance(word, name)
                },
                name,
            )
        })
        .filter(|(distance, name)| distance * 3 <= name.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}
