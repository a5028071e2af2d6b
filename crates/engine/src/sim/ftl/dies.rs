//! The dies of a drive, each with its current work and its waiting work.
//!
//! A die does one piece of work at a time. Host reads have priority; on drives with suspension they suspend a program
//! or an erase, which resumes after the reads. Other work is done in FIFO order. To avoid starvation, the number of
//! reads in a row is limited, and resumed work runs for at least the time of a read before the next suspension.

use crate::sim::spec::Flash;
use std::collections::VecDeque;

/// Maximum number of host reads in a row while other work waits.
const READS_IN_ROW: u32 = 16;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum DieWork {
    /// Host read for the operation `token`. Starts at `from_ns` at the earliest, after the controller's time.
    Read {
        token: u32,
        bytes: u32,
        from_ns: u64,
    },
    /// Reads valid units for a step of garbage collection.
    Collect {
        step: u16,
        bytes: u32,
    },
    /// Programs a stripe with `host_units` units of the host; `step` of garbage collection waits for the program.
    Program {
        stripe: u32,
        host_units: u32,
        step: u16,
    },
    Erase {
        slot: u16,
    },
}

/// The end of a die's current work, as an event. Void if the work is suspended first.
#[derive(Debug, Clone, Copy)]
pub(super) struct WorkEnd {
    die: u16,
    /// Value of [`Die::work_number`] at the start of the work. A different value now means that the work was suspended.
    work_number: u32,
}

#[derive(Debug, Clone, Default)]
struct Die {
    work: Option<DieWork>,
    /// Bytes of the array read (tR) in progress, which are transferred afterwards; 0: no array read in progress.
    reading_bytes: u32,
    ends_ns: u64,
    /// Number of times that the die has begun or resumed work.
    work_number: u32,
    /// Work suspended for reads, and its remaining time.
    suspended: Option<(DieWork, u64)>,
    /// Instant before which the current work cannot be suspended, nanoseconds.
    unbroken_ns: u64,
    reads: VecDeque<DieWork>,
    reads_in_row: u32,
    other_work: VecDeque<DieWork>,
}

#[derive(Debug, Clone)]
pub(super) struct Dies {
    flash: Flash,
    dies: Vec<Die>,
    /// By channel: end of the last transfer.
    channel_free_ns: Vec<u64>,
}

impl Dies {
    pub(super) fn new(flash: &Flash) -> Self {
        Self {
            flash: flash.clone(),
            dies: vec![Die::default(); flash.dies_total() as usize],
            channel_free_ns: vec![0; flash.channels as usize],
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.dies.len() as u32
    }

    /// Adds work to a die. If the work starts at once, returns its end.
    #[inline]
    pub(super) fn add(&mut self, at: u32, work: DieWork, now_ns: u64) -> Option<(u64, WorkEnd)> {
        let die = &mut self.dies[at as usize];
        let DieWork::Read { from_ns, .. } = work else {
            if die.work.is_some() {
                die.other_work.push_back(work);
                return None;
            }
            return Some(self.begin(at, work, now_ns));
        };
        let Some(current) = die.work else {
            return Some(self.begin(at, work, from_ns));
        };
        let suspendable = matches!(current, DieWork::Program { .. } | DieWork::Erase { .. });
        let from_ns = from_ns.max(die.unbroken_ns);
        match self.flash.suspend_ns {
            // Work that ends before a suspension would take effect is not suspended.
            Some(suspend_ns) if suspendable && die.ends_ns > from_ns + suspend_ns => {
                die.suspended = Some((current, die.ends_ns - from_ns + suspend_ns));
                Some(self.begin(at, work, from_ns + suspend_ns))
            }
            _ => {
                die.reads.push_back(work);
                None
            }
        }
    }

    /// Ends the current phase of a die: a piece of work, or the array read (tR) of a read. Returns the finished work,
    /// and the end of the die's next phase. No work is finished if the work was suspended, or if a read now transfers
    /// its data. A read occupies the channel only during its transfer.
    #[inline]
    pub(super) fn end(
        &mut self,
        work_end: WorkEnd,
        now_ns: u64,
    ) -> (Option<DieWork>, Option<(u64, WorkEnd)>) {
        let at = u32::from(work_end.die);
        let die = &mut self.dies[usize::from(work_end.die)];
        if die.work_number != work_end.work_number {
            return (None, None);
        }
        let bytes = std::mem::take(&mut die.reading_bytes);
        if bytes > 0 {
            let ends_ns = self.transfer(at, bytes, now_ns);
            return (None, Some(self.until(at, ends_ns)));
        }
        let die = &mut self.dies[usize::from(work_end.die)];
        let finished_work = die.work.take();
        let others_wait = die.suspended.is_some() || !die.other_work.is_empty();
        if !(others_wait && die.reads_in_row >= READS_IN_ROW)
            && let Some(read) = die.reads.pop_front()
        {
            let DieWork::Read { from_ns, .. } = read else {
                unreachable!("only host reads are in this queue")
            };
            return (
                finished_work,
                Some(self.begin(at, read, from_ns.max(now_ns))),
            );
        }
        if let Some((work, left_ns)) = die.suspended.take() {
            die.unbroken_ns = now_ns + self.flash.read_ns;
            (die.work, die.reads_in_row) = (Some(work), 0);
            return (finished_work, Some(self.until(at, now_ns + left_ns)));
        }
        let next_work = die.other_work.pop_front();
        (
            finished_work,
            next_work.map(|work| self.begin(at, work, now_ns)),
        )
    }

    #[inline]
    fn begin(&mut self, at: u32, work: DieWork, start_ns: u64) -> (u64, WorkEnd) {
        let die = &mut self.dies[at as usize];
        die.work = Some(work);
        die.reads_in_row = if matches!(work, DieWork::Read { .. }) {
            die.reads_in_row + 1
        } else {
            0
        };
        let ends_ns = match work {
            DieWork::Read { bytes, .. } | DieWork::Collect { bytes, .. } => {
                die.reading_bytes = bytes;
                start_ns + self.flash.read_ns
            }
            DieWork::Program { .. } => {
                self.transfer(at, self.flash.program_bytes(), start_ns) + self.flash.program_ns
            }
            DieWork::Erase { .. } => start_ns + self.flash.erase_ns,
        };
        self.until(at, ends_ns)
    }

    /// Instant at which the channel has transferred `bytes` for a die, after all earlier transfers.
    #[inline]
    fn transfer(&mut self, at: u32, bytes: u32, now_ns: u64) -> u64 {
        let free_ns = &mut self.channel_free_ns[(at % self.flash.channels) as usize];
        *free_ns = now_ns.max(*free_ns) + u64::from(bytes) * 1_000 / self.flash.bus_mbps;
        *free_ns
    }

    /// Marks the die as busy until `ends_ns`.
    #[inline]
    fn until(&mut self, at: u32, ends_ns: u64) -> (u64, WorkEnd) {
        let die = &mut self.dies[at as usize];
        die.ends_ns = ends_ns;
        die.work_number = die.work_number.wrapping_add(1);
        (
            ends_ns,
            WorkEnd {
                die: at as u16,
                work_number: die.work_number,
            },
        )
    }
}
