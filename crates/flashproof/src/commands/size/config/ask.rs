//! The dialogue: the questions of ACT's helper in the same order, and one more question about the test.
//!
//! A value given by an option is not asked for. After an invalid answer the question is repeated. The end of the input
//! ends the dialogue, and nothing is written. Questions go to standard error, so that the configuration can go to
//! standard output.

use crate::commands::size::config::options::ConfigArgs;
use act::dialect::DEVICES_MAX;
use act::options::Test;
use act::scale::{READS_PER_SEC_1X, WRITES_PER_SEC_1X};
use act::{ActConfig, check};
use load::factor::Factor;
use results::format::seconds;
use session::failure::Failure;
use std::fmt::Display;
use std::io::{BufRead, Read, Write};
use std::path::PathBuf;

/// Maximum number of invalid answers to a question. After more, the input is probably not meant for this program.
const TRIES_MAX: u32 = 10;
/// Maximum length of an answer, longer than any device name.
const ANSWER_BYTES_MAX: u64 = 1 << 16;

/// Asks for everything that `args` lack; `input` has the answers.
pub fn ask(args: &mut ConfigArgs, input: impl BufRead, output: impl Write) -> Result<(), Failure> {
    let mut dialogue = Dialogue { input, output };
    if args.model.is_none() {
        let names = Test::ALL.map(Test::name).join(" or ");
        let question = format!("Test, {names} [{}]", Test::default().name());
        args.model = Some(dialogue.answer(&question, |answer: &str| match answer {
            "" => Ok(Test::default()),
            name => Test::named(name).ok_or_else(|| format!("give {names}")),
        })?);
    }
    if args.device.is_empty() {
        args.device = devices(&mut dialogue)?;
    }
    if args.duration.is_none() && dialogue.yes("Another duration than 24 hours?")? {
        args.duration = Some(dialogue.answer("Duration in hours, or with a unit (90m)", hours)?);
    }
    if dialogue.yes("Another load or other records than the standard ones?")? {
        details(args, &mut dialogue)?;
    }
    if !args.has_load() {
        let question = format!(
            "Load factor (1 is {READS_PER_SEC_1X} reads and {WRITES_PER_SEC_1X} writes per second for each drive)"
        );
        args.load =
            Some(dialogue.answer(&question, |answer| error_text(answer.parse::<Factor>()))?);
    }
    if args.out.is_none()
        && dialogue.yes("Write the configuration to a file? (no: to standard output)")?
    {
        let name = args.file_name();
        args.out = Some(dialogue.answer(&format!("File [{name}]"), |answer: &str| {
            Ok(PathBuf::from(if answer.is_empty() {
                &name
            } else {
                answer
            }))
        })?);
    }
    Ok(())
}

fn devices(dialogue: &mut Dialogue<impl BufRead, impl Write>) -> Result<Vec<String>, Failure> {
    let count = dialogue.answer("Number of devices", |answer| {
        number(answer, 1, DEVICES_MAX as u32)
    })?;
    let mut devices: Vec<String> = Vec::new();
    for index in 1..=count {
        let question =
            format!("Device {index} (such as /dev/nvme0n1, or /dev/nvme0n1p1 to test a partition)");
        let name = dialogue.answer(&question, |answer| {
            if answer.contains(|c: char| c == ',' || c == ';' || c.is_whitespace()) {
                return Err("give one name".to_owned());
            }
            // The configuration's rules for names apply.
            let all = [&devices[..], &[answer.to_owned()]].concat().join(" ");
            let mut tried = ActConfig::new(Test::default());
            error_text(tried.set("device-names", &all)).map(|()| answer.to_owned())
        })?;
        devices.push(name);
    }
    Ok(devices)
}

