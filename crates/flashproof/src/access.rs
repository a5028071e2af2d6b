//! Login and TLS for the nodes of a database, from the options. The password comes from a file, from the environment,
//! or from a prompt without echo. Arguments never contain the password, because every user of the machine can read
//! arguments.

use clap::{Args, ValueEnum};
use results::files::{self, Links};
use rustix::io::Errno;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use session::console;
use session::failure::Failure;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::{Path, PathBuf};
use store::nodes::{Access, Login, Tls};

const VARIABLE: &str = "FLASHPROOF_PASSWORD";

/// Maximum length of a password, bytes.
const BYTES_MAX: u64 = 1024;

pub fn access(args: &AccessArgs) -> Result<Access, Failure> {
    let client = args
        .tls_certfile
        .as_deref()
        .zip(args.tls_keyfile.as_deref());
    let tls = args.tls_cafile.as_deref().filter(|_| args.tls);
    let tls = tls.map(|authorities| Tls::new(authorities, client, args.tls_name.clone()));
    Ok(Access {
        tls: tls.transpose().map_err(Failure::usage)?,
        login: login(args)?,
        ..Access::default()
    })
}

/// Credentials; `None` without `--user`.
fn login(args: &AccessArgs) -> Result<Option<Login>, Failure> {
    let Some(user) = &args.user else {
        return Ok(None);
    };
    let is_clear_text = args.auth == Auth::External;
    if is_clear_text && !args.tls {
        return Err(Failure::usage(
            "--auth external sends the password in clear text, readable on the network - also give --tls",
        ));
    }
    let login = Login::new(user, password(args, user)?, is_clear_text);
    login
        .map(Some)
        .map_err(|error| Failure::usage(format!("cannot use this password - {error}")))
}

fn password(args: &AccessArgs, user: &str) -> Result<String, Failure> {
    if let Some(path) = &args.password_file {
        return from_file(path);
    }
    if let Some(password) = std::env::var_os(VARIABLE) {
        return password.into_string().map_err(|_| {
            Failure::usage(format!(
                "the password in the environment variable {VARIABLE} is not UTF-8 text"
            ))
        });
    }
    // The prompt does not use standard input, which may carry a log.
    let terminal = OpenOptions::new().read(true).write(true).open("/dev/tty").map_err(|_| {
        Failure::usage(format!(
            "user {user} needs a password, and there is no terminal for a prompt - give --password-file, or set the \
             environment variable {VARIABLE}"
        ))
    })?;
    console::notice(&format!("password of {user}: "));
    console::flush();
    prompt_password(&terminal)?
        .ok_or_else(|| Failure::usage("no password was given - nothing was done"))
}

fn from_file(path: &Path) -> Result<String, Failure> {
    let bytes = files::read(path, Links::Followed, BYTES_MAX).map_err(|error| {
        Failure::usage(format!(
            "cannot read the password from {} - {error}",
            path.display()
        ))
    })?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Failure::usage(format!(
            "the password in {} is not UTF-8 text",
            path.display()
        ))
    })?;
    let line = text.lines().next().unwrap_or_default();
    match line {
        "" => Err(Failure::usage(format!(
            "there is no password in {} - its first line is empty",
            path.display()
        ))),
        line => Ok(line.to_owned()),
    }
}

/// Reads a line from a terminal without echo; `None` for Ctrl-C, Ctrl-D, or the end of input. Keys that would end the
/// program are read as bytes, so that the terminal's settings are always restored.
fn prompt_password(mut terminal: &File) -> Result<Option<String>, Failure> {
    let saved_settings = tcgetattr(terminal).map_err(cannot_prompt)?;
    let mut silent_settings = saved_settings.clone();
    silent_settings.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
    silent_settings.special_codes[SpecialCodeIndex::VMIN] = 1;
    silent_settings.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(terminal, OptionalActions::Flush, &silent_settings).map_err(cannot_prompt)?;
    let _as_before = TerminalModeGuard(terminal, saved_settings);
    let mut typed = Vec::new();
    let mut key = [0];
    loop {
        // An interrupted or failed read counts as the end of input.
        match terminal.read(&mut key) {
            Ok(1) => {}
            _ => return Ok(None),
        }
        match key[0] {
            b'\r' | b'\n' => break,
            3 | 4 => return Ok(None),
            8 | 127 => drop(typed.pop()),
            21 => typed.clear(),
            byte if typed.len() < BYTES_MAX as usize => typed.push(byte),
            _ => {}
        }
    }
    String::from_utf8(typed)
        .map(Some)
        .map_err(|_| Failure::usage("the password is not UTF-8 text"))
}

fn cannot_prompt(error: Errno) -> Failure {
    Failure::environment(format!(
        "cannot prompt for the password on the terminal - {error}"
    ))
}

/// Restores the settings of a terminal when dropped.
struct TerminalModeGuard<'a>(&'a File, Termios);

impl Drop for TerminalModeGuard<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.0, OptionalActions::Flush, &self.1);
    }
}

#[derive(Args, Debug)]
pub struct AccessArgs {
    /// User, if the cluster requires a login; the password is prompted for, or read from --password-file or the
    /// environment variable FLASHPROOF_PASSWORD
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// File with the password in its first line
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// Authority for the password: the cluster itself, or LDAP (sends clear text; only with --tls)
    #[arg(hide_short_help = true, long, value_enum, default_value_t = Auth::Internal, requires = "user")]
    pub auth: Auth,
    /// Use TLS
    #[arg(long, requires = "tls_cafile")]
    pub tls: bool,
    /// CA certificates for the nodes' certificates (PEM), such as /etc/ssl/certs/ca-certificates.crt
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub tls_cafile: Option<PathBuf>,
    /// Name in the nodes' certificates [default: the TLS name that other nodes report for a node, else the node's host]
    #[arg(long, value_name = "NAME", requires = "tls")]
    pub tls_name: Option<String>,
    /// Certificate of this client (PEM), if the nodes require one
    #[arg(hide_short_help = true, long, value_name = "FILE", requires_all = ["tls", "tls_keyfile"])]
    pub tls_certfile: Option<PathBuf>,
    /// Private key of the client certificate (PEM)
    #[arg(
        hide_short_help = true,
        long,
        value_name = "FILE",
        requires = "tls_certfile"
    )]
    pub tls_keyfile: Option<PathBuf>,
}

/// Authority that checks a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Auth {
    /// The cluster
    Internal,
    /// LDAP, queried by the cluster
    External,
}
