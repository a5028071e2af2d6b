//! Numbers as fio writes them: sizes with binary suffixes, times, percentages, expressions in parentheses.
//!
//! Suffixes have fio's values: with `kb_base=1024`, the default, `k`, `kb` and `ki` are 1024 and `kib` is 1000; with
//! `kb_base=1000`, `k`, `kb` and `ki` are 1000 and `kib` is 1024. A rate may end in `/s`. Values that fio silently
//! misreads (`10sec` as 10 us) are refused.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberUnit {
    /// Bytes, or any other number that may have a suffix. The field is the value of `k`.
    Kilo(u64),
    /// Times. The field is the unit of a number without a suffix, in nanoseconds.
    Time(u64),
    Plain,
}

/// Times in seconds, if there is no suffix.
pub const SECONDS: NumberUnit = NumberUnit::Time(1_000_000_000);

/// Bytes, with `k` for 1024 of them.
pub const BYTES: NumberUnit = NumberUnit::Kilo(1024);

/// Times in microseconds, if there is no suffix.
pub(super) const MICROSECONDS: NumberUnit = NumberUnit::Time(1_000);

/// A size in bytes, or in percent of a size that is known later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    Bytes(u64),
    /// Percent of the device or file.
    Percent(u64),
}

impl Size {
    /// The size; `None` for 0 bytes or 0 %, which in fio means that the option is off.
    pub(super) fn unless_zero(self) -> Option<Self> {
        (!matches!(self, Self::Bytes(0) | Self::Percent(0))).then_some(self)
    }

    pub fn bytes_of(self, whole_bytes: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (u128::from(whole_bytes) * u128::from(percent) / 100) as u64,
        }
    }
}

/// A size: `4k`, `20%`, `(2*8m)`. As in fio, `20%%` of a Python template is 20 %. Errors: as [`number`], or more than
/// 100 %.
pub(super) fn size(text: &str, kilo: u64) -> Result<Size, String> {
    let text = text.trim();
    let amount = text.trim_end_matches('%');
    if amount.len() == text.len() {
        return Ok(Size::Bytes(number(text, NumberUnit::Kilo(kilo))?));
    }
    match number(amount, NumberUnit::Plain)? {
        percent if percent <= 100 => Ok(Size::Percent(percent)),
        percent => Err(format!("{percent} % is more than 100 %")),
    }
}

const TOO_LARGE: &str = "the value is too large";

/// A whole number with a suffix of `unit`. Errors: not a number, negative, too large, not whole, or an unknown suffix.
pub fn number(text: &str, unit: NumberUnit) -> Result<u64, String> {
    let text = text.trim();
    let value = match text.strip_prefix('(') {
        // As in fio, the result of an expression is rounded down.
        Some(_) => expression(text, unit)?.floor(),
        None => {
            let (sign, unsigned) = text.split_at(usize::from(text.starts_with(['-', '+'])));
            let (digits, suffix) = split_suffix(unsigned);
            if !digits.contains(|c: char| c.is_ascii_digit()) {
                return Err("the value is not a number".into());
            }
            let range_end = suffix.strip_prefix('-').unwrap_or_default();
            if range_end.starts_with(|c: char| c.is_ascii_digit()) {
                return Err(
                    "the value is a range, but this option has one number - give one number".into(),
                );
            }
            let factor = factor(suffix, unit)?;
            match (
                digits.parse::<u64>().ok().or_else(|| hexadecimal(digits)),
                digits.parse::<f64>(),
            ) {
                _ if sign == "-" => return Err("the value is negative".into()),
                (Some(whole), _) => {
                    return whole.checked_mul(factor).ok_or_else(|| TOO_LARGE.into());
                }
                (None, Ok(value)) if digits.starts_with(|c: char| c.is_ascii_digit()) => {
                    value * factor as f64
                }
                _ => return Err("the value is not a number".into()),
            }
        }
    };
    match unit {
        _ if value.is_nan() || value < 0.0 => Err("the value is negative".into()),
        _ if value >= u64::MAX as f64 => Err(TOO_LARGE.into()),
        // Parts of a nanosecond do not matter.
        NumberUnit::Time(_) if value >= 1.0 => Ok(value.round() as u64),
        _ => whole(value),
    }
}

/// The whole number `value`, up to a millionth of it: `0.1g` is 107374182.4 bytes. fio ignores the digits after the
/// point, and the unit after them, without a message.
fn whole(value: f64) -> Result<u64, String> {
    let rounded = value.round();
    if (value - rounded).abs() <= rounded / 1e6 {
        Ok(rounded as u64)
    } else {
        Err(format!("the value must be a whole number, not {value}"))
    }
}

