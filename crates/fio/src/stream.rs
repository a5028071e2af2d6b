//! The operations of a job, or of one of its directions.

use super::closed_loop::ClosedLoopBound;
use super::content::ContentSource;
use super::directions::{DIRECTIONS, FLUSHES, KIND_OF, KINDS, READS, TRIMS, WRITES, kind_number};
use super::early_end::MinRateCheck;
use super::exit::ExitGroups;
use super::files::FileOrder;
use super::job::CommitParts;
use super::locked;
use super::offsets::Area;
use super::progress::{LATENCY_MISSED, RATE_MISSED};
use super::thread::JobClone;
use super::verify::{OpAddress, Verify};
use load::stream::{IoRequest, LOST, Stream};
use results::format;
use results::times::Times;
use std::sync::atomic::Ordering;
use sys::op::{OpKind, Outcome, WriteBack, WriteSync};
use sys::random::Random;

#[derive(Debug)]
pub struct FioStream {
    pub(super) thread: JobClone,
    pub(super) areas: Vec<Area>,
    /// Directions of the stream: one, or reads and writes.
    pub(super) directions: Vec<usize>,
    /// The smallest operation of each direction.
    pub(super) units: [u64; DIRECTIONS],
    pub(super) bytes_left: u64,
    /// Operations left. In a log of `len` operations, the next operation is number `len - ops_left`, counted from 0.
    pub(super) ops_left: u64,
    pub(super) flushes: bool,
    /// Cell of each kind, on the first target.
    pub(super) cells: [u32; KINDS],
    /// Cell of commits on the first target; `None`: commits are not counted.
    pub(super) commit_cell: Option<u32>,
    /// Buffer class of each kind. Writes use the buffer class of their area instead.
    pub(super) buffers: [u16; KINDS],
    pub(super) random: Random,
    pub(super) bound: ClosedLoopBound,
    /// End of the stream's time, nanoseconds of the run.
    pub(super) until_ns: u64,
    /// Due time of the last operation, if there is a rate and a number of operations, nanoseconds.
    pub(super) last_ns: u64,
    pub(super) min_rates: MinRateCheck,
    pub(super) end_flush: bool,
    pub(super) verify: Option<Verify>,
    /// Buffer class of the reads that are checked; `None`: all reads are checked.
    pub(super) checked_buffers: Option<u16>,
    /// Source of the data of writes, unless the data is verified or random (salt).
    pub(super) contents: Option<ContentSource>,
    /// Bytes and operations of each loop, and number of further loops, if each loop's writes are read back.
    pub(super) loops: (u64, u64, u64),
    pub(super) state: StreamState,
}

#[derive(Debug, Default)]
pub(super) struct StreamState {
    /// Index of the current file, and what is left of it: bytes if the files are used one by one, else operations.
    file: usize,
    file_left: u64,
    /// Index of the next file, if operations use the files in turn.
    next_file: usize,
    writes: u64,
    commit_ops: u64,
    /// Number of operations until the next random offset.
    run_left: u64,
    /// True once the stream ended by itself, before its time.
    is_done: bool,
    /// True once the stream issues nothing more.
    is_ended: bool,
    /// Files that are still to be flushed at the end.
    end_flushes: usize,
    in_flight: u32,
    /// Time of the last completion, nanoseconds of the run.
    now_ns: u64,
    /// True if the last read returned only zeros.
    is_zero: bool,
    phase: JobPhase,
    /// End of the time that is counted in `phases_ns`, nanoseconds of the run.
    phases_until_ns: u64,
}

