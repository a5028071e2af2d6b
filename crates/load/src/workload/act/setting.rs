//! How a value of each Rust type is read from text, checked and written back.
//!
//! The type of a field decides how it is read, the option's row in the table which values it takes:
//! parsing a file and checking a configuration that a program made go through the same range check.

use super::dialect::{device_names, is_device_separator, whole_number};
use super::options::{DEVICE_NAME_BYTES_MAX, DEVICES_MAX, Kind, OptionSpec};
use super::problem::{Quoted, ValueProblem};
use super::sizes::SizeHistogram;
use crate::choice::Choice;
use device::is_simulated;
use engine::sim::DriveSpec;

/// A field of a configuration that a line of a file can set. Nobody outside can name it.
pub trait Setting {
    /// Sets it from `text`, which has no white space around it. On an error it keeps its value.
    fn set(&mut self, spec: &OptionSpec, text: &str) -> Result<(), ValueProblem>;

    /// Whether the value is one that `spec` takes.
    fn check(&self, spec: &OptionSpec) -> Result<(), ValueProblem>;

    /// The value as text that [`set`](Self::set) reads back; `None` when it is not set.
    fn text(&self) -> Option<String>;
}

impl Setting for u32 {
    fn set(&mut self, spec: &OptionSpec, text: &str) -> Result<(), ValueProblem> {
        let number = whole_number(text)?;
        check_range(spec, number)?;
        *self = number.try_into().map_err(|_| ValueProblem::TooLarge(number.to_string()))?;
        Ok(())
    }

