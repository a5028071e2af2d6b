//! Labels, names and times in superblocks, by which a user knows the data. Text from a device is hostile: it is bounded
//! and quoted. Sources: see [`super::signatures`].

use super::contents::{Contents, little_endian};
use results::format;
use std::fmt::Write;

/// Label, UUID or name by which a user knows the data: `label "backup"`. Arguments: the device, the first byte of the
/// format, and the byte of its magic number.
pub(super) type DetailsReader = fn(&Contents, u64, u64) -> Vec<String>;

const TEXT_MAX: usize = 64;

pub(super) fn none(_: &Contents, _: u64, _: u64) -> Vec<String> {
    Vec::new()
}

fn named(what: &str, text: &str) -> Option<String> {
    let text: String = text
        .trim_matches([' ', '\0'])
        .chars()
        .take(TEXT_MAX)
        .collect();
    (!text.is_empty()).then(|| format!("{what} {}", format::quoted(&text)))
}

/// The text of up to `len` bytes at `at`, which ends at the first zero.
fn text(contents: &Contents, at: u64, len: usize) -> String {
    let bytes = contents.bytes(at, len).unwrap_or_default();
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}

fn label(contents: &Contents, at: u64, len: usize) -> Vec<String> {
    named("label", &text(contents, at, len))
        .into_iter()
        .collect()
}

fn label_or_uuid(contents: &Contents, (at, len): (u64, usize), uuid_at: u64) -> Vec<String> {
    let label = named("label", &text(contents, at, len));
    label
        .or_else(|| uuid(contents, uuid_at))
        .into_iter()
        .collect()
}

fn uuid(contents: &Contents, at: u64) -> Option<String> {
    let bytes = contents
        .bytes(at, 16)
        .filter(|bytes| bytes.iter().any(|byte| *byte != 0))?;
    let mut text = "UUID ".to_owned();
    for (number, byte) in bytes.iter().enumerate() {
        let dash = if matches!(number, 4 | 6 | 8 | 10) {
            "-"
        } else {
            ""
        };
        // Writing to a string cannot fail.
        let _ = write!(text, "{dash}{byte:02x}");
    }
    Some(text)
}

fn number(contents: &Contents, at: u64, len: usize) -> u64 {
    contents.bytes(at, len).map_or(0, little_endian)
}

/// Serial number of the volume, from its boot sector.
fn serial(contents: &Contents, at: u64, len: usize) -> Vec<String> {
    match number(contents, at, len) {
        0 => Vec::new(),
        serial => vec![format!(
            "volume serial number {serial:0width$X}",
            width = 2 * len
        )],
    }
}

/// `on 2026-11-02`; `None` for time 0.
fn on_day(unix_s: u64) -> Option<String> {
    (unix_s > 0)
        .then(|| format::rfc3339(unix_s))
        .and_then(|time| Some(format!("on {}", time.get(..10)?)))
}

pub(super) fn ext(contents: &Contents, _: u64, magic_at: u64) -> Vec<String> {
    let start = magic_at - 0x38;
    let mut details = label_or_uuid(contents, (start + 0x78, 16), start + 0x68);
    let directory = text(contents, start + 0x88, 64);
    let mounted = on_day(number(contents, start + 0x2c, 4));
    match (named("last mounted at", &directory), mounted) {
        (Some(at), Some(on)) => details.push(format!("{at} {on}")),
        (Some(at), None) => details.push(at),
        (None, Some(on)) => details.push(format!("last mounted {on}")),
        (None, None) => details
            .extend(on_day(number(contents, start + 0x108, 4)).map(|on| format!("made {on}"))),
    }
    details
}

pub(super) fn xfs(contents: &Contents, _: u64, start: u64) -> Vec<String> {
    label_or_uuid(contents, (start + 108, 12), start + 32)
}

pub(super) fn btrfs(contents: &Contents, _: u64, magic_at: u64) -> Vec<String> {
    let start = magic_at - 0x40;
    label_or_uuid(contents, (start + 0x12b, 256), start + 0x20)
}

pub(super) fn ntfs(contents: &Contents, _: u64, magic_at: u64) -> Vec<String> {
    serial(contents, magic_at - 3 + 0x48, 8)
}

pub(super) fn exfat(contents: &Contents, _: u64, magic_at: u64) -> Vec<String> {
    serial(contents, magic_at - 3 + 0x64, 4)
}

