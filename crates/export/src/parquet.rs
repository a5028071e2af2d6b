//! Parquet's format, as far as tables need it: no nested columns, one data page for each column of a row group, LZ4.
//!
//! Positions in dictionaries and differences take whole bytes instead of bits: quickly written, and LZ4 finds what repeats.
//!
//! Source: `parquet.thrift` and `Encodings.md` of apache/parquet-format 2.10.

use crate::table::{Column, Kind, Table, Values};

/// First and last bytes of a file.
pub(crate) const MAGIC: &[u8; 4] = b"PAR1";

// Numbers of `parquet.thrift`.
const BOOLEAN: usize = 0;
const INT64: usize = 2;
const DOUBLE: usize = 5;
const BYTE_ARRAY: usize = 6;
const PLAIN: usize = 0;
const RLE: usize = 3;
const DELTA_BINARY_PACKED: usize = 5;
const RLE_DICTIONARY: usize = 8;
const LZ4_RAW: usize = 7;

/// A column of a row group: the page of its dictionary, if it has one, and that of its values.
struct Chunk {
    rows: usize,
    nulls: usize,
    encoding: usize,
    dictionary_bytes: usize,
    bytes: usize,
    uncompressed_bytes: usize,
    /// Smallest and largest value.
    bounds: Option<[Vec<u8>; 2]>,
}

/// A row group in a file.
pub(crate) struct RowGroup {
    rows: usize,
    chunks: Vec<Chunk>,
}

impl RowGroup {
    /// Appends `rows` rows to `out` and forgets their values.
    pub(crate) fn encode(columns: &[Column], values: &mut [Values], rows: usize, out: &mut Vec<u8>) -> Self {
        let chunk = |(column, values): (&Column, &mut Values)| {
            let chunk = Chunk::encode(column, values, rows, out);
            values.clear();
            chunk
        };
        Self { rows, chunks: columns.iter().zip(values).map(chunk).collect() }
    }

    /// Offset of the row group that begins at `next`, which is moved behind it.
    pub(crate) fn place(&self, next: &mut u64) -> u64 {
        let bytes: usize = self.chunks.iter().map(|chunk| chunk.bytes).sum();
        std::mem::replace(next, *next + bytes as u64)
    }
}

impl Chunk {
    fn encode(column: &Column, values: &Values, rows: usize, out: &mut Vec<u8>) -> Self {
        let (begin, numbers, mut data) = (out.len(), &*values.numbers, Vec::new());
        let mut chunk = Self {
            rows,
            nulls: rows - numbers.len(),
            encoding: PLAIN,
            dictionary_bytes: 0,
            bytes: 0,
            uncompressed_bytes: 0,
            bounds: None,
        };
        if column.nullable {
            let mut levels = Vec::new();
            varint(&mut levels, (rows.div_ceil(8) as u64) << 1 | 1);
            push_bits(&mut levels, &values.defined);
            data.extend((levels.len() as u32).to_le_bytes());
            data.extend(levels);
        }
        match column.kind {
            Kind::Bool => push_bits(&mut data, &numbers.iter().map(|value| *value == 1).collect::<Vec<_>>()),
            // Times count up by one: their differences take no space.
            _ if column.name == "after_sec" => {
                chunk.encoding = DELTA_BINARY_PACKED;
                chunk.bounds = bounds(column.kind, numbers);
                push_deltas(&mut data, numbers);
            }
            _ if numbers.is_empty() => {}
            Kind::Text => {
                let mut dictionary = Vec::new();
                for text in &values.texts {
                    dictionary.extend((text.len() as u32).to_le_bytes());
                    dictionary.extend(text.as_bytes());
                }
                // Readers skip row groups by the run alone.
                let bounds = values.texts.iter().min().zip(values.texts.iter().max());
                let bounds = bounds.filter(|_| column.name == "run_id");
                chunk.bounds = bounds.map(|(least, most)| [least, most].map(|text| text.clone().into_bytes()));
                chunk.push_dictionary(out, &dictionary, values.texts.len());
                push_positions(&mut data, numbers.iter().copied(), values.texts.len());
            }
            Kind::Int | Kind::Float | Kind::Instant => match distinct(numbers) {
                Some((distinct, positions)) => {
                    chunk.bounds = bounds(column.kind, &distinct);
                    let dictionary: Vec<u8> = distinct.iter().flat_map(|value| value.to_le_bytes()).collect();
                    chunk.push_dictionary(out, &dictionary, distinct.len());
                    push_positions(&mut data, positions.into_iter().map(u64::from), distinct.len());
                }
                None => {
                    chunk.bounds = bounds(column.kind, numbers);
                    data.extend(numbers.iter().flat_map(|value| value.to_le_bytes()));
                }
            },
        }
        chunk.push_page(out, &data, false, rows, chunk.encoding);
        chunk.bytes = out.len() - begin;
        chunk
    }

