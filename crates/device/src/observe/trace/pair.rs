//! Events paired into requests: how long the kernel kept each, and how long the device took.
//!
//! ```text
//! block_bio_queue        block_rq_issue        block_rq_complete
//!       |------ queue --------|------- device ---------|
//! ```
//!
//! The kernel gives a request no name; disk and first sector are one while it is under way. Bios that
//! were merged into a request count as that one request, queued with the oldest of them. A bio that was split
//! counts as several, all queued with it. Parts that complete on their own belong to one request until
//! the last is done. A write that is to be on the medium (FUA) on a device that cannot promise that is
//! followed by a flush of the kernel's own; it is done when the kernel says so a second time.
//!
//! A bio that was sent back because no tag was free, and is sent again, has been queued since the first time.
//!
//! Flushes, discards and what else moves no data are left out. So is a request of which any of the three
//! moments was not seen: begun before the trace, still under way at its end, or lost.

use super::{Event, EventKind, EventOp};
use crate::observe::DeviceNumber;
use std::collections::HashMap;

/// One request from the block layer to the device and back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// The disk.
    pub device: DeviceNumber,
    /// First sector on the disk, of 512 bytes.
    pub sector: u64,
    /// Number of 512-byte sectors.
    pub sectors: u32,
    /// Read or write, nothing else.
    pub op: EventOp,
    /// `CLOCK_MONOTONIC`, nanoseconds: the oldest of its bios entered the block layer.
    pub queued_ns: u64,
    /// It was handed to the driver.
    pub issued_ns: u64,
    /// The driver reported it done, all of it.
    pub completed_ns: u64,
}

impl Request {
    /// How long the kernel kept it before it gave it to the device.
    pub fn queue_ns(&self) -> u64 {
        self.issued_ns.saturating_sub(self.queued_ns)
    }

    /// How long the device took.
    pub fn device_ns(&self) -> u64 {
        self.completed_ns.saturating_sub(self.issued_ns)
    }
}

/// What is under one key: two requests of one sector can be under way at once, the older comes first.
type Waiting<T> = HashMap<(DeviceNumber, u64), Vec<T>>;

/// A bio that waits to become requests.
#[derive(Debug)]
struct Bio {
    op: EventOp,
    queued_ns: u64,
    /// The sector behind its last.
    end: u64,
    fua: bool,
}

/// A request with the device.
#[derive(Debug)]
struct Issued {
    request: Request,
    /// The sector behind its last.
    end: u64,
    /// The kernel will flush afterwards, and complete it once more.
    flush_follows: bool,
}

/// Pairs events, one after the other, in the order of time ([`super::sort_by_time`]).
#[derive(Debug, Default)]
pub struct Pairing {
    bios: Waiting<Bio>,
    /// Sent back, and not yet sent again.
    refused: Waiting<Bio>,
    issued: Waiting<Issued>,
    requests: Vec<Request>,
}

impl Pairing {
    /// Takes the next event.
    pub fn add(&mut self, event: &Event) {
        let moves_data = matches!(event.op, EventOp::Read | EventOp::Write);
        match event.kind {
            EventKind::Queue if moves_data && event.sectors > 0 => self.queue(event),
            EventKind::Refuse if moves_data => self.refuse(event),
            EventKind::Issue if moves_data && event.sectors > 0 => self.issue(event),
            EventKind::Complete if moves_data => self.complete(event),
            _ => {}
        }
    }

    /// The requests that are complete, in the order of their completion.
    pub fn requests(&self) -> &[Request] {
        &self.requests
    }

    /// How many requests, queued before `before_ns` and issued, are not complete.
    pub fn under_way(&self, before_ns: u64) -> usize {
        let issued = self.issued.values().flatten();
        let bios = self.bios.values().chain(self.refused.values()).flatten();
        issued.filter(|issued| issued.request.queued_ns < before_ns).count()
            + bios.filter(|bio| bio.queued_ns < before_ns).count()
    }

    fn queue(&mut self, event: &Event) {
        let end = event.sector + u64::from(event.sectors);
        let key = (event.device, event.sector);
        let before = take(&mut self.refused, key, |bio| bio.op == event.op && bio.end == end);
        let queued_ns = before.map_or(event.time_ns, |before| before.queued_ns);
        self.bios.entry(key).or_default().push(Bio { op: event.op, queued_ns, end, fua: event.fua });
    }

    fn refuse(&mut self, event: &Event) {
        let key = (event.device, event.sector);
        if let Some(bio) = take(&mut self.bios, key, |bio| bio.op == event.op) {
            self.refused.entry(key).or_default().push(bio);
        }
    }

