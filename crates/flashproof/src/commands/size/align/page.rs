//! Output of an alignment: cluster, before, after, offset; and problems that an offset would hide.

use super::AlignmentRound;
use super::burst::furthest;
use super::target::AlignmentTarget;
use act::ActConfig;
use report::table::Table;
use results::format::{count, number, span_of};
use sizing::align::{self, Offsets, PLAUSIBLE_PCT, RequestedLoad, errors, other_rules, worst};
use sizing::drive_io::{DriveIo, NAMES};
use std::fmt;

/// The page has a note if large-block reads differ from the server's count by more than this fraction.
const LARGE_READS_OFF: f64 = 0.1;

pub(super) struct Page<'a> {
    pub target: &'a AlignmentTarget,
    pub rounds: &'a [AlignmentRound],
    pub tolerance: f64,
}

impl Page<'_> {
    /// The burst nearest to the target.
    pub(super) fn best(&self) -> &AlignmentRound {
        let distance = |round: &&AlignmentRound| worst(&self.target.io, &round.measurement.reached);
        let best = self
            .rounds
            .iter()
            .min_by(|a, b| distance(a).total_cmp(&distance(b)));
        best.expect("there is a first burst")
    }

    fn off_text(&self, round: &AlignmentRound) -> [String; 4] {
        errors(&self.target.io, &round.measurement.reached)
            .map(|off| format!("{:+.1} %", off * 100.0))
    }

    /// Notes on a burst with usable numbers.
    pub(super) fn notes(&self) -> Vec<String> {
        let best = self.best();
        let measurement = &best.measurement;
        let mut notes = Vec::new();
        if !measurement.is_counted {
            notes.push(
                "all issued I/O counts as I/O that reached the device: the device is simulated, or a file".to_owned(),
            );
        }
        let issued_rates = measurement.issued_io();
        let (n, difference) = furthest(&issued_rates, &measurement.reached, 0..2);
        if difference.abs() > super::unseen(measurement) {
            notes.push(format!(
                "{}: {} were issued, but {} reached the device, with the same bytes: the kernel {} requests{}",
                NAMES[n],
                number(issued_rates.numbers()[n]),
                number(measurement.reached.numbers()[n]),
                if difference > 0.0 { "splits" } else { "merges" },
                if difference < 0.0 {
                    format!(" ({} per second)", number(measurement.merged_per_sec))
                } else {
                    String::new()
                }
            ));
        }
        if measurement.flushes_per_sec > 0.0 {
            notes.push(format!(
                "the device has a volatile cache: its {} flushes per second are not counted as writes here; iostat's \
                 w/s includes some of them",
                number(measurement.flushes_per_sec)
            ));
        }
        if measurement.writes_as_issued {
            notes.push(
                "w/s is the issued rate: the kernel's counters do not separate flushes from writes here, so w/s does \
                 not show splits, merges and writes of other programs; block tracepoints (root) would show them"
                    .to_owned(),
            );
        }
        match &measurement.traced {
            Ok(traced) => notes.push(format!(
                "requests of {} KiB by the block tracepoints: {} reads and {} writes per second; of other sizes: {} \
                 and {}",
                best.config.large_block_op_kbytes,
                number(traced.block_reads),
                number(traced.block_writes),
                number(traced.other_reads),
                number(traced.other_writes)
            )),
            Err(why) if measurement.is_counted => notes.push(format!("the sizes of requests are unknown: {why}")),
            Err(_) => {}
        }
        let large_reads = measurement
            .issued
            .iter()
            .find(|issued| issued.stream == "large-block-reads");
        if let (Some(counted), Some(ours)) = (self.target.large_block_reads, large_reads)
            && (ours.per_sec - counted).abs() > LARGE_READS_OFF * counted.max(ours.per_sec)
        {
            notes.push(format!(
                "the server counted {} large-block reads per second, but this burst had {}: the difference compensates \
                 for too few or too many record reads in r/s - check read-reqs-per-sec",
                number(counted),
                number(ours.per_sec)
            ));
        }
        notes
    }

    /// Why the nearest burst is outside the tolerance; `None`: the burst is within the tolerance.
    pub(super) fn not_aligned(&self) -> Option<String> {
        let best = self.best();
        if worst(&self.target.io, &best.measurement.reached) <= self.tolerance {
            return None;
        }
        if let Some(why) = other_size_of_writes(self.target, best, self.tolerance) {
            return Some(format!("{why} - no configuration was written"));
        }
        let mut lines = vec![format!(
            "not aligned within {} % - no configuration was written",
            self.tolerance * 100.0
        )];
        let differences = errors(&self.target.io, &best.measurement.reached);
        for n in (0..4).filter(|n| differences[*n].abs() > self.tolerance) {
            lines.push(format!("{}: {}", NAMES[n], self.hint(n)));
        }
        Some(lines.join("\n"))
    }

    /// Other possible causes, if offsets cannot bring a number to its target.
    fn hint(&self, n: usize) -> String {
        let best = self.best();
        let config = &best.config;
        let load_with = |offsets: Offsets| {
            RequestedLoad::from_config(&offsets.applied(config), best.min_io_bytes).ok()
        };
        let full_load = load_with(Offsets {
            large_block_reads: 100,
            large_block_writes: 100,
            ..best.offsets()
        });
        match n {
            0 => match full_load.map(|load| self.target.io.reads_per_sec - load.large_block_reads.per_sec) {
                Some(reads) if reads > 0.0 => format!(
                    "large-block reads cannot close the difference - set read-reqs-per-sec: {} (now {})",
                    number(reads),
                    config.read_reqs_per_sec
                ),
                _ => "there are more large-block reads than the target has reads - check direct-frees and \
                      total-lbw-per-sec"
                    .to_owned(),
            },
            1 => if config.commit_to_device { "each record is a write - check write-reqs-per-sec".to_owned() } else { "check write-reqs-per-sec and storage-write-histogram".to_owned() },
            2 => format!(
                "no read-size-offset up to {} fits - check storage-read-histogram, read-reqs-per-sec and \
                 size-within-bucket",
                largest_read_size(config)
            ),
            _ => "check storage-write-histogram and write-reqs-per-sec".to_owned(),
        }
    }

    /// Implausible offsets, and problems that they may hide; `None` if there are none.
    pub(super) fn implausible(&self) -> Option<String> {
        let best = self.best();
        let outliers = implausible_offsets(best.offsets());
        if outliers.is_empty() {
            return None;
        }
        let outlier_texts: Vec<_> = outliers
            .iter()
            .map(|(key, pct)| format!("{key}: {pct}"))
            .collect();
        let min_pct = PLAUSIBLE_PCT.start();
        let max_pct = PLAUSIBLE_PCT.end();
        let mut lines = vec![format!(
            "{}: an offset below {min_pct} or above {max_pct} hides another problem - no configuration was written",
            outlier_texts.join(", ")
        )];
        let rules = other_rules(
            &best.config,
            best.min_io_bytes,
            &self.target.io,
            &best.distortion(),
        );
        for (rule, offsets) in rules
            .iter()
            .filter(|(_, offsets)| implausible_offsets(*offsets).is_empty())
        {
            let offsets: Vec<_> = offsets
                .by_key()
                .iter()
                .map(|(key, pct)| format!("{key} {pct}"))
                .collect();
            lines.push(format!(
                "with size-within-bucket: {rule}, these offsets fit and are plausible: {}",
                offsets.join(", ")
            ));
        }
        for (key, pct) in outliers {
            lines.push(format!(
                "{key}: {}",
                what_it_may_hide(key, pct, &best.config)
            ));
        }
        lines.push(
            "if the offset is right nevertheless, give a reason: --because \"...\"".to_owned(),
        );
        Some(lines.join("\n"))
    }
}

