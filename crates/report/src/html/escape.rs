//! Text that comes from files, made harmless for the place where it enters the page.

use crate::printable::is_unprintable;

/// A text for the content of an element or for an attribute in double quotes.
pub(super) fn text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c if is_unprintable(c) => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

/// JSON for the content of a script element: no `<` in it, so it can neither end the element nor begin
/// a comment. In JSON, `<` stands in strings only.
pub(super) fn json(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_a_file_becomes_markup() {
        assert_eq!(text("<b a=\"1\">&'\u{7}"), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;\u{fffd}");
        let name = "</script><script>alert(1)</script><!--";
        let json = json(&serde_json::to_string(name).unwrap());
        assert!(!json.contains('<'), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), name);
    }
}