    fn issue(&mut self, event: &Event) {
        let end = event.sector + u64::from(event.sectors);
        let Some(first) = self.take_bio(event, event.sector, end) else { return };
        // Bios that were merged behind the first are in the request, too; or the first before one that was older.
        let (mut queued_ns, mut reached) = (first.queued_ns, first.end);
        while reached < end {
            let Some(next) = self.take_bio(event, reached, end) else { break };
            reached = next.end;
            queued_ns = queued_ns.min(next.queued_ns);
        }
        let (device, sector, sectors, op) = (event.device, event.sector, event.sectors, event.op);
        let request = Request { device, sector, sectors, op, queued_ns, issued_ns: event.time_ns, completed_ns: 0 };
        let flush_follows = first.fua && !event.fua;
        self.issued.entry((device, sector)).or_default().push(Issued { request, end, flush_follows });
    }

    /// The oldest bio of the event's kind at `sector`. What of it lies behind `end` stays for the next request.
    fn take_bio(&mut self, event: &Event, sector: u64, end: u64) -> Option<Bio> {
        let key = (event.device, sector);
        // A bio that ends with the request is its own, if another one begins here, too.
        let whole = take(&mut self.bios, key, |bio| bio.op == event.op && bio.end == end);
        let bio = whole.or_else(|| take(&mut self.bios, key, |bio| bio.op == event.op))?;
        if bio.end > end {
            let rest = Bio { ..bio };
            self.bios.entry((event.device, end)).or_default().push(rest);
        }
        Some(bio)
    }

    fn complete(&mut self, event: &Event) {
        let key = (event.device, event.sector);
        // Without sectors it is the second completion, after the flush.
        let second = event.sectors == 0;
        let matches = |issued: &Issued| issued.request.op == event.op && second == (issued.end == event.sector);
        let Some(mut issued) = take(&mut self.issued, key, matches) else { return };
        let done = event.sector + u64::from(event.sectors);
        if !second && done < issued.end {
            return self.issued.entry((event.device, done)).or_default().push(issued);
        }
        if !second && issued.flush_follows {
            // The kernel names the first sector again.
            issued.end = issued.request.sector;
            return self.issued.entry((event.device, issued.request.sector)).or_default().push(issued);
        }
        issued.request.completed_ns = event.time_ns;
        self.requests.push(issued.request);
    }
}

