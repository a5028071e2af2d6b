//! Columns of the option table; reading, checking and printing of values.
//!
//! A row has everything about an option: allowed values, unit, behaviour when missing, the program that introduced it,
//! and when to change it. The rows are in `table.rs`.

use super::dialect::{
    DEVICE_NAME_BYTES_MAX, DEVICES_MAX, WHITE_SPACE, device_names, is_device_separator,
};
use super::problem::{ConfigProblem, ValueProblem};
use super::sizes::{BUCKETS_MAX, SizeHistogram};
use crate::sizes::SizeWithinBucket;
use engine::DeviceName;
use engine::sim::DriveSpecError;
use load::choice::{Arrival, Choice, Engine, Pacing, choice};
pub use results::act_log::Test;
use results::format::{bare_start, is_unprintable, quoted_start, seconds};
use std::fmt;

pub(super) const STORAGE: &[Test] = &[Test::Storage];
pub(super) const INDEX: &[Test] = &[Test::Index];
pub(super) const BOTH: &[Test] = &[Test::Storage, Test::Index];

pub(super) fn tests_word(tests: &[Test]) -> &'static str {
    match tests {
        [test] => test.name(),
        _ => "both",
    }
}

choice! {
    /// The program that introduced an option.
    Since {
        /// ACT 6.6 reads the option.
        #[default]
        Act66 = "ACT 6.6",
        /// Only ACT releases before 6.6 read the option; a file that gives the option gets a warning.
        OldAct = "older ACTs",
        /// The sizing paper announced the option for ACT 4, and no released ACT reads it. For histogram loads only.
        Paper = "the sizing paper",
        /// A flashproof extension: ACT refuses a file with it.
        Flashproof = "flashproof",
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionKind {
    /// Device names separated by commas, semicolons or white space; at most [`DEVICES_MAX`].
    Devices,
    Whole {
        /// Smallest allowed value, in the option's unit.
        min: u64,
        /// Largest allowed value, in the option's unit.
        max: u64,
        /// True if the value must be a power of two. Zero is accepted where `min` allows it.
        power_of_two: bool,
    },
    YesNo,
    /// A word of this list.
    Choice(&'static [&'static str]),
    /// For each power of two, the percentage of larger sizes: at most [`BUCKETS_MAX`] values, never rising, the last 0.
    Histogram,
    /// A single word of any kind, for keys that are read and ignored.
    Word,
}

#[derive(Debug, Clone, Copy)]
pub struct OptionSpec {
    /// The key, as written in a file.
    pub name: &'static str,
    /// Unit of the value; may be empty.
    pub unit: &'static str,
    pub kind: OptionKind,
    /// Value when the key is missing, in the format of a file.
    pub default: OptionDefault,
    pub since: Since,
    pub tests: &'static [Test],
    /// Effect, in one line.
    pub help: &'static str,
    /// When to change the option, and its preconditions.
    pub advice: &'static str,
}

/// Behaviour when a key is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OptionDefault {
    /// The file is refused. The text is an example value.
    Mandatory(&'static str),
    /// This value is used.
    Value(&'static str),
    /// The option counts as not set; `what` is the effect. The value `word` in a file means the same.
    Unset {
        /// The word or number for "not set" in a file.
        word: Option<&'static str>,
        what: &'static str,
    },
}

impl OptionSpec {
    pub(crate) fn unset_word(&self) -> Option<&'static str> {
        match self.default {
            OptionDefault::Unset { word, .. } => word,
            _ => None,
        }
    }

    /// True if the option has no effect without histograms.
    pub(crate) fn is_of_histograms(&self) -> bool {
        self.since == Since::Paper || self.name == "size-within-bucket"
    }

    /// Allowed values, as text: `0 to 100`, `yes, no`.
    pub fn range(&self) -> String {
        match self.kind {
            OptionKind::Devices => format!("1 to {DEVICES_MAX} names"),
            OptionKind::Whole {
                min,
                max,
                power_of_two,
            } => {
                let min = if self.unset_word() == Some("0") {
                    0
                } else {
                    min
                };
                format!(
                    "{min} to {max}{}",
                    if power_of_two { ", a power of two" } else { "" }
                )
            }
            OptionKind::YesNo => "yes, no".into(),
            OptionKind::Choice(words) => words.join(", "),
            OptionKind::Histogram => format!("up to {BUCKETS_MAX} percentages, the last 0"),
            OptionKind::Word => "any word".into(),
        }
    }

    /// Allowed values, as the end of a sentence that starts with "give".
    pub fn expected(&self) -> String {
        match self.kind {
            OptionKind::Devices => {
                format!("1 to {DEVICES_MAX} device names separated by commas or spaces")
            }
            OptionKind::Whole {
                min,
                max,
                power_of_two,
            } => {
                let number = if power_of_two {
                    "a power of two"
                } else {
                    "a whole number"
                };
                let unit = if self.unit.is_empty() {
                    String::new()
                } else {
                    format!(" ({})", self.unit)
                };
                let zero = power_of_two && min == 0 || self.unset_word() == Some("0");
                let zero = if zero { "0 or " } else { "" };
                let min = if power_of_two { min.max(1) } else { min };
                format!("{zero}{number} from {min} to {max}{unit}")
            }
            OptionKind::YesNo => "yes or no".into(),
            OptionKind::Choice(words) => format!("one of {}", words.join(", ")),
            OptionKind::Histogram => format!(
                "1 to {BUCKETS_MAX} percentages separated by commas, of the sizes over 1, 2, 4, ... bytes; none may be \
                above the previous, and the last must be 0"
            ),
            OptionKind::Word => "one word".into(),
        }
    }

    /// True for a key of older ACTs that is translated or ignored, so that a configuration does not keep it.
    pub(super) fn is_translated(&self) -> bool {
        self.since == Since::OldAct && matches!(self.default, OptionDefault::Unset { .. })
    }

    /// On an error the field keeps its value.
    pub(super) fn set(
        &self,
        setting: &mut dyn OptionField,
        text: &str,
    ) -> Result<(), ConfigProblem> {
        let set = match text {
            "" if self.kind != OptionKind::Devices => {
                Err(ValueProblem::Other("no value".to_owned()))
            }
            _ => setting.set(self, text),
        };
        set.map_err(|found| {
            self.span_problem(text)
                .unwrap_or_else(|| self.problem(found))
        })
    }

    /// The problem of a time span with a unit, such as 24h, where the value is a number of seconds.
    fn span_problem(&self, text: &str) -> Option<ConfigProblem> {
        let is_span = self.unit == "s" && text.ends_with(|c: char| c.is_ascii_alphabetic());
        let seconds = seconds(text).ok().filter(|_| is_span)?;
        let text = quoted_start(text);
        let name = self.name;
        Some(ConfigProblem::Other(format!(
            "{name}: {text} has a unit, but the value is a number of seconds - use {seconds}"
        )))
    }

    pub(super) fn problem(&self, found: ValueProblem) -> ConfigProblem {
        match found {
            ValueProblem::NoSuchDrive(message) => {
                ConfigProblem::Other(format!("{}: {message}", self.name))
            }
            found => {
                ConfigProblem::Other(format!("{}: {found} - give {}", self.name, self.expected()))
            }
        }
    }
}

/// A field of a configuration that a line of a file can set.
///
/// The field's type says how a value is parsed; the option's row says which values are allowed, for files and programs.
pub trait OptionField {
    /// Sets the value from `text`, which has no white space around it. On an error the field keeps its value.
    fn set(&mut self, spec: &OptionSpec, text: &str) -> Result<(), ValueProblem>;

    fn check(&self, _spec: &OptionSpec) -> Result<(), ValueProblem> {
        Ok(())
    }

    /// The value as text that [`set`](Self::set) reads back; `None` if it is not set.
    fn text(&self) -> Option<String>;
}

macro_rules! numbers {
    ($($number:ty),+) => {$(
        impl OptionField for $number {
            fn set(&mut self, spec: &OptionSpec, text: &str) -> Result<(), ValueProblem> {
                let number = whole_number(text)?;
                check_range(spec, number)?;
                *self = number.try_into().map_err(|_| too_large(number))?;
                Ok(())
            }

            fn check(&self, spec: &OptionSpec) -> Result<(), ValueProblem> {
                check_range(spec, u64::from(*self))
            }

            fn text(&self) -> Option<String> {
                Some(self.to_string())
            }
        }
    )+};
}

numbers!(u32, u64);

impl<T: OptionField + Copy + std::default::Default> OptionField for Option<T> {
    fn set(&mut self, spec: &OptionSpec, text: &str) -> Result<(), ValueProblem> {
        let mut value = T::default();
        *self = match value.set(spec, text) {
            // "00" means the same as "0".
            Err(ValueProblem::TooSmall(0)) if spec.unset_word() == Some("0") => None,
            result => result.map(|()| Some(value))?,
        };
        Ok(())
    }

    fn check(&self, spec: &OptionSpec) -> Result<(), ValueProblem> {
        self.map_or(Ok(()), |value| value.check(spec))
    }

    fn text(&self) -> Option<String> {
        self.and_then(|value| value.text())
    }
}

impl OptionField for SizeHistogram {
    fn set(&mut self, _: &OptionSpec, text: &str) -> Result<(), ValueProblem> {
        *self = Self::parse(text).map_err(ValueProblem::Other)?;
        Ok(())
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl OptionField for bool {
    fn set(&mut self, _: &OptionSpec, text: &str) -> Result<(), ValueProblem> {
        *self = match text {
            "yes" => true,
            "no" => false,
            _ => return Err(ValueProblem::new(text, "is neither yes nor no")),
        };
        Ok(())
    }

    fn text(&self) -> Option<String> {
        Some(if *self { "yes" } else { "no" }.into())
    }
}

macro_rules! words {
    ($($words:ty),+) => {$(
        impl OptionField for $words {
            fn set(&mut self, _: &OptionSpec, text: &str) -> Result<(), ValueProblem> {
                *self = Choice::from_word(text)
                    .ok_or_else(|| ValueProblem::new(text, "is not an allowed word"))?;
                Ok(())
            }

            fn text(&self) -> Option<String> {
                Some(self.word().into())
            }
        }
    )+};
}

words!(Arrival, Engine, Pacing, SizeWithinBucket);

impl OptionField for Vec<DeviceName> {
    fn set(&mut self, _: &OptionSpec, text: &str) -> Result<(), ValueProblem> {
        let names: Vec<_> = device_names(text).collect();
        check_device_names(&names)?;
        let parsed = names
            .iter()
            .map(|name| name.parse())
            .collect::<Result<_, DriveSpecError>>();
        *self = parsed.map_err(|error| ValueProblem::NoSuchDrive(error.to_string()))?;
        Ok(())
    }

    fn check(&self, _: &OptionSpec) -> Result<(), ValueProblem> {
        check_device_names(&self.iter().map(DeviceName::as_str).collect::<Vec<_>>())
    }

    fn text(&self) -> Option<String> {
        let names: Vec<_> = self.iter().map(DeviceName::as_str).collect();
        Some(names.join(" ")).filter(|text| !text.is_empty())
    }
}

fn check_device_names(names: &[&str]) -> Result<(), ValueProblem> {
    if names.is_empty() {
        return Err(ValueProblem::Other("no device is named".to_owned()));
    }
    if names.len() > DEVICES_MAX {
        return Err(ValueProblem::Other(format!(
            "{} devices are too many",
            names.len()
        )));
    }
    for (i, name) in names.iter().enumerate() {
        if name.len() > DEVICE_NAME_BYTES_MAX {
            return Err(ValueProblem::Other(format!(
                "the name {} of {} bytes is longer than any path: at most {DEVICE_NAME_BYTES_MAX} bytes are allowed",
                quoted_start(name),
                name.len()
            )));
        }
        if name.starts_with(['"', '\'']) || name.ends_with(['"', '\'']) {
            let bare = bare_start(name);
            return Err(ValueProblem::Other(format!(
                "{bare} is in quotes, but names are written without quotes"
            )));
        }
        let is_unwritable = |c: char| is_device_separator(c) || c == '#' || is_unprintable(c);
        if name.is_empty() || name.contains(is_unwritable) {
            let is = "cannot be a device name, because it has a separator, a # or an invisible character in it";
            return Err(ValueProblem::new(name, is));
        }
        if names[..i].contains(name) {
            let is = "is named twice, but each device is tested once; give simulated drives different names (name=...)";
            return Err(ValueProblem::new(name, is));
        }
    }
    Ok(())
}

/// A word that is read and then ignored.
impl OptionField for String {
    fn set(&mut self, _: &OptionSpec, text: &str) -> Result<(), ValueProblem> {
        if text.contains(WHITE_SPACE) {
            return Err(ValueProblem::new(text, "is more than one word"));
        }
        text.clone_into(self);
        Ok(())
    }

    fn text(&self) -> Option<String> {
        Some(self.clone()).filter(|text| !text.is_empty())
    }
}

fn check_range(spec: &OptionSpec, number: u64) -> Result<(), ValueProblem> {
    let OptionKind::Whole {
        min,
        max,
        power_of_two,
    } = spec.kind
    else {
        return Ok(());
    };
    if number < min {
        Err(ValueProblem::TooSmall(number))
    } else if number > max {
        Err(too_large(number))
    } else if power_of_two && number != 0 && !number.is_power_of_two() {
        Err(ValueProblem::Other(format!("{number} is no power of two")))
    } else {
        Ok(())
    }
}

/// Decimal digits with an optional plus sign, as in ACT. Errors: not a whole number, or too large for 64 bits.
pub(super) fn whole_number(value: &str) -> Result<u64, ValueProblem> {
    let unsigned = value.strip_prefix('+').unwrap_or(value);
    let digits_len = unsigned
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(unsigned.len());
    let (digits, junk) = unsigned.split_at(digits_len);
    match (digits.is_empty(), junk.is_empty()) {
        (true, true) if value.is_empty() => Err(ValueProblem::Other("no value".to_owned())),
        (true, _)
            if value
                .strip_prefix('-')
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) =>
        {
            Err(ValueProblem::new(value, "is negative"))
        }
        (true, _) => Err(ValueProblem::new(value, "is not a number")),
        (false, false) => Err(ValueProblem::new(
            value,
            &format!("has {} after the number", quoted_start(junk)),
        )),
        (false, true) => digits.parse().map_err(|_| too_large(shortened(digits))),
    }
}

fn too_large(number: impl fmt::Display) -> ValueProblem {
    ValueProblem::Other(format!("{number} is too large"))
}

/// Digits that a message can show.
fn shortened(digits: &str) -> String {
    const SHOWN: usize = 40;
    if digits.len() <= SHOWN {
        digits.into()
    } else {
        format!("{}... ({} digits)", &digits[..SHOWN], digits.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::find;

    fn set<T: OptionField + std::default::Default>(key: &str, text: &str) -> Result<T, String> {
        let mut value = T::default();
        let spec = find(Test::Storage, key).unwrap();
        value
            .set(spec, text)
            .map(|()| value)
            .map_err(|problem| problem.to_string())
    }

    fn wrong<T>(what: &str) -> Result<T, String> {
        Err(what.to_owned())
    }

    #[test]
    fn values_outside_an_options_range_are_refused() {
        assert_eq!(set::<u32>("update-pct", "100"), Ok(100));
        assert_eq!(set::<u32>("update-pct", "101"), wrong("101 is too large"));
        let found = set::<u32>("test-duration-sec", "0");
        assert_eq!(found, wrong("0 is too small"));
        let found = set::<u32>("large-block-op-kbytes", "100");
        assert_eq!(found, wrong("100 is no power of two"));
        assert_eq!(set::<u32>("max-lag-sec", "4294967295"), Ok(u32::MAX));
        let found = set::<u32>("max-lag-sec", "4294967296");
        assert_eq!(found, wrong("4294967296 is too large"));
    }

    #[test]
    fn zero_means_not_set_only_for_options_that_say_so_and_is_a_valid_seed() {
        assert_eq!(set::<Option<u32>>("service-threads", "0"), Ok(None));
        assert_eq!(set::<Option<u32>>("service-threads", "00"), Ok(None));
        assert_eq!(set::<Option<u32>>("shards", "0"), Ok(None));
        let found = set::<Option<u32>>("num-queues", "0");
        assert_eq!(found, wrong("0 is too small"), "it has no such word");
        assert_eq!(set::<Option<u64>>("seed", "0"), Ok(Some(0)));
        let found = set::<Option<u64>>("seed", "18446744073709551615");
        assert_eq!(found, Ok(Some(u64::MAX)));
    }

    #[test]
    fn a_flag_is_yes_or_no_and_any_other_text_is_refused() {
        assert_eq!(set::<bool>("tomb-raider", "yes"), Ok(true));
        for text in ["y", "Yes", "true", "1", "yes please"] {
            let found = set::<bool>("tomb-raider", text);
            assert_eq!(found, wrong(&format!("\"{text}\" is neither yes nor no")));
        }
    }

    #[test]
    fn device_lists_are_split_and_empty_repeated_or_invalid_names_are_refused() {
        let set = |key, text: &str| {
            let names = set::<Vec<DeviceName>>(key, text)?;
            Ok(names.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(
            set("device-names", "/dev/a;/dev/b").unwrap(),
            ["/dev/a", "/dev/b"]
        );
        assert_eq!(set("device-names", " , "), wrong("no device is named"));
        let long = "a".repeat(4096);
        for (names, what) in [
            (
                "a b a",
                "\"a\" is named twice, but each device is tested once",
            ),
            ("a\u{1}", "\"a\\u0001\" cannot be a device name"),
            ("\u{a0}a", "\"\\u00a0a\" cannot be a device name"),
            ("a\u{200b}", "\"a\\u200b\" cannot be a device name"),
            (
                &long,
                &format!(
                    "the name \"{}...\" of 4096 bytes is longer than any path",
                    &long[..60]
                ),
            ),
        ] {
            let found = set("device-names", names).unwrap_err();
            assert!(found.starts_with(what), "{found}");
        }
        let many: Vec<_> = (0..129).map(|n| format!("d{n}")).collect();
        assert_eq!(
            set("device-names", &many.join(",")),
            wrong("129 devices are too many")
        );
        assert_eq!(
            set("device-names", &many[..128].join(",")).unwrap().len(),
            128
        );
    }

    #[test]
    fn a_whole_number_has_only_digits_after_an_optional_plus_sign() {
        let whole_number = |text: &str| whole_number(text).map_err(|problem| problem.to_string());
        for (text, number) in [
            ("0", 0),
            ("007", 7),
            ("+5", 5),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(whole_number(text), Ok(number), "{text}");
        }
        assert_eq!(whole_number(""), wrong("no value"));
        assert_eq!(whole_number("-5"), wrong("\"-5\" is negative"));
        for text in ["x", "-", "+", "++5", "-x", ": 5", "٣"] {
            let found = whole_number(text);
            assert_eq!(found, wrong(&format!("\"{text}\" is not a number")));
        }
        for (text, junk) in [
            ("20x", "x"),
            ("1.5", ".5"),
            ("1e3", "e3"),
            ("60 x 60", " x 60"),
            ("0x10", "x10"),
        ] {
            assert_eq!(
                whole_number(text),
                wrong(&format!("\"{text}\" has \"{junk}\" after the number"))
            );
        }
        let found = whole_number("18446744073709551616");
        assert_eq!(found, wrong("18446744073709551616 is too large"));
        let most = format!("{}... (4000 digits) is too large", "9".repeat(40));
        assert_eq!(whole_number(&"9".repeat(4000)), wrong(&most));
    }
}
