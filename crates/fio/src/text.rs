//! Splits job files and command lines into sections with their options. The values are parsed later.
//!
//! ```text
//! command line -> sections (--name=), files, options of the program
//! job file     -> sections ([name]), with included files, comments, variables
//! ```

use super::options::{
    Support, find, has, program_option_remedy, program_option_takes_value, unabbreviated,
};
use super::table::ValueKind;
use super::value::{NumberUnit, expression};
use results::format::quoted;

const NESTING_MAX: usize = 8;

/// Maximum size of a job file with its included files, bytes.
pub const BYTES_MAX: usize = 4 << 20;

const OPTIONS_MAX: usize = 100_000;

pub struct ParseContext<'a> {
    /// Reads an included file.
    pub read: &'a dyn Fn(&str) -> Result<String, String>,
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// True if a path is neither a regular file nor a directory nor missing.
    pub is_device: &'a dyn Fn(&str) -> bool,
    /// Value of `$ncpus`.
    pub cpus: u32,
    /// Value of `$pagesize`.
    pub page_bytes: u64,
    /// Value of `$mb_memory`.
    pub memory_mbytes: u64,
    /// True if writes are forbidden.
    pub readonly: bool,
}

/// A single CPU, and neither files nor devices nor variables.
impl Default for ParseContext<'_> {
    fn default() -> Self {
        Self {
            read: &|_| Err("no file can be included here".to_owned()),
            variable: &|_| None,
            is_device: &|_| false,
            cpus: 1,
            page_bytes: sys::process::page_bytes(),
            memory_mbytes: 0,
            readonly: false,
        }
    }
}

/// A section: a job, or options for later jobs if its name begins with `global`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobSection {
    pub name: String,
    pub options: Vec<GivenOption>,
}