    fn push_dictionary(&mut self, out: &mut Vec<u8>, dictionary: &[u8], values: usize) {
        let begin = out.len();
        self.encoding = RLE_DICTIONARY;
        self.push_page(out, dictionary, true, values, PLAIN);
        self.dictionary_bytes = out.len() - begin;
    }

    fn push_page(&mut self, out: &mut Vec<u8>, page: &[u8], is_dictionary: bool, values: usize, encoding: usize) {
        let compressed = lz4_flex::block::compress(page);
        let mut header = Thrift::default();
        header.i32(1, if is_dictionary { 2 } else { 0 });
        header.i32(2, page.len());
        header.i32(3, compressed.len());
        header.begin(if is_dictionary { 7 } else { 5 });
        header.i32(1, values);
        header.i32(2, encoding);
        if !is_dictionary {
            // Encodings of levels.
            header.i32(3, RLE);
            header.i32(4, RLE);
        }
        header.end();
        header.end();
        self.uncompressed_bytes += header.bytes.len() + page.len();
        out.extend(header.bytes);
        out.extend(compressed);
    }
}

/// The least and the largest of `numbers`. None are negative.
fn bounds(kind: Kind, numbers: &[u64]) -> Option<[Vec<u8>; 2]> {
    let bounds = if kind == Kind::Float {
        let floats = numbers.iter().map(|bits| f64::from_bits(*bits));
        let first = floats.clone().next().filter(|_| floats.clone().all(f64::is_finite))?;
        // Zero has two signs, which are equal.
        let [least, most] = [floats.clone().fold(first, f64::min), floats.fold(first, f64::max)];
        [if least == 0.0 { -0.0 } else { least }, if most == 0.0 { 0.0 } else { most }].map(f64::to_bits)
    } else {
        [*numbers.iter().min()?, *numbers.iter().max()?]
    };
    Some(bounds.map(|value| value.to_le_bytes().to_vec()))
}

/// Largest dictionary of numbers: 512 KiB.
const DISTINCT_MAX: usize = 1 << 16;

/// Slots of a hash table that are looked at for one number. More are taken by numbers made for that only.
const PROBES_MAX: usize = 64;

/// The distinct numbers, and for each number its position among them; `None` if they are so many that it is no gain.
fn distinct(numbers: &[u64]) -> Option<(Vec<u64>, Vec<u32>)> {
    let most = numbers.len().div_ceil(2).min(DISTINCT_MAX);
    let bits = (2 * most).max(2).ilog2() + 1;
    // One more than a position; 0 for a free slot.
    let mut slots = vec![0_u32; 1 << bits];
    let (mut distinct, mut positions) = (Vec::new(), Vec::with_capacity(numbers.len()));
    for &number in numbers {
        if let Some(&last) = positions.last()
            && distinct[last as usize] == number
        {
            positions.push(last);
            continue;
        }
        let first = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - bits)) as usize;
        let mut probes = (first..first + PROBES_MAX).map(|slot| slot & (slots.len() - 1));
        let is_it = |slot: &usize| slots[*slot] == 0 || distinct[slots[*slot] as usize - 1] == number;
        let slot = probes.find(is_it)?;
        if slots[slot] == 0 {
            if distinct.len() == most {
                return None;
            }
            distinct.push(number);
            slots[slot] = distinct.len() as u32;
        }
        positions.push(slots[slot] - 1);
    }
    Some((distinct, positions))
}