fn hexadecimal(digits: &str) -> Option<u64> {
    let digits = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))?;
    u64::from_str_radix(digits, 16).ok()
}

/// Splits `text` after its digits, which may have a decimal point or a hexadecimal prefix.
fn split_suffix(text: &str) -> (&str, &str) {
    let is_hex = text.starts_with("0x") || text.starts_with("0X");
    let end = if is_hex {
        let digits = &text[2..];
        digits
            .find(|c: char| !c.is_ascii_hexdigit())
            .map(|end| 2 + end)
    } else {
        text.find(|c: char| !c.is_ascii_digit() && c != '.')
    };
    text.split_at(end.unwrap_or(text.len()))
}

fn factor(suffix: &str, unit: NumberUnit) -> Result<u64, String> {
    let suffix = suffix.trim().to_ascii_lowercase();
    let unknown = || Err(unknown_unit(&suffix, unit));
    match unit {
        NumberUnit::Plain if suffix.is_empty() => Ok(1),
        NumberUnit::Plain => unknown(),
        NumberUnit::Time(bare_ns) => Ok(match suffix.as_str() {
            "" => bare_ns,
            "us" | "usec" => 1_000,
            "ms" | "msec" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return unknown(),
        }),
        NumberUnit::Kilo(kilo) => {
            let suffix = suffix.strip_suffix("/s").unwrap_or(&suffix);
            let other_kilo = if kilo == 1_000 { 1_024_u64 } else { 1_000 };
            let Some(power) = suffix.chars().next().and_then(|first| "bkmgtp".find(first)) else {
                return if suffix.is_empty() { Ok(1) } else { unknown() };
            };
            match (&suffix[1..], power) {
                ("", _) | ("b" | "i", 1..) => Ok(kilo.pow(power as u32)),
                ("ib", 1..) => Ok(other_kilo.pow(power as u32)),
                _ => unknown(),
            }
        }
    }
}

fn unknown_unit(suffix: &str, unit: NumberUnit) -> String {
    let remedy = match unit {
        NumberUnit::Plain => "give a number without a unit",
        NumberUnit::Time(_) => "give one number, alone or with one of us, ms, s, m, h, d",
        NumberUnit::Kilo(_) => "give one number, alone or with one of k, m, g, t, p",
    };
    format!("{suffix:?} is not a unit of this value - {remedy}")
}

const NESTING_MAX: u32 = 32;

/// The value of an expression: numbers with units, `+ - * / % ^` and parentheses. Errors: invalid syntax, an unknown
/// unit, or a division by zero.
pub(super) fn expression(text: &str, unit: NumberUnit) -> Result<f64, String> {
    let mut reader = Expression {
        remaining: text,
        unit,
        has_unit: false,
        depth: 0,
    };
    let value = reader.sum()?;
    // A time without any unit is in the default unit.
    let bare = if reader.has_unit {
        1
    } else {
        factor("", unit)?
    };
    match reader.remaining.trim() {
        "" => Ok(value * bare as f64),
        rest => Err(format!("{rest:?} after the expression is not understood")),
    }
}

struct Expression<'t> {
    remaining: &'t str,
    unit: NumberUnit,
    has_unit: bool,
    depth: u32,
}

