//! The shard's buffers: given out, taken back, and salted (filled with random data) in slices between operations.

use crate::plan::{BufferClass, Fill};
use crate::stream::{IoRequest, Stream};
use engine::BlockEngine;
use sys::buffer::Buf;

/// Maximum bytes salted at once: a few microseconds, so that a large block does not noticeably delay operations.
const SLICE_BYTES: usize = 32 * 1024;

struct ClassBuffers {
    ready: Vec<Buf>,
    /// Used buffers that need new salt. Always empty for a fill without salt: its buffers are ready at once.
    used: Vec<Buf>,
    /// The buffer being salted, and the number of bytes salted so far.
    filling: Option<(Buf, usize)>,
    fill: Fill,
}

pub(super) struct Buffers {
    classes: Vec<ClassBuffers>,
    /// Buffers in `used` or `filling` over all classes.
    awaiting_fill: usize,
    first_class: usize,
    /// True if no buffer has memory, because the drives store no data.
    are_empty: bool,
}

impl Buffers {
    /// Salts the buffers that need salt. `None` if the engine has too little memory.
    pub(super) fn new<E: BlockEngine>(classes: Vec<BufferClass>, engine: &mut E) -> Option<Self> {
        let mut buffers = Self {
            classes: Vec::new(),
            awaiting_fill: 0,
            first_class: 0,
            are_empty: true,
        };
        for class in classes {
            // Last in, first out: the buffers that a light load uses stay in the cache.
            let mut ready: Vec<_> = (0..class.count)
                .map(|_| engine.buffer(class.len_bytes))
                .collect::<Option<_>>()?;
            let mut fill = class.fill;
            match &mut fill {
                Fill::Fresh(salt) => ready.iter_mut().for_each(|buf| salt.fill(buf)),
                // Zeroed now, because the first access to each page of memory costs a page fault.
                Fill::AsIs => ready.iter_mut().for_each(|buf| buf.fill(0)),
                Fill::Placed(_) | Fill::ByStream => {}
            }
            buffers.are_empty &= ready.iter().all(|buf| buf.is_empty());
            let used = Vec::with_capacity(ready.len());
            buffers.classes.push(ClassBuffers {
                ready,
                used,
                filling: None,
                fill,
            });
        }
        Some(buffers)
    }

    /// A buffer for an operation of `stream`, filled as its class requires; `None` if no salted buffer is ready.
    #[inline]
    pub(super) fn take(&mut self, request: &IoRequest, stream: &mut dyn Stream) -> Option<Buf> {
        if self.are_empty {
            Some(Buf::empty())
        } else {
            self.take_filled(request, stream)
        }
    }

    fn take_filled(&mut self, request: &IoRequest, stream: &mut dyn Stream) -> Option<Buf> {
        let ClassBuffers { ready, fill, .. } = &mut self.classes[usize::from(request.buffers)];
        let mut buf = ready.pop()?;
        let len = buf.len().min(request.len as usize);
        match fill {
            Fill::Placed(salt) => salt.fill(&mut buf[..len], request.offset),
            Fill::ByStream => stream.fill(request, &mut buf[..len]),
            Fill::AsIs | Fill::Fresh(_) => {}
        }
        Some(buf)
    }

    /// Takes back `buf`, and leaves an empty buffer in its place.
    #[inline]
    pub(super) fn give(&mut self, class: u16, buf: &mut Buf) {
        if self.are_empty {
            return;
        }
        let buf = std::mem::replace(buf, Buf::empty());
        let class_buffers = &mut self.classes[usize::from(class)];
        if matches!(class_buffers.fill, Fill::Fresh(_)) && !buf.is_empty() {
            class_buffers.used.push(buf);
            self.awaiting_fill += 1;
        } else {
            class_buffers.ready.push(buf);
        }
    }

    /// True if any buffer needs salt.
    #[inline]
    pub(super) fn behind(&self) -> bool {
        self.awaiting_fill > 0
    }

    pub(super) fn salt_slice(&mut self) {
        let mut budget = SLICE_BYTES;
        // Each call begins with another class, so that no class starves when salt is short.
        self.first_class = (self.first_class + 1) % self.classes.len().max(1);
        let (before, from_first) = self.classes.split_at_mut(self.first_class);
        for ClassBuffers {
            ready,
            used,
            filling,
            fill,
        } in from_first.iter_mut().chain(before)
        {
            let Fill::Fresh(salt) = fill else { continue };
            while budget > 0 {
                let next = filling.take().or_else(|| used.pop().map(|buf| (buf, 0)));
                let Some((mut buf, salted_bytes)) = next else {
                    break;
                };
                let end = (salted_bytes + budget).min(buf.len());
                salt.fill(&mut buf[salted_bytes..end]);
                budget -= end - salted_bytes;
                if end == buf.len() {
                    ready.push(buf);
                    self.awaiting_fill -= 1;
                } else {
                    *filling = Some((buf, end));
                }
            }
        }
    }
}
