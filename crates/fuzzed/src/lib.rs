//! Parsers of hostile input, and for each parser a property that must hold for any input.
//!
//! ```text
//! fuzz/corpus/NAME -> cargo test: each input         -> its property
//!                  -> libFuzzer: derived inputs       -> its property     scripts/fuzz
//! ```
//!
//! Some properties are in the `tests` folder of the parser's crate, because tests there use them too. `fuzz/dict` has
//! libFuzzer's dictionaries of text that is hard to parse.

#![allow(
    clippy::disallowed_methods,
    reason = "properties make files of their own"
)]

#[path = "../../act/tests/common/config_property.rs"]
mod config_property;
#[path = "../../store/tests/common/device_property.rs"]
mod device_property;
#[path = "../../fio/tests/common/fio_property.rs"]
mod fio_property;
#[path = "../../sizing/tests/common/info_property.rs"]
mod info_property;
#[path = "../../results/tests/common/log_property.rs"]
mod log_property;
mod node_frames_property;
mod nvme_property;
#[path = "../../store/tests/common/replies_property.rs"]
mod replies_property;
mod run_dir_property;
#[path = "../../sizing/tests/common/server_property.rs"]
mod server_property;
mod trace_property;
#[path = "../../store/tests/common/wire_property.rs"]
mod wire_property;
mod witness_property;
mod words_property;

/// Name and property of a parser. The property panics if an input violates it, and returns true for a valid input.
pub type FuzzTarget = (&'static str, fn(&[u8]) -> bool);

pub const TARGETS: [FuzzTarget; 15] = [
    ("act_config", config_property::assert_parser_property),
    ("act_log", log_property::assert_log_property),
    ("device", device_property::assert_device_property),
    ("fio_jobs", fio_property::assert_fio_property),
    ("info_replies", info_property::assert_info_property),
    (
        "node_frames",
        node_frames_property::assert_node_frames_property,
    ),
    ("nvme", nvme_property::assert_nvme_property),
    ("replies", replies_property::assert_replies_property),
    ("run_dir", run_dir_property::assert_run_dir_property),
    ("server_log", server_property::assert_server_property),
    ("trace", trace_property::assert_trace_property),
    ("trace_page", trace_property::assert_trace_page_property),
    // Client frames and server configurations share a target, because no configuration begins like a frame.
    ("wire", |bytes| {
        wire_property::assert_wire_property(bytes)
            | wire_property::assert_configuration_property(bytes)
    }),
    ("witness", witness_property::assert_witness_property),
    ("words", words_property::assert_words_property),
];

fn assert_one_line(message: &str) {
    assert!(
        !message.is_empty() && !message.contains(char::is_control),
        "{message:?}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::panic::catch_unwind;
    use std::path::Path;

    #[test]
    fn every_input_of_the_corpus_keeps_its_property_and_each_target_has_a_valid_input() {
        for (name, property) in TARGETS {
            let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../../fuzz/corpus")
                .join(name);
            let mut valid = 0;
            for entry in fs::read_dir(&dir).unwrap() {
                let path = entry.unwrap().path();
                let bytes = fs::read(&path).unwrap();
                let is_valid = catch_unwind(|| property(&bytes));
                valid += u64::from(
                    is_valid.unwrap_or_else(|_| panic!("{} breaks its property", path.display())),
                );
            }
            assert!(valid > 0, "{} has no valid input", dir.display());
        }
    }
}
