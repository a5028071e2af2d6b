//! Properties of the log reader for any input bytes.
//!
//! Shared by the property tests and the fuzzer.

use results::act_log::{ActLogReader, Chunk, Input, LogHeader, write_chunk, write_header};

/// Reads `bytes` with and without skipping reports, and asserts the properties. Returns true for a complete log.
pub(crate) fn assert_log_property(bytes: &[u8]) -> bool {
    // A decompressor must not panic on any input.
    let Ok(input) = Input::new(bytes) else {
        return false;
    };
    let mut reader = match ActLogReader::new(input) {
        Ok(reader) => reader,
        Err(error) => {
            assert_one_line(&error.to_string());
            return false;
        }
    };
    let mut chunks = Vec::new();
    let mut damage = None;
    for chunk in reader.by_ref() {
        match chunk {
            Ok(chunk) => chunks.push(chunk),
            Err(error) => damage = Some(error.to_string()),
        }
    }
    assert!(
        chunks
            .windows(2)
            .all(|pair| pair[0].after_sec < pair[1].after_sec),
        "times ascend"
    );
    damage.iter().for_each(|damage| assert_one_line(damage));
    assert_passing_over(bytes, &chunks, damage.is_some());
    assert_round_trip(&reader, &chunks);
    damage.is_none() && reader.truncation().is_none()
}

/// Asserts that a reader of every third second gets the same reports as a reader of all reports.
fn assert_passing_over(bytes: &[u8], chunks: &[Chunk], damaged: bool) {
    let is_selected = |after_sec: u64| after_sec.is_multiple_of(3);
    let Ok(mut reader) = Input::new(bytes)
        .map_err(drop)
        .and_then(|input| ActLogReader::new(input).map_err(drop))
    else {
        unreachable!("the same bytes were read before")
    };
    let found: Vec<Chunk> = std::iter::from_fn(|| reader.next_chunk_at(is_selected))
        .filter_map(Result::ok)
        .collect();
    let expected: Vec<&Chunk> = chunks
        .iter()
        .filter(|chunk| is_selected(chunk.after_sec))
        .collect();
    // Skipped reports are not checked, so reading can get beyond the damage.
    let common = if damaged {
        found.len().min(expected.len())
    } else {
        found.len()
    };
    assert!(
        found
            .iter()
            .take(common)
            .eq(expected
                .into_iter()
                .take(if damaged { common } else { usize::MAX }))
    );
}

fn assert_round_trip(reader: &ActLogReader<'_>, chunks: &[Chunk]) {
    let names = reader.names();
    // Written names have blanks in place of control characters, and an empty name ends the list.
    if names
        .iter()
        .any(|name| name.contains(char::is_control) || name.is_empty())
    {
        return;
    }
    let scale = reader
        .header()
        .configuration
        .iter()
        .filter(|(name, _)| name == "microsecond-histograms")
        .cloned();
    let header = LogHeader {
        configuration: scale.collect(),
        histogram_names: names.to_vec(),
        ..LogHeader::default()
    };
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = write_header(&mut text, &header);
    for Chunk {
        after_sec,
        histograms,
    } in chunks
    {
        let named: Vec<_> = names.iter().map(String::as_str).zip(histograms).collect();
        let _ = write_chunk(&mut text, *after_sec, &named);
    }
    let text_shown = String::from_utf8_lossy(&text).into_owned();
    let again =
        ActLogReader::new(&text[..]).unwrap_or_else(|error| panic!("{error}\n{text_shown}"));
    let again: Vec<Chunk> = again
        .map(|chunk| chunk.unwrap_or_else(|error| panic!("{error}\n{text_shown}")))
        .collect();
    assert!(again == chunks, "{text_shown}");
}

fn assert_one_line(message: &str) {
    assert!(!message.contains(char::is_control), "one line: {message:?}");
    assert!(
        message.len() < 64 * 1024,
        "a message can be read: {} bytes",
        message.len()
    );
}
