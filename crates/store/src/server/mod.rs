//! The server: a thread per core, each with a ring for its connections and devices and its part of every namespace.
//!
//! ```text
//!  connection -> Shard (frames, replies in order) -> own Store, or the Mailbox of the shard that has the partition
//!                                                     -> Link: what a master wrote goes to its replica on another node,
//!                                                        a transaction to the node that has its partition
//!  Pair: which of two nodes answers for which partitions
//! ```
//!
//! Only mailboxes and observers' data are shared. Partition p belongs to shard p modulo the number of shards, on any
//! device, so the devices' headers contain the number of shards.

pub mod cluster;
mod connection;
mod links;
mod mailbox;
mod modes;
mod pair;
mod shard;
mod slab;
mod state;
#[cfg(test)]
mod tests;

pub use cluster::{Cluster, Node};
pub use state::{Device, Limits, Setup, State};

use crate::conf::Config;
use shard::Shard;
use state::{Message, wall_ms};
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// Cores that serve by `config`, which their devices' headers say, too.
pub fn cores(config: &Config) -> u16 {
    let all = || std::thread::available_parallelism().map_or(1, |all| all.get().min(u16::MAX.into()) as u16);
    config.service_threads.unwrap_or_else(all).max(1)
}

/// No shard can continue without the part of one that fails or panics.
struct Failure<'a>(&'a State);

impl Drop for Failure<'_> {
    fn drop(&mut self) {
        self.0.has_failed.store(true, Ordering::Release);
        self.0.tell_all(|| Message::Stop);
    }
}

/// A running server.
pub struct Server {
    state: Arc<State>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

impl Server {
    /// Starts the threads of a server. The server accepts transactions once [`State::is_ready`].
    ///
    /// Errors: a ring or a store cannot be set up, a sentence.
    pub fn start(mut setup: Setup) -> Result<Self, String> {
        for listener in &setup.listeners {
            sys::net::set_backlog(listener, BACKLOG).map_err(|error| format!("cannot listen - {error}"))?;
        }
        let cores = usize::from(cores(&setup.config));
        // The first core accepts for all; its ring owns the listeners.
        let mut listeners: Vec<_> = setup.listeners.drain(..).map(Arc::new).collect();
        let state = Arc::new(State::new(setup, cores));
        let wall_ms = wall_ms();
        let (tell, told) = mpsc::channel();
        let thread = |core: usize, listeners| {
            let (state, tell) = (state.clone(), tell.clone());
            let run = move || {
                let failure = Failure(&state);
                let made = Shard::new(core, &state, listeners, wall_ms);
                let _ = tell.send(made.as_ref().map(|_| ()).map_err(String::clone));
                drop(tell);
                made?.run()?;
                std::mem::forget(failure);
                Ok(())
            };
            std::thread::Builder::new().name(format!("shard-{core}")).spawn(run)
        };
        let mut server = Self { state: state.clone(), threads: Vec::new() };
        for core in 0..cores {
            let spawned = thread(core, std::mem::take(&mut listeners))
                .map_err(|error| format!("cannot start a thread - {error}"))?;
            server.threads.push(spawned);
        }
        for _ in 0..cores {
            told.recv().unwrap_or_else(|_| Err("a thread ended".to_owned()))?;
        }
        links::start(&server.state);
        Ok(server)
    }

    pub fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// True if a thread has ended, which happens by itself only when its ring fails.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Answers pending requests, writes the buffers, and ends. Errors: a ring failed, a sentence.
    pub fn stop(mut self) -> Result<(), String> {
        self.state.tell_all(|| Message::Stop);
        let ended =
            self.threads.drain(..).map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())));
        ended.collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.tell_all(|| Message::Stop);
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}
