//! A table as asloglatency prints it.

use super::{Table, Wanted};
use std::fmt::{self, Write};

const LABEL: &str = "slice-to (sec)";

impl Wanted {
    /// The lines before all others, for the log of this name.
    pub fn title(&self, log: &str) -> String {
        match &self.namespace {
            Some(namespace) => format!("Histogram : {{{namespace}}}-{}\n", self.histogram),
            None => format!("Histogram Name : {}\nLog       : {log}\n", self.histogram),
        }
    }
}

impl Table {
    /// The requested start, as a line before the table.
    pub fn asked_from_line(&self) -> String {
        self.asked_from
            .map_or_else(String::new, |from| format!("From      : {}\n\n", from.strftime("%Y-%m-%d %H:%M:%S")))
    }

    fn line(text: &mut String, label: &str, seconds: Option<i64>, pct_over: &[f64], rate: f64) -> fmt::Result {
        write!(text, "{label:>8}")?;
        match seconds {
            Some(seconds) => write!(text, "{seconds:>6}")?,
            None => write!(text, "{:6}", "")?,
        }
        for pct in pct_over {
            write!(text, "{pct:7.2}")?;
        }
        writeln!(text, "{rate:11.1}")
    }

    fn lines(&self, text: &mut String) -> fmt::Result {
        let Some(from) = self.from else { return Ok(()) };
        writeln!(text, "{}", from.strftime("%b %d %Y %H:%M:%S"))?;
        writeln!(text, "{:width$} %> ({})", "", self.unit, width = LABEL.len())?;
        write!(text, "{LABEL}")?;
        for threshold in &self.thresholds {
            write!(text, "{threshold:>7}")?;
        }
        writeln!(text, "{:>11}", "ops/sec")?;
        let underline =
            format!("{}{} {}\n", "-".repeat(LABEL.len()), " ------".repeat(self.thresholds.len()), "-".repeat(10));
        text.push_str(&underline);
        for slice in &self.slices {
            let to = slice.to.strftime("%H:%M:%S").to_string();
            Self::line(text, &to, Some(slice.seconds), &slice.pct_over, slice.ops_per_sec)?;
        }
        let (Some((average, rate)), Some((largest, largest_rate))) = (&self.average, &self.largest) else {
            return writeln!(text, "{}", self.no_slice());
        };
        text.push_str(&underline);
        Self::line(text, "avg", None, average, *rate)?;
        Self::line(text, "max", None, largest, *largest_rate)?;
        if let Some((before, after, at)) = self.unit_change {
            writeln!(
                text,
                "WARNING: asloglatency stopped early because latency units have changed from {before} to {after}.\n\
                 Use 'asloglatency -h <histogram> -f '{}'' to bypass this problem.",
                at.strftime("%b %d %Y %H:%M:%S")
            )?;
        }
        Ok(())
    }

    /// asloglatency's message for a table without a slice.
    pub fn no_slice(&self) -> String {
        let seconds = if self.slice_sec > 1 { self.slice_sec - 1 } else { self.slice_sec };
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        let days = match days {
            0 => String::new(),
            1 => "1 day, ".to_owned(),
            days => format!("{days} days, "),
        };
        format!("could not find {days}{}:{:02}:{:02} of data", rest / 3600, rest / 60 % 60, rest % 60)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.lines(&mut text)?;
        f.write_str(&text)
    }
}