/// Asks for non-standard values.
fn details(
    args: &mut ConfigArgs,
    dialogue: &mut Dialogue<impl BufRead, impl Write>,
) -> Result<(), Failure> {
    let test = args.model.unwrap_or_default();
    if !args.has_load() && dialogue.yes("Set reads and writes per second?")? {
        let rate = |answer: &str| number(answer, 0, u32::MAX);
        let reads = dialogue.answer("Reads per second for each drive", rate)?;
        let writes = dialogue.answer("Writes per second for each drive", |answer| {
            match rate(answer)? {
                0 if reads == 0 => {
                    Err("0 reads and 0 writes are no load - give at least 1 write".to_owned())
                }
                writes => Ok(writes),
            }
        })?;
        args.per_drive = Some((reads, writes));
    }
    for (key, question) in [
        ("record-bytes", "Another record-bytes than 1536?"),
        (
            "service-threads",
            "Limit the operations in flight, as a database's threads do?",
        ),
    ] {
        let applies = act::table::find(test, key).is_some() && !args.sets(key);
        if applies && dialogue.yes(question)? {
            let value = dialogue.answer(key, |answer| {
                runnable(test, key, answer).map(|()| answer.to_owned())
            })?;
            args.set.push((key.to_owned(), value));
        }
    }
    Ok(())
}

/// Checks that a test with this value, and standard values otherwise, can run.
fn runnable(test: Test, key: &str, value: &str) -> Result<(), String> {
    let mut config = ActConfig::new(test);
    for (key, value) in [
        ("device-names", "a"),
        ("test-duration-sec", "1"),
        ("read-reqs-per-sec", "1"),
        (key, value),
    ] {
        error_text(config.set(key, value))?;
    }
    check(&config)
        .first()
        .map_or(Ok(()), |problem| Err(problem.to_string()))
}

/// Parses a duration. As in the helper, a plain number is hours.
fn hours(answer: &str) -> Result<u32, String> {
    match answer.parse::<u32>() {
        Ok(hours) => seconds(&format!("{hours}h")),
        Err(_) => seconds(answer),
    }
}

fn number(answer: &str, min: u32, max: u32) -> Result<u32, String> {
    let number = answer
        .parse()
        .ok()
        .filter(|number| (min..=max).contains(number));
    number.ok_or_else(|| format!("give a whole number from {min} to {max}"))
}

