//! The log's lines, and where they go.

use crate::conf::{Config, Level, Log};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fs::OpenOptions;
use std::io::{self, Write};

/// A line without its time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub level: Level,
    /// The server's log context: `info`, `drv_ssd`.
    pub context: &'static str,
    /// The real server's file that prints such lines: tools look at it.
    pub source: &'static str,
    pub text: String,
}

impl Line {
    pub fn info(context: &'static str, source: &'static str, text: String) -> Self {
        Self { level: Level::Info, context, source, text }
    }

    pub fn warning(context: &'static str, source: &'static str, text: String) -> Self {
        Self { level: Level::Warning, context, source, text }
    }

    /// As written to the log. No character of its text ends the line or moves a cursor.
    pub fn stamped(&self, at: Timestamp, millis: bool) -> String {
        let format = if millis { "%b %d %Y %H:%M:%S%.3f GMT" } else { "%b %d %Y %H:%M:%S GMT" };
        let level = self.level.word();
        let at = at.to_zoned(TimeZone::UTC).strftime(format).to_string();
        let text: String = self.text.chars().map(|c| if c.is_control() && c != '\t' { '?' } else { c }).collect();
        format!("{at}: {level} ({}): ({}:1) {text}\n", self.context, self.source)
    }
}

/// Destinations of the lines, as configured; the console by default.
pub struct Logs {
    sinks: Vec<(Log, Box<dyn Write + Send>)>,
    millis: bool,
}

impl Logs {
    /// Opens them; a file is appended to. Errors: the path and why.
    pub fn open(config: &Config) -> Result<Self, (String, io::Error)> {
        let console = Log { path: None, any: Level::Info, drv_ssd: None };
        let logs = if config.logs.is_empty() { vec![console] } else { config.logs.clone() };
        let open = |log: Log| -> Result<(Log, Box<dyn Write + Send>), (String, io::Error)> {
            let sink: Box<dyn Write + Send> = match &log.path {
                None => Box::new(io::stderr()),
                Some(path) => match OpenOptions::new().append(true).create(true).open(path) {
                    Ok(file) => Box::new(file),
                    Err(error) => return Err((path.clone(), error)),
                },
            };
            Ok((log, sink))
        };
        Ok(Self { sinks: logs.into_iter().map(open).collect::<Result<_, _>>()?, millis: config.log_millis })
    }

    /// Writes `lines` where their levels are enabled. Tries all destinations; returns the first error.
    pub fn write(&mut self, at: Timestamp, lines: &[Line]) -> io::Result<()> {
        let mut result = Ok(());
        for (log, sink) in &mut self.sinks {
            let wanted = |line: &&Line| match log.drv_ssd {
                Some(level) if line.context == "drv_ssd" => line.level <= level,
                _ => line.level <= log.any,
            };
            let text: String = lines.iter().filter(wanted).map(|line| line.stamped(at, self.millis)).collect();
            // At once, so that a reader of the file seldom sees half a line.
            let written = sink.write_all(text.as_bytes());
            result = result.and(written);
        }
        result
    }
}
