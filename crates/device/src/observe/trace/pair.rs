//! Pairs events into requests, with their time in the kernel and their time in the device.
//!
//! ```text
//! block_bio_queue        block_rq_issue        block_rq_complete
//!       |------ queue --------|------- device ---------|
//! ```
//!
//! Requests have no identifier in the kernel's events; disk and first sector identify a request in flight.
//!
//! * Merged bios are one request, which counts as queued since the oldest of these bios was queued.
//! * A split bio is several requests, all queued when the bio was queued.
//! * A request whose parts complete separately completes with its last part.
//! * On a device without FUA support, the kernel adds a flush to a FUA write, and reports the completion twice: before
//!   and after the flush. The second report counts. If the trace lacks the write's bio, the flush is unknown, and the
//!   first report counts.
//!
//! A bio that ended because no tag was free, and is sent again, counts as queued since its first event. A request that
//! the driver requeued stays one request; its device time begins at the last issue.
//!
//! On a device without requests (zram, device-mapper, md) each bio counts as a request, and its queue time is unknown.
//! blktrace reports the end of such a bio as a completion.
//!
//! Requests issued before the trace began are missing. If the trace lacks its bio, a request has no queue time. A
//! request in flight at the end of the trace has no device time.

use super::{EventKind, EventOp, Flags, TraceEvent, TracedTask};
use crate::discover::DeviceNumber;
use crate::observe::diskstats::SECTOR_BYTES;
use std::collections::{HashMap, HashSet, VecDeque};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockRequest {
    pub device: DeviceNumber,
    /// First sector on the disk, of 512 bytes.
    pub sector: u64,
    /// Number of 512-byte sectors; 0 for flushes and passthrough.
    pub sectors: u32,
    pub op: EventOp,
    pub flags: Flags,
    /// True if the request begins at the end of one of the last requests with the same operation.
    pub sequential: bool,
    pub task: TracedTask,
    /// When the oldest bio of the request entered the block layer, `CLOCK_MONOTONIC`, nanoseconds; `None` if unknown.
    pub queued_ns: Option<u64>,
    /// Time of the issue to the driver, on the same clock; `None` only for rows of iosnoop without start and end.
    pub issued_ns: Option<u64>,
    /// Duration from the issue until the whole request was complete; `None` if the trace has no completion. A duration,
    /// because rows of iosnoop without -s have no times.
    pub device_ns: Option<u64>,
    /// The kernel's error number of the completion, negative; 0 without an error, and for rows of a table.
    pub error: i32,
}

impl BlockRequest {
    /// Bytes that the request transfers or discards.
    pub fn bytes(&self) -> u64 {
        u64::from(self.sectors) * SECTOR_BYTES
    }

    pub fn queue_ns(&self) -> Option<u64> {
        Some(self.issued_ns?.saturating_sub(self.queued_ns?))
    }

    /// Time at which the request was queued; if unknown, the time of its issue.
    pub fn requested_ns(&self) -> Option<u64> {
        self.queued_ns.or(self.issued_ns)
    }

    fn complete_at(&mut self, time_ns: u64) {
        self.device_ns = self
            .issued_ns
            .map(|issued_ns| time_ns.saturating_sub(issued_ns));
    }

    fn from_event(event: &TraceEvent) -> Self {
        let TraceEvent {
            device,
            sector,
            sectors,
            op,
            flags,
            task,
            time_ns,
            ..
        } = *event;
        Self {
            device,
            sector,
            sectors,
            op,
            flags,
            task,
            issued_ns: Some(time_ns),
            ..Self::default()
        }
    }
}

/// Maximum number of requests and bios in flight, so that a trace without completions cannot fill the memory. Beyond
/// this number, all requests in flight count as not completed, as at the end of a trace.
const UNDER_WAY_MAX: usize = 1 << 20;

/// Number of recent request ends kept per device and operation, to recognise several parallel sequential streams.
const ENDS: usize = 16;

/// Maximum number of requests in flight at one first sector, more than any device's queue holds. A longer list means
/// that completions are missing from the trace, so the oldest request is dropped.
const OF_SECTOR_MAX: usize = 1024;

/// Key for requests without a sector: flushes and passthrough commands are paired in FIFO order, by operation.
const NO_SECTOR: u64 = u64::MAX;