/// The offsets outside of [`PLAUSIBLE_PCT`], by key.
fn implausible_offsets(offsets: Offsets) -> Vec<(&'static str, u32)> {
    let by_key = offsets.by_key().into_iter();
    by_key
        .filter(|(_, pct)| !PLAUSIBLE_PCT.contains(pct))
        .collect()
}

fn what_it_may_hide(key: &str, pct: u32, config: &ActConfig) -> String {
    let direction = if pct < 100 { "fewer" } else { "more" };
    match key {
        "lbr-req-offset" => format!(
            "the cluster read {direction} large blocks than direct-frees: {} and total-lbw-per-sec: {} imply: check \
             these keys and read-reqs-per-sec",
            config.direct_frees, config.total_lbw_per_sec
        ),
        "lbw-req-offset" => format!(
            "the cluster wrote {direction} large blocks than its records fill: check write-reqs-per-sec, \
             storage-write-histogram and partial flushes"
        ),
        "read-size-offset" => {
            "sizes within their buckets explain a factor of 2 at most: check storage-read-histogram, the size rule and \
             large-block reads"
                .to_owned()
        }
        _ => "check storage-write-histogram, the size rule and commit-min-bytes".to_owned(),
    }
}

/// The largest read-size-offset that is valid.
fn largest_read_size(config: &ActConfig) -> u32 {
    (1..=200)
        .rev()
        .find(|pct: &u32| {
            align::RequestedLoad::from_config(
                &ActConfig {
                    read_size_offset: *pct,
                    ..config.clone()
                },
                512,
            )
            .is_ok()
        })
        .unwrap_or(1)
}

