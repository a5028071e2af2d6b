//! Properties of small texts that a command line or a file has: limits, factors, devices, mixes, hosts, sizes, tenants.

use crate::assert_one_line;
use act::sizes::SizeHistogram;
use engine::DeviceName;
use load::factor::Factor;
use load::records::Mix;
use results::judge::Sla;
use std::fmt::{Debug, Display};
use std::str::FromStr;
use store::nodes::HostPort;
use store::object::ValueType;
use tenants::Tenants;
use tenants::waf::Arrangement;

/// Parses `bytes` as each kind of text. Returns true if the text is valid for at least one kind.
pub(crate) fn assert_words_property(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    // A word has no line break, because it comes from a line of a file or from the command line.
    let word = text.lines().next().unwrap_or_default();
    let mut valid = [
        assert_written(word, Sla::from_str),
        assert_written(word, Sla::requested),
        assert_written(word, Factor::from_str),
        assert_written(word, Mix::from_str),
        assert_written(word, SizeHistogram::parse),
        assert_written(word, |text| HostPort::parse(text, 3000)),
        assert_read(word.parse::<Arrangement>()),
        assert_written(word, ValueType::from_str),
    ]
    .contains(&true);
    match word.parse::<DeviceName>() {
        Err(error) => assert_one_line(&error.to_string()),
        Ok(name) => {
            assert_eq!(name.as_str(), word);
            valid |= name.drive().is_some();
        }
    }
    valid | assert_read(Tenants::parse("tenants.toml", &text))
}

fn assert_read<T>(read: Result<T, impl Display>) -> bool {
    read.as_ref()
        .err()
        .into_iter()
        .for_each(|error| assert_one_line(&error.to_string()));
    read.is_ok()
}

/// Asserts that a parsed value is equal after it was written and parsed again.
fn assert_written<T, E>(text: &str, read: fn(&str) -> Result<T, E>) -> bool
where
    T: Debug + Display + PartialEq,
    E: Display,
{
    match read(text) {
        Err(error) => {
            assert_one_line(&error.to_string());
            false
        }
        Ok(value) => {
            let written = value.to_string();
            assert_one_line(&written);
            let again = read(&written)
                .unwrap_or_else(|error| panic!("{text:?} is written as {written:?}: {error}"));
            assert_eq!(again, value, "{written:?}");
            true
        }
    }
}