/// Appends positions in a dictionary of `distinct` values, as one run.
fn push_positions(out: &mut Vec<u8>, positions: impl ExactSizeIterator<Item = u64>, distinct: usize) {
    let (bytes, rows) = (bytes_of(distinct as u64 - 1).max(1), positions.len());
    out.push(bytes as u8 * 8);
    varint(out, (rows.div_ceil(8) as u64) << 1 | 1);
    out.reserve(rows.next_multiple_of(8) * bytes);
    match bytes {
        1 => out.extend(positions.map(|position| position as u8)),
        2 => out.extend(positions.flat_map(|position| (position as u16).to_le_bytes())),
        _ => positions.for_each(|position| out.extend(&position.to_le_bytes()[..bytes])),
    }
    out.resize(out.len() + (rows.next_multiple_of(8) - rows) * bytes, 0);
}

fn push_bits(out: &mut Vec<u8>, bits: &[bool]) {
    let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit));
    out.extend(bits.chunks(8).map(byte));
}

/// Differences in a block, and in each of its parts, which have widths of their own.
const BLOCK: usize = 128;
const PART: usize = 32;

fn push_deltas(out: &mut Vec<u8>, numbers: &[u64]) {
    [BLOCK, BLOCK / PART, numbers.len()].into_iter().for_each(|number| varint(out, number as u64));
    varint(out, zigzag(numbers.first().map_or(0, |first| *first as i64)));
    let deltas: Vec<_> = numbers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]) as i64).collect();
    for block in deltas.chunks(BLOCK) {
        let least = block.iter().copied().min().unwrap_or(0);
        let above = |delta: &i64| delta.wrapping_sub(least) as u64;
        let widths: Vec<_> =
            block.chunks(PART).map(|part| bytes_of(part.iter().map(above).max().unwrap_or(0))).collect();
        varint(out, zigzag(least));
        out.extend((0..BLOCK / PART).map(|part| widths.get(part).map_or(0, |bytes| *bytes as u8 * 8)));
        for (part, bytes) in block.chunks(PART).zip(widths) {
            part.iter().for_each(|delta| out.extend(&above(delta).to_le_bytes()[..bytes]));
            out.resize(out.len() + (PART - part.len()) * bytes, 0);
        }
    }
}

/// Bytes that hold a number.
fn bytes_of(number: u64) -> usize {
    (u64::BITS - number.leading_zeros()).div_ceil(8) as usize
}

