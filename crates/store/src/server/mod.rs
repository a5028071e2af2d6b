//! The server: a thread per core. Each thread has a ring for its connections and devices, and a part of every
//! namespace.
//!
//! ```text
//!  connection -> ServerCore (frames, replies in order)
//!                  -> own Store, or the Mailbox of the core that has the partition; if that core sleeps and there is one
//!                     copy, directly its Store
//!                  -> Link: a master's write goes to its replica on another node, a transaction to the node that has
//!                     its partition
//!  NodePair: which of two nodes serves which partitions
//! ```
//!
//! Only mailboxes, the stores of sleeping cores and observers' data are shared. Partition p belongs to core p modulo
//! the number of cores, on any device, so the devices' headers contain the number of cores.
//!
//! Separate threads connect to the other nodes, and connect again after a loss.

pub mod cluster;
mod connection;
mod cores;
pub mod node_message;
mod pair;
mod skew;
mod state;

use crate::conf::AerospikeConf;
pub use cluster::{Cluster, ClusterNode};
use cores::ServerCore;
use pair::SILENCE_NS;
pub(crate) use skew::stops_writes;
use state::CoreMessage;
pub use state::{ClientLimits, FormattedDevice, ServerSetup, ServerState};
use std::io::ErrorKind;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: i32 = 4096;

/// Number of cores that serve with `config`. The devices' headers contain this number, too. By default one CPU is left
/// for the network's interrupts and for clients on the same machine.
pub fn cores(config: &AerospikeConf) -> u16 {
    let cores = match config.service_threads {
        Some(threads) => threads,
        None => {
            let cpus = std::thread::available_parallelism()
                .map_or(1, |cpus| cpus.get().min(u16::MAX.into()) as u16);
            cpus.saturating_sub(1)
        }
    };
    cores.max(1)
}

/// Ends the server if the thread of a core fails or panics: the other cores cannot continue without its partitions.
struct StopOnFailure<'a>(&'a ServerState);

impl Drop for StopOnFailure<'_> {
    fn drop(&mut self) {
        self.0.has_failed.store(true, Ordering::Release);
        self.0.send_to_all(|| CoreMessage::Stop);
    }
}

pub struct Server {
    state: Arc<ServerState>,
    threads: Vec<JoinHandle<Result<(), String>>>,
}

impl Server {
    /// Starts the threads of a server. The server accepts transactions once [`ServerState::is_ready`].
    pub fn start(mut setup: ServerSetup) -> Result<Self, String> {
        for listener in &setup.listeners {
            sys::net::set_backlog(listener, BACKLOG)
                .map_err(|error| format!("cannot listen for clients - {error}"))?;
        }
        let cores = usize::from(cores(&setup.config));
        // The first core accepts the connections of all cores; its ring owns the listeners.
        let mut listeners: Vec<_> = setup.listeners.drain(..).map(Arc::new).collect();
        let state = Arc::new(ServerState::new(setup, cores));
        let (start_sender, start_receiver) = mpsc::channel();
        let mut server = Self {
            state: state.clone(),
            threads: Vec::new(),
        };
        for core in 0..cores {
            let listeners = std::mem::take(&mut listeners);
            let state = state.clone();
            let start_sender = start_sender.clone();
            let thread = std::thread::Builder::new().name(format!("shard-{core}"));
            let spawned = thread.spawn(move || {
                let failure = StopOnFailure(&state);
                let server_core = ServerCore::new(core, &state, listeners);
                let _ = start_sender.send(server_core.as_ref().map(|_| ()).map_err(String::clone));
                drop(start_sender);
                server_core?.run()?;
                std::mem::forget(failure);
                Ok(())
            });
            let thread = spawned
                .map_err(|error| format!("cannot start the thread of core {core} - {error}"))?;
            server.threads.push(thread);
        }
        // Without a sender here, `recv` fails if a thread panics before it sends.
        drop(start_sender);
        for _ in 0..cores {
            start_receiver
                .recv()
                .unwrap_or_else(|_| Err("a server thread ended while it started".to_owned()))?;
        }
        start_links(&server.state);
        Ok(server)
    }

