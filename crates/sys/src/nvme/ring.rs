//! Form of a ring for NVMe commands on character devices of namespaces (`/dev/ng0n1`). The commands bypass the block
//! layer.
//!
//! The kernel (5.19) takes a command in the second half of a 128-byte submission queue entry, and returns the drive's
//! own status. The kernel does not check the range of a command, and the drive executes any range. So [`NvmeForm`]
//! enforces whole logical blocks and the length of the buffer; its caller must enforce the range of bytes.
//!
//! Sources: `include/uapi/linux/nvme_ioctl.h` (`struct nvme_uring_cmd`), `drivers/nvme/host/ioctl.c` of the kernel;
//! NVM Command Set Specification 1.1, figures 60 (write) and 33 (dataset management).

use super::{NvmeCommand, NvmeStatus};
use crate::buffer::{Buf, Pool};
use crate::op::{Op, OpKind, Outcome};
use crate::ring::Form;
use io_uring::types::Fixed;
use io_uring::{Submitter, cqueue, opcode, squeue};
use std::io;

/// `NVME_URING_CMD_IO`: `_IOWR('N', 0x80, struct nvme_uring_cmd)`.
const NVME_URING_CMD_IO: u32 = 0xc048_4e80;

const FLUSH: u8 = 0x00;
const WRITE: u8 = 0x01;
const READ: u8 = 0x02;
const DATASET_MANAGEMENT: u8 = 0x09;

/// Command dword 12: force unit access (FUA), and the directive type "data placement".
const FUA: u32 = 1 << 30;
const DATA_PLACEMENT: u32 = 2 << 20;
/// Command dword 11 of Dataset Management: deallocate.
const DEALLOCATE: u32 = 1 << 2;

/// Maximum number of logical blocks per command: the field has 16 bits.
pub const BLOCKS_MAX: u32 = 1 << 16;

/// A namespace behind an open character device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenNamespace {
    /// Namespace identifier.
    pub nsid: u32,
    /// Logical block, bytes; a power of two. Must be the block of the drive's format, without metadata: the drive
    /// transfers whole blocks of its own size, also beyond the end of a buffer.
    pub block_bytes: u32,
    /// Byte of the namespace at offset 0 of operations: the partition's start. A multiple of the block size.
    pub first_byte: u64,
    /// Maximum bytes per command, whole blocks; larger operations are split.
    pub transfer_bytes_max: u32,
    /// True if every write sets FUA.
    pub fua: bool,
    /// Placement identifiers of placements 1, 2 and so on: the placement list of the namespace.
    pub placement_ids: Vec<u16>,
}

/// Bytes of a Dataset Management range: attributes, number of logical blocks, first logical block.
const RANGE_BYTES: usize = 16;

/// Form of NVMe commands on namespaces, numbered as targets 0, 1...
pub struct NvmeForm {
    namespaces: Vec<OpenNamespace>,
    /// Range of each deallocation, by token. The drive reads the range as data of the command.
    ranges: Buf,
}

impl NvmeForm {
    /// Panics if a block size is no power of two, or a partition start or transfer limit is not block-aligned.
    pub fn new(namespaces: Vec<OpenNamespace>) -> Self {
        for namespace in &namespaces {
            assert!(namespace.block_bytes.is_power_of_two(), "{namespace:?}");
            assert!(
                namespace
                    .first_byte
                    .is_multiple_of(namespace.block_bytes.into()),
                "{namespace:?}"
            );
            let OpenNamespace {
                transfer_bytes_max,
                block_bytes,
                ..
            } = *namespace;
            assert!(
                transfer_bytes_max > 0 && transfer_bytes_max.is_multiple_of(block_bytes),
                "{namespace:?}"
            );
        }
        Self {
            namespaces,
            ranges: Buf::empty(),
        }
    }
}

impl Form for NvmeForm {
    type Entry = squeue::Entry128;
    type Completion = cqueue::Entry32;
    type Op = Op;
    type Outcome = Outcome;

    fn memory_bytes(&self, in_flight_max: usize) -> usize {
        RANGE_BYTES * in_flight_max
    }

    fn set_up(
        &mut self,
        pool: &mut Pool,
        _ring: &Submitter<'_>,
        in_flight_max: usize,
    ) -> io::Result<()> {
        self.ranges = pool
            .cut(RANGE_BYTES * in_flight_max)
            .expect("the ring's memory has room for it");
        Ok(())
    }

    fn token(op: &Op) -> u32 {
        op.token
    }

    fn entries(&self, op: &Op) -> usize {
        let transfer_bytes_max = self.namespaces[usize::from(op.target)].transfer_bytes_max;
        if op.kind.moves_data() {
            op.len.div_ceil(transfer_bytes_max).max(1) as usize
        } else {
            1
        }
    }

    fn entries_max(&self, in_flight_max: usize, memory_bytes: usize) -> usize {
        let smallest_bytes_max = self
            .namespaces
            .iter()
            .map(|namespace| namespace.transfer_bytes_max)
            .min()
            .unwrap_or(u32::MAX);
        in_flight_max + memory_bytes / smallest_bytes_max as usize
    }