    fn check(&self, spec: &OptionSpec) -> Result<(), ValueProblem> {
        check_range(spec, u64::from(*self))
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Setting for u64 {
    fn set(&mut self, spec: &OptionSpec, text: &str) -> Result<(), ValueProblem> {
        let number = whole_number(text)?;
        check_range(spec, number)?;
        *self = number;
        Ok(())
    }

    fn check(&self, spec: &OptionSpec) -> Result<(), ValueProblem> {
        check_range(spec, *self)
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl<T: Setting + Copy + std::default::Default> Setting for Option<T> {
    fn set(&mut self, spec: &OptionSpec, text: &str) -> Result<(), ValueProblem> {
        let mut value = T::default();
        *self = match value.set(spec, text) {
            // "00" says the same as "0".
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

impl Setting for SizeHistogram {
    fn set(&mut self, _: &OptionSpec, text: &str) -> Result<(), ValueProblem> {
        if text.is_empty() {
            return Err(ValueProblem::Missing);
        }
        *self = Self::parse(text)?;
        Ok(())
    }

    fn check(&self, _: &OptionSpec) -> Result<(), ValueProblem> {
        Ok(())
    }

    fn text(&self) -> Option<String> {
        Some(self.to_string())
    }
}

impl Setting for bool {
    fn set(&mut self, _: &OptionSpec, text: &str) -> Result<(), ValueProblem> {
        *self = match text {
            "yes" => true,
            "no" => false,
            "" => return Err(ValueProblem::Missing),
            _ => return Err(ValueProblem::NotYesNo(Quoted::new(text))),
        };
        Ok(())
    }

    fn check(&self, _: &OptionSpec) -> Result<(), ValueProblem> {
        Ok(())
    }

    fn text(&self) -> Option<String> {
        Some(if *self { "yes" } else { "no" }.into())
    }
}

impl<T: Choice> Setting for T {
    fn set(&mut self, _: &OptionSpec, text: &str) -> Result<(), ValueProblem> {
        if text.is_empty() {
            return Err(ValueProblem::Missing);
        }
        *self = T::from_word(text).ok_or_else(|| ValueProblem::NotAChoice(Quoted::new(text)))?;
        Ok(())
    }

    fn check(&self, _: &OptionSpec) -> Result<(), ValueProblem> {
        Ok(())
    }

    fn text(&self) -> Option<String> {
        Some(self.word().into())
    }
}

/// Device names.
impl Setting for Vec<String> {
    fn set(&mut self, spec: &OptionSpec, text: &str) -> Result<(), ValueProblem> {
        let names: Self = device_names(text).map(str::to_owned).collect();
        names.check(spec)?;
        *self = names;
        Ok(())
    }

    fn check(&self, _: &OptionSpec) -> Result<(), ValueProblem> {
        if self.is_empty() {
            return Err(ValueProblem::NoDevices);
        }
        if self.len() > DEVICES_MAX {
            return Err(ValueProblem::TooManyDevices(self.len()));
        }
        for (i, name) in self.iter().enumerate() {
            check_device_name(name)?;
            if self[..i].contains(name) {
                return Err(ValueProblem::SameDeviceTwice(Quoted::new(name)));
            }
        }
        Ok(())
    }

    fn text(&self) -> Option<String> {
        Some(self.join(" ")).filter(|text| !text.is_empty())
    }
}

fn check_device_name(name: &str) -> Result<(), ValueProblem> {
    if name.len() > DEVICE_NAME_BYTES_MAX {
        return Err(ValueProblem::LongDeviceName { found: Quoted::new(name), bytes: name.len() });
    }
    if name.starts_with(['"', '\'']) || name.ends_with(['"', '\'']) {
        return Err(ValueProblem::QuotedDeviceName(Quoted::new(name)));
    }
    let unwritable = |c: char| is_device_separator(c) || c == '#' || c.is_control();
    if name.is_empty() || name.contains(unwritable) {
        return Err(ValueProblem::BadDeviceName(Quoted::new(name)));
    }
    if is_simulated(name) {
        name.parse::<DriveSpec>().map_err(|error| ValueProblem::NoSuchDrive(error.to_string()))?;
    }
    Ok(())
}

/// A word that is read and then ignored.
impl Setting for String {
    fn set(&mut self, _: &OptionSpec, text: &str) -> Result<(), ValueProblem> {
        if text.is_empty() {
            return Err(ValueProblem::Missing);
        }
        if text.contains(super::dialect::WHITE_SPACE) {
            return Err(ValueProblem::NotOneWord(Quoted::new(text)));
        }
        text.clone_into(self);
        Ok(())
    }

    fn check(&self, _: &OptionSpec) -> Result<(), ValueProblem> {
        Ok(())
    }

    fn text(&self) -> Option<String> {
        Some(self.clone()).filter(|text| !text.is_empty())
    }
}

fn check_range(spec: &OptionSpec, number: u64) -> Result<(), ValueProblem> {
    let Kind::Whole { min, max, power_of_two } = spec.kind else { return Ok(()) };
    if number < min {
        Err(ValueProblem::TooSmall(number))
    } else if number > max {
        Err(ValueProblem::TooLarge(number.to_string()))
    } else if power_of_two && number != 0 && !number.is_power_of_two() {
        Err(ValueProblem::NotAPowerOfTwo(number))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::act::options::{Test, find};

    fn set<T: Setting + std::default::Default>(key: &str, text: &str) -> Result<T, ValueProblem> {
        let mut value = T::default();
        value.set(find(Test::Storage, key).unwrap(), text).map(|()| value)
    }

    #[test]
    fn ranges_come_from_the_table() {
        assert_eq!(set::<u32>("update-pct", "100"), Ok(100));
        assert_eq!(set::<u32>("update-pct", "101"), Err(ValueProblem::TooLarge("101".into())));
        assert_eq!(set::<u32>("test-duration-sec", "0"), Err(ValueProblem::TooSmall(0)));
        assert_eq!(set::<u32>("large-block-op-kbytes", "100"), Err(ValueProblem::NotAPowerOfTwo(100)));
        assert_eq!(set::<u32>("max-lag-sec", "4294967295"), Ok(u32::MAX));
        assert_eq!(set::<u32>("max-lag-sec", "4294967296"), Err(ValueProblem::TooLarge("4294967296".into())));
    }

    #[test]
    fn the_unset_word_means_not_set_and_zero_is_a_seed() {
        assert_eq!(set::<Option<u32>>("service-threads", "0"), Ok(None));
        assert_eq!(set::<Option<u32>>("service-threads", "00"), Ok(None));
        assert_eq!(set::<Option<u32>>("shards", "0"), Ok(None));
        assert_eq!(set::<Option<u32>>("num-queues", "0"), Err(ValueProblem::TooSmall(0)), "it has no such word");
        assert_eq!(set::<Option<u64>>("seed", "0"), Ok(Some(0)));
        assert_eq!(set::<Option<u64>>("seed", "18446744073709551615"), Ok(Some(u64::MAX)));
    }

    #[test]
    fn yes_and_no_are_the_only_flags() {
        assert_eq!(set::<bool>("tomb-raider", "yes"), Ok(true));
        for text in ["y", "Yes", "true", "1", "yes please"] {
            assert_eq!(set::<bool>("tomb-raider", text), Err(ValueProblem::NotYesNo(Quoted::new(text))), "{text}");
        }
    }

    #[test]
    fn a_device_list_names_each_device_once() {
        let set = set::<Vec<String>>;
        assert_eq!(set("device-names", "/dev/a;/dev/b").unwrap(), ["/dev/a", "/dev/b"]);
        assert_eq!(set("device-names", " , "), Err(ValueProblem::NoDevices));
        assert_eq!(set("device-names", "a b a"), Err(ValueProblem::SameDeviceTwice(Quoted::new("a"))));
        let long = "a".repeat(4096);
        assert!(matches!(set("device-names", &long), Err(ValueProblem::LongDeviceName { bytes: 4096, .. })));
        assert_eq!(set("device-names", "a\u{1}"), Err(ValueProblem::BadDeviceName(Quoted::new("a\u{1}"))));
        let many: Vec<_> = (0..129).map(|n| format!("d{n}")).collect();
        assert_eq!(set("device-names", &many.join(",")), Err(ValueProblem::TooManyDevices(129)));
        assert_eq!(set("device-names", &many[..128].join(",")).unwrap().len(), 128);
    }
}