    pub fn state(&self) -> &Arc<ServerState> {
        &self.state
    }

    /// True if a thread has ended: the server was stopped, a ring failed, or a device failed and the other node takes
    /// over.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Answers pending requests, writes the buffers, and ends. Errors: a ring or a device failed.
    pub fn stop(mut self) -> Result<(), String> {
        self.state.send_to_all(|| CoreMessage::Stop);
        // All threads write their buffers, even if one fails.
        let ends: Vec<_> = self.threads.drain(..).map(JoinHandle::join).collect();
        ends.into_iter()
            .try_for_each(|end| end.unwrap_or_else(|_| Err("a server thread panicked".to_owned())))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.state.send_to_all(|| CoreMessage::Stop);
        self.threads.drain(..).for_each(|thread| _ = thread.join());
    }
}

/// Timeout for connecting to a node.
const TRY: Duration = Duration::from_millis(500);

/// Minimum delay before the next attempt to connect: after a failed attempt, and after a successful attempt.
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_AFTER_LOSS: Duration = Duration::from_secs(1);

/// Keeps each core of `state` linked to all other nodes, for as long as the server runs.
fn start_links(state: &Arc<ServerState>) {
    for (node, _) in state.setup.cluster.others() {
        for core in 0..state.mailboxes.len() {
            let weak = Arc::downgrade(state);
            let link = Arc::new(AtomicBool::new(false));
            let run = move || keep_link(&weak, core, node, &link);
            if let Err(error) = std::thread::Builder::new()
                .name("link".to_owned())
                .spawn(run)
            {
                state.warn(
                    "hb",
                    "hb.c",
                    format!("cannot start a thread for the connection to another node - {error}"),
                );
            }
        }
    }
}

fn keep_link(state: &Weak<ServerState>, core: usize, node: usize, link: &Arc<AtomicBool>) {
    // Time since which all attempts to connect have been refused.
    let mut refused_ns = None;
    // Time since which this node has been waiting for the other node, without serving any partition.
    let mut waiting_since_ns: Option<u64> = None;
    while let Some(state) = state.upgrade() {
        let mut pause = AGAIN;
        if state.quiet_cores.load(Ordering::Relaxed) > 0 {
            return;
        }
        let is_trying = state.is_ready() && !link.load(Ordering::Acquire);
        let now_ns = state.now_ns();
        let mut is_refused = None;
        if is_trying {
            let peer = &state.setup.cluster.nodes()[node];
            let addresses = (peer.host.as_str(), peer.port)
                .to_socket_addrs()
                .into_iter()
                .flatten();
            let connected = addresses.into_iter().find_map(|address| {
                let attempt = TcpStream::connect_timeout(&address, TRY);
                let refuses = attempt
                    .as_ref()
                    .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
                is_refused = Some(is_refused.unwrap_or(true) && refuses);
                attempt.ok()
            });
            if let Some(socket) = connected {
                link.store(true, Ordering::Release);
                pause = AGAIN_AFTER_LOSS;
                state.mailboxes[core].push(CoreMessage::Linked {
                    node,
                    socket,
                    link: link.clone(),
                });
                state.mailboxes[core].wake();
            }
        }
        refused_ns = is_refused
            .filter(|refused| *refused)
            .and(refused_ns.or(Some(now_ns)));
        if core == 0 && refused_ns.is_some() {
            state.check_takeover(refused_ns);
        }
        let is_waiting = core == 0 && is_trying && state.pair.mode().is_starting();
        if is_waiting
            && now_ns
                > waiting_since_ns
                    .get_or_insert(now_ns)
                    .saturating_add(SILENCE_NS)
        {
            waiting_since_ns = Some(u64::MAX);
            let peer = &state.setup.cluster.nodes()[node];
            let effect =
                "until that node answers, requests for records with two copies get result code 11";
            let name = peer.name();
            let host = &peer.host;
            let port = peer.port;
            state.warn("hb", "hb.c", format!("this node waits for node {name} at {host}:{port}, which may have newer records - {effect} - start that node"));
        }
        drop(state);
        std::thread::sleep(pause);
    }
}

#[cfg(test)]
mod tests;
