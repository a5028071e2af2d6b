//! The head of an answer, the same for every command: outcome, one sentence, the next step, details, facts.

use crate::html::HtmlPage;
use crate::markdown;
use crate::words::{OutcomeLabel, Pair};
use conclusions::circumstances::Circumstances;
use results::format::shell_quoted;
use results::judge::{Headline, Outcome};

#[derive(Debug, Clone)]
pub struct Head {
    /// Object and question, the title of a page.
    pub title: String,
    pub(crate) label: OutcomeLabel,
    pub headline: Headline,
    /// Sentences that the headline does not repeat.
    pub details: Vec<String>,
    pub facts: Vec<Pair>,
    /// Command line, if known.
    pub command: Vec<String>,
}

impl Head {
    pub fn new(title: String, outcome: Outcome, headline: Headline) -> Self {
        Self::labelled(title, &outcome.to_string(), Some(outcome), headline)
    }

    /// `word` is shown in place of the outcome. `look`: outcome that gives colour and sign; `None` if unfinished.
    pub(crate) fn labelled(
        title: String,
        word: &str,
        look: Option<Outcome>,
        headline: Headline,
    ) -> Self {
        Self {
            title,
            label: OutcomeLabel {
                text: word.to_owned(),
                look,
            },
            headline,
            details: Vec::new(),
            facts: Vec::new(),
            command: Vec::new(),
        }
    }

    /// Adds drives, host and command.
    pub fn under(mut self, circumstances: &Circumstances) -> Self {
        for drive in &circumstances.drives {
            self.fact("Drive", drive);
        }
        if let Some(host) = &circumstances.host {
            self.fact("Host", host);
        }
        self.command.clone_from(&circumstances.command);
        self
    }

    pub fn fact(&mut self, name: &str, value: impl Into<String>) {
        self.facts.push(Pair::new(name, value.into()));
    }

    /// Outcome and sentence, the next step, details.
    pub fn text(&self) -> String {
        let mut text = format!("{}: {}\n", self.label.text, self.headline);
        text.extend(self.details.iter().map(|line| format!("  {line}\n")));
        text
    }

    pub fn facts_text(&self) -> String {
        let line = |fact: &Pair| format!("  {}: {}\n", fact.name, fact.value);
        self.facts.iter().map(line).collect()
    }

    pub fn markdown(&self) -> String {
        markdown::head(self)
    }

    /// A page that begins with this head.
    pub fn page(&self) -> HtmlPage {
        let mut page = HtmlPage::new(&self.title);
        page.head(self);
        page
    }

    /// The command line, quoted for a shell; `None` if unknown.
    pub(crate) fn command_text(&self) -> Option<String> {
        let quoted: Vec<_> = self.command.iter().map(|word| shell_quoted(word)).collect();
        (!quoted.is_empty()).then(|| quoted.join(" "))
    }
}
