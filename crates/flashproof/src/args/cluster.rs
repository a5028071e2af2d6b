//! The options of `flashproof size collect` and `flashproof size restore`.

use super::config::seconds;
use clap::{Args, ValueEnum};
use sizing::info::cluster::{DEFAULT_PORT, Host};
use std::path::PathBuf;

/// How nodes are spoken to.
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
    /// Longest time for a connection, and for a request with its reply
    #[arg(long, value_name = "TIME", default_value = "5s", allow_hyphen_values = true, value_parser = seconds)]
    pub timeout: u32,
    /// How long a node that does not answer is tried again when its settings are put back
    #[arg(hide_short_help = true, long, value_name = "TIME", default_value = "2m", allow_hyphen_values = true, value_parser = seconds)]
    pub retry: u32,
}

/// Who checks a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Auth {
    /// The cluster
    Internal,
    /// LDAP, asked by the cluster
    External,
}

/// Options of `flashproof size collect`.
#[derive(Args, Debug)]
pub struct CollectArgs {
    /// A node to start from: HOST or HOST:PORT; may be repeated, or several joined by commas
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',', value_parser = host)]
    pub host: Vec<Host>,
    /// Only these namespaces; may be repeated, or several joined by commas [default: all]
    #[arg(long, value_name = "NS", value_delimiter = ',', requires = "host")]
    pub namespace: Vec<String>,
    /// Only the nodes given as --host, not their peers
    #[arg(long, requires = "host")]
    pub one_node: bool,
    /// Reach the peers by their alternate addresses
    #[arg(hide_short_help = true, long, requires = "host")]
    pub services_alternate: bool,
    /// Turn on, for as long as it samples, the histograms of devices and the detail of drv_ssd in the log; then
    /// put back what was changed
    #[arg(long, requires = "host")]
    pub enable: bool,
    /// How long to sample: 10m, 1h, or a number of seconds
    #[arg(long = "duration", value_name = "TIME", default_value = "10m", allow_hyphen_values = true, value_parser = seconds)]
    pub window: u32,
    /// Time from sample to sample
    #[arg(long, value_name = "TIME", default_value = "10s", allow_hyphen_values = true, value_parser = seconds)]
    pub every: u32,
    /// Logs of nodes to put beside, plain or compressed; "-" for standard input; copied after the samples
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub log: Vec<PathBuf>,
    /// Output of iostat (text or JSON) to put beside; of several nodes NODE=FILE, with the node's id
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub iostat: Vec<PathBuf>,
    /// Folder to make [default: flashproof-cluster-TIME here]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the commands of asadm and asinfo that do the same by hand, and do nothing
    #[arg(long)]
    pub print_commands: bool,
    /// How nodes are spoken to
    #[command(flatten)]
    pub access: AccessArgs,
}

/// Options of `flashproof size restore`.
#[derive(Args, Debug)]
pub struct RestoreArgs {
    /// The folder of that collection
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// How nodes are spoken to
    #[command(flatten)]
    pub access: AccessArgs,
}

fn host(text: &str) -> Result<Host, String> {
    Host::parse(text, DEFAULT_PORT)
}

pub(super) const COLLECT_EXAMPLES: &str = "\
Examples:
  flashproof size collect --host 192.0.2.1              what all nodes say, for 10 minutes; changes nothing
  flashproof size collect --host 192.0.2.1 --enable     turns histograms on, samples, puts all back
  flashproof size collect --host db1,db2:3100 --duration 1h --every 30s
  flashproof size collect --host db1:4333 --tls --tls-cafile ca.pem --user me
  flashproof size collect --log n1.log.gz --iostat n1.txt     without a connection
  flashproof size collect --print-commands --host db1     for those who type them in asadm themselves

It ends early by Ctrl-C, and puts back what it changed. Killed (kill -9), \"flashproof size restore DIR\" does.
Exit code 3: a node is missing, or something could not be put back. More in docs/cluster.md.";

pub(super) const RESTORE_EXAMPLES: &str = "\
Examples:
  flashproof size restore flashproof-cluster-20261122T041500Z
  flashproof size restore DIR --user me --tls --tls-cafile ca.pem

Only what the collection changed, and what still is as it made it, is put back. More in docs/cluster.md.";
