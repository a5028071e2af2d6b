//! Facts of any shape, as recorded in JSON, in tables of names and values.

use super::escape::text;
use super::parts::table;
use serde_json::Value;

/// Deepest nesting that is taken apart; deeper values are shown as they are.
const DEPTH_MAX: usize = 4;

/// A table of `facts`; a sentence where there are none.
pub(super) fn facts(caption: &str, facts: &Value) -> String {
    let mut pairs = Vec::new();
    flatten("", facts, 0, &mut pairs);
    if pairs.is_empty() {
        return format!("<p>{}: nothing was recorded.</p>\n", text(caption));
    }
    named_values(caption, pairs.into_iter())
}

/// A table of names and values.
pub(super) fn named_values(caption: &str, pairs: impl Iterator<Item = (String, String)>) -> String {
    let rows: Vec<Vec<String>> = pairs.map(|(name, value)| vec![text(&name), text(&value)]).collect();
    table(caption, &["what", "value"], &rows)
}

fn flatten(name: &str, value: &Value, depth: usize, pairs: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) if depth < DEPTH_MAX => {
            for (key, value) in fields {
                let name = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
                flatten(&name, value, depth + 1, pairs);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) && depth < DEPTH_MAX => {
            for (number, item) in items.iter().enumerate() {
                flatten(&format!("{name} {}", number + 1), item, depth + 1, pairs);
            }
        }
        Value::Null if name.is_empty() => {}
        _ => pairs.push((name.to_owned(), plain(value))),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => "unknown".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "none".to_owned(),
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_facts_become_lines_and_what_is_unknown_says_so() {
        let value =
            serde_json::json!({"model": "<X>", "link": {"speed": null}, "notes": ["a", 2], "parts": [{"n": 1}]});
        let html = facts("Device", &value);
        for row in
            ["model</th><td>&lt;X&gt;", "link.speed</th><td>unknown", "notes</th><td>a, 2", "parts 1.n</th><td>1"]
        {
            assert!(html.contains(row), "{row}: {html}");
        }
        assert!(facts("Host", &Value::Null).contains("nothing was recorded"));
    }
}