/// Explains why no offset can meet both w/s and wkB/s: the size of writes differs from the target's. `None`: the
/// sizes are equal, or the writes include records of many sizes.
pub(super) fn other_size_of_writes(
    target: &AlignmentTarget,
    round: &AlignmentRound,
    tolerance: f64,
) -> Option<String> {
    let theirs = target.io.write_kib()?;
    let ours = round.measurement.reached.write_kib()?;
    if round.config.commit_to_device || (ours / theirs).max(theirs / ours) <= 1.0 + 2.0 * tolerance
    {
        return None;
    }
    let block_kib = round.config.large_block_op_kbytes;
    let is_split = ours < f64::from(block_kib) * (1.0 - tolerance);
    let cause = if is_split {
        format!(
            "large blocks of {block_kib} KiB reach this device in writes of {} KiB, but the cluster's drive had writes \
             of {} KiB: the kernel of this machine splits the blocks (queue/max_sectors_kb{})",
            number(ours),
            number(theirs),
            round
                .measurement
                .max_request_kib
                .map(|kib| format!(" is {kib}"))
                .unwrap_or_default()
        )
    } else {
        format!(
            "the cluster's drive had writes of {} KiB, but large-block-op-kbytes is {block_kib}: the block size is \
             wrong (write-block-size; in server 7.1 and later, flush-size), or the cluster's w/s includes flushes \
             (also give f/s), or the cluster's kernel splits or merges writes",
            number(theirs)
        )
    };
    Some(format!(
        "{cause}. w/s and wkB/s cannot both be met, and an offset would only hide this"
    ))
}

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = &self.rounds[0];
        let best = self.best();
        let mut table = Table::new("")
            .text([""])
            .numbers(["cluster", "before", "", "after", ""])
            .text(["offset", ""]);
        let before_off = self.off_text(first);
        let after_off = self.off_text(best);
        let offsets = first
            .offsets()
            .by_key()
            .into_iter()
            .zip(best.offsets().by_key());
        for (n, ((key, was), (_, is))) in offsets.enumerate() {
            let value = |io: &DriveIo| number(io.numbers()[n]);
            let changed = if was == is {
                format!("{is}")
            } else {
                format!("{was} -> {is}")
            };
            table.row([
                NAMES[n].to_owned(),
                value(&self.target.io),
                value(&first.measurement.reached),
                before_off[n].clone(),
                value(&best.measurement.reached),
                after_off[n].clone(),
                format!("{key}:"),
                changed,
            ]);
        }
        writeln!(f, "{table}")?;
        let last = &self.rounds[self.rounds.len() - 1];
        let bursts = count(self.rounds.len() as u64, "burst");
        let span = span_of(last.measurement.seconds);
        writeln!(
            f,
            "cluster: {}; {bursts}, each measured for {span}",
            self.target.source
        )
    }
}
