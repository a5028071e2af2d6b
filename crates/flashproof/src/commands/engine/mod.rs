//! The record engine: its server, its client and its benchmark.

use crate::commands::engine::bench::options::TransactionsArgs;
use crate::commands::engine::client::options::ClientArgs;
use crate::commands::engine::serve::options::ServeArgs;
use clap::Subcommand;
use session::failure::Failure;
use std::process::ExitCode;
pub mod bench;
pub mod client;
mod formatting;
pub mod serve;

#[derive(Subcommand)]
pub enum RecordEngine {
    /// Serve records on a drive to Aerospike clients; ERASES other data on the drive
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("serve/examples.txt")))]
    Serve(ServeArgs),
    /// Read and write records of an Aerospike or flashproof server, with a verdict; WRITES to its namespace
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("client/examples.txt")))]
    Client(Box<ClientArgs>),
    /// Measure transactions per second of a record engine, and find the bottleneck; ERASES the drive
    #[command(after_long_help = crate::examples::lay_out_examples(include_str!("bench/examples.txt")))]
    Bench(Box<TransactionsArgs>),
}

pub fn run(command: &RecordEngine) -> Result<ExitCode, Failure> {
    match command {
        RecordEngine::Serve(args) => serve::run(args),
        RecordEngine::Client(args) => client::run(args),
        RecordEngine::Bench(args) => bench::run(args),
    }
}