impl JobSection {
    /// True for a section that is not a job, but has options for the jobs after it.
    pub fn is_global(&self) -> bool {
        self.name.starts_with("global")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenOption {
    pub name: String,
    /// `None` for an option without a value.
    pub value: Option<String>,
    pub position: String,
}

impl GivenOption {
    pub fn new(name: &str, value: impl Into<String>, position: &str) -> Self {
        Self {
            name: name.to_owned(),
            value: Some(value.into()),
            position: position.to_owned(),
        }
    }
}

/// Number of characters shown at each end of a long message.
const SHOWN_CHARS: usize = 300;

/// An error or warning about a position, in one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {what}")]
pub struct Problem {
    /// Position: file and line, or the command line.
    pub at: String,
    pub what: String,
}

impl Problem {
    pub fn new(position: &str, what: impl Into<String>) -> Self {
        let what: String = what.into();
        // A message can contain a value of megabytes. Its beginning identifies the value, and its end has the remedy.
        let count = what.chars().count();
        if count <= 2 * SHOWN_CHARS {
            return Self {
                at: position.to_owned(),
                what,
            };
        }
        let start = what.chars().take(SHOWN_CHARS);
        let end = what.chars().skip(count - SHOWN_CHARS);
        Self {
            at: position.to_owned(),
            what: start.chain(" [...] ".chars()).chain(end).collect(),
        }
    }

    pub(super) fn of_job(name: &str, what: impl Into<String>) -> Self {
        Self::new(&format!("job {}", quoted(name)), what)
    }
}

#[derive(Debug, Default)]
pub struct CommandLine {
    /// Jobs; options before the first `--name` are global.
    pub sections: Vec<JobSection>,
    pub files: Vec<String>,
    pub program: Vec<(String, Option<String>)>,
    /// Corrections made while reading.
    pub warnings: Vec<Problem>,
}

pub(super) const COMMAND_LINE: &str = "command line";

/// Dashes, which word processors put in place of hyphens.
const DASHES: [char; 6] = [
    '\u{2010}', '\u{2011}', '\u{2012}', '\u{2013}', '\u{2014}', '\u{2212}',
];

/// Options whose values may contain a dash: names of files, and free text.
const NAMES: &str = "filename directory name description write_bw_log write_lat_log write_iops_log output out erase";

fn name_and_value(text: &str) -> (&str, Option<&str>) {
    text.split_once('=')
        .map_or((text, None), |(name, value)| (name, Some(value)))
}

/// Replaces dashes in `text` by hyphens, with a warning.
fn with_hyphens(text: &str, position: &str, warnings: &mut Vec<Problem>) -> String {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let plain_name = name.trim_matches(|c: char| DASHES.contains(&c) || c == '-' || c == ' ');
    if has(NAMES, plain_name) && value.contains(DASHES) {
        return format!("{}={value}", with_hyphens(name, position, warnings));
    }
    // Other arguments are values or file names, and keep their dashes.
    let is_option = text.starts_with(DASHES) || text.starts_with('-') || text.contains('=');
    if !text.contains(DASHES) || !is_option {
        return text.to_owned();
    }
    // A dash at the beginning stands for the two hyphens of an option.
    let rest = text.trim_start_matches(|c| DASHES.contains(&c) || c == '-');
    let is_marked = text.starts_with(DASHES)
        || (rest.len() < text.len() && rest.starts_with(char::is_alphabetic));
    let plain = if is_marked {
        format!("--{rest}")
    } else {
        text.to_owned()
    }
    .replace(DASHES, "-");
    let what = format!(
        "{} has a dash instead of a hyphen - read as {}",
        quoted(text),
        quoted(&plain)
    );
    warnings.push(Problem::new(position, what));
    plain
}

/// An option with one hyphen, which fio accepts like an option with two; `None` for other text.
fn strip_one_hyphen(token: &str) -> Option<&str> {
    let option = token.strip_prefix('-')?;
    let name = option.split('=').next().unwrap_or_default();
    let is_known = find(name).is_some() || program_option_takes_value(name).is_some();
    (is_known && name.len() > 1).then_some(option)
}

/// Errors: all invalid arguments.
pub fn command_line(arguments: &[String]) -> Result<CommandLine, Vec<Problem>> {
    let mut line = CommandLine::default();
    let mut problems = Vec::new();
    let tokens: Vec<_> = arguments
        .iter()
        .map(|text| with_hyphens(text, COMMAND_LINE, &mut line.warnings))
        .collect();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let option = match token.as_str() {
            "--" => continue,
            "-h" => "help",
            "-v" => "version",
            "-q" => "quiet",
            text => match text.strip_prefix("--").or_else(|| strip_one_hyphen(text)) {
                Some(option) => option,
                None if text.starts_with('-') && text.len() > 1 => {
                    let why = format!(
                        "{} is not an option - check its name (--cmdhelp lists all options)",
                        quoted(text)
                    );
                    problems.push(Problem::new(COMMAND_LINE, why));
                    continue;
                }
                None => {
                    line.files.push(token);
                    continue;
                }
            },
        };
        let (name, value) = name_and_value(option);
        let name = unabbreviated(name).to_owned();
        let mut value = value.map(str::to_owned);
        let of_program = program_option_takes_value(&name);
        if let Some(advice) = program_option_remedy(&name) {
            problems.push(Problem::new(
                COMMAND_LINE,
                format!("flashproof does not support --{name} - {advice}"),
            ));
            if name == "profile" {
                // All later options are options of fio's profile, which flashproof does not know.
                return Err(problems);
            }
            continue;
        }
        let takes_value = of_program.unwrap_or_else(
            || matches!(find(&name), Some(Support::Known(known)) if known.kind != ValueKind::Bool),
        );
        // If an option is boolean, without effect or unsupported, a number after the option is its value.
        if value.is_none() && !takes_value && of_program.is_none() {
            value = tokens.next_if(|next| {
                next.starts_with(|c: char| c.is_ascii_digit()) && !next.contains(['/', '.'])
            });
        }
        if value.is_none() && takes_value {
            value =
                tokens.next_if(|next| !next.starts_with("--") && strip_one_hyphen(next).is_none());
            if value.is_none() {
                problems.push(Problem::new(
                    COMMAND_LINE,
                    format!("--{name} needs a value: --{name}=..."),
                ));
                continue;
            }
        }
        if of_program.is_some() {
            line.program.push((name, value));
        } else if name == "name" {
            let name = value.unwrap_or_default();
            // As in fio, the name is reported among the options of the job.
            let given = GivenOption::new("name", name.as_str(), COMMAND_LINE);
            line.sections.push(JobSection {
                name,
                options: vec![given],
            });
        } else {
            if line.sections.is_empty() {
                line.sections.push(JobSection {
                    name: "global".into(),
                    options: Vec::new(),
                });
            }
            let given = GivenOption {
                name,
                value,
                position: COMMAND_LINE.into(),
            };
            line.sections
                .last_mut()
                .expect("there is one")
                .options
                .push(given);
        }
    }
    if problems.is_empty() {
        Ok(line)
    } else {
        Err(problems)
    }
}

/// Reads a job file, called `name` in messages. Errors: every invalid line.
pub fn job_file(
    name: &str,
    text: &str,
    context: &ParseContext<'_>,
    warnings: &mut Vec<Problem>,
) -> Result<Vec<JobSection>, Vec<Problem>> {
    let mut reader = JobFileReader {
        too_deep: false,
        has_foreign_lines: false,
        context,
        warnings,
        sections: Vec::new(),
        problems: Vec::new(),
        bytes: 0,
        options: 0,
    };
    reader.file(name, text, 0);
    if reader.problems.is_empty() {
        Ok(reader.sections)
    } else {
        Err(reader.problems)
    }
}

struct JobFileReader<'a> {
    /// True once an include that is nested too deep was reported.
    too_deep: bool,
    /// True once a line before the first section was reported that is no option.
    has_foreign_lines: bool,
    context: &'a ParseContext<'a>,
    warnings: &'a mut Vec<Problem>,
    sections: Vec<JobSection>,
    problems: Vec<Problem>,
    bytes: usize,
    options: usize,
}