impl Expression<'_> {
    /// The next character, if it is one of `characters`.
    fn takes(&mut self, characters: &str) -> Option<char> {
        self.remaining = self.remaining.trim_start();
        let taken = self
            .remaining
            .chars()
            .next()
            .filter(|next| characters.contains(*next))?;
        self.remaining = &self.remaining[taken.len_utf8()..];
        Some(taken)
    }

    /// Arithmetic operations of one precedence, from left to right.
    fn operations(
        &mut self,
        operators: &str,
        operand: fn(&mut Self) -> Result<f64, String>,
    ) -> Result<f64, String> {
        let mut value = operand(self)?;
        while let Some(operator) = self.takes(operators) {
            let right_value = operand(self)?;
            value = match operator {
                '+' => value + right_value,
                '-' => value - right_value,
                '*' => value * right_value,
                _ if right_value == 0.0 => return Err("the expression divides by zero".into()),
                '/' => value / right_value,
                _ => value % right_value,
            };
        }
        Ok(value)
    }

    fn sum(&mut self) -> Result<f64, String> {
        self.operations("+-", |reader| reader.operations("*/%", Self::power))
    }

    fn power(&mut self) -> Result<f64, String> {
        let base = self.atom()?;
        Ok(if self.takes("^").is_some() {
            base.powf(self.atom()?)
        } else {
            base
        })
    }

    fn atom(&mut self) -> Result<f64, String> {
        if self.depth >= NESTING_MAX {
            return Err(format!(
                "parentheses or signs are nested more than {NESTING_MAX} deep"
            ));
        }
        self.depth += 1;
        let value = match self.takes("(-") {
            Some('-') => -self.atom()?,
            Some(_) => {
                let value = self.sum()?;
                self.takes(")")
                    .map(|_| value)
                    .ok_or("a parenthesis is not closed")?
            }
            None => self.number()?,
        };
        self.depth -= 1;
        Ok(value)
    }

    fn number(&mut self) -> Result<f64, String> {
        let (digits, after_digits) = split_suffix(self.remaining);
        let (suffix, after_suffix) = after_digits.split_at(
            after_digits
                .find(|c: char| !c.is_ascii_alphabetic())
                .unwrap_or(after_digits.len()),
        );
        self.remaining = after_suffix;
        let value = match hexadecimal(digits) {
            Some(value) => value as f64,
            None => digits
                .parse()
                .map_err(|_| format!("a number is missing before {after_digits:?}"))?,
        };
        if suffix.is_empty() {
            return Ok(value);
        }
        self.has_unit = true;
        Ok(value * factor(suffix, self.unit)? as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: NumberUnit = NumberUnit::Kilo(1024);

    #[test]
    fn suffixes_have_fios_values() {
        for (text, unit, value) in [
            ("4k", K, 4_096),
            ("4K", K, 4_096),
            ("4kb", K, 4_096),
            ("4kib", K, 4_000),
            ("4Ki", K, 4_096),
            ("4Ki", NumberUnit::Kilo(1_000), 4_000),
            ("1MB/s", K, 1 << 20),
            ("100/s", K, 100),
            ("4k", NumberUnit::Kilo(1_000), 4_000),
            ("4KiB", NumberUnit::Kilo(1_000), 4_096),
            ("1.5m", K, 1_572_864),
            ("0.1g", K, 107_374_182),
            ("2.0", K, 2),
            ("0x10k", K, 16_384),
            ("512b", K, 512),
            ("3p", K, 3 << 50),
            ("10", SECONDS, 10_000_000_000),
            ("10", MICROSECONDS, 10_000),
            ("250ms", SECONDS, 250_000_000),
            ("1.001", SECONDS, 1_001_000_000),
            ("33.33333", MICROSECONDS, 33_333),
            ("(10/4)", NumberUnit::Plain, 2),
            ("2h", SECONDS, 7_200_000_000_000),
            ("(4*1k+2^10)", K, 5_120),
            ("(2*(3-1))", K, 4),
            ("(10%4)", NumberUnit::Plain, 2),
            ("(1m/2)", SECONDS, 30_000_000_000),
            ("(2*30)", SECONDS, 60_000_000_000),
        ] {
            assert_eq!(number(text, unit), Ok(value), "{text}");
        }
        assert_eq!(size("20%", 1024), Ok(Size::Percent(20)));
        assert_eq!(size("100%%", 1024), Ok(Size::Percent(100)));
        assert_eq!(size("8m", 1024), Ok(Size::Bytes(8 << 20)));
        assert_eq!(Size::Percent(25).bytes_of(1000), 250);
        assert_eq!(Size::Bytes(7).bytes_of(1000), 7);
    }

    #[test]
    fn fractions_and_unknown_units_are_refused_with_the_way_to_write_the_value() {
        for (text, unit, says) in [
            ("0.7", NumberUnit::Plain, "must be a whole number, not 0.7"),
            ("0.5", K, "must be a whole number, not 0.5"),
            ("0.1k", K, "must be a whole number, not 102.4"),
            ("60sec", SECONDS, "one of us, ms, s, m, h, d"),
            ("1min", SECONDS, "one of us, ms, s, m, h, d"),
            (
                "1m30s",
                SECONDS,
                "\"m30s\" is not a unit of this value - give one number",
            ),
            ("4x", K, "one of k, m, g, t, p"),
            ("50%", NumberUnit::Plain, "a number without a unit"),
        ] {
            let refused = number(text, unit).unwrap_err();
            assert!(refused.contains(says), "{text}: {refused}");
        }
        assert!(size("12.5%", 1024).unwrap_err().ends_with("not 12.5"));
    }

    #[test]
    fn text_that_is_not_a_number_is_refused() {
        for text in [
            "",
            "k",
            "4x",
            "10sec",
            "-1",
            "99999999999t",
            "(1",
            "(1/0)",
            "(1))",
            "(1+)",
            "4kk",
            "0x",
            "1e400",
            "(0-1)",
        ] {
            assert!(number(text, K).is_err(), "{text}");
        }
        assert!(size("101%", 1024).is_err());
        assert!(
            number(&"(".repeat(100_000), K).is_err(),
            "no stack overflow"
        );
        assert!(number(&format!("({}1)", "-".repeat(100_000)), K).is_err());
    }
}
