//! Bytes that nobody meant: of a device, and of a server's replies.

#[path = "common/device_property.rs"]
mod device_property;
#[path = "common/replies_property.rs"]
mod replies_property;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use sys::random::Random;

/// Examples with some bytes changed, left out or put in.
fn mutated(examples: &[Vec<u8>], count: u64, is_valid: impl Fn(&[u8]) -> bool) -> u64 {
    let mut valid = 0;
    for seed in 0..count {
        let mut random = Random::new(seed);
        let mut input = examples[random.below(examples.len() as u64) as usize].clone();
        for _ in 0..random.below(12) {
            let at = random.below(input.len() as u64) as usize;
            let byte = [0, 0xff, 0x7f, b',', b'[', random.next_u64() as u8][random.below(6) as usize];
            match random.below(8) {
                0 if input.len() > 1 => _ = input.remove(at),
                1 => input.insert(at, byte),
                2 => input.truncate(at.max(1)),
                3 => input[at] = byte,
                _ => input[at] ^= 1 << random.below(8),
            }
        }
        let seen = catch_unwind(AssertUnwindSafe(|| is_valid(&input)));
        valid += u64::from(seen.unwrap_or_else(|panic| {
            println!("seed {seed}");
            resume_unwind(panic)
        }));
    }
    valid
}

#[test]
fn a_device_may_hold_anything() {
    let examples = device_property::examples();
    assert!(examples.iter().all(|example| device_property::assert_device_property(example)));
    let valid = mutated(&examples, 300, device_property::assert_device_property);
    assert!((100..300).contains(&valid), "{valid} had a record");
}

#[test]
fn a_server_may_answer_anything() {
    let examples = replies_property::examples();
    assert!(examples.iter().all(|example| replies_property::assert_replies_property(example)));
    assert!(mutated(&examples, 20_000, replies_property::assert_replies_property) > 5_000);
}
