//! A pattern of bytes, as `verify_pattern` and `buffer_pattern` give it. Source: fio's `lib/pattern.c`.

/// Bytes of a pattern at most, as fio.
const BYTES_MAX: usize = 512;

/// Bytes of an offset in a pattern.
const OFFSET_BYTES: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filler {
    bytes: Vec<u8>,
    /// Where the offset of the block belongs.
    offsets: Vec<usize>,
}

impl Filler {
    /// The pattern `text`: strings in quotes, decimal and hexadecimal numbers, and `%o` if `has_offsets`, one after the
    /// other. No file is read, whose name fio takes between apostrophes.
    pub(super) fn parse(text: &str, has_offsets: bool) -> Result<Self, String> {
        let (mut pattern, mut rest) = (Self::default(), text.trim());
        while !rest.is_empty() {
            rest = match rest.as_bytes()[0] {
                b'\'' => return Err("flashproof reads no pattern from a file; write its bytes as 0x...".into()),
                b'"' => {
                    let (string, rest) = rest[1..].split_once('"').ok_or("a string has no quote at its end")?;
                    pattern.bytes.extend_from_slice(string.as_bytes());
                    rest
                }
                b'%' if has_offsets && rest.starts_with("%o") => {
                    pattern.offsets.push(pattern.bytes.len());
                    pattern.bytes.extend_from_slice(&[0; OFFSET_BYTES]);
                    &rest[2..]
                }
                _ => pattern.number(rest)?,
            };
            if pattern.bytes.len() > BYTES_MAX {
                return Err(format!("it has more than {BYTES_MAX} bytes"));
            }
        }
        if pattern.bytes.is_empty() { Err("it is empty".into()) } else { Ok(pattern) }
    }

    /// Adds the number at the beginning of `text`; returns what is behind.
    fn number<'a>(&mut self, text: &'a str) -> Result<&'a str, String> {
        let end_of = |text: &str, is_digit: fn(char) -> bool| text.find(|c| !is_digit(c)).unwrap_or(text.len());
        let is_next_hex = |rest: &str| rest.starts_with(['x', 'X']);
        if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            let mut end = end_of(digits, |c| c.is_ascii_hexdigit());
            // In 0xff0x14 the second 0 begins a number.
            end -= usize::from(is_next_hex(&digits[end..]) && digits[..end].ends_with('0'));
            if end == 0 {
                return Err("there are no digits after 0x".into());
            }
            let value = |digit: u8| char::from(digit).to_digit(16).unwrap_or(0) as u8;
            // Of an odd number of digits the first is a byte of its own.
            let (odd, pairs) = digits.as_bytes()[..end].split_at(end % 2);
            self.bytes.extend(odd.iter().map(|digit| value(*digit)));
            self.bytes.extend(pairs.as_chunks::<2>().0.iter().map(|[high, low]| value(*high) << 4 | value(*low)));
            return Ok(&digits[end..]);
        }
        let sign = usize::from(text.starts_with(['-', '+']));
        let mut end = sign + end_of(&text[sign..], |c| c.is_ascii_digit());
        end -= usize::from(is_next_hex(&text[end..]) && end > 1 && text[..end].ends_with('0'));
        let number = text[..end].parse::<i32>().map_err(
            |_| "a pattern is of \"strings\", numbers, 0xhex and, for verify_pattern, %o, without anything in between",
        )?;
        // Little-endian, without the zeros in front.
        let bytes = number.to_le_bytes();
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
        self.bytes.extend_from_slice(&bytes[..used]);
        Ok(&text[end..])
    }

    pub(super) fn has_offsets(&self) -> bool {
        !self.offsets.is_empty()
    }

    /// Fills `data` with what the pattern has `from` bytes behind the beginning of the block at `offset`.
    pub(super) fn fill(&self, data: &mut [u8], from: usize, offset: u64) {
        let len = self.bytes.len();
        let mut at = 0;
        while at < data.len() {
            let part = (from + at) % len;
            let count = (len - part).min(data.len() - at);
            data[at..at + count].copy_from_slice(&self.bytes[part..part + count]);
            at += count;
        }
        let value = offset.to_le_bytes();
        for place in self.offsets.iter().flat_map(|start| (0..OFFSET_BYTES).map(move |byte| (start + byte, byte))) {
            let first = (place.0 + len - from % len) % len;
            data.iter_mut().skip(first).step_by(len).for_each(|byte| *byte = value[place.1]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Vec<u8> {
        Filler::parse(text, true).unwrap_or_else(|why| panic!("{text}: {why}")).bytes
    }

    #[test]
    fn patterns_are_those_of_fios_examples() {
        // The examples beside parse_and_fill_pattern().
        assert_eq!(bytes("\"abcd\""), *b"abcd");
        assert_eq!(bytes("-1024"), [0x00, 0xfc, 0xff, 0xff]);
        assert_eq!(bytes("66"), [0x42]);
        assert_eq!(bytes("0xFF0X1"), [0xff, 0x01]);
        assert_eq!(bytes("%o"), [0; 8]);
        assert_eq!(bytes("\"123\"0xFFeeCC"), [0x31, 0x32, 0x33, 0xff, 0xee, 0xcc]);
        assert_eq!(bytes("-100xab\"1\"%o\"2\""), [0xf6, 0xff, 0xff, 0xff, 0xab, 0x31, 0, 0, 0, 0, 0, 0, 0, 0, 0x32]);
        assert_eq!(bytes("%o0xdeadbeef%o").len(), 20);
        assert_eq!(bytes(&format!("0x{}", "fe".repeat(21))), [0xfe; 21]);
        assert_eq!((bytes("0"), bytes("256"), bytes("0xabc")), (vec![0], vec![0, 1], vec![0x0a, 0xbc]));
        for wrong in ["", "\"a", "0x", "%p", "1 2", "99999999999", "'file'", "-", "é"] {
            assert!(Filler::parse(wrong, true).is_err(), "{wrong}");
        }
        assert!(Filler::parse("%o", false).is_err() && Filler::parse(&"1".repeat(9), true).is_ok());
        assert!(Filler::parse(&format!("0x{}", "00".repeat(513)), true).is_err());
    }

    #[test]
    fn a_part_is_cut_out_of_the_whole() {
        let pattern = Filler::parse("\"ab\"%o", true).unwrap();
        let mut whole = [0; 95];
        pattern.fill(&mut whole, 0, 0x1122);
        assert_eq!(whole[..14], [b'a', b'b', 0x22, 0x11, 0, 0, 0, 0, 0, 0, b'a', b'b', 0x22, 0x11]);
        for from in 0..30 {
            let mut part = [9; 65];
            pattern.fill(&mut part, from, 0x1122);
            assert_eq!(part, whole[from..from + 65], "{from}");
        }
    }
}