    /// Panics for an unaligned offset or length, and for a short buffer, beyond which the drive would access memory.
    fn entry(&mut self, op: &mut Op, entry_index: usize) -> squeue::Entry128 {
        let namespace = &self.namespaces[usize::from(op.target)];
        let block_bytes = namespace.block_bytes;
        let range = if op.kind.is_flush() {
            (0, 0)
        } else {
            (op.offset, op.len)
        };
        let (mut offset, mut len) = range;
        assert!(
            offset.is_multiple_of(block_bytes.into()) && len.is_multiple_of(block_bytes),
            "{op:?}"
        );
        let mut skipped = 0;
        if op.kind.moves_data() {
            skipped = entry_index * namespace.transfer_bytes_max as usize;
            (offset, len) = (
                offset + skipped as u64,
                (len - skipped as u32).min(namespace.transfer_bytes_max),
            );
        }
        let first_block = (namespace.first_byte + offset) / u64::from(block_bytes);
        let blocks = len / block_bytes;
        let mut command = NvmeCommand {
            nsid: namespace.nsid,
            ..NvmeCommand::default()
        };
        let mut fixed = None;
        match op.kind {
            OpKind::Flush | OpKind::FlushFile => command.opcode = FLUSH,
            OpKind::WriteBack(_) => panic!("a drive has no page cache: {op:?}"),
            OpKind::Read | OpKind::Write => {
                assert!(
                    (1..=BLOCKS_MAX).contains(&blocks) && op.buf.len() >= op.len as usize,
                    "{op:?}"
                );
                command.opcode = if op.kind == OpKind::Read { READ } else { WRITE };
                (command.addr, command.data_len) = (op.buf.address() as u64 + skipped as u64, len);
                (command.cdw10, command.cdw11) = (first_block as u32, (first_block >> 32) as u32);
                command.cdw12 = blocks - 1;
                fixed = op.buf.registered();
            }
            OpKind::Deallocate => {
                let at = op.token as usize * RANGE_BYTES;
                let range = &mut self.ranges[at..at + RANGE_BYTES];
                range[..4].fill(0);
                range[4..8].copy_from_slice(&blocks.to_le_bytes());
                range[8..].copy_from_slice(&first_block.to_le_bytes());
                command.opcode = DATASET_MANAGEMENT;
                (command.addr, command.data_len) = (range.as_mut_ptr() as u64, RANGE_BYTES as u32);
                // The number of ranges is zero-based: 0 means one range.
                command.cdw11 = DEALLOCATE;
            }
        }
        if op.kind == OpKind::Write {
            if namespace.fua || op.sync.is_on() {
                command.cdw12 |= FUA;
            }
            if let Some(placement) = op.placement {
                command.cdw12 |= DATA_PLACEMENT;
                command.cdw13 =
                    u32::from(namespace.placement_ids[usize::from(placement.0) - 1]) << 16;
            }
        }
        let mut bytes = [0; 80];
        // SAFETY: `NvmeCommand` is integers without padding, and as long as the target part of `bytes`.
        bytes[..size_of::<NvmeCommand>()].copy_from_slice(&unsafe {
            std::mem::transmute::<NvmeCommand, [u8; size_of::<NvmeCommand>()]>(command)
        });
        opcode::UringCmd80::new(Fixed(op.target.into()), NVME_URING_CMD_IO)
            .cmd(bytes)
            .buf_index(fixed)
            .build()
    }

    fn outcome(&mut self, completion: cqueue::Entry32, _op: &Op) -> Outcome {
        match completion.result() {
            0 => Outcome::Done,
            errno if errno < 0 => Outcome::Errno(-errno),
            status => Outcome::Nvme(NvmeStatus::of_field(status as u16)),
        }
    }

    fn is_failure(outcome: &Outcome) -> bool {
        !outcome.is_done()
    }

