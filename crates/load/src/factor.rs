//! A multiple of a load: an exact decimal above 0.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A factor above 0, exact: a decimal of at most 9 digits before and after the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Factor {
    pub billionths: u64,
}

/// Billionths in a factor of 1.
pub const ONE: u64 = 1_000_000_000;
const DIGITS_MAX: usize = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FactorError {
    #[error("0 times a load is no load - give a factor above 0, such as 30 or 1.5")]
    Zero,
    #[error("there is no negative load - give a factor above 0, such as 30 or 1.5")]
    Negative,
    #[error("not a decimal number - give a factor above 0, such as 30 or 1.5")]
    NotANumber,
    #[error(
        "too many digits - give at most {DIGITS_MAX} before and {DIGITS_MAX} after the decimal point"
    )]
    TooManyDigits,
}

impl FromStr for Factor {
    type Err = FactorError;

    /// Reads `30`, `1.5` or `30x`.
    fn from_str(text: &str) -> Result<Self, FactorError> {
        let number = text.strip_suffix(['x', 'X']).unwrap_or(text);
        if number
            .strip_prefix('-')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
        {
            return Err(FactorError::Negative);
        }
        let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + decimals.len() == 0 || !is_digits(whole) || !is_digits(decimals) {
            return Err(FactorError::NotANumber);
        }
        let whole = whole.trim_start_matches('0');
        let decimals = decimals.trim_end_matches('0');
        if whole.len() > DIGITS_MAX || decimals.len() > DIGITS_MAX {
            return Err(FactorError::TooManyDigits);
        }
        // Cannot fail: only digits, and few enough for 64 bits.
        let billionths = format!("{whole}{decimals:0<DIGITS_MAX$}")
            .parse()
            .map_err(|_| FactorError::NotANumber)?;
        if billionths == 0 {
            Err(FactorError::Zero)
        } else {
            Ok(Self { billionths })
        }
    }
}

impl Factor {
    pub const ONE: Self = Self { billionths: ONE };

    /// ACT's README recommends certification at this factor.
    pub const RECOMMENDED: Self = Self {
        billionths: 30 * ONE,
    };

    pub fn doubled(self) -> Result<Self, FactorError> {
        self.share(2, 1)
    }

    /// `self` * `devices` / `target_devices`, rounded to the nearest billionth. With this factor the load of
    /// `target_devices` devices equals `self` times the load of `devices` devices. Errors: rounds to 0, or too large.
    pub fn share(self, devices: u64, target_devices: u64) -> Result<Self, FactorError> {
        let target_devices = u128::from(target_devices.max(1));
        let product = u128::from(self.billionths) * u128::from(devices);
        match u64::try_from((product + target_devices / 2) / target_devices) {
            Ok(0) => Err(FactorError::Zero),
            Ok(billionths) => Ok(Self { billionths }),
            Err(_) => Err(FactorError::TooManyDigits),
        }
    }

    pub fn as_f64(self) -> f64 {
        self.billionths as f64 / ONE as f64
    }
}

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&decimal(self.billionths.into()))
    }
}

/// Billionths as the shortest decimal.
pub fn decimal(billionths: u128) -> String {
    let whole = billionths / u128::from(ONE);
    let part = billionths % u128::from(ONE);
    let text = format!("{whole}.{part:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factor(text: &str) -> Factor {
        text.parse().unwrap()
    }

    #[test]
    fn factors_are_exact_decimals() {
        for (text, shown) in [
            ("30", "30"),
            ("1.5x", "1.5"),
            ("0.1", "0.1"),
            (".25", "0.25"),
            ("007.50", "7.5"),
            ("3.", "3"),
        ] {
            assert_eq!(factor(text).to_string(), shown, "{text}");
        }
        let found = factor("999999999.999999999").to_string();
        assert_eq!(found, "999999999.999999999");
    }

    #[test]
    fn invalid_factors_have_different_errors() {
        for (text, error) in [
            ("0", FactorError::Zero),
            ("0.0", FactorError::Zero),
            ("-1", FactorError::Negative),
            ("-.5", FactorError::Negative),
            ("nan", FactorError::NotANumber),
            ("inf", FactorError::NotANumber),
            ("", FactorError::NotANumber),
            (".", FactorError::NotANumber),
            ("x", FactorError::NotANumber),
            ("1e3", FactorError::NotANumber),
            ("1,5", FactorError::NotANumber),
            ("1.2.3", FactorError::NotANumber),
            ("٣", FactorError::NotANumber),
            ("1234567890", FactorError::TooManyDigits),
            ("0.0000000001", FactorError::TooManyDigits),
        ] {
            assert_eq!(text.parse::<Factor>(), Err(error), "{text}");
        }
    }

    #[test]
    fn a_factor_is_scaled_by_the_share_of_the_devices_in_use() {
        assert_eq!(factor("30").doubled(), Ok(factor("60")));
        assert_eq!(factor("30").share(1, 3), Ok(factor("10")));
        assert_eq!(Factor::ONE.share(2, 3), Ok(factor("0.666666667")));
        assert_eq!(factor("1.5").share(4, 4).map(Factor::as_f64), Ok(1.5));
        assert_eq!(factor("0.000000001").share(1, 3), Err(FactorError::Zero));
        let found = factor("999999999").share(u64::MAX, 1);
        assert_eq!(found, Err(FactorError::TooManyDigits));
    }
}
