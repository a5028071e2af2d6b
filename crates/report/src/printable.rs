//! Text that comes from files and devices, made harmless for a terminal and for a page.
//!
//! A device, a stream or a directory can be called anything, and a run directory can be anybody's. A
//! control character in such a name would move the cursor, change a title or hide what stands before it.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character does something else than being seen: control characters (not newline and tab), and
/// those that change the direction of the text around them or end a line unseen.
/// Source: Unicode 16, category Cc and UAX #9, table 1.
pub fn is_unprintable(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{61c}' | '\u{feff}')
        || c.is_control() && c != '\n' && c != '\t'
}

/// `text` with `\u001b` and the like for what is not printable: in JSON, too, that is the same character.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unprintable) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_unprintable(c) {
            // Writing to a string cannot fail.
            true => drop(write!(safe, "\\u{:04x}", u32::from(c))),
            false => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_is_shown_and_the_rest_stays() {
        let plain = "reads on /dev/nvme0n1: 5 % é 日本\n\tnext";
        assert!(matches!(printable(plain), Cow::Borrowed(same) if same == plain));
        assert_eq!(printable("a\x1b[2J\r\u{9b}b\u{202e}c\u{7f}"), "a\\u001b[2J\\u000d\\u009bb\\u202ec\\u007f");
        // As a string of JSON it still says the same.
        let name = "x\u{85}y\u{202e}z";
        let json = serde_json::to_string(name).unwrap();
        assert_eq!(serde_json::from_str::<String>(&printable(&json)).unwrap(), name);
    }
}
