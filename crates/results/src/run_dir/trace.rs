//! trace.csv: samples of how long the kernel kept requests and how long the devices took.
//!
//! One line a sample, device, kind and size in which requests completed. The sampler writes it beside the run, never
//! the [`Writer`](super::Writer): a sample that fails costs the run nothing, and a directory without this file is as
//! complete as one with it. It never affects a verdict.

use super::checksums::{Checked, Recorded};
use super::file::{AppendFile, Tail, WholeLines};
use super::{Manifest, RunDirError, TRACE};
use crate::judge::Sla;
use crate::trace::{Spread, TraceKind, TraceLine, TraceSize};
use std::fmt::Write;
use std::path::Path;
use std::str::FromStr;

/// Columns before those of the thresholds.
const COLUMNS: &str = "at_sec,length_ms,device,kind,size,requests,lost,queue_p50_ns,queue_p99_ns,queue_max_ns,\
                       device_p50_ns,device_p99_ns,device_max_ns";

/// Appends samples to trace.csv. Belongs to the thread that samples.
#[derive(Debug)]
pub struct TraceWriter {
    file: AppendFile,
    text: String,
}

impl TraceWriter {
    /// Begins the file in the directory of a run. Errors: it is there already, or the system refuses.
    pub fn create(dir: &Path, sla: &Sla) -> Result<Self, RunDirError> {
        let mut file = AppendFile::create(dir.join(TRACE))?;
        file.append(format!("{}\n", header(sla)).as_bytes())?;
        Ok(Self { file, text: String::new() })
    }

    /// Appends the lines of one sample and waits until they are on the disk.
    pub fn append(&mut self, lines: &[TraceLine]) -> Result<(), RunDirError> {
        self.text.clear();
        lines.iter().for_each(|line| line.push(&mut self.text));
        self.file.append(self.text.as_bytes())?;
        self.file.sync()
    }
}

/// The samples of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    /// In the order in which they were taken.
    pub lines: Vec<TraceLine>,
    /// Remarks about a dropped end, each one sentence.
    pub remarks: Vec<String>,
}

/// Reads the samples of the run in `dir`. A run without the file has none, and a torn last line is dropped.
///
/// Errors: a failed system call, or an invalid line.
pub fn read_trace(dir: &Path, manifest: &Manifest) -> Result<Samples, RunDirError> {
    let Checked { good_bytes, damage, .. } = Recorded::of(dir).check(TRACE)?;
    if let Some(why) = damage {
        return Err(RunDirError::Damaged { path: dir.join(TRACE), why: format!("it {why}") });
    }
    let mut input = WholeLines::open(dir.join(TRACE))?.limited(good_bytes);
    let mut samples = Samples::default();
    let expected = header(&manifest.sla);
    if input.next()?.is_some_and(|found| found != expected) {
        return Err(input.error(format!("the columns {expected}")));
    }
    let (devices, thresholds) = (manifest.devices.len(), manifest.sla.thresholds_ns().len());
    while let Some(text) = input.next()? {
        match TraceLine::read(text, devices, thresholds) {
            Ok(line) => samples.lines.push(line),
            Err(expected) => return Err(input.error(expected)),
        }
    }
    if input.tail() == Tail::Torn {
        samples.remarks.push(format!("the last line of {TRACE} is torn and was dropped"));
    }
    Ok(samples)
}

fn header(sla: &Sla) -> String {
    let mut line = COLUMNS.to_owned();
    for what in ["queue", "device", "total"] {
        for limit in sla.limits() {
            // Writing to a string cannot fail, here and below.
            let _ = write!(line, ",{what}_over_{}", limit.threshold_text());
        }
    }
    line
}

impl TraceLine {
    fn push(&self, text: &mut String) {
        let (kind, size) = (self.kind.name(), self.size.name());
        let _ = write!(text, "{:.3},{},{},{kind},{size},{}", self.at_sec, self.length_ms, self.device, self.requests);
        let _ = write!(text, ",{}", self.lost);
        for Spread { p50_ns, p99_ns, max_ns } in [self.queue, self.device_time] {
            let _ = write!(text, ",{p50_ns},{p99_ns},{max_ns}");
        }
        for over in [&self.queue_over, &self.device_over, &self.total_over].into_iter().flatten() {
            let _ = write!(text, ",{over}");
        }
        text.push('\n');
    }

    /// Reads a line. `Err` gives the expected text.
    fn read(line: &str, devices: usize, thresholds: usize) -> Result<Self, String> {
        let mut fields = line.split(',');
        let at_sec = parsed::<f64>(fields.next()).filter(|at_sec| at_sec.is_finite() && *at_sec >= 0.0);
        let at_sec = at_sec.ok_or("seconds since the run began")?;
        let length_ms = parsed(fields.next()).ok_or("the length of the sample in milliseconds")?;
        let device = parsed(fields.next()).filter(|device| *device < devices).ok_or("the number of a device from 0")?;
        let name = fields.next();
        let kind = TraceKind::ALL.into_iter().find(|kind| Some(kind.name()) == name).ok_or("read or write")?;
        let name = fields.next();
        let size = TraceSize::ALL.into_iter().find(|size| Some(size.name()) == name).ok_or("small or large")?;
        let mut next = || parsed::<u64>(fields.next()).ok_or("a whole number in each column".to_owned());
        let (requests, lost) = (next()?, next()?);
        let mut spread = || Ok::<_, String>(Spread { p50_ns: next()?, p99_ns: next()?, max_ns: next()? });
        let (queue, device_time) = (spread()?, spread()?);
        let mut over = || (0..thresholds).map(|_| next()).collect::<Result<Vec<_>, _>>();
        let (queue_over, device_over, total_over) = (over()?, over()?, over()?);
        if fields.next().is_some() {
            return Err("no more columns than the first line names".to_owned());
        }
        if [&queue_over, &device_over, &total_over].into_iter().flatten().any(|over| *over > requests) {
            return Err("at most as many requests over a threshold as there are".to_owned());
        }
        Ok(Self {
            at_sec,
            length_ms,
            device,
            kind,
            size,
            requests,
            lost,
            queue,
            device_time,
            queue_over,
            device_over,
            total_over,
        })
    }
}