/// Requests by device and first sector. Requests with the same first sector can be in flight at once, the oldest first.
type RequestsBySector = HashMap<(DeviceNumber, u64), VecDeque<Pending>>;

/// A request in flight, or a bio that has no request yet, stored in the form of a request.
#[derive(Debug, Clone, Copy)]
struct Pending {
    request: BlockRequest,
    /// The sector after the last sector of the request.
    end_sector: u64,
    /// True if the kernel will add a flush, and report the completion again.
    flush_follows: bool,
}

/// Pairs events into requests. Events must arrive in the order of time ([`super::sort_by_time`]).
#[derive(Debug, Default)]
pub struct Pairing {
    bios: RequestsBySector,
    /// Bios that ended with EAGAIN and were not yet sent again.
    refused: RequestsBySector,
    issued: RequestsBySector,
    /// Requests that the driver requeued and that were not yet issued again.
    requeued: RequestsBySector,
    /// Number of bios and requests in the maps.
    under_way: usize,
    with_requests: HashSet<DeviceNumber>,
    recent_ends: RecentEnds,
    requests: Vec<BlockRequest>,
    lost: u64,
}

impl Pairing {
    pub fn add(&mut self, event: &TraceEvent) {
        let has_sectors = event.sectors > 0;
        match event.kind {
            EventKind::Queue if has_sectors || is_empty_flush(event) => self.queue(event),
            EventKind::Insert if has_sectors => self.insert(event),
            EventKind::Issue => self.issue(event),
            EventKind::Complete if self.with_requests.contains(&event.device) => {
                self.complete(event)
            }
            EventKind::Complete | EventKind::Return => self.bio_returns(event),
            EventKind::Requeue => self.requeue(event),
            EventKind::Queue | EventKind::Insert => {}
        }
        if self.under_way > UNDER_WAY_MAX {
            self.finish();
        }
    }

    /// Completed requests that were not drained, in the order of completion.
    pub fn requests(&self) -> &[BlockRequest] {
        &self.requests
    }

    /// Removes and returns the completed requests, in the order of completion.
    pub fn drain(&mut self) -> impl Iterator<Item = BlockRequest> {
        self.requests.drain(..)
    }

    /// Number of dropped bios that had no request yet.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Ends the pairing: requests in flight become requests without completion.
    pub fn finish(&mut self) {
        let requeued = drained(&mut self.requeued);
        let issued = drained(&mut self.issued)
            .chain(requeued)
            .map(|issued| issued.request);
        // On devices without requests, bios count as requests.
        let with_requests = &self.with_requests;
        let bios = drained(&mut self.bios).map(|bio| bio.request);
        let mut open_requests: Vec<_> = issued
            .chain(bios.filter(|bio| !with_requests.contains(&bio.device)))
            .collect();
        open_requests.sort_by_key(|request| (request.issued_ns, request.sector));
        self.requests.append(&mut open_requests);
        self.refused.clear();
        self.under_way = 0;
    }

    /// Number of incomplete requests and bios that move data and were queued before `before_ns`.
    pub fn under_way(&self, before_ns: u64) -> usize {
        let issued = self
            .issued
            .values()
            .chain(self.requeued.values())
            .flatten()
            .map(|issued| &issued.request);
        let bios = self
            .bios
            .values()
            .chain(self.refused.values())
            .flatten()
            .map(|bio| &bio.request);
        let moves_data =
            |request: &&BlockRequest| matches!(request.op, EventOp::Read | EventOp::Write);
        issued
            .chain(bios)
            .filter(moves_data)
            .filter(|request| request.requested_ns() < Some(before_ns))
            .count()
    }

    fn queue(&mut self, event: &TraceEvent) {
        let end_sector = event.sector.saturating_add(event.sectors.into());
        let key = (event.device, event.sector);
        let mut request = BlockRequest::from_event(event);
        if is_empty_flush(event) {
            request.op = EventOp::Flush;
        }
        if let Some(refused_bio) = take(&mut self.refused, key, |bio| {
            bio.request.op == request.op && bio.end_sector == end_sector
        }) {
            request.issued_ns = refused_bio.request.issued_ns;
            self.under_way = self.under_way.saturating_sub(1);
        }
        self.under_way += 1;
        self.keep_bio(
            key,
            Pending {
                request,
                end_sector,
                flush_follows: false,
            },
        );
    }