    fn forget(op: Op) {
        std::mem::forget(op.buf);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Placement;

    fn commands(pool: &mut Pool) -> NvmeForm {
        let namespace = |nsid, block_bytes, first_byte, fua| OpenNamespace {
            nsid,
            block_bytes,
            first_byte,
            transfer_bytes_max: 64 << 10,
            fua,
            placement_ids: vec![7, 0x102, 3],
        };
        let mut commands = NvmeForm::new(vec![
            namespace(1, 512, 0, false),
            namespace(2, 4096, 1 << 20, true),
        ]);
        commands.ranges = pool.cut(RANGE_BYTES * 4).unwrap();
        commands
    }

    fn op(kind: OpKind, target: u16, buf: Buf) -> Op {
        Op {
            target,
            token: 3,
            ..Op::new(kind, 8192, 16384, buf)
        }
    }

    /// Command of an entry: opcode, namespace identifier, data length and dwords 10 to 13.
    fn told(entry: &squeue::Entry128) -> (u8, u32, u32, [u32; 4]) {
        let bytes = bytes(entry);
        let command = &bytes[48..];
        let dword = |at: usize| u32::from_le_bytes(command[at..at + 4].try_into().unwrap());
        (
            command[0],
            dword(4),
            dword(36),
            [dword(40), dword(44), dword(48), dword(52)],
        )
    }

    fn bytes(entry: &squeue::Entry128) -> [u8; 128] {
        // SAFETY: an entry is integers without padding.
        unsafe { std::mem::transmute(entry.clone()) }
    }

    fn address(entry: &squeue::Entry128) -> u64 {
        u64::from_le_bytes(
            bytes(entry)[48 + std::mem::offset_of!(NvmeCommand, addr)..][..8]
                .try_into()
                .unwrap(),
        )
    }

    #[test]
    fn the_uring_command_number_equals_that_of_the_kernel() {
        assert_eq!(
            NVME_URING_CMD_IO,
            3 << 30 | 72 << 16 | u32::from(b'N') << 8 | 0x80
        );
    }

    #[test]
    fn reads_and_writes_name_whole_blocks_of_their_namespace() {
        let mut pool = Pool::new(1 << 20).unwrap();
        let mut commands = commands(&mut pool);
        let mut buf = || pool.cut(16384).unwrap();
        // Byte 8,192 is in block 16, with blocks of 512 bytes. 16,384 bytes are 32 blocks, counted from 0.
        let found = told(&commands.entry(&mut op(OpKind::Read, 0, buf()), 0));
        assert_eq!(found, (READ, 1, 16384, [16, 0, 31, 0]));
        // The partition begins at 1 MiB: with blocks of 4 KiB, byte 8,192 is in block 256 + 2. Every write has FUA.
        let found = told(&commands.entry(&mut op(OpKind::Write, 1, buf()), 0));
        assert_eq!(found, (WRITE, 2, 16384, [258, 0, 3 | FUA, 0]));
        let far = Op {
            offset: 5 << 41,
            ..op(OpKind::Read, 0, buf())
        };
        assert_eq!(
            told(&commands.entry(&mut { far }, 0)).3,
            [0, 5, 31, 0],
            "5 << 32 blocks"
        );
        let found = told(&commands.entry(&mut op(OpKind::Flush, 1, Buf::empty()), 0));
        assert_eq!(found, (FLUSH, 2, 0, [0; 4]));
    }

    #[test]
    fn a_write_carries_the_placement_identifier_at_its_index_in_the_list() {
        let mut pool = Pool::new(1 << 20).unwrap();
        let mut commands = commands(&mut pool);
        for (place, id) in [(1, 7), (2, 0x102), (3, 3)] {
            let placement = Some(Placement(place));
            let mut write = Op {
                placement,
                ..op(OpKind::Write, 0, pool.cut(16384).unwrap())
            };
            let (_, _, _, dwords) = told(&commands.entry(&mut write, 0));
            assert_eq!(dwords[2..], [31 | 2 << 20, id << 16]);
        }
    }

    #[test]
    fn an_operation_above_the_transfer_limit_is_split_into_adjacent_commands() {
        let mut pool = Pool::new(1 << 20).unwrap();
        let mut commands = commands(&mut pool);
        let mut write = Op {
            len: 150 << 10,
            placement: Some(Placement(1)),
            ..op(OpKind::Write, 0, pool.cut(150 << 10).unwrap())
        };
        assert_eq!(commands.entries(&write), 3);
        let start = write.buf.address() as u64;
        for (number, first, kib) in [(0, 16, 64), (1, 144, 64), (2, 272, 22)] {
            let entry = commands.entry(&mut write, number);
            assert_eq!(
                told(&entry),
                (
                    WRITE,
                    1,
                    kib << 10,
                    [first, 0, (kib * 2 - 1) | DATA_PLACEMENT, 7 << 16]
                )
            );
            assert_eq!(address(&entry), start + number as u64 * (64 << 10));
        }
        let exact = Op {
            len: 128 << 10,
            ..write
        };
        assert_eq!(commands.entries(&exact), 2);
        assert_eq!(commands.entries_max(8, 1 << 20), 24);
        let found = commands.entries(&op(OpKind::Deallocate, 0, Buf::empty()));
        assert_eq!(found, 1);
    }

    #[test]
    fn a_deallocation_is_one_range_in_memory_reserved_for_its_token() {
        let mut pool = Pool::new(1 << 20).unwrap();
        let mut commands = commands(&mut pool);
        let entry = commands.entry(&mut op(OpKind::Deallocate, 1, Buf::empty()), 0);
        assert_eq!(told(&entry), (DATASET_MANAGEMENT, 2, 16, [0, 4, 0, 0]));
        // The range has no attributes, and 4 blocks from block 258 on.
        assert_eq!(
            commands.ranges[48..64],
            [0, 0, 0, 0, 4, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    #[should_panic(expected = "kind: Read")]
    fn a_command_never_reaches_beyond_its_buffer() {
        let mut pool = Pool::new(1 << 20).unwrap();
        let mut commands = commands(&mut pool);
        let _op = commands.entry(&mut op(OpKind::Read, 0, pool.cut(8192).unwrap()), 0);
    }
}