pub(super) fn fat(contents: &Contents, _: u64, magic_at: u64) -> Vec<String> {
    match text(contents, magic_at - 11, 11) {
        unnamed if unnamed.trim_end() == "NO NAME" => serial(contents, magic_at - 15, 4),
        label => named("label", &label).into_iter().collect(),
    }
}

pub(super) fn f2fs(contents: &Contents, _: u64, start: u64) -> Vec<String> {
    let units = contents
        .bytes(start + 0x7c, 2 * TEXT_MAX)
        .unwrap_or_default()
        .chunks_exact(2);
    let units: Vec<u16> = units
        .map(|unit| little_endian(unit) as u16)
        .take_while(|unit| *unit != 0)
        .collect();
    let label = named("label", &String::from_utf16_lossy(&units));
    label
        .or_else(|| uuid(contents, start + 0x6c))
        .into_iter()
        .collect()
}

pub(super) fn jfs(contents: &Contents, _: u64, start: u64) -> Vec<String> {
    label_or_uuid(contents, (start + 152, 16), start + 136)
}

pub(super) fn nilfs(contents: &Contents, _: u64, start: u64) -> Vec<String> {
    label_or_uuid(contents, (start + 168, 80), start + 152)
}

pub(super) fn reiserfs(contents: &Contents, _: u64, magic_at: u64) -> Vec<String> {
    label_or_uuid(contents, (magic_at + 0x30, 16), magic_at + 0x20)
}

pub(super) fn gfs2(contents: &Contents, _: u64, start: u64) -> Vec<String> {
    named("lock table", &text(contents, start + 160, 64))
        .into_iter()
        .collect()
}

pub(super) fn vmfs(contents: &Contents, _: u64, start: u64) -> Vec<String> {
    label(contents, start + 29, 128)
}

pub(super) fn iso(contents: &Contents, _: u64, magic_at: u64) -> Vec<String> {
    label(contents, magic_at + 39, 32)
}

pub(super) fn swap(contents: &Contents, start: u64, _: u64) -> Vec<String> {
    label_or_uuid(contents, (start + 0x41c, 16), start + 0x40c)
}

pub(super) fn luks(contents: &Contents, _: u64, start: u64) -> Vec<String> {
    // Version 1 has no label.
    let label =
        (contents.bytes(start + 6, 2) == Some(&[0, 2])).then(|| text(contents, start + 24, 48));
    let label = label.and_then(|label| named("label", &label));
    label
        .or_else(|| named("UUID", &text(contents, start + 168, 40)))
        .into_iter()
        .collect()
}

pub(super) fn md(contents: &Contents, _: u64, start: u64) -> Vec<String> {
    let name = named("array", &text(contents, start + 32, 32));
    name.or_else(|| uuid(contents, start + 16))
        .into_iter()
        .collect()
}

/// Name of the volume group, with which LVM's metadata begins (offset: in the header of the metadata area); without
/// metadata the ID of the physical volume.
pub(super) fn lvm(contents: &Contents, start: u64, magic_at: u64) -> Vec<String> {
    let area = start + 4096;
    let metadata = text(
        contents,
        area.saturating_add(number(contents, area + 40, 8)),
        2 * TEXT_MAX,
    );
    let group = metadata
        .split_once(" {")
        .and_then(|(group, _)| named("volume group", group));
    let id = || named("physical volume ID", &text(contents, magic_at + 8, 32));
    group.or_else(id).into_iter().collect()
}

pub(super) fn asm(contents: &Contents, _: u64, magic_at: u64) -> Vec<String> {
    named("disk", &text(contents, magic_at + 8, 24))
        .into_iter()
        .collect()
}

/// Name of the pool, from the configuration of a ZFS label: a list of pairs in XDR. A pair of type 9 is a text, after
/// its length.
pub(super) fn zfs(contents: &Contents, label_at: u64) -> Vec<String> {
    const NAME: &[u8] = b"\0\0\0\x04name\0\0\0\x09\0\0\0\x01";
    let pairs = contents
        .bytes(label_at + (16 << 10), 112 << 10)
        .unwrap_or_default();
    let name = pairs
        .windows(NAME.len())
        .position(|pair| pair == NAME)
        .and_then(|at| {
            let value = pairs.get(at + NAME.len()..)?;
            let length = u32::from_be_bytes(*value.first_chunk()?) as usize;
            named(
                "pool",
                &String::from_utf8_lossy(value.get(4..)?.get(..length.min(256))?),
            )
        });
    name.into_iter().collect()
}