    /// Adds an insertion. If the trace lacks the bio of the request, the insertion counts as the queue event.
    fn insert(&mut self, event: &TraceEvent) {
        let key = (event.device, event.sector);
        let knows = |bio: &Pending| bio.request.op == event.op;
        let is_known = self
            .bios
            .get(&key)
            .is_some_and(|under| under.iter().any(knows));
        if !is_known && !self.requeued.contains_key(&key) {
            self.queue(event);
        }
    }

    fn bio_returns(&mut self, event: &TraceEvent) {
        if event.error == 0 && self.with_requests.contains(&event.device) {
            return;
        }
        let key = (event.device, event.sector);
        let bio = take(&mut self.bios, key, |bio| {
            bio.request.op == event.op || bio.request.op == EventOp::Flush && event.sectors == 0
        });
        let Some(bio) = bio else {
            return;
        };
        if event.error == -libc::EAGAIN {
            if put(&mut self.refused, key, bio).is_some() {
                self.under_way = self.under_way.saturating_sub(1);
                self.lost += 1;
            }
            return;
        }
        self.under_way = self.under_way.saturating_sub(1);
        if self.with_requests.contains(&event.device) {
            return;
        }
        let mut request = bio.request;
        request.sequential = self.recent_ends.follows(&request);
        request.error = event.error;
        request.complete_at(event.time_ns);
        self.requests.push(request);
    }

    fn issue(&mut self, event: &TraceEvent) {
        self.with_requests.insert(event.device);
        let end_sector = event.sector.saturating_add(event.sectors.into());
        let key = (event.device, sector_key(event));
        let is_requeued =
            |issued: &Pending| issued.request.op == event.op && issued.end_sector == end_sector;
        if let Some(mut issued) = take(&mut self.requeued, key, is_requeued) {
            issued.request.issued_ns = Some(event.time_ns);
            return self.keep_issued(key, issued);
        }
        let mut request = BlockRequest::from_event(event);
        let mut flush_follows = false;
        if event.sectors > 0
            && let Some(first_bio) = self.take_bio(event, event.sector, end_sector)
        {
            // Bios merged behind the first bio belong to the request, too, and can be older than the first bio.
            let mut queued_ns = first_bio.request.issued_ns;
            let mut reached_sector = first_bio.end_sector;
            while reached_sector < end_sector {
                let Some(next_bio) = self.take_bio(event, reached_sector, end_sector) else {
                    break;
                };
                reached_sector = next_bio.end_sector;
                queued_ns = queued_ns.min(next_bio.request.issued_ns);
            }
            request.queued_ns = queued_ns;
            request.task = first_bio.request.task;
            flush_follows = first_bio.request.flags.fua && !event.flags.fua;
        }
        request.sequential = self.recent_ends.follows(&request);
        self.under_way += 1;
        self.keep_issued(
            key,
            Pending {
                request,
                end_sector,
                flush_follows,
            },
        );
    }

    /// The oldest bio with the event's operation. Its part beyond `end_sector` stays for the next request.
    fn take_bio(&mut self, event: &TraceEvent, sector: u64, end_sector: u64) -> Option<Pending> {
        let key = (event.device, sector);
        // If several bios begin at this sector, the bio that ends with the request belongs to the request.
        let whole_bio = take(&mut self.bios, key, |bio| {
            bio.request.op == event.op && bio.end_sector == end_sector
        });
        let bio =
            whole_bio.or_else(|| take(&mut self.bios, key, |bio| bio.request.op == event.op))?;
        if bio.end_sector > end_sector {
            self.keep_bio((event.device, end_sector), bio)
        } else {
            self.under_way = self.under_way.saturating_sub(1)
        }
        Some(bio)
    }

    fn complete(&mut self, event: &TraceEvent) {
        let key = (event.device, sector_key(event));
        // For an operation with data, a completion without sectors is the second report, after the flush.
        let is_second = event.sectors == 0;
        let issued = take(&mut self.issued, key, |issued| {
            issued.request.op == event.op
                && (key.1 == NO_SECTOR || is_second == (issued.end_sector == event.sector))
        });
        let Some(mut issued) = issued else {
            return;
        };
        if issued.request.error == 0 {
            issued.request.error = event.error;
        }
        let done_sector = event.sector.saturating_add(event.sectors.into());
        if key.1 != NO_SECTOR {
            if !is_second && done_sector < issued.end_sector {
                return self.keep_issued((event.device, done_sector), issued);
            }
            if !is_second && issued.flush_follows {
                // The second report has the first sector of the request.
                issued.end_sector = issued.request.sector;
                return self.keep_issued((event.device, issued.request.sector), issued);
            }
        }
        self.under_way = self.under_way.saturating_sub(1);
        issued.request.complete_at(event.time_ns);
        self.requests.push(issued.request);
    }

