//! Who may allow an erasure, and how: by names given beforehand ([`super::names`]), or by typing the name.
//!
//! The guard asks once for each device on which it found something, after every device of the run
//! has passed all checks that cannot be overruled. How the question is put is the caller's: a
//! closure, so that tests and other front ends can answer.

use super::evidence::Evidence;
use super::names::{Lasting, Match, Names};
use super::refusal::{Reason, list};
use crate::discover::{DeviceFacts, Roots};
use results::units;
use std::fmt;
use std::io::{self, BufRead, IsTerminal, Write};

/// What would be erased.
#[derive(Debug)]
pub struct Question<'a> {
    /// The name as given: what must be typed.
    pub name: &'a str,
    /// What the device is.
    pub facts: &'a DeviceFacts,
    /// What is on it: at least one thing.
    pub evidence: &'a [Evidence],
}

impl fmt::Display for Question<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.facts;
        let about = [
            facts.model.clone(),
            facts.serial.as_ref().map(|serial| format!("serial {serial}")),
            facts.wwid.as_ref().map(|wwid| format!("wwid {wwid}")),
        ];
        let about: String = about.into_iter().flatten().map(|text| format!("{text}, ")).collect();
        writeln!(f, "{} ({about}{}) holds: {}", self.name, units::bytes(facts.size_bytes as f64), list(self.evidence))?;
        write!(f, "This test ERASES it. To go on type the name, {}: ", self.name)
    }
}

/// Puts a question; `None` when nobody is there to answer.
pub type Asker<'a> = dyn FnMut(&Question<'_>) -> Option<String> + 'a;

/// The answers of one run.
#[derive(Default)]
pub struct Answers<'a> {
    named: Vec<String>,
    ask: Option<Box<Asker<'a>>>,
}

impl<'a> Answers<'a> {
    /// Allows the erasure of devices by their names: paths, serial numbers, world-wide names.
    pub fn named(names: impl IntoIterator<Item = String>) -> Self {
        Self { named: names.into_iter().collect(), ask: None }
    }