fn parsed<T: FromStr>(field: Option<&str>) -> Option<T> {
    field?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Layout;
    use std::fs;

    fn manifest() -> Manifest {
        let sla: Sla = "5%>1ms,1%>8ms".parse().unwrap();
        let devices = vec!["a".to_owned(), "b".to_owned()];
        let layout = Layout { streams: Vec::new(), devices, thresholds_ns: sla.thresholds_ns() };
        Manifest::new(&layout, sla)
    }

    fn line(at_sec: f64, device: usize, kind: TraceKind) -> TraceLine {
        TraceLine {
            at_sec,
            length_ms: 500,
            device,
            kind,
            size: TraceSize::Large,
            requests: 100,
            lost: 3,
            queue: Spread { p50_ns: 1, p99_ns: 2, max_ns: 3 },
            device_time: Spread { p50_ns: 40, p99_ns: 50, max_ns: 60 },
            queue_over: vec![7, 0],
            device_over: vec![8, 1],
            total_over: vec![20, 2],
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let (dir, manifest) = (tempfile::tempdir().unwrap(), manifest());
        let mut writer = TraceWriter::create(dir.path(), &manifest.sla).unwrap();
        let lines = [line(1.004, 0, TraceKind::Read), line(1.004, 1, TraceKind::Write), line(31.0, 1, TraceKind::Read)];
        writer.append(&lines[..2]).unwrap();
        writer.append(&[]).unwrap();
        writer.append(&lines[2..]).unwrap();
        let text = fs::read_to_string(dir.path().join(TRACE)).unwrap();
        assert!(text.starts_with("at_sec,length_ms,device,kind,size,requests,lost,queue_p50_ns,"), "{text}");
        assert!(text.contains(",device_max_ns,queue_over_1ms,queue_over_8ms,device_over_1ms,"), "{text}");
        assert!(text.contains("\n1.004,500,0,read,large,100,3,1,2,3,40,50,60,7,0,8,1,20,2\n"), "{text}");
        let samples = read_trace(dir.path(), &manifest).unwrap();
        assert_eq!(samples, Samples { lines: lines.to_vec(), remarks: vec![] });
    }

    #[test]
    fn a_run_without_samples_has_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(read_trace(dir.path(), &manifest()).unwrap(), Samples::default());
        fs::write(dir.path().join(TRACE), "").unwrap();
        assert_eq!(read_trace(dir.path(), &manifest()).unwrap(), Samples::default());
    }

    #[test]
    fn a_file_cut_anywhere_gives_its_whole_lines() {
        let (dir, manifest) = (tempfile::tempdir().unwrap(), manifest());
        let mut writer = TraceWriter::create(dir.path(), &manifest.sla).unwrap();
        writer.append(&[line(1.0, 0, TraceKind::Read), line(31.0, 1, TraceKind::Write)]).unwrap();
        let path = dir.path().join(TRACE);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let ends = whole[..length].iter().filter(|byte| **byte == b'\n').count();
            let samples = read_trace(dir.path(), &manifest).unwrap();
            assert_eq!(samples.lines.len(), ends.saturating_sub(1), "{length} bytes");
            let torn = length > 0 && whole[length - 1] != b'\n';
            assert_eq!(samples.remarks.len(), usize::from(torn), "{length} bytes");
        }
    }

    #[test]
    fn a_damaged_line_is_named() {
        let (dir, manifest) = (tempfile::tempdir().unwrap(), manifest());
        let mut writer = TraceWriter::create(dir.path(), &manifest.sla).unwrap();
        writer.append(&[line(1.0, 0, TraceKind::Read)]).unwrap();
        let path = dir.path().join(TRACE);
        let good = fs::read_to_string(&path).unwrap();
        for (from, to, expected) in [
            ("1.000,", "x,", "seconds"),
            ("500,0,read", "500,2,read", "number of a device"),
            ("read", "trim", "read or write"),
            ("large", "huge", "small or large"),
            ("20,2\n", "20\n", "a whole number in each column"),
            ("20,2\n", "20,2,0\n", "no more columns"),
            ("20,2\n", "101,2\n", "at most as many requests"),
            ("at_sec", "at", "the columns at_sec"),
        ] {
            fs::write(&path, good.replacen(from, to, 1)).unwrap();
            let error = read_trace(dir.path(), &manifest).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(TRACE), "{error}");
        }
    }
}