    fn requeue(&mut self, event: &TraceEvent) {
        let key = (event.device, sector_key(event));
        if let Some(issued) = take(&mut self.issued, key, |issued| {
            issued.request.op == event.op
        }) {
            let evicted = put(&mut self.requeued, key, issued);
            self.unfinished(evicted.map(|issued| issued.request));
        }
    }

    /// Stores a bio. A bio dropped from a full list counts as lost; on a device without requests, as a request without
    /// completion.
    fn keep_bio(&mut self, key: (DeviceNumber, u64), bio: Pending) {
        let Some(Pending { request, .. }) = put(&mut self.bios, key, bio) else {
            return;
        };
        if !self.with_requests.contains(&request.device) {
            return self.unfinished(Some(request));
        }
        self.under_way = self.under_way.saturating_sub(1);
        self.lost += 1;
    }

    /// Stores an issued request. A request dropped from a full list counts as not completed.
    fn keep_issued(&mut self, key: (DeviceNumber, u64), issued: Pending) {
        let evicted = put(&mut self.issued, key, issued);
        self.unfinished(evicted.map(|issued| issued.request));
    }

    fn unfinished(&mut self, request: Option<BlockRequest>) {
        self.under_way = self.under_way.saturating_sub(request.iter().len());
        self.requests.extend(request);
    }
}

/// Adds `pending` to the list of `key`. If the list is full, removes and returns its oldest entry.
fn put(
    waiting: &mut RequestsBySector,
    key: (DeviceNumber, u64),
    pending: Pending,
) -> Option<Pending> {
    let queue = waiting.entry(key).or_default();
    let evicted = if queue.len() == OF_SECTOR_MAX {
        queue.pop_front()
    } else {
        None
    };
    queue.push_back(pending);
    evicted
}

/// True for a bio that only flushes the cache: a write without data.
fn is_empty_flush(event: &TraceEvent) -> bool {
    event.sectors == 0
        && event.flags.preflush
        && matches!(event.op, EventOp::Write | EventOp::Flush)
}

fn sector_key(event: &TraceEvent) -> u64 {
    match event.op {
        EventOp::Flush | EventOp::Other if event.sectors == 0 => NO_SECTOR,
        _ => event.sector,
    }
}

/// Ends of the last requests, by device and operation.
#[derive(Debug, Default)]
pub(super) struct RecentEnds(HashMap<(DeviceNumber, EventOp), ([u64; ENDS], usize)>);

impl RecentEnds {
    /// True if `request` begins at the end of a recent request. Stores the end of `request`.
    pub(super) fn follows(&mut self, request: &BlockRequest) -> bool {
        if request.sectors == 0 {
            return false;
        }
        let (ends, next_index) = self
            .0
            .entry((request.device, request.op))
            .or_insert(([NO_SECTOR; ENDS], 0));
        let known_index = ends.iter().position(|end| *end == request.sector);
        let index = known_index.unwrap_or(*next_index);
        ends[index] = request.sector.saturating_add(request.sectors.into());
        if known_index.is_none() {
            *next_index = (*next_index + 1) % ENDS;
        }
        known_index.is_some()
    }
}

/// Takes the oldest entry under `key` for which `fits` is true. Removes a key without entries.
fn take(
    waiting: &mut RequestsBySector,
    key: (DeviceNumber, u64),
    fits: impl Fn(&Pending) -> bool,
) -> Option<Pending> {
    let queue = waiting.get_mut(&key)?;
    let taken = queue.iter().position(fits).and_then(|at| queue.remove(at));
    if queue.is_empty() {
        waiting.remove(&key);
    }
    taken
}