    /// Has `ask` put the question for every other device.
    #[must_use]
    pub fn or_ask(mut self, ask: impl FnMut(&Question<'_>) -> Option<String> + 'a) -> Self {
        self.ask = Some(Box::new(ask));
        self
    }

    /// Whether somebody may be asked.
    pub(super) fn can_ask(&self) -> bool {
        self.ask.is_some()
    }

    /// Whether what the question is about may be erased.
    ///
    /// A path was perhaps written into a script before the last reboot, and then it may lead to another drive:
    /// it is not enough where something is on the drive that has an owner. Who sits at a terminal sees what
    /// the path means now.
    pub(super) fn decide(&mut self, question: &Question<'_>, roots: &Roots) -> Result<(), Reason> {
        let names = Names::of(question.facts, roots);
        let needs_lasting = names.lasting().is_some() && question.evidence.iter().any(Evidence::has_owner);
        let mut how = Ask::Name;
        for name in &self.named {
            match names.matches(name) {
                Match::Lasting => return Ok(()),
                Match::Path if !needs_lasting => return Ok(()),
                Match::Path => how = Ask::Path(name.clone()),
                Match::Ambiguous(others) => how = Ask::Ambiguous { name: name.clone(), others },
                Match::Other => {}
            }
        }
        let typed = self.ask.as_mut().and_then(|ask| ask(question));
        match typed.as_deref().map(str::trim).filter(|typed| !typed.is_empty()) {
            Some(typed) if matches!(names.matches(typed), Match::Path | Match::Lasting) => return Ok(()),
            Some(typed) => how = Ask::Typed(typed.to_owned()),
            None => {}
        }
        let advice = how.advice(question.name, &names);
        Err(Reason::NotConfirmed { evidence: question.evidence.to_vec(), advice })
    }
}

/// What was answered, hence how to answer better.
enum Ask {
    /// Nothing was typed; other devices may have been named.
    Name,
    /// A path was given that may lead to another drive after a reboot, and there is more than nameless data on it.
    Path(String),
    /// A name was given that other drives have too.
    Ambiguous {
        /// The name.
        name: String,
        /// The others.
        others: Vec<String>,
    },
    /// Something else was typed.
    Typed(String),
}

impl Ask {
    /// How to say better that the device called `given` may go.
    fn advice(&self, given: &str, names: &Names<'_>) -> String {
        let text = names.to_give(given);
        let pass = format!("pass `--erase {text}` or set FLASHPROOF_ERASE={text}");
        let why = match names.lasting() {
            Some(Lasting { what, .. }) => format!("{what}; {given} may be another drive after a reboot"),
            None => "exactly as the device was given".to_owned(),
        };
        match self {
            Self::Name => format!("{pass} ({why})"),
            Self::Path(path) => format!("{pass} ({why}, so `{path}` is not enough for what is on it)"),
            Self::Ambiguous { name, others } => format!("{pass}; `{name}` names {} too", others.join(" and ")),
            Self::Typed(typed) => format!("type exactly `{given}` (`{typed}` was typed)"),
        }
    }
}

/// The names in `--erase` options and in the value of `FLASHPROOF_ERASE`, where commas or spaces separate them.
pub fn erase_names(options: &[String], variable: Option<&str>) -> Vec<String> {
    let all = options.iter().map(String::as_str).chain(variable);
    all.flat_map(|text| text.split([',', ' ', '\t', '\n'])).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Asks on the terminal: the question on standard error, the answer from standard input. Where
/// either is no terminal nobody is asked.
pub fn ask_on_terminal(question: &Question<'_>) -> Option<String> {
    let (input, mut output) = (io::stdin(), io::stderr());
    if !input.is_terminal() || !output.is_terminal() {
        return None;
    }
    write!(output, "{question}").and_then(|()| output.flush()).ok()?;
    let mut typed = String::new();
    input.lock().read_line(&mut typed).ok()?;
    Some(typed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::discover::facts_of_new_file;

    fn decide(mut answers: Answers<'_>) -> Result<(), String> {
        let facts =
            DeviceFacts { model: Some("ACME Fast".into()), size_bytes: 960_197_124_096, ..facts_of_new_file("/dev/x") };
        let evidence = [Evidence::PartitionTable { name: "a GPT partition table", partitions: Some(3) }];
        let question = Question { name: "/dev/x", facts: &facts, evidence: &evidence };
        assert_eq!(
            question.to_string(),
            "/dev/x (ACME Fast, 960 GB) holds: a GPT partition table with 3 partitions\n\
             This test ERASES it. To go on type the name, /dev/x: "
        );
        answers.decide(&question, &Roots::default()).map_err(|reason| reason.to_string())
    }

    #[test]
    fn only_the_exact_name_allows_it() {
        assert!(decide(Answers::named(["/dev/x".to_owned()])).is_ok());
        assert!(decide(Answers::default().or_ask(|_| Some("/dev/x\n".into()))).is_ok());
        for wrong in ["/dev/", "/dev/x1", "x", "yes", "*"] {
            let named = decide(Answers::named([wrong.to_owned()])).unwrap_err();
            assert!(
                named.ends_with(
                    "pass `--erase /dev/x` or set FLASHPROOF_ERASE=/dev/x (exactly as the device was given)"
                ),
                "{named}"
            );
            let typed = decide(Answers::default().or_ask(|_| Some(wrong.into()))).unwrap_err();
            assert!(typed.ends_with(&format!("type exactly `/dev/x` (`{wrong}` was typed)")), "{typed}");
        }
    }

    #[test]
    fn silence_is_no_consent() {
        for answer in [None, Some(""), Some("\n")] {
            let text = decide(Answers::default().or_ask(|_| answer.map(str::to_owned))).unwrap_err();
            assert!(
                text.starts_with("a GPT partition table with 3 partitions; it would be erased: if that is meant, pass"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_named_device_is_not_asked_for() {
        assert!(decide(Answers::named(["/dev/x".to_owned()]).or_ask(|_| panic!("asked"))).is_ok());
    }

    #[test]
    fn names_come_from_options_and_variable_alike() {
        let names = erase_names(&["/dev/a".into(), "/dev/b,/dev/c".into()], Some(" /dev/d /dev/e,"));
        assert_eq!(names, ["/dev/a", "/dev/b", "/dev/c", "/dev/d", "/dev/e"]);
        assert!(erase_names(&[], None).is_empty());
    }
}
