//! Inputs for parsers by mutating examples, for a given time: a stand-in for cargo-fuzz on stable Rust.

use crate::{Target, read_text};
use std::error::Error;
use std::io;
use std::panic::catch_unwind;
use std::time::{Duration, Instant};
use sys::random::Random;

/// Inputs between two looks at the clock.
const BATCH: u64 = 256;

/// Tries inputs for `seconds`; with `only` none but the input of that number.
pub fn fuzz(target: &Target, seconds: u64, seed: u64, only: Option<u64>) -> Result<(), Box<dyn Error>> {
    let corpus = Corpus::of(target)?;
    println!("fuzzing for {seconds} s with seed {seed}");

    let mut random = Random::new(seed);
    let end = Instant::now() + Duration::from_secs(seconds);
    let (mut inputs, mut valid) = (0_u64, 0_u64);
    let goes_on = |inputs: u64| match only {
        Some(only) => inputs <= only,
        None => !inputs.is_multiple_of(BATCH) || Instant::now() < end,
    };
    while goes_on(inputs) {
        let input = corpus.input(&mut random);
        if only.is_none_or(|only| only == inputs) {
            let Ok(is_valid) = catch_unwind(|| (target.property)(&input)) else {
                let again = format!(
                    "repeat it with: cargo run -p flashproof-fuzzed -- {} {seconds} {seed} {inputs}",
                    target.name
                );
                return Err(format!("input {inputs} of seed {seed} broke a property; {again}").into());
            };
            valid += u64::from(is_valid);
        }
        inputs += 1;
    }
    println!("{inputs} inputs, {valid} of them {}: no panic, and each valid one reads back", target.valid);
    Ok(())
}

/// Raw material of inputs.
struct Corpus {
    files: Vec<Vec<u8>>,
    lines: Vec<Vec<u8>>,
    dictionary: Vec<Vec<u8>>,
}

impl Corpus {
    fn of(target: &Target) -> io::Result<Self> {
        let files = (target.examples)()?;
        let from_files = files.iter().flat_map(|file| file.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec));
        let texts = |dir: &str, ending: &str| read_text(&format!("../fuzz/{dir}/{}.{ending}", target.name));
        let own = texts("lines", "txt")?.lines().map(|line| [&unescaped(line)[..], b"\n"].concat()).collect::<Vec<_>>();
        let lines = from_files.chain(own).collect();
        let dictionary = texts("dict", "dict")?.lines().map(|piece| unescaped(&piece[1..piece.len() - 1])).collect();
        Ok(Self { files, lines, dictionary })
    }

    /// An example with lines added and up to eight mutations, often none.
    fn input(&self, random: &mut Random) -> Vec<u8> {
        let mut input = pick(&self.files, random).clone();
        for _ in 0..random.below(4) {
            let line = pick(&self.lines, random);
            let at = line_start(&input, random);
            input.splice(at..at, line.iter().copied());
        }
        for _ in 0..random.below(9).saturating_sub(3) {
            self.mutate(&mut input, random);
        }
        input
    }

    fn mutate(&self, input: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(input.len() as u64 + 1) as usize;
        let end = (at + random.below(8) as usize).min(input.len());
        match random.below(6) {
            0 => drop(input.drain(at..end)),
            1 => drop(input.splice(at..end, pick(&self.dictionary, random).iter().copied())),
            2 => drop(input.splice(at..at, pick(&self.dictionary, random).iter().copied())),
            3 => input.insert(at, random.next_u64() as u8),
            4 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            _ => {
                let line = line_start(input, random);
                input.truncate(line);
            }
        }
    }
}

/// The bytes that `text` stands for: `\xNN` is one, and so are `\n`, `\t`, `\\` and `\"`.
fn unescaped(text: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [byte, tail @ ..] = rest {
        let (byte, tail) = match (byte, tail) {
            (b'\\', [b'x', digits @ ..]) => {
                let number = digits.get(..2).and_then(|digits| str::from_utf8(digits).ok());
                (number.and_then(|digits| u8::from_str_radix(digits, 16).ok()).expect("two digits"), &digits[2..])
            }
            (b'\\', [b'n', tail @ ..]) => (b'\n', tail),
            (b'\\', [b't', tail @ ..]) => (b'\t', tail),
            (b'\\', [byte, tail @ ..]) => (*byte, tail),
            (byte, tail) => (*byte, tail),
        };
        bytes.push(byte);
        rest = tail;
    }
    bytes
}

fn pick<'a, T>(items: &'a [T], random: &mut Random) -> &'a T {
    &items[random.below(items.len() as u64) as usize]
}

/// Start of a random line.
fn line_start(input: &[u8], random: &mut Random) -> usize {
    let at = random.below(input.len() as u64 + 1) as usize;
    input[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_and_lines_of_each_target_are_what_they_stand_for() {
        assert_eq!(unescaped("a\\x00\\\"\\\\\\n\\xff"), b"a\0\"\\\n\xff");
        for target in &crate::TARGETS {
            let corpus = Corpus::of(target).unwrap();
            assert!(!corpus.files.is_empty() && corpus.dictionary.len() > 6, "{}", target.name);
            assert!(corpus.lines.len() > corpus.files.len(), "{}", target.name);
        }
    }
}
