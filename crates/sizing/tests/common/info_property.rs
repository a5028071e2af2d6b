//! Properties of the readers of info replies, for any input bytes.

use sizing::info::settings::{NodeSettings, ServerSetting};
use sizing::info::{InfoReplies, header_text, logs, sample_text};
use std::time::{Duration, SystemTime};

/// Reads `bytes` as a file, and each of its values in all possible forms. Returns true for a file with a device.
pub(crate) fn assert_info_property(bytes: &[u8]) -> bool {
    let replies = read(bytes);
    for namespace in replies.namespaces.values() {
        assert!(namespace.devices.len() <= 128);
        // Derived values may be missing, but never panic.
        let _ = namespace.flush_bytes(replies.build);
    }
    let text = String::from_utf8_lossy(bytes);
    let mut samples = Vec::new();
    let mut sampled = String::new();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    for (name, value) in lines.filter_map(|line| line.split_once('\t')) {
        assert_value(value);
        samples.push((name.to_owned(), value.to_owned()));
        sampled += &format!("{name}\t{value}\n");
    }
    // A written file reads back equal: the same namespaces, at one instant. Pasted lines without a tab are not written.
    let replies_of_lines = read(sampled.as_bytes());
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_271_232);
    let written = header_text("fuzz", "host:1", "BB9", replies.build) + &sample_text(at, &samples);
    let again = read(written.as_bytes());
    assert!(
        again
            .namespaces
            .keys()
            .eq(replies_of_lines.namespaces.keys())
    );
    assert!(written.contains("\n# 20261121T142712.000Z\n"), "{written}");
    replies
        .namespaces
        .values()
        .any(|namespace| !namespace.devices.is_empty())
}

fn read(bytes: &[u8]) -> InfoReplies {
    let mut replies = InfoReplies::default();
    replies.read("fuzz", bytes).expect("memory can be read");
    replies
}

fn assert_value(value: &str) {
    let sinks: Vec<_> = logs(value).collect();
    let current = NodeSettings {
        namespaces: vec![("a", value)],
        service: value,
        sinks: sinks
            .iter()
            .map(|(sink, file)| (*sink, file.as_str(), value))
            .collect(),
    };
    for change in current.changes() {
        let json = serde_json::to_string(&change).expect("it is text");
        assert_eq!(
            serde_json::from_str::<sizing::info::settings::SettingChange>(&json)
                .expect("it was written"),
            change
        );
        // The old value of a setting is found in a reply that contains this value.
        if let ServerSetting::Benchmarks { .. } = change.setting {
            assert_eq!(
                change
                    .setting
                    .value(&format!("enable-benchmarks-storage={}", change.was)),
                Some(change.was)
            );
        }
    }
}