impl JobFileReader<'_> {
    fn file(&mut self, name: &str, text: &str, nested: usize) {
        self.bytes += text.len();
        // Windows editors begin a file with this byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for (number, line) in (1..).zip(text.lines()) {
            let position = format!("{name}:{number}");
            if self.bytes > BYTES_MAX || self.options > OPTIONS_MAX {
                let why = format!(
                    "the job file and its includes have more than {BYTES_MAX} bytes or {OPTIONS_MAX} options - leave some out"
                );
                return self.problem(&position, why);
            }
            // A comment can begin anywhere in a line.
            let line = line.split([';', '#']).next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if let Some(section) = line.strip_prefix('[') {
                match section.strip_suffix(']') {
                    Some(section) => self.sections.push(JobSection {
                        name: section.to_owned(),
                        options: Vec::new(),
                    }),
                    None => self.problem(
                        &position,
                        format!(
                            "the section name {} is not closed - end it with ]",
                            quoted(line)
                        ),
                    ),
                }
            } else if let Some(file) = line.strip_prefix("include ").map(str::trim) {
                self.include(&position, file, name, nested);
            } else {
                self.option(&position, line);
            }
        }
    }

    fn problem(&mut self, position: &str, what: impl Into<String>) {
        self.problems.push(Problem::new(position, what));
    }

    fn include(&mut self, position: &str, file: &str, including_file: &str, nested: usize) {
        if self.too_deep {
            return;
        }
        if nested >= NESTING_MAX {
            self.too_deep = true;
            let why = format!(
                "includes are nested more than {NESTING_MAX} deep - does a file include itself?"
            );
            return self.problem(position, why);
        }
        // The path is relative to the directory of the including file.
        let path = std::path::Path::new(including_file)
            .with_file_name(file)
            .to_string_lossy()
            .into_owned();
        match (self.context.read)(&path) {
            Ok(text) => self.file(&path, &text, nested + 1),
            Err(why) => self.problem(
                position,
                format!("cannot include {} - {why}", quoted(&path)),
            ),
        }
    }

    fn option(&mut self, position: &str, line: &str) {
        self.options += 1;
        let line = if line.contains(DASHES) {
            with_hyphens(line, position, self.warnings)
        } else {
            line.to_owned()
        };
        let (name, value) = name_and_value(&line);
        match (
            value
                .map(|value| substituted(value.trim(), self.context))
                .transpose(),
            self.sections.last_mut(),
        ) {
            (Err(why), _) => self.problem(position, why),
            (Ok(value), Some(section)) => {
                section.options.push(GivenOption {
                    name: name.trim().to_owned(),
                    value,
                    position: position.to_owned(),
                });
            }
            (Ok(_), None) if find(name.trim()).is_some() => self.problem(
                position,
                format!(
                    "{} is before the first [section] - move it into a section",
                    quoted(name.trim())
                ),
            ),
            (Ok(_), None) => self.foreign_line(position, &line),
        }
    }

    /// Reports the first line of text around a job file: a fence of Markdown, the head of a YAML file, a shell command.
    fn foreign_line(&mut self, position: &str, line: &str) {
        if !self.has_foreign_lines {
            let why = format!(
                "{} is not a line of a job file - remove all such lines before the first [section]",
                quoted(line)
            );
            self.problem(position, why);
        }
        self.has_foreign_lines = true;
    }
}

