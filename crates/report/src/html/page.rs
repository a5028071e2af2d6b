//! A page put together piece by piece: of comparisons and of the commands that have no run directory.

use super::parts::{self, heading, list};
use super::plot::Plots;
use super::shell;
use crate::charts::Section;
use maud::{Markup, Render, html};

/// A self-contained HTML page: no network, no other file.
pub struct Page {
    title: String,
    plots: Plots,
    content: Vec<Markup>,
}

impl Page {
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), plots: Plots::default(), content: Vec::new() }
    }

    /// Adds in one box what a reader must know first; nothing of none.
    pub fn warnings(&mut self, sentences: &[String]) {
        self.content.push(html! {
            @if let [first, others @ ..] = sentences {
                p.banner role="note" { (first) @for other in others { br; (other) } }
            }
        });
    }

    /// Adds the heading of what follows.
    pub fn heading(&mut self, title: &str) {
        self.content.push(heading(2, "", title));
    }

    /// Adds tables or bars, beside each other where there is room.
    pub fn add<T: Render>(&mut self, several: &[T]) {
        self.content.push(html! { div.charts { @for one in several { (one) } } });
    }

    /// Adds a table that is shown on demand.
    pub fn folded(&mut self, summary: &str, what: &impl Render) {
        self.content.push(html! { details { summary { (summary) } (what) } });
    }

    /// Adds sentences as a list; nothing of none.
    pub fn list<T: AsRef<str>>(&mut self, sentences: &[T]) {
        self.content.push(list(sentences));
    }

    /// Adds links to other files, shown on demand: text and relative path; nothing of none.
    pub fn links(&mut self, summary: &str, links: &[(String, String)]) {
        self.content.push(html! {
            @if !links.is_empty() {
                details { summary { (summary) } ul { @for (text, path) in links { li { a href=(path) { (text) } } } } }
            }
        });
    }

    /// Adds a file as it is.
    pub fn file(&mut self, text: &str) {
        self.content.push(html! { pre { (text.trim_end()) } });
    }

    pub(crate) fn charts(&mut self, of: &Section) {
        self.content.push(parts::charts(of, "", 2, &mut self.plots));
    }

    /// The page. `made_by`: program and version.
    pub fn html(self, made_by: &str) -> String {
        let body = html! { article { h1 { (self.title) } @for part in &self.content { (part) } } };
        shell(&self.title, body, self.plots.count(), &self.plots.json(), made_by)
    }
}
