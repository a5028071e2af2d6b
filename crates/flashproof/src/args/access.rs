//! Options for login and TLS: of all commands that connect to a database's nodes.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Login and TLS.
#[derive(Args, Debug)]
pub struct AccessArgs {
    /// User, where the cluster asks for one; the password is asked for, or read from --password-file or the
    /// environment variable FLASHPROOF_PASSWORD
    #[arg(long, value_name = "USER")]
    pub user: Option<String>,
    /// File with the password in its first line
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
    /// Who checks the password: the cluster itself, or LDAP for it (sends the password; only with --tls)
    #[arg(hide_short_help = true, long, value_enum, default_value_t = Auth::Internal, requires = "user")]
    pub auth: Auth,
    /// Speak TLS
    #[arg(long, requires = "tls_cafile")]
    pub tls: bool,
    /// Certificates of those who sign the nodes' (PEM), such as /etc/ssl/certs/ca-certificates.crt
    #[arg(long, value_name = "FILE", requires = "tls")]
    pub tls_cafile: Option<PathBuf>,
    /// Name in the nodes' certificates [default: the name that a node tells for its peer, else its host]
    #[arg(long, value_name = "NAME", requires = "tls")]
    pub tls_name: Option<String>,
    /// Certificate of this client (PEM), where nodes want one
    #[arg(hide_short_help = true, long, value_name = "FILE", requires_all = ["tls", "tls_keyfile"])]
    pub tls_certfile: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(hide_short_help = true, long, value_name = "FILE", requires = "tls_certfile")]
    pub tls_keyfile: Option<PathBuf>,
}

/// Who checks a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Auth {
    /// The cluster
    Internal,
    /// LDAP, asked by the cluster
    External,
}