/// Replaces variables by their values. Errors: a variable is not set, or not closed; an invalid expression.
fn substituted(value: &str, context: &ParseContext<'_>) -> Result<String, String> {
    let mut text = String::new();
    let mut rest = value;
    while let Some((before, behind)) = rest.split_once("${") {
        let (name, after) = behind.split_once('}').ok_or_else(|| {
            format!(
                "the variable in {} is not closed - end it with }}",
                quoted(value)
            )
        })?;
        let of_environment = (context.variable)(name);
        text += before;
        text += &of_environment
            .ok_or_else(|| format!("the environment has no variable {} - set it", quoted(name)))?;
        rest = after;
    }
    text += rest;
    let keywords = [
        ("$pagesize", context.page_bytes),
        ("$mb_memory", context.memory_mbytes),
        ("$ncpus", context.cpus.into()),
    ];
    let is_computed = keywords.iter().any(|(keyword, _)| text.contains(keyword));
    for (keyword, number) in keywords {
        text = text.replace(keyword, &number.to_string());
    }
    // Values such as 8*$mb_memory are computed; fio passes them to bc(1).
    if is_computed && !text.starts_with('(') && text.contains(['+', '-', '*', '/']) {
        let value = expression(&text, NumberUnit::Kilo(1024))?;
        return Ok(format!("{}", value.trunc()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::testing::around;
    use super::*;

    fn read(text: &str) -> Result<Vec<JobSection>, String> {
        let read = |name: &str| match name {
            "dir/inc.fio" => Ok("bs=8k\n[more]\nrw=write".to_owned()),
            "dir/self.fio" => Ok("include self.fio".to_owned()),
            _ => Err("no such file".to_owned()),
        };
        let mut warnings = Vec::new();
        job_file("dir/a.fio", text, &around(&read), &mut warnings).map_err(|problems| {
            problems
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("\n")
        })
    }

    fn options(section: &JobSection) -> Vec<(&str, Option<&str>)> {
        section
            .options
            .iter()
            .map(|given| (given.name.as_str(), given.value.as_deref()))
            .collect()
    }

    /// The options in `text`, `name=value` or `name` with blanks between them, in the form that `options` returns.
    fn given(text: &str) -> Vec<(&str, Option<&str>)> {
        text.split(' ')
            .map(|word| {
                str::split_once(word, '=').map_or((word, None), |(name, value)| (name, Some(value)))
            })
            .collect()
    }

    fn words(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_job_file_is_sections_of_options_with_includes_and_variables() {
        let sections = read(
            "; purpose\n[global]\n rw = randread ; at random\nsize=${SIZE}k\nnumjobs=2*$ncpus\n[job one]\ntime_based\ninclude inc.fio\nba=$pagesize\n",
        )
        .unwrap();
        let names: Vec<_> = sections
            .iter()
            .map(|section| section.name.as_str())
            .collect();
        assert_eq!(names, ["global", "job one", "more"]);
        assert!(sections[0].is_global() && !sections[1].is_global());
        let found = options(&sections[0]);
        assert_eq!(found, given("rw=randread size=64k numjobs=8"));
        assert_eq!(options(&sections[1]), given("time_based bs=8k"));
        assert_eq!(options(&sections[2]), given("rw=write ba=4096"));
        assert_eq!(sections[2].options[0].position, "dir/inc.fio:3");
    }

    #[test]
    fn mistakes_in_a_job_file_are_reported_with_their_line() {
        assert_eq!(
            read("rw=read\n[open\n[x]\nsize=${NONE}\ninclude no.fio\nbs=${A").unwrap_err(),
            "dir/a.fio:1: \"rw\" is before the first [section] - move it into a section\n\
             dir/a.fio:2: the section name \"[open\" is not closed - end it with ]\n\
             dir/a.fio:4: the environment has no variable \"NONE\" - set it\n\
             dir/a.fio:5: cannot include \"dir/no.fio\" - no such file\n\
             dir/a.fio:6: the variable in \"${A\" is not closed - end it with }"
        );
        let wrapped = read("```\nkind: ConfigMap\nrw=read\n[x]\nbs=4k").unwrap_err();
        assert_eq!(
            wrapped,
            "dir/a.fio:1: \"```\" is not a line of a job file - remove all such lines before the first [section]\n\
             dir/a.fio:3: \"rw\" is before the first [section] - move it into a section"
        );
        let twice = read("[x]\ninclude self.fio\ninclude self.fio").unwrap_err();
        assert!(
            twice.contains("does a file include itself?") && twice.lines().count() == 1,
            "{twice}"
        );
    }

    #[test]
    fn a_pasted_command_line_is_read_with_a_warning() {
        let text = "--filename=/data/x–f --direct=1 –rwmixwrite=50 --runtime 60 –-name=bench --bs=4k--iodepth --output=x a–b.fio";
        let line = command_line(&words(text)).unwrap();
        assert_eq!(line.warnings.len(), 2);
        assert_eq!(
            line.warnings[1].to_string(),
            "command line: \"–-name=bench\" has a dash instead of a hyphen - read as \"--name=bench\""
        );
        let [global, bench] = &line.sections[..] else {
            panic!("{:?}", line.sections)
        };
        assert_eq!(
            options(global),
            given("filename=/data/x–f direct=1 rwmixwrite=50 runtime=60")
        );
        assert_eq!(bench.name.as_str(), "bench");
        assert_eq!(options(bench), given("name=bench bs=4k--iodepth"));
        assert_eq!(line.files, vec!["a–b.fio".to_owned()]);
        assert_eq!(line.program, vec![("output".into(), Some("x".into()))]);
        let errors = command_line(&words("-zz=read --showcmd --client=h --bs")).unwrap_err();
        let errors: Vec<_> = errors.iter().map(|error| error.what.as_str()).collect();
        assert_eq!(
            errors,
            [
                "\"-zz=read\" is not an option - check its name (--cmdhelp lists all options)",
                "flashproof does not support --showcmd - --dry-run shows what would run",
                "flashproof does not support --client - there is no client/server mode; start flashproof on each host, or use flashproof fleet for many hosts",
                "--bs needs a value: --bs=...",
            ]
        );
    }

    #[test]
    fn options_may_begin_with_one_hyphen_and_have_a_number_after_a_blank() {
        let text = "-direct=1 -iodepth 8 -thread -lockmem 1g -rw=randread -group_reporting -name=x y.fio -output=z";
        let line = command_line(&words(text)).unwrap();
        let expected = "direct=1 iodepth=8 thread lockmem=1g rw=randread group_reporting";
        assert_eq!(options(&line.sections[0]), given(expected));
        assert_eq!(line.sections[1].name.as_str(), "x");
        assert_eq!(line.files, words("y.fio"));
        assert_eq!(line.program.len(), 1);
    }

    #[test]
    fn abbreviated_names_are_completed_as_in_getopt() {
        let line = command_line(&words("--loop=2 --readw randread --i=3 --eras=x")).unwrap();
        let found = options(&line.sections[0]);
        assert_eq!(found, given("loops=2 readwrite=randread i=3 eras=x"));
        let errors = command_line(&words("--profile=act --load=1")).unwrap_err();
        assert!(
            errors.len() == 1 && errors[0].what.contains("flashproof storage CONFIG"),
            "{errors:?}"
        );
    }
}
