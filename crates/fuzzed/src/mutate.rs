//! Inputs for parsers by mutating examples, for a given time: a stand-in for cargo-fuzz on stable Rust.

use crate::Target;
use std::error::Error;
use std::panic::catch_unwind;
use std::time::{Duration, Instant};
use sys::random::Random;

/// Inputs between two looks at the clock.
const BATCH: u64 = 256;

/// Tries inputs for `seconds`; with `only` none but the input of that number.
pub fn fuzz(target: &Target, seconds: u64, seed: u64, only: Option<u64>) -> Result<(), Box<dyn Error>> {
    let corpus = (target.corpus)()?;
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
                let input = String::from_utf8_lossy(&input);
                let again = format!(
                    "repeat it with: cargo run -p flashproof-fuzzed -- {} {seconds} {seed} {inputs}",
                    target.name
                );
                return Err(format!("input {inputs} of seed {seed} broke a property; {again}\n{input}").into());
            };
            valid += u64::from(is_valid);
        }
        inputs += 1;
    }
    println!("{inputs} inputs, {valid} of them {}: no panic, and each valid one reads back", target.valid);
    Ok(())
}

/// Raw material of inputs.
pub struct Corpus {
    files: Vec<Vec<u8>>,
    lines: Vec<Vec<u8>>,
    dictionary: Vec<Vec<u8>>,
}

impl Corpus {
    /// Examples, lines that they do not have, and pieces that parsers stumble over.
    pub(crate) fn of(files: Vec<Vec<u8>>, own_lines: &[&str], dictionary: &[&[u8]]) -> Self {
        let from_files = files.iter().flat_map(|file| file.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec));
        let own = own_lines.iter().map(|line| line.as_bytes().to_vec());
        let (lines, dictionary) =
            (from_files.chain(own).collect(), dictionary.iter().map(|piece| piece.to_vec()).collect());
        Self { files, lines, dictionary }
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

fn pick<'a, T>(items: &'a [T], random: &mut Random) -> &'a T {
    &items[random.below(items.len() as u64) as usize]
}

/// Start of a random line.
fn line_start(input: &[u8], random: &mut Random) -> usize {
    let at = random.below(input.len() as u64 + 1) as usize;
    input[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1)
}