/// Takes the oldest of those under `key` that `fits`; a key without any is removed.
fn take<T>(waiting: &mut Waiting<T>, key: (DeviceNumber, u64), fits: impl Fn(&T) -> bool) -> Option<T> {
    let under = waiting.get_mut(&key)?;
    let taken = under.iter().position(fits).map(|at| under.remove(at));
    if under.is_empty() {
        waiting.remove(&key);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events as `trace` printed them, in a short form: time in microseconds, kind, letters, sector, sectors.
    fn parse(text: &str) -> Vec<Event> {
        let event = |line: &str| {
            let words: Vec<_> = line.split_ascii_whitespace().collect();
            let [time, kind, letters, sector, sectors] = words[..] else { panic!("{line}") };
            let kind = match kind {
                "Q" => EventKind::Queue,
                "D" => EventKind::Issue,
                "X" => EventKind::Refuse,
                _ => EventKind::Complete,
            };
            let flags = super::super::event::Rwbs::parse(letters.as_bytes());
            Event {
                time_ns: (time.parse::<f64>().unwrap() * 1e6).round() as u64 * 1_000,
                cpu: 0,
                kind,
                device: (7, 0),
                sector: sector.parse().unwrap(),
                sectors: sectors.parse().unwrap(),
                op: flags.op,
                sync: flags.sync,
                fua: flags.fua,
                preflush: flags.preflush,
                error: 0,
            }
        };
        text.lines().filter(|line| !line.starts_with('#')).map(event).collect()
    }

    /// Operation, first sector, sectors, queue and device time in microseconds of each request.
    fn paired(text: &str) -> Vec<(EventOp, u64, u32, u64, u64)> {
        let mut pairing = Pairing::default();
        parse(text).iter().for_each(|event| pairing.add(event));
        let short = |request: &Request| {
            let Request { op, sector, sectors, .. } = *request;
            (op, sector, sectors, request.queue_ns() / 1_000, request.device_ns() / 1_000)
        };
        pairing.requests().iter().map(short).collect()
    }

    use EventOp::{Read, Write};

    #[test]
    fn recorded_events_of_a_loop_device_pair_completely() {
        let requests = paired(include_str!("recorded/events.txt"));
        // Three reads of 4 KiB, one after the other.
        assert_eq!(requests[..3], [(Read, 0, 8, 8, 27), (Read, 8, 8, 1, 8), (Read, 16, 8, 2, 7)]);
        // 4 MiB: four bios of 1 MiB, each split into two requests of 512 KiB.
        assert_eq!(
            requests[3..11].iter().map(|request| request.1).collect::<Vec<_>>(),
            [0, 1024, 2048, 3072, 4096, 5120, 6144, 7168]
        );
        assert_eq!(requests[3], (Read, 0, 1024, 13, 7_148));
        assert_eq!(
            requests[4],
            (Read, 1024, 1024, 671, 6_494),
            "it waited for the second half of its bio to be cut off"
        );
        // Two writes with O_DSYNC, each done when the flush behind it is; the flushes of fsync move no data.
        assert_eq!(requests[11..13], [(Write, 0, 8, 17, 52), (Write, 8, 8, 1, 21)]);
        // Eight reads of 4 KiB merged into one request, queued with the first.
        assert_eq!(requests[13..], [(Read, 0, 64, 46, 31)]);
    }

    #[test]
    fn a_request_that_completes_in_parts_is_done_with_the_last() {
        let text = "0.000001 Q R 100 16\n0.000002 D R 100 16\n0.000005 C R 100 8\n0.000009 C R 108 8\n";
        assert_eq!(paired(text), [(Read, 100, 16, 1, 7)]);
    }

    #[test]
    fn a_bio_merged_in_front_does_not_make_the_wait_shorter() {
        let text = "0.000001 Q R 8 8\n0.000005 Q R 0 8\n0.000007 D R 0 16\n0.000009 C R 0 16\n";
        assert_eq!(paired(text), [(Read, 0, 16, 6, 2)]);
    }

    #[test]
    fn a_bio_sent_back_and_sent_again_waited_since_the_first_time() {
        let text = "0.000001 Q R 8 8\n0.000002 X R 8 8\n0.000010 Q R 8 8\n0.000011 D R 8 8\n0.000020 C R 8 8\n\
                    0.000030 Q R 8 8\n0.000031 D R 8 8\n0.000040 C R 8 8\n";
        assert_eq!(paired(text), [(Read, 8, 8, 10, 9), (Read, 8, 8, 1, 9)]);
    }

    #[test]
    fn a_small_and_a_large_one_that_begin_together_are_told_apart() {
        let text = "0.000001 Q R 8 256\n0.000002 Q R 8 8\n0.000003 D R 8 8\n0.000004 D R 8 256\n\
                    0.000005 C R 8 8\n0.000009 C R 8 256\n0.000010 Q R 16 8\n0.000011 D R 16 8\n0.000012 C R 16 8\n";
        assert_eq!(paired(text), [(Read, 8, 8, 1, 2), (Read, 8, 256, 3, 5), (Read, 16, 8, 1, 1)]);
    }

    #[test]
    fn two_of_one_sector_at_once_keep_their_order_and_their_kind() {
        let text = "0.000001 Q R 8 8\n0.000002 Q W 8 8\n0.000003 Q R 8 8\n0.000004 D W 8 8\n0.000005 D R 8 8\n\
                    0.000006 D R 8 8\n0.000010 C R 8 8\n0.000011 C W 8 8\n0.000030 C R 8 8\n";
        assert_eq!(paired(text), [(Read, 8, 8, 4, 5), (Write, 8, 8, 2, 7), (Read, 8, 8, 3, 24)]);
    }

    #[test]
    fn what_was_not_seen_whole_is_left_out() {
        assert_eq!(paired("0.000001 D R 8 8\n0.000002 C R 8 8\n0.000003 C R 16 8\n"), []);
        let mut pairing = Pairing::default();
        parse("0.000001 Q R 8 8\n0.000002 D R 8 8\n0.000003 Q R 64 8\n").iter().for_each(|event| pairing.add(event));
        assert_eq!((pairing.requests().len(), pairing.under_way(3_000), pairing.under_way(4_000)), (0, 1, 2));
    }

    #[test]
    fn a_device_that_keeps_its_promise_needs_no_second_completion() {
        let text = "0.000001 Q WFS 8 8\n0.000002 D WFS 8 8\n0.000007 C WFS 8 8\n";
        assert_eq!(paired(text), [(Write, 8, 8, 1, 5)]);
    }
}