/// Removes all entries, sorted by key, so that a trace gives the same order each time.
fn drained(waiting: &mut RequestsBySector) -> impl Iterator<Item = Pending> + use<> {
    let mut entries: Vec<_> = waiting.drain().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries.into_iter().flat_map(|(_, under)| under)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses a short form of the kernel's `trace` file: seconds, kind, letters, first sector, number of sectors.
    fn parse(text: &str) -> Vec<TraceEvent> {
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line: &str| {
                let words: Vec<_> = line.split_ascii_whitespace().collect();
                let [time, kind, letters, sector, sectors] = words[..] else {
                    panic!("{line}")
                };
                let kind = match kind {
                    "Q" => EventKind::Queue,
                    "D" => EventKind::Issue,
                    "X" | "E" => EventKind::Return,
                    "I" => EventKind::Insert,
                    "R" => EventKind::Requeue,
                    _ => EventKind::Complete,
                };
                let (op, flags) = super::super::event::parse_letters(letters.as_bytes());
                TraceEvent {
                    time_ns: (time.parse::<f64>().unwrap() * 1e6).round() as u64 * 1_000,
                    cpu: 0,
                    kind,
                    device: DeviceNumber::new(7, 0),
                    sector: sector.parse().unwrap(),
                    sectors: sectors.parse().unwrap(),
                    op,
                    flags,
                    error: if words[1] == "X" { -11 } else { 0 },
                    task: TracedTask::new(7, words[1].as_bytes()),
                }
            })
            .collect()
    }

    /// Requests with both times: operation, first sector, sectors, queue time and device time, microseconds.
    fn paired(text: &str) -> Vec<(EventOp, u64, u32, u64, u64)> {
        let whole =
            |(op, sector, sectors, queue, device)| Some((op, sector, sectors, queue?, device?));
        all_of(text).into_iter().filter_map(whole).collect()
    }

    /// Operation, first sector, number of sectors, queue time and device time; times may be missing.
    type Seen = (EventOp, u64, u32, Option<u64>, Option<u64>);

    /// As [`paired`], for all requests, with missing times.
    fn all_of(text: &str) -> Vec<Seen> {
        let mut pairing = Pairing::default();
        parse(text).iter().for_each(|event| pairing.add(event));
        pairing.finish();
        let us = |ns: Option<u64>| ns.map(|ns| ns / 1_000);
        pairing
            .drain()
            .map(|request: BlockRequest| {
                let BlockRequest {
                    op,
                    sector,
                    sectors,
                    ..
                } = request;
                (
                    op,
                    sector,
                    sectors,
                    us(request.queue_ns()),
                    us(request.device_ns),
                )
            })
            .collect()
    }

    use EventOp::{Read, Write};

    #[test]
    fn recorded_events_of_a_loop_device_pair_completely() {
        let requests = paired(include_str!("recorded/events.txt"));
        // Three reads of 4 KiB, one after the other.
        assert_eq!(
            requests[..3],
            [(Read, 0, 8, 8, 27), (Read, 8, 8, 1, 8), (Read, 16, 8, 2, 7)]
        );
        // 4 MiB: four bios of 1 MiB, each split into two requests of 512 KiB.
        let sectors: Vec<_> = requests[3..11].iter().map(|request| request.1).collect();
        assert_eq!(sectors, [0, 1024, 2048, 3072, 4096, 5120, 6144, 7168]);
        assert_eq!(requests[3], (Read, 0, 1024, 13, 7_148));
        // The request waited until the other half of its bio was split off.
        assert_eq!(requests[4], (Read, 1024, 1024, 671, 6_494));
        // Two writes with O_DSYNC; each completes after its own flush. The flushes of fsync are not in the list.
        assert_eq!(
            requests[11..13],
            [(Write, 0, 8, 17, 52), (Write, 8, 8, 1, 21)]
        );
        // Eight reads of 4 KiB merged into one request, queued with the first.
        assert_eq!(requests[13..], [(Read, 0, 64, 46, 31)]);
    }

    #[test]
    fn a_request_that_completes_in_parts_completes_with_its_last_part() {
        let text =
            "0.000001 Q R 100 16\n0.000002 D R 100 16\n0.000005 C R 100 8\n0.000009 C R 108 8\n";
        assert_eq!(paired(text), [(Read, 100, 16, 1, 7)]);
    }

    #[test]
    fn a_newer_bio_merged_in_front_does_not_shorten_the_queue_time() {
        let text = "0.000001 Q R 8 8\n0.000005 Q R 0 8\n0.000007 D R 0 16\n0.000009 C R 0 16\n";
        assert_eq!(paired(text), [(Read, 0, 16, 6, 2)]);
    }

    #[test]
    fn the_queue_time_of_a_bio_refused_with_eagain_begins_when_it_was_first_sent() {
        let text = "0.000001 Q R 8 8\n0.000002 X R 8 8\n0.000010 Q R 8 8\n0.000011 D R 8 8\n0.000020 C R 8 8\n\
                    0.000030 Q R 8 8\n0.000031 D R 8 8\n0.000040 C R 8 8\n";
        assert_eq!(paired(text), [(Read, 8, 8, 10, 9), (Read, 8, 8, 1, 9)]);
    }

    #[test]
    fn a_small_and_a_large_request_at_one_sector_are_distinguished() {
        let text = "0.000001 Q R 8 256\n0.000002 Q R 8 8\n0.000003 D R 8 8\n0.000004 D R 8 256\n\
                    0.000005 C R 8 8\n0.000009 C R 8 256\n0.000010 Q R 16 8\n0.000011 D R 16 8\n0.000012 C R 16 8\n";
        assert_eq!(
            paired(text),
            [
                (Read, 8, 8, 1, 2),
                (Read, 8, 256, 3, 5),
                (Read, 16, 8, 1, 1)
            ]
        );
    }

    #[test]
    fn two_requests_at_one_sector_keep_their_order_and_their_operation() {
        let text = "0.000001 Q R 8 8\n0.000002 Q W 8 8\n0.000003 Q R 8 8\n0.000004 D W 8 8\n0.000005 D R 8 8\n\
                    0.000006 D R 8 8\n0.000010 C R 8 8\n0.000011 C W 8 8\n0.000030 C R 8 8\n";
        assert_eq!(
            paired(text),
            [(Read, 8, 8, 4, 5), (Write, 8, 8, 2, 7), (Read, 8, 8, 3, 24)]
        );
    }

    #[test]
    fn a_request_without_all_its_events_lacks_the_unknown_times() {
        let seen =
            all_of("0.000001 D R 8 8\n0.000002 C R 8 8\n0.000003 C R 16 8\n0.000005 D W 0 8\n");
        assert_eq!(
            seen,
            [(Read, 8, 8, None, Some(1)), (Write, 0, 8, None, None)]
        );
        let mut pairing = Pairing::default();
        parse("0.000001 Q R 8 8\n0.000002 D R 8 8\n0.000003 Q R 64 8\n")
            .iter()
            .for_each(|event| pairing.add(event));
        assert_eq!(pairing.requests().len(), 0);
        assert_eq!(pairing.under_way(3_000), 1);
        assert_eq!(pairing.under_way(4_000), 2);
    }

    #[test]
    fn flushes_and_passthrough_complete_in_order_and_discards_by_their_sector() {
        let text = "0.000001 D FF 0 0\n0.000002 D N 0 0\n0.000004 C FF 18446744073709551615 0\n\
                    0.000005 C N 18446744073709551615 0\n0.000006 Q D 8 800\n0.000007 D D 8 800\n0.000009 C D 8 800\n";
        let expected = [
            (EventOp::Flush, 0, 0, None, Some(3)),
            (EventOp::Other, 0, 0, None, Some(3)),
            (EventOp::Discard, 8, 800, Some(1), Some(2)),
        ];
        assert_eq!(all_of(text), expected);
    }

    #[test]
    fn a_requeued_request_is_one_request() {
        let text = "0.000001 Q R 8 8\n0.000002 D R 8 8\n0.000003 R R 8 8\n0.000004 I R 8 8\n0.000009 D R 8 8\n\
                    0.000011 C R 8 8\n";
        assert_eq!(all_of(text), [(Read, 8, 8, Some(8), Some(2))]);
    }

    #[test]
    fn a_requeued_request_is_under_way_until_it_completes() {
        let mut pairing = Pairing::default();
        let text = "0.000001 Q R 8 8\n0.000002 D R 8 8\n0.000003 R R 8 8\n";
        parse(text).iter().for_each(|event| pairing.add(event));
        assert_eq!(pairing.under_way(1_000_000), 1);
        let text = "0.000009 D R 8 8\n0.000011 C R 8 8\n";
        parse(text).iter().for_each(|event| pairing.add(event));
        assert_eq!(pairing.under_way(1_000_000), 0);
    }

    #[test]
    fn without_bios_a_request_was_queued_when_it_was_inserted() {
        let text = "0.000001 I R 8 8\n0.000004 D R 8 8\n0.000009 C R 8 8\n0.000010 Q R 8 8\n0.000011 I R 8 8\n\
                    0.000014 D R 8 8\n0.000015 C R 8 8\n";
        assert_eq!(
            all_of(text),
            [
                (Read, 8, 8, Some(3), Some(5)),
                (Read, 8, 8, Some(4), Some(1))
            ]
        );
    }

    #[test]
    fn bios_count_as_requests_only_on_devices_without_requests() {
        let bios = "0.000001 Q R 8 8\n0.000002 Q FWS 0 0\n0.000006 E R 8 8\n0.000007 E FWS 0 0\n0.000008 Q W 8 8\n";
        let expected = [
            (Read, 8, 8, None, Some(5)),
            (EventOp::Flush, 0, 0, None, Some(5)),
            (Write, 8, 8, None, None),
        ];
        assert_eq!(all_of(bios), expected);
        let bios_of_blktrace = bios.replace(" E ", " C ");
        assert_eq!(all_of(&bios_of_blktrace), expected);
        let requests = "0.000001 Q R 8 8\n0.000002 D R 8 8\n0.000003 C R 8 8\n0.000004 E R 16 0\n0.000005 Q R 32 8\n";
        assert_eq!(
            all_of(requests),
            [(Read, 8, 8, Some(1), Some(1))],
            "a bio without its request is none"
        );
    }

    #[test]
    fn a_request_belongs_to_the_process_of_its_bio_and_is_sequential_after_the_last_sector() {
        let text = "0.000001 Q R 8 8\n0.000002 D R 8 8\n0.000003 C R 8 8\n0.000004 D R 16 8\n0.000005 D R 900 8\n\
                    0.000006 D R 24 8\n";
        let mut pairing = Pairing::default();
        parse(text).iter().for_each(|event| pairing.add(event));
        pairing.finish();
        let seen: Vec<_> = pairing
            .drain()
            .map(|request| (request.task.comm().into_owned(), request.sequential))
            .collect();
        let expected = [("Q", false), ("D", true), ("D", false), ("D", true)];
        assert_eq!(
            seen,
            expected.map(|(comm, sequential)| (comm.to_owned(), sequential))
        );
    }

    #[test]
    fn without_completions_the_memory_is_bounded_and_no_request_gets_lost() {
        let event = parse("0.000001 D R 8 8\n")[0];
        let mut pairing = Pairing::default();
        let mut seen = 0;
        let issues = UNDER_WAY_MAX as u64 * 5 / 4;
        for sector in 0..issues {
            pairing.add(&TraceEvent { sector, ..event });
            assert!(pairing.under_way <= UNDER_WAY_MAX);
            seen += pairing.drain().count();
        }
        pairing.finish();
        assert_eq!((seen + pairing.drain().count()) as u64, issues);
    }

    #[test]
    fn the_number_of_requests_at_one_sector_is_limited_and_the_rest_is_reported() {
        // No bio gets a request, and no request a completion. The operations of bios and requests differ, so that they
        // are not paired, and both lists reach their limits.
        let bio = parse("0.000001 Q R 8 8\n")[0];
        let issue = parse("0.000002 D W 8 8\n")[0];
        let mut pairing = Pairing::default();
        pairing.add(&issue);
        for _ in 0..20_000 {
            pairing.add(&bio);
            pairing.add(&issue);
        }
        assert_eq!(pairing.lost(), 20_000 - 1024);
        assert_eq!(pairing.requests().len(), 20_001 - 1024);
        assert_eq!(pairing.under_way, 2 * 1024);
        pairing.finish();
        assert_eq!(pairing.drain().count(), 20_001);
        // On a device without requests nothing counts as lost.
        let mut pairing = Pairing::default();
        (0..2_000).for_each(|_| pairing.add(&bio));
        pairing.finish();
        assert_eq!((pairing.lost(), pairing.drain().count()), (0, 2_000));
    }

    #[test]
    fn a_device_with_fua_support_needs_no_second_completion() {
        let text = "0.000001 Q WFS 8 8\n0.000002 D WFS 8 8\n0.000007 C WFS 8 8\n";
        assert_eq!(paired(text), [(Write, 8, 8, 1, 5)]);
    }
}