fn zigzag(number: i64) -> u64 {
    (number << 1 ^ number >> 63) as u64
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// The end of a file: the description of `table`, its row groups with their offsets, and notes.
pub(crate) fn footer(table: &Table, groups: &[(u64, &RowGroup)], notes: &[(&str, &str)]) -> Vec<u8> {
    let mut to = Thrift::default();
    to.i32(1, 1);
    to.list(2, Thrift::STRUCT, 1 + table.columns.len());
    to.element(|to| {
        to.bytes(4, table.name.as_bytes());
        to.i32(5, table.columns.len());
    });
    table.columns.iter().for_each(|column| to.element(|to| push_column(to, column)));
    to.i64(3, groups.iter().map(|(_, group)| group.rows as u64).sum());
    to.list(4, Thrift::STRUCT, groups.len());
    for (offset, group) in groups {
        to.element(|to| push_group(to, table.columns, *offset, group));
    }
    to.list(5, Thrift::STRUCT, notes.len());
    for (key, value) in notes {
        to.element(|to| {
            to.bytes(1, key.as_bytes());
            to.bytes(2, value.as_bytes());
        });
    }
    to.bytes(6, concat!("flashproof version ", env!("CARGO_PKG_VERSION")).as_bytes());
    // Bounds are in the order of the types.
    to.list(7, Thrift::STRUCT, table.columns.len());
    table.columns.iter().for_each(|_| to.element(|to| to.empty(1)));
    to.end();
    let mut bytes = to.bytes;
    bytes.extend((bytes.len() as u32).to_le_bytes());
    bytes.extend(MAGIC);
    bytes
}

fn physical(kind: Kind) -> usize {
    match kind {
        Kind::Bool => BOOLEAN,
        Kind::Int | Kind::Instant => INT64,
        Kind::Float => DOUBLE,
        Kind::Text => BYTE_ARRAY,
    }
}

fn push_column(to: &mut Thrift, column: &Column) {
    to.i32(1, physical(column.kind));
    to.i32(3, usize::from(column.nullable));
    to.bytes(4, column.name.as_bytes());
    match column.kind {
        Kind::Text => {
            to.i32(6, 0);
            to.begin(10);
            to.empty(1);
            to.end();
        }
        // Milliseconds in UTC.
        Kind::Instant => {
            to.i32(6, 9);
            to.begin(10);
            to.begin(8);
            to.yes(1);
            to.begin(2);
            to.empty(1);
            to.end();
            to.end();
            to.end();
        }
        Kind::Bool | Kind::Int | Kind::Float => {}
    }
}

fn push_group(to: &mut Thrift, columns: &[Column], mut offset: u64, group: &RowGroup) {
    to.list(1, Thrift::STRUCT, columns.len());
    for (column, chunk) in columns.iter().zip(&group.chunks) {
        to.element(|to| {
            to.i64(2, 0);
            to.begin(3);
            to.i32(1, physical(column.kind));
            to.list(2, Thrift::I32, 2);
            [chunk.encoding, RLE].into_iter().for_each(|encoding| varint(&mut to.bytes, zigzag(encoding as i64)));
            to.list(3, Thrift::BINARY, 1);
            varint(&mut to.bytes, column.name.len() as u64);
            to.bytes.extend(column.name.as_bytes());
            to.i32(4, LZ4_RAW);
            to.i64(5, chunk.rows as u64);
            to.i64(6, chunk.uncompressed_bytes as u64);
            to.i64(7, chunk.bytes as u64);
            to.i64(9, offset + chunk.dictionary_bytes as u64);
            if chunk.dictionary_bytes > 0 {
                to.i64(11, offset);
            }
            to.begin(12);
            to.i64(3, chunk.nulls as u64);
            if let Some([least, most]) = &chunk.bounds {
                to.bytes(5, most);
                to.bytes(6, least);
            }
            to.end();
            to.end();
        });
        offset += chunk.bytes as u64;
    }
    to.i64(2, group.chunks.iter().map(|chunk| chunk.uncompressed_bytes as u64).sum());
    to.i64(3, group.rows as u64);
}

/// Thrift's compact protocol: fields of structs, in ascending order of their numbers.
#[derive(Default)]
struct Thrift {
    bytes: Vec<u8>,
    /// Number of the last field; and of the last ones of the structs around.
    last: u8,
    outer: Vec<u8>,
}

impl Thrift {
    const TRUE: u8 = 1;
    const I32: u8 = 5;
    const I64: u8 = 6;
    const BINARY: u8 = 8;
    const LIST: u8 = 9;
    const STRUCT: u8 = 12;

    fn field(&mut self, id: u8, kind: u8) {
        self.bytes.push((id - self.last) << 4 | kind);
        self.last = id;
    }

    fn yes(&mut self, id: u8) {
        self.field(id, Self::TRUE);
    }

    fn i32(&mut self, id: u8, value: usize) {
        self.field(id, Self::I32);
        varint(&mut self.bytes, zigzag(value as i64));
    }

    fn i64(&mut self, id: u8, value: u64) {
        self.field(id, Self::I64);
        varint(&mut self.bytes, zigzag(value as i64));
    }

    fn bytes(&mut self, id: u8, bytes: &[u8]) {
        self.field(id, Self::BINARY);
        varint(&mut self.bytes, bytes.len() as u64);
        self.bytes.extend(bytes);
    }

    fn begin(&mut self, id: u8) {
        self.field(id, Self::STRUCT);
        self.outer.push(std::mem::take(&mut self.last));
    }

    fn end(&mut self) {
        self.bytes.push(0);
        self.last = self.outer.pop().unwrap_or(0);
    }

    fn empty(&mut self, id: u8) {
        self.begin(id);
        self.end();
    }

    fn list(&mut self, id: u8, kind: u8, length: usize) {
        self.field(id, Self::LIST);
        self.bytes.push(0xf0 | kind);
        varint(&mut self.bytes, length as u64);
    }

    /// A struct in a list.
    fn element(&mut self, fields: impl FnOnce(&mut Self)) {
        self.outer.push(std::mem::take(&mut self.last));
        fields(self);
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Cell;
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::RowAccessor;
    use std::io::Write;

    const fn column(name: &'static str, kind: Kind, nullable: bool) -> Column {
        Column { name, kind, nullable, about: "" }
    }

    const TABLE: Table = Table {
        name: "all",
        about: "",
        columns: &[
            column("flag", Kind::Bool, false),
            column("after_sec", Kind::Int, false),
            column("number", Kind::Int, true),
            column("value", Kind::Float, false),
            column("text", Kind::Text, true),
        ],
    };

    /// `distinct` is the number of different numbers and texts.
    fn check(rows: usize, distinct: usize) {
        let flag = |row: usize| row.is_multiple_of(3);
        // Differences of all widths, and down again.
        let after_sec = |row: usize| if row.is_multiple_of(5) { 0 } else { (i64::MAX as u64) >> (row % 63) };
        let number = |row: usize| (!row.is_multiple_of(4)).then_some((row % distinct) as u64);
        let value = |row: usize| (row * 7 % distinct) as f64 / 8.0;
        let text = |row: usize| (!row.is_multiple_of(7)).then(|| format!("text {}", row * 3 % distinct));
        let mut bytes = MAGIC.to_vec();
        let mut values: Vec<_> = TABLE.columns.iter().map(|_| Values::default()).collect();
        let mut groups = Vec::new();
        // The second one shows that the values of the first are forgotten.
        for _ in 0..2 {
            for row in 0..rows {
                flag(row).push(&mut values[0], 1);
                after_sec(row).push(&mut values[1], 1);
                number(row).push(&mut values[2], 1);
                value(row).push(&mut values[3], 1);
                text(row).as_deref().push(&mut values[4], 1);
            }
            groups.push((bytes.len() as u64, RowGroup::encode(TABLE.columns, &mut values, rows, &mut bytes)));
        }
        let groups: Vec<_> = groups.iter().map(|(offset, group)| (*offset, group)).collect();
        bytes.extend(footer(&TABLE, &groups, &[("key", "note")]));
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&bytes).unwrap();
        let read = SerializedFileReader::new(file).unwrap();
        assert_eq!(read.metadata().num_row_groups(), 2);
        for (at, found) in read.into_iter().enumerate() {
            let (row, found) = (at % rows, found.unwrap());
            assert_eq!(found.get_bool(0).unwrap(), flag(row), "row {at} of {rows}");
            assert_eq!(found.get_long(1).unwrap() as u64, after_sec(row), "row {at} of {rows}");
            assert_eq!(found.get_long(2).ok().map(|number| number as u64), number(row), "row {at} of {rows}");
            assert_eq!(found.get_double(3).unwrap(), value(row), "row {at} of {rows}");
            assert_eq!(found.get_string(4).ok(), text(row).as_ref(), "row {at} of {rows}");
        }
    }

    #[test]
    fn what_is_written_is_what_another_implementation_reads() {
        for (rows, distinct) in [(1, 1), (8, 3), (129, 129), (1_000, 256), (1_000, 257), (3_000, 2_000)] {
            check(rows, distinct);
        }
        // Texts have a dictionary of any size: here of positions of three bytes.
        check(100_000, 90_000);
    }

    #[test]
    fn numbers_that_all_fall_into_one_slot_are_given_up_at_once() {
        // The inverse of the factor of the hash.
        let same_slot: Vec<_> = (0..100_000_u64).map(|number| number.wrapping_mul(0xf1de_83e1_9937_733d)).collect();
        assert_eq!(distinct(&same_slot), None);
        let positions = distinct(&[5, 5, 9, 5, 9, 5]).unwrap();
        assert_eq!(positions, (vec![5, 9], vec![0, 0, 1, 0, 1, 0]));
    }
}
