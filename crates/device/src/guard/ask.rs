//! Who may allow an erasure, and how: by exact names given beforehand, or by typing the name.
//!
//! The guard asks once for each device on which it found something, after every device of the run
//! has passed all checks that cannot be overruled. How the question is put is the caller's: a
//! closure, so that tests and other front ends can answer.

use super::evidence::Evidence;
use super::refusal::{Ask, Reason, list};
use crate::discover::DeviceFacts;
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
        let about = [facts.model.clone(), facts.serial.as_ref().map(|serial| format!("serial {serial}"))];
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
    /// Allows the erasure of devices by exactly the names under which the run was given them.
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
    pub(super) fn decide(&mut self, question: &Question<'_>) -> Result<(), Reason> {
        if self.named.iter().any(|name| name == question.name) {
            return Ok(());
        }
        let typed = self.ask.as_mut().and_then(|ask| ask(question));
        let how = match typed.as_deref().map(str::trim) {
            Some(name) if name == question.name => return Ok(()),
            Some(typed) if !typed.is_empty() => Ask::Typed(typed.to_owned()),
            _ => Ask::Name,
        };
        Err(Reason::NotConfirmed { evidence: question.evidence.to_vec(), name: question.name.to_owned(), how })
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
        answers.decide(&question).map_err(|reason| reason.to_string())
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
