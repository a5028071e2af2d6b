//! Splits a file into lines of key and value, without interpreting them.
//!
//! ```text
//!   name: value      # comment
//!   name value       the colon may be missing, as in ACT
//!   name : value     ACT takes the colon for the value here; flashproof does not
//! ```
//!
//! Files of ACT's old config helper have a title line without a `#`, which is skipped. Lines end with `\n`; space, tab
//! and `\r` are white space; `#` starts a comment anywhere. Text after the value counts as part of the value, so the
//! parser of the value rejects it. ACT drops such text silently.

use results::act_log::encoding;
use results::format::bare_start;

/// Maximum size of a configuration, bytes. 128 devices with the longest names fit twice.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Largest number of devices in one test. Source: ACT 6.6, `cfg_storage.h`.
pub const DEVICES_MAX: usize = 128;

/// Longest name of a device, in bytes: `PATH_MAX` of Linux. ACT 6.6 takes 127.
pub const DEVICE_NAME_BYTES_MAX: usize = 4095;

/// Why `bytes` cannot be a configuration, whatever its lines are.
pub fn refusal(bytes: &[u8]) -> Option<String> {
    if let Some((format, program)) = encoding(bytes) {
        return Some(format!(
            "the file is {format}, but a configuration is plain text - convert it: {program} FILE > NEW"
        ));
    }
    if bytes.len() > FILE_BYTES_MAX {
        return Some(format!(
            "the file has {} bytes or more, but a configuration has at most {FILE_BYTES_MAX} - name the file with the test's \
             configuration",
            bytes.len()
        ));
    }
    if let Some(zero_offset) = bytes.iter().position(|byte| *byte == 0) {
        return Some(format!(
            "its byte {} is 0, so it is not text - name the file with the test's configuration",
            zero_offset + 1
        ));
    }
    if let Some((number, section)) = server_section(bytes) {
        return Some(format!(
            "line {number}, \"{} {{\", begins a section: this is the configuration of a database server, not of a test - \
             \"flashproof size profile\" writes a test's configuration from the server's log",
            bare_start(section)
        ));
    }
    let is_json = matches!(bytes.trim_ascii_start(), [b'{', ..] | [b'[', b'{', ..]);
    is_json.then(|| {
        "this is JSON, not a configuration - write one \"name: value\" per line; flashproof size config writes such a file"
            .to_owned()
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyLine<T> {
    /// Line number, from 1.
    pub number: usize,
    /// Text before the colon; never empty.
    pub key: T,
    /// Text after the colon, without white space around it; may be empty.
    pub value: T,
}

/// White space of ACT's `cfg.h`, without the line end.
pub(crate) const WHITE_SPACE: [char; 3] = [' ', '\t', '\r'];

/// Start of the second line in files of ACT 3 and 4's config helper: a title without a `#`, between two lines of `#`.
const HELPER_TITLE: &[u8] = b"act config file for testing ";

/// Number (from 1) of the line of `bytes` that gives `key`; `None` if the key has its default.
pub fn line_of(bytes: &[u8], key: &str) -> Option<usize> {
    lines(bytes)
        .flatten()
        .find(|line| line.key == key)
        .map(|line| line.number)
}

/// The lines of a file that are not blank, each with its number, or its error. A byte order mark at the start is
/// skipped, and comments need not be UTF-8.
pub(crate) fn lines(bytes: &[u8]) -> impl Iterator<Item = Result<KeyLine<&str>, (usize, String)>> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    bytes
        .split(|byte| *byte == b'\n')
        .enumerate()
        .filter_map(|(index, line)| {
            let number = index + 1;
            let content = line.split(|byte| *byte == b'#').next().unwrap_or_default();
            if content.starts_with(HELPER_TITLE) {
                return None;
            }
            split(number, content)
                .map_err(|problem| (number, problem))
                .transpose()
        })
}

/// The first line that begins a section of a server's configuration, such as `namespace test {`: its number, and its
/// text before the brace. No line of ACT ends with a brace.
fn server_section(bytes: &[u8]) -> Option<(usize, &str)> {
    let lines = (1..).zip(bytes.split(|byte| *byte == b'\n'));
    lines
        .filter_map(|(number, line)| Some((number, std::str::from_utf8(line).ok()?)))
        .filter(|(_, line)| !line.contains('#'))
        .find_map(|(number, line)| Some((number, line.trim().strip_suffix('{')?.trim())))
}

/// Splits a line from which the comment was removed; `None` if the line is blank.
fn split(number: usize, content: &[u8]) -> Result<Option<KeyLine<&str>>, String> {
    let text = std::str::from_utf8(content).map_err(|error| {
        let at = error.valid_up_to();
        let byte = at + 1;
        let value = content.get(at).copied().unwrap_or_default();
        format!(
            "byte {byte} of the line is {value:#04x}, which is not UTF-8 - save the file as UTF-8"
        )
    })?;
    let text = text.trim_matches(WHITE_SPACE);
    if text.is_empty() {
        return Ok(None);
    }
    let key_len = text.find([':', ' ', '\t', '\r']).unwrap_or(text.len());
    let (key, value_text) = text.split_at(key_len);
    if key.is_empty() {
        return Err("no key before the colon - write \"name: value\"".to_owned());
    }
    let rest = value_text.trim_start_matches(WHITE_SPACE);
    if let Some((key, value)) = text.split_once('=')
        && (key.len() < key_len || rest.starts_with('='))
    {
        let key = bare_start(key.trim_matches(WHITE_SPACE));
        let value = bare_start(value.trim_matches(WHITE_SPACE));
        return Err(format!(
            "a key is followed by a colon, not by = - write \"{key}: {value}\""
        ));
    }
    let value = rest
        .strip_prefix(':')
        .unwrap_or(rest)
        .trim_start_matches(WHITE_SPACE);
    Ok(Some(KeyLine { number, key, value }))
}

/// The words of a device list, separated by commas, semicolons and white space.
pub(crate) fn device_names(value: &str) -> impl Iterator<Item = &str> {
    value
        .split(is_device_separator)
        .filter(|name| !name.is_empty())
}

pub(crate) fn is_device_separator(c: char) -> bool {
    c == ',' || c == ';' || c == '\n' || WHITE_SPACE.contains(&c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(usize, &str, &str)> {
        lines(text.as_bytes())
            .map(|line| line.unwrap())
            .map(|line| (line.number, line.key, line.value))
            .collect()
    }

    #[test]
    fn every_way_to_write_a_line_gives_the_same_key_and_value() {
        for line in [
            "a: 5",
            "a:5",
            "a 5",
            "a\t5",
            "a : 5",
            "  a:\t5  ",
            "a: 5 # five",
            "a: 5#five",
            "a:5\r",
            "\u{feff}a:5",
        ] {
            assert_eq!(pairs(line), [(1, "a", "5")], "{line:?}");
        }
    }

    #[test]
    fn a_server_configuration_is_refused_but_a_brace_in_a_comment_is_not() {
        let of_server = "# The server.\nservice {\n\tuser root\n}\nnamespace test {\n";
        results::assert_contains!(
            refusal(of_server.as_bytes()).unwrap(),
            "line 2, \"service {\", begins a section",
            "size profile"
        );
        assert_eq!(refusal(b"# service {\na: 1 # {\n"), None);
    }

    #[test]
    fn blank_lines_and_comments_are_counted_and_skipped() {
        let found = pairs("# a: 1\r\n\n   \t\n#\nb: 2\n\n  # c\nd: # nothing");
        assert_eq!(found, [(5, "b", "2"), (8, "d", "")]);
        assert_eq!(pairs(""), []);
    }

    #[test]
    fn the_title_of_acts_config_helper_is_skipped() {
        let file = "##########\nact config file for testing 1 device(s) at 3x load\n##########\n\na: 1\nact config: 2";
        assert_eq!(pairs(file), [(5, "a", "1"), (6, "act", "config: 2")]);
    }

    #[test]
    fn only_the_first_colon_separates() {
        let found = pairs("device-names: sim:size=1");
        assert_eq!(found, [(1, "device-names", "sim:size=1")]);
        assert_eq!(pairs("a:: 5"), [(1, "a", ": 5")]);
        assert_eq!(pairs("a 5: 6"), [(1, "a", "5: 6")]);
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused_except_in_comments() {
        let found: Vec<_> = lines(b"a: 1\nb: \xff\nc: 2 # \xff\n").collect();
        assert_eq!(found.len(), 3);
        let told = "byte 4 of the line is 0xff, which is not UTF-8 - save the file as UTF-8";
        assert_eq!(found[1], Err((2, told.to_owned())));
        assert!(found[2].is_ok());
    }

    #[test]
    fn an_equals_sign_after_a_key_is_refused_with_a_hint_at_the_colon() {
        for line in [
            "device-names = sim:channels=4",
            "device-names=sim:channels=4",
        ] {
            let problem = lines(line.as_bytes()).next().unwrap().unwrap_err();
            let told =
                "a key is followed by a colon, not by = - write \"device-names: sim:channels=4\"";
            assert_eq!(problem.1.to_string(), told);
        }
        let found = pairs("device-names sim:channels=4");
        assert_eq!(found, [(1, "device-names", "sim:channels=4")]);
    }

    #[test]
    fn device_names_are_split_like_act_splits_them() {
        let names: Vec<_> = device_names("/dev/a,/dev/b;/dev/c /dev/d,, ;\t/dev/e,").collect();
        assert_eq!(names, ["/dev/a", "/dev/b", "/dev/c", "/dev/d", "/dev/e"]);
        assert_eq!(device_names(" ,;").count(), 0);
    }
}