impl StreamState {
    /// State of a stream that begins at `from_ns`, nanoseconds of the run.
    pub(super) fn new(from_ns: u64) -> Self {
        Self {
            phases_until_ns: from_ns,
            ..Self::default()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum JobPhase {
    /// The job's own operations.
    #[default]
    Main,
    /// The files with indices below this number are still to be flushed, after the writes in flight have completed.
    Flush(usize),
    ReadBack,
}

impl FioStream {
    #[inline]
    fn is_main_done(&self) -> bool {
        self.bytes_left == 0 || self.ops_left == 0
    }

    #[inline]
    fn has_ended(&self) -> bool {
        self.state.is_ended || self.is_main_done() && !self.reads_back_at_end()
    }

    #[inline]
    fn reads_back_at_end(&self) -> bool {
        self.verify.is_some() && self.thread.job.reads_back_at_end()
    }

    /// Ends the stream at `at_ns`, because its work is complete or cannot be completed.
    fn finish(&mut self, at_ns: u64) {
        self.stop(at_ns);
        if !std::mem::replace(&mut self.state.is_done, true) {
            self.thread.progress.lanes_done.add(1);
        }
    }

    #[cold]
    fn fail(&mut self) {
        self.finish(self.state.now_ns);
        if self.thread.job.exit.all_on_error {
            self.end_others(self.state.now_ns);
        }
    }

    fn end_others(&self, at_ns: u64) {
        if let Some(ExitGroups {
            groups,
            ended_groups: ends,
            ..
        }) = &self.thread.exit
        {
            for group in &groups[ends.clone()] {
                group.fetch_min(at_ns, Ordering::Relaxed);
            }
        }
    }

    /// True if the next random operation has a new offset; false if the operation follows the last one.
    #[inline]
    fn is_new_offset(&mut self, direction: usize) -> bool {
        if self.state.run_left > 1 {
            self.state.run_left -= 1;
            return false;
        }
        self.state.run_left = self.thread.job.order.run_length;
        let percent = self.thread.job.order.random_pct[direction];
        percent == 100 || self.random.below(100) < percent
    }

    #[inline]
    fn choose_direction(&mut self) -> usize {
        match self.directions[..] {
            [only] => only,
            _ => usize::from(self.random.below(100) >= self.thread.job.read_pct),
        }
    }

    #[inline]
    fn choose_area(&mut self) -> usize {
        match self.areas.len() {
            1 => 0,
            count => {
                let job = &self.thread.job;
                let state = &mut self.state;
                if state.file_left == 0 {
                    let file = match job.files.order {
                        FileOrder::Random => self.random.below(count as u64) as usize,
                        FileOrder::InTurn | FileOrder::OneByOne => state.next_file,
                    };
                    (state.file, state.next_file) = (file, (file + 1) % count);
                    let is_whole = job.files.order == FileOrder::OneByOne;
                    state.file_left = if is_whole {
                        self.areas[file].used_bytes
                    } else {
                        job.files.ops
                    };
                }
                if job.files.order != FileOrder::OneByOne {
                    state.file_left -= 1;
                }
                state.file
            }
        }
    }

    #[inline]
    fn area_of(&self, request: &IoRequest) -> Option<usize> {
        self.areas
            .iter()
            .position(|area| area.target == request.target)
    }

    #[inline]
    fn request(&self, kind: usize, area: usize, offset: u64, len: u32) -> IoRequest {
        let Area {
            target, buffers, ..
        } = self.areas[area];
        let job = &self.thread.job;
        let (buffers, sync) = if kind == WRITES {
            (buffers, job.sync)
        } else {
            (self.buffers[kind], WriteSync::No)
        };
        let cell = self.cells[kind] + u32::from(target);
        let priority = job.priority.of_job();
        IoRequest {
            offset,
            len,
            sync,
            priority,
            ..IoRequest::new(KIND_OF[kind], target, cell, buffers)
        }
    }

    /// The next flush or read-back of a job that verifies its writes; `None` if none is due now.
    fn next_verified(&mut self) -> Option<IoRequest> {
        loop {
            match self.state.phase {
                JobPhase::Main if !self.is_main_done() => {
                    let (area, at, len) = self.verify.as_mut()?.next_of_backlog()?;
                    return Some(self.read_back(area, at, len));
                }
                JobPhase::Main if !self.reads_back_at_end() => return None,
                JobPhase::Main => self.state.phase = JobPhase::Flush(self.areas.len()),
                // Wait for the writes and flushes in flight.
                JobPhase::Flush(_) if self.state.in_flight > 0 => return None,
                JobPhase::Flush(0) => {
                    self.verify.as_mut()?.rewind();
                    self.state.phase = JobPhase::ReadBack;
                }
                JobPhase::Flush(files) => {
                    self.state.phase = JobPhase::Flush(files - 1);
                    return Some(self.flush(files - 1, OpKind::FlushFile));
                }
                JobPhase::ReadBack => {
                    if let Some((area, at, len)) = self.verify.as_mut()?.next_of_all() {
                        return Some(self.read_back(area, at, len));
                    }
                    if self.state.in_flight > 0 {
                        return None;
                    }
                    let (bytes, ops, loops_left) = self.loops;
                    if loops_left == 0 {
                        self.stop(self.state.now_ns);
                        return None;
                    }
                    (
                        self.bytes_left,
                        self.ops_left,
                        self.loops.2,
                        self.state.phase,
                    ) = (bytes, ops, loops_left - 1, JobPhase::Main);
                }
            }
        }
    }

    /// Adds the time since the last call to the current phase, without the ramp time. The flushes between the phases
    /// belong to neither.
    fn count_phase(&mut self) {
        let phase = match self.state.phase {
            JobPhase::ReadBack => Some(1),
            JobPhase::Flush(files) if files < self.areas.len() => None,
            // `Flush(areas.len())`: no flush has begun, because the last writes are in flight.
            JobPhase::Main | JobPhase::Flush(_) => Some(0),
        };
        let ramp_end_ns = self.thread.job.ramp_end_ns();
        let until_ns = self.state.phases_until_ns;
        if until_ns < ramp_end_ns && self.state.now_ns >= ramp_end_ns {
            self.thread
                .progress
                .phases_ns
                .iter()
                .for_each(|ns| ns.set(0));
            self.state.phases_until_ns = ramp_end_ns;
        }
        let passed_ns = self.state.now_ns.saturating_sub(self.state.phases_until_ns);
        self.state.phases_until_ns += passed_ns;
        phase
            .into_iter()
            .for_each(|phase: usize| self.thread.progress.phases_ns[phase].add(passed_ns));
    }

    fn read_back(&mut self, area: usize, at: u64, len: u32) -> IoRequest {
        self.thread.progress.read_back.add(1);
        let request = self.request(READS, area, self.areas[area].start + at, len);
        IoRequest {
            buffers: self.checked_buffers.unwrap_or(request.buffers),
            ..request
        }
    }

    fn address(&self, request: &IoRequest) -> Option<OpAddress> {
        if !request.kind.moves_data() && request.kind != OpKind::Deallocate {
            return None;
        }
        let area = self.area_of(request)?;
        Some(OpAddress {
            area,
            area_offset: request.offset.wrapping_sub(self.areas[area].start),
            offset: request.offset,
        })
    }

    /// The next operation of the main phase, from the log or generated, with its area.
    #[inline]
    fn next_main_op(&mut self) -> (usize, IoRequest) {
        self.ops_left -= 1;
        if let Some(log) = &self.thread.job.iolog {
            let operation = log.operations[log.operations.len() - 1 - self.ops_left as usize];
            let file = usize::from(operation.file);
            let kind = operation.kind;
            let request = self.request(kind_number(kind), file, operation.offset, operation.len);
            return (file, IoRequest { kind, ..request });
        }
        let direction = self.choose_direction();
        let area = self.choose_area();
        let len_max = self.thread.job.sizes[direction].draw(&mut self.random);
        let is_jump = self.is_new_offset(direction);
        let unit = self.units[direction];
        let (offset, len) =
            self.areas[area].next(direction, len_max, is_jump, unit, &mut self.random);
        self.areas[area].advance_window(len);
        self.areas[area].advance_pass(len);
        if self.thread.job.files.order == FileOrder::OneByOne {
            self.state.file_left = self.state.file_left.saturating_sub(len);
        }
        self.bytes_left = self.bytes_left.saturating_sub(len);
        (area, self.prioritized(direction, area, offset, len))
    }

    #[inline]
    fn prioritized(&mut self, direction: usize, area: usize, offset: u64, len: u64) -> IoRequest {
        let mut request = self.request(direction, area, offset, len as u32);
        let commit_cell = self.commit_cell.filter(|_| direction == WRITES);
        request.commit = commit_cell.map(|cell| cell + u32::from(request.target));
        if self.thread.by_priority.is_some() {
            request.priority = self
                .thread
                .job
                .priority
                .draw(direction, len, &mut self.random);
        }
        request
    }

    #[inline]
    fn begin(&mut self) {
        self.thread.progress.begin();
        self.state.in_flight += 1;
        if let ClosedLoopBound::ThinkTimePauses(pauses) = &mut self.bound {
            pauses.ops_begun += 1;
        }
    }

    /// The operation that follows in the same slot: the write after a trim, the flush after a number of writes, the next
    /// operation of a commit. As in fio, no flush follows the last write, unless commits are counted.
    #[inline]
    fn follow_up(&mut self, request: &IoRequest) -> Option<IoRequest> {
        if self.thread.job.trim_write && request.kind == OpKind::Deallocate {
            let area = self.area_of(request)?;
            return Some(self.request(WRITES, area, request.offset, request.len));
        }
        if let (Some(_), Some(parts)) = (
            self.commit_cell,
            self.thread.job.commit.filter(|parts| !parts.is_plain()),
        ) {
            return self.next_of_commit(parts, request);
        }
        if self.flushes && request.kind == OpKind::Write {
            self.state.writes += 1;
            let area = self.area_of(request)?;
            let start = request.offset;
            let end = request.offset + u64::from(request.len);
            let written = &mut self.areas[area].written_range;
            *written = Some(written.map_or((start, end), |(first, last)| {
                (first.min(start), last.max(end))
            }));
            if (self.commit_cell.is_some() || !self.has_ended())
                && let Some(kind) = self.thread.job.flush.after_write(self.state.writes)
            {
                return Some(self.flush(area, kind));
            }
        }
        // With `area == areas.len()`, no flush of this phase has begun: the completed flush followed a write.
        if let (JobPhase::Flush(area), OpKind::FlushFile, false) =
            (self.state.phase, request.kind, self.thread.job.direct)
            && area < self.areas.len()
        {
            // Drop the cached pages: data that is read back has to come from the device.
            let kind = OpKind::WriteBack(WriteBack {
                drop_cache: true,
                ..WriteBack::default()
            });
            return Some(IoRequest {
                kind,
                ..self.request(FLUSHES, area, 0, 0)
            });
        }
        self.end_flush()
    }

    /// The operation that continues the commit in the slot. A commit in progress when the stream ends is synced at once.
    fn next_of_commit(&mut self, parts: CommitParts, request: &IoRequest) -> Option<IoRequest> {
        let area = self.area_of(request)?;
        self.state.commit_ops += 1;
        if self.is_main_done() || self.state.now_ns >= Stream::until_ns(self) {
            self.state.commit_ops = self.state.commit_ops.max(parts.writes);
        }
        match self.state.commit_ops.checked_sub(parts.writes) {
            None => {
                let (_, write) = self.next_main_op();
                Some(IoRequest {
                    commit: None,
                    ..write
                })
            }
            Some(0) => Some(self.flush(area, self.thread.job.flush.after_write(1)?)),
            Some(1) if parts.has_meta => Some(self.request(
                WRITES,
                area,
                self.areas[area].start,
                self.units[WRITES] as u32,
            )),
            Some(2) if parts.has_meta => {
                Some(self.flush(area, self.thread.job.flush.after_write(1)?))
            }
            Some(_) => {
                self.state.commit_ops = 0;
                None
            }
        }
    }

    fn flush(&mut self, area: usize, kind: OpKind) -> IoRequest {
        let (start, end) = self.areas[area].written_range.take().unwrap_or_default();
        // A range of 4 GiB or more gets length 0, which means up to the end of the file.
        let len = u32::try_from(end - start).unwrap_or(0);
        let (offset, len) = if let OpKind::WriteBack(_) = kind {
            (start, len)
        } else {
            (0, 0)
        };
        IoRequest {
            kind,
            ..self.request(FLUSHES, area, offset, len)
        }
    }

    /// The next flush of `end_fsync`, after the last operation has completed.
    #[inline]
    fn end_flush(&mut self) -> Option<IoRequest> {
        if self.end_flush
            && self.state.in_flight == 1
            && (self.has_ended() || self.state.now_ns >= Stream::until_ns(self))
        {
            (self.end_flush, self.state.end_flushes) = (false, self.areas.len());
        }
        self.state.end_flushes = self.state.end_flushes.checked_sub(1)?;
        Some(self.flush(self.state.end_flushes, OpKind::FlushFile))
    }

    /// Reports the arrivals of a stream with a single direction, divided evenly over its areas, or all on the
    /// current file if the files are used one by one. `None`: mixed directions, or a log.
    fn count_arrivals(&self, arrivals: u64, on_cell: &mut dyn FnMut(u32, u64)) -> Option<()> {
        let [direction] = self.directions[..] else {
            return None;
        };
        if self.thread.job.iolog.is_some() {
            return None;
        }
        let mean = self.thread.job.sizes[direction].mean_bytes().max(1.0);
        let ops_max = self
            .ops_left
            .min((self.bytes_left as f64 / mean).ceil() as u64);
        let current_file = if self.state.file_left > 0 {
            self.state.file
        } else {
            self.state.next_file
        };
        let areas = match self.thread.job.files.order {
            FileOrder::OneByOne => &self.areas[current_file..=current_file],
            FileOrder::InTurn | FileOrder::Random => &self.areas,
        };
        let count = arrivals.min(ops_max);
        let parts = areas.len() as u64;
        let commit_cell = self.commit_cell.filter(|_| direction == WRITES);
        for (number, area) in (0..).zip(areas) {
            let of_area = count / parts + u64::from(number < count % parts);
            for cell in std::iter::once(self.cells[direction]).chain(commit_cell) {
                on_cell(cell + u32::from(area.target), of_area);
            }
        }
        Some(())
    }

    /// Counts an operation that completed or was lost. Returns the operation that follows in the same slot.
    fn end_op(&mut self, request: &IoRequest, outcome: Outcome) -> Option<IoRequest> {
        if self.verify.is_some()
            && let Some(address) = self.address(request)
            && let Some(verify) = &mut self.verify
        {
            match request.kind {
                OpKind::Write => {
                    verify.on_write_completed(address, request.len as usize, outcome.is_done())
                }
                OpKind::Read
                    if !outcome.is_done() && self.checked_buffers == Some(request.buffers) =>
                {
                    verify.not_read(address, request.len as usize)
                }
                _ => {}
            }
        }
        if let Some(next) = self.follow_up(request) {
            return Some(next);
        }
        self.thread.progress.end();
        self.state.in_flight = self.state.in_flight.saturating_sub(1);
        None
    }
}

impl Stream for FioStream {
    fn next(&mut self) -> Option<IoRequest> {
        if self.verify.is_some()
            && !self.state.is_ended
            && let Some(request) = self.next_verified()
        {
            self.begin();
            return Some(request);
        }
        if self.has_ended() {
            self.finish(self.state.now_ns);
            return None;
        }
        if self.state.phase != JobPhase::Main {
            return None;
        }
        let request = loop {
            let (area, request) = self.next_main_op();
            if self
                .verify
                .as_mut()
                .is_none_or(|verify| verify.is_next_written(area, request.offset))
            {
                break request;
            }
            if self.has_ended() || self.verify.as_ref().is_some_and(Verify::is_past_state) {
                self.finish(self.state.now_ns);
                return None;
            }
        };
        self.begin();
        if request.kind == OpKind::Deallocate
            && let Some(address) = self.address(&request)
            && let Some(verify) = &mut self.verify
        {
            verify.trim(address, request.len as usize);
        }
        Some(request)
    }

    fn stuck(&self) -> Option<String> {
        (self.state.phase != JobPhase::Main && !self.state.is_ended)
            .then(|| "writes did not complete, so they cannot be read back".into())
    }

    fn fill(&mut self, request: &IoRequest, data: &mut [u8]) {
        let Some(address) = self.address(request) else {
            return;
        };
        match (&mut self.verify, &mut self.contents) {
            (Some(verify), _) => verify.fill(address, data),
            (None, Some(contents)) => contents.fill(data, self.areas[address.area].key),
            (None, None) => {}
        }
    }

    fn on_data(&mut self, request: &IoRequest, data: &[u8]) -> Result<(), String> {
        // A simulated drive without contents returns an empty slice.
        self.state.is_zero =
            self.thread.job.counts_zeros && !data.is_empty() && data.iter().all(|byte| *byte == 0);
        if self.verify.is_none() {
            return Ok(());
        }
        // A job that also writes checks only its read-backs.
        let is_checked = match self.checked_buffers {
            Some(checked) => request.buffers == checked,
            None => self.thread.job.checks_reads(),
        };
        if !is_checked {
            return Ok(());
        }
        let (Some(address), Some(verify)) = (self.address(request), &mut self.verify) else {
            return Ok(());
        };
        let checked = verify.check(address, data);
        if checked.is_err() && verify.is_fatal() {
            self.finish(self.state.now_ns);
        }
        checked
    }

    fn on_completion(&mut self, request: &IoRequest, outcome: Outcome) -> Option<IoRequest> {
        if !outcome.is_done() && self.thread.job.exit.all_on_error {
            self.fail();
        }
        self.end_op(request, outcome)
    }

    fn on_loss(&mut self, request: &IoRequest) -> Option<IoRequest> {
        self.end_op(request, LOST)
    }

    fn on_times(&mut self, request: &IoRequest, times: &Times) {
        self.state.now_ns = times.completed_ns();
        self.thread
            .progress
            .last_completion_ns
            .raise(self.state.now_ns);
        if self.reads_back_at_end() {
            self.count_phase();
        }
        if let Some(issued) = &self.thread.issued {
            issued.add(request, times);
        }
        let direction = kind_number(request.kind);
        if direction == FLUSHES {
            return;
        }
        for samples in self.thread.samples.iter().chain(&self.thread.histograms) {
            samples.add(direction, request, times);
        }
        if let Some(by_priority) = &self.thread.by_priority {
            by_priority.add(direction, request.priority, times);
        }
        if let Some(by_content) = self
            .thread
            .by_content
            .as_ref()
            .filter(|_| direction == READS)
        {
            locked(by_content)[usize::from(self.state.is_zero)]
                .saturating_record(times.judged_ns());
        }
        if let Some(steady) = &self.thread.steady {
            steady.record(self.state.now_ns, request.len.into(), times.service_ns());
        }
        if let ClosedLoopBound::Search(search) = &mut self.bound {
            search.record(self.state.now_ns, times.service_ns(), &self.thread.progress);
            if search.is_done {
                self.finish(self.state.now_ns);
            }
        }
        let latency_ns = times.service_ns();
        let max_ns = self.thread.job.latency_max_ns[direction];
        let failure = if latency_ns > max_ns {
            let took = format::duration(latency_ns);
            let most = format::duration(max_ns);
            Some((
                LATENCY_MISSED,
                format!("an operation took {took}, longer than max_latency ({most})"),
            ))
        } else {
            self.min_rates
                .record(direction, request.len, times)
                .map(|reason| (RATE_MISSED, reason))
        };
        if let Some((error, reason)) = failure {
            self.thread.progress.set_failure(error, reason);
            self.fail();
        }
    }

    fn until_ns(&self) -> u64 {
        self.until_ns.min(self.thread.ended_ns())
    }

    fn last_ns(&self) -> u64 {
        self.last_ns
    }

    fn stop(&mut self, at_ns: u64) {
        (self.ops_left, self.state.is_ended) = (0, true);
        if self.thread.job.exit.all {
            self.end_others(at_ns);
        }
    }

    fn width(&mut self, now_ns: u64) -> (u32, u64) {
        let until_ns = Stream::until_ns(self);
        if now_ns >= until_ns {
            self.stop(until_ns);
        }
        let has_ended = self.has_ended();
        let in_flight = self.state.in_flight;
        let (width, from_ns) = match &mut self.bound {
            // As in fio, the read-back at the end has no pauses.
            ClosedLoopBound::ThinkTimePauses(pauses)
                if !has_ended && self.state.phase == JobPhase::Main =>
            {
                pauses.width(now_ns, in_flight)
            }
            ClosedLoopBound::Search(search) if !has_ended => search.width(now_ns, in_flight),
            ClosedLoopBound::Paced { period_ns, next_ns } if !has_ended => {
                let from_ns = now_ns.max(*next_ns);
                *next_ns = from_ns + *period_ns;
                (u32::MAX, from_ns)
            }
            ClosedLoopBound::Drains { refill_at } if !has_ended && in_flight > *refill_at => {
                (in_flight, now_ns)
            }
            _ => (u32::MAX, now_ns),
        };
        (width, from_ns.max(self.thread.job.start_delay_ns))
    }

    fn follows(&self) -> bool {
        self.thread.job.trim_write
            || self.flushes
            || self.end_flush
            || self.state.end_flushes > 0
            || self.reads_back_at_end()
    }

    fn expect(&self, arrivals: u64, cells: &mut dyn FnMut(u32, u64)) {
        let log = self
            .thread
            .job
            .iolog
            .as_ref()
            .map_or(&[][..], |log| &log.operations);
        let upcoming = log
            .iter()
            .skip(log.len().saturating_sub(self.ops_left as usize))
            .take(arrivals as usize);
        for operation in upcoming {
            let target = self.areas[usize::from(operation.file)].target;
            cells(
                self.cells[kind_number(operation.kind)] + u32::from(target),
                1,
            );
        }
        let _ = self.count_arrivals(arrivals, cells);
    }

    fn lose(&mut self, arrivals: u64, on_lost: &mut dyn FnMut(u32, u64)) {
        let write_cell_distance = self
            .thread
            .job
            .trim_write
            .then_some(self.cells[WRITES].wrapping_sub(self.cells[TRIMS]));
        let writes_per_commit = self.thread.job.writes_per_commit();
        let counted = self.count_arrivals(arrivals, &mut |cell, count| {
            let is_write = self
                .areas
                .iter()
                .any(|area| cell == self.cells[WRITES] + u32::from(area.target));
            let lost = if is_write {
                count.saturating_mul(writes_per_commit)
            } else {
                count
            };
            on_lost(cell, lost);
            if let Some(distance) = write_cell_distance {
                on_lost(cell.wrapping_add(distance), count);
            }
        });
        if counted.is_some() {
            return;
        }
        // Operations of a mixed job have no schedule, so at most a queue depth of them is lost.
        for _ in 0..arrivals {
            let Some(request) = self.next() else { return };
            request.cells().for_each(|cell| on_lost(cell, 1));
            self.on_loss(&request);
        }
    }
}
