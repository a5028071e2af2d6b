//! Short names of devices: `sim:name=freezes+stall-ms=140+stall-every-s=60` in every sentence, table and legend pushes
//! all else aside. A page has one list of names; only headings, that list, code and files keep the long ones.

use crate::document::{Document, Report};
use maud::{Markup, html};

/// Longer names are replaced, characters.
const LONG: usize = 20;

/// Elements whose text stays.
const AS_IT_IS: [&str; 3] = ["h1", "pre", "code"];

/// Long names, each with a short one; the longest first, so that none is replaced within another.
pub(super) struct Names(Vec<(String, String)>);

impl Names {
    pub(super) fn of(document: &Document) -> Self {
        let mut names: Vec<(String, String)> = Vec::new();
        let devices = document.reports.iter().flat_map(|report| match report {
            Report::Run(run) => run.devices.iter().map(String::as_str).collect::<Vec<_>>(),
            Report::Series(series) => series.series.devices.iter().map(|device| device.name.as_str()).collect(),
        });
        for long in devices {
            let mut parameters = long.strip_prefix("sim:").into_iter().flat_map(|spec| spec.split('+'));
            let given =
                parameters.find_map(|parameter| parameter.strip_prefix("name=")).filter(|name| !name.is_empty());
            if names.iter().any(|(known, _)| known == long) || given.is_none() && long.chars().count() <= LONG {
                continue;
            }
            let given = given.filter(|given| names.iter().all(|(_, taken)| taken != given));
            names.push((long.to_owned(), given.map_or_else(|| format!("drive {}", names.len() + 1), str::to_owned)));
        }
        names.sort_by_key(|(long, _)| std::cmp::Reverse(long.len()));
        Self(names)
    }

    /// The page with short names, and their list below its first heading.
    pub(super) fn shortened(&self, page: &Markup) -> String {
        let (mut rest, mut short) = (page.0.as_str(), String::new());
        while let Some((at, name)) =
            AS_IT_IS.iter().filter_map(|name| Some((rest.find(&format!("<{name}"))?, name))).min()
        {
            let end = rest[at..].find(&format!("</{name}>")).map_or(rest.len(), |end| at + end);
            short += &self.replaced(&rest[..at], |name| html! { (name) }.into_string());
            short += &rest[at..end];
            rest = &rest[end..];
        }
        short += &self.replaced(rest, |name| html! { (name) }.into_string());
        match self.0.is_empty() {
            true => short,
            false => short.replacen("</h1>", &format!("</h1>{}", self.list().into_string()), 1),
        }
    }

    /// The JSON of charts with short names.
    pub(super) fn shortened_json(&self, json: &str) -> String {
        // Without its quotes, as `Plots::json` escapes it.
        let in_json = |name: &str| {
            let quoted = serde_json::Value::from(name).to_string().replace('<', "\\u003c");
            quoted[1..quoted.len() - 1].to_owned()
        };
        self.replaced(json, in_json)
    }

    fn replaced(&self, text: &str, escaped: impl Fn(&str) -> String) -> String {
        self.0.iter().fold(text.to_owned(), |text, (long, short)| text.replace(&escaped(long), &escaped(short)))
    }

    fn list(&self) -> Markup {
        html! { dl.facts { @for (long, short) in &self.0 { div { dt { (short) } dd { code { (long) } } } } } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_replaced_but_where_they_are_explained_or_part_of_a_file() {
        let names = Names(vec![("sim:a=1+b=<2>+c".into(), "drive 2".into()), ("sim:a=1".into(), "drive 1".into())]);
        let page = html! { h1 { "sim:a=1" } p { "sim:a=1 and sim:a=1+b=<2>+c" } pre { "sim:a=1" } };
        let short = names.shortened(&page);
        assert!(short.ends_with("<p>drive 1 and drive 2</p><pre>sim:a=1</pre>"), "{short}");
        assert!(
            short.starts_with("<h1>sim:a=1</h1><dl") && short.contains("<code>sim:a=1+b=&lt;2&gt;+c</code>"),
            "{short}"
        );
        let json = r#"{"name":"reads on sim:a=1+b=\u003c2>+c"}"#;
        assert_eq!(names.shortened_json(json), r#"{"name":"reads on drive 2"}"#);
    }
}