fn error_text<T, E: Display>(result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

struct Dialogue<R, W> {
    input: R,
    output: W,
}

impl<R: BufRead, W: Write> Dialogue<R, W> {
    /// Asks until the answer is valid.
    fn answer<T>(
        &mut self,
        question: &str,
        mut parse: impl FnMut(&str) -> Result<T, String>,
    ) -> Result<T, Failure> {
        for _ in 0..TRIES_MAX {
            // Write errors are ignored: if the terminal is closed, the next read fails.
            let _ = write!(self.output, "{question}: ").and_then(|()| self.output.flush());
            match parse(&self.line(question)?) {
                Ok(answer) => return Ok(answer),
                Err(why) => {
                    let _ = writeln!(self.output, "  {why}");
                }
            }
        }
        Err(Failure::usage(format!(
            "{TRIES_MAX} answers to \"{question}\" were invalid - nothing was written - see flashproof size config \
             --help for options instead of answers"
        )))
    }

    fn yes(&mut self, question: &str) -> Result<bool, Failure> {
        self.answer(&format!("{question} (y/N)"), |answer| {
            match answer.to_ascii_lowercase().as_str() {
                "y" | "yes" => Ok(true),
                "" | "n" | "no" => Ok(false),
                _ => Err("give y or n".to_owned()),
            }
        })
    }

    fn line(&mut self, question: &str) -> Result<String, Failure> {
        let mut bytes = Vec::new();
        let result = (&mut self.input)
            .take(ANSWER_BYTES_MAX)
            .read_until(b'\n', &mut bytes);
        match result {
            Err(error) => Err(Failure::environment(format!(
                "cannot read the answer to \"{question}\" - {error}"
            ))),
            // A line without a line end is an incomplete answer.
            Ok(_) if !bytes.ends_with(b"\n") => {
                let _ = writeln!(self.output);
                Err(Failure::usage(format!(
                    "the answers end at \"{question}\" - nothing was written"
                )))
            }
            Ok(_) => Ok(String::from_utf8_lossy(&bytes).trim().to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storage() -> ConfigArgs {
        ConfigArgs {
            model: Some(Test::Storage),
            ..ConfigArgs::default()
        }
    }

    fn told(answers: &str) -> (ConfigArgs, String) {
        let mut request = storage();
        let mut asked = Vec::new();
        ask(&mut request, answers.as_bytes(), &mut asked)
            .unwrap_or_else(|failure| panic!("{}", failure.message));
        (request, String::from_utf8(asked).unwrap())
    }

    fn failure(answers: &str) -> String {
        ask(&mut storage(), answers.as_bytes(), Vec::new())
            .unwrap_err()
            .message
    }

    fn factor(text: &str) -> Option<Factor> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn the_answers_of_the_sizing_paper_give_its_configuration() {
        // The answers that the sizing paper prints, and an empty answer to "Load factor", which repeats this question.
        let (request, asked) = told("1\n/dev/nvme0n1\n\n\n\n3\ny\n\n");
        assert_eq!(
            (&request.device[..], request.duration),
            (&["/dev/nvme0n1".to_owned()][..], None)
        );
        assert_eq!(request.load, factor("3"));
        assert_eq!(request.out, Some("act_storage_3x_1d.conf".into()));
        assert_eq!(asked.matches("Load factor").count(), 2);
    }

    #[test]
    fn a_question_is_repeated_after_an_invalid_answer() {
        let (request, asked) = told(
            "none\n0\n2\n/dev/a /dev/b\n\n/dev/a\n/dev/a\n/dev/b\ny\n1d2x\n0\n12\nmaybe\nn\n-3\nnan\n0\n1.5\nn\n",
        );
        assert_eq!(request.device, ["/dev/a", "/dev/b"]);
        assert_eq!(
            (request.duration, request.load, request.out),
            (Some(43_200), factor("1.5"), None)
        );
        for said in [
            "give a whole number from 1 to 128",
            "give one name",
            "is named twice",
            "at least 1 s",
            "give y or n",
        ] {
            assert!(asked.contains(said), "{said}\n{asked}");
        }
    }

    #[test]
    fn the_dialogue_asks_for_rates_of_each_drive_and_record_sizes() {
        let (request, asked) = told("1\nsim:\nn\ny\ny\n0\n0\n10\ny\n0\n4096\ny\n64\nn\n");
        assert_eq!((request.load, request.per_drive), (None, Some((0, 10))));
        let set = [("record-bytes", "4096"), ("service-threads", "64")];
        assert_eq!(
            request.set,
            set.map(|(key, value)| (key.to_owned(), value.to_owned()))
        );
        assert!(
            asked.contains("are no load")
                && asked.contains("record-bytes: 0 ")
                && !asked.contains("Load factor")
        );
    }

    #[test]
    fn values_given_by_options_are_not_asked_for() {
        let mut request = ConfigArgs {
            device: vec!["/dev/a".into()],
            duration: Some(5),
            load: factor("3"),
            out: Some("x".into()),
            ..storage()
        };
        let mut asked = Vec::new();
        ask(&mut request, &b"n\n"[..], &mut asked).unwrap();
        assert_eq!(
            String::from_utf8(asked).unwrap().matches("(y/N)").count(),
            1
        );
    }

    #[test]
    fn the_error_of_an_incomplete_dialogue_names_the_question() {
        assert!(
            failure("")
                .starts_with("the answers end at \"Number of devices\" - nothing was written")
        );
        assert!(
            failure("1\n/dev/nvme0").starts_with("the answers end at \"Device 1"),
            "half an answer is none"
        );
        assert!(
            failure(&"yes\n".repeat(99))
                .starts_with("10 answers to \"Number of devices\" were invalid")
        );
    }
}
