//! Connections to the other nodes: made, and made again, by a thread that does nothing else.

use super::connection::Link;
use super::pair::SILENCE_NS;
use super::state::{Message, State};
use std::io::ErrorKind;
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Timeout for connecting to a node.
const TRY: Duration = Duration::from_millis(500);

/// Delay before the next attempt to connect, after a failure and after a lost link.
const AGAIN: Duration = Duration::from_millis(100);
const AGAIN_AFTER_LOSS: Duration = Duration::from_secs(1);

/// Has each shard of `state` linked to each other node, for as long as the server runs.
pub(super) fn start(state: &Arc<State>) {
    for (node, _) in state.setup.cluster.others() {
        for core in 0..state.mailboxes.len() {
            let (weak, link) = (Arc::downgrade(state), Arc::new(Link::default()));
            let run = move || keep(&weak, core, node, &link);
            if let Err(error) = std::thread::Builder::new().name("link".to_owned()).spawn(run) {
                state.warn("hb", "hb.c", format!("cannot start a thread for a link - {error}"));
            }
        }
    }
}

fn keep(state: &Weak<State>, core: usize, node: usize, link: &Arc<Link>) {
    // Since when all attempts to connect have been refused.
    let mut refused_ns = None;
    // Since when this node has been waiting for the other before it answers for anything.
    let mut waits_ns: Option<u64> = None;
    while let Some(state) = state.upgrade() {
        let mut pause = AGAIN;
        if state.quiet.load(Ordering::Relaxed) > 0 {
            return;
        }
        let tries = state.is_ready() && !link.0.load(Ordering::Acquire);
        let (now_ns, mut is_refused) = (state.now_ns(), None);
        if tries {
            let to = &state.setup.cluster.nodes()[node];
            let addresses = (to.host.as_str(), to.port).to_socket_addrs().into_iter().flatten();
            let connected = addresses.into_iter().find_map(|address| {
                let tried = TcpStream::connect_timeout(&address, TRY);
                let refuses = tried.as_ref().is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
                is_refused = Some(is_refused.unwrap_or(true) && refuses);
                tried.ok()
            });
            if let Some(socket) = connected {
                link.0.store(true, Ordering::Release);
                pause = AGAIN_AFTER_LOSS;
                state.mailboxes[core].push(Message::Linked { node, socket, link: link.clone() });
                state.mailboxes[core].wake();
            }
        }
        refused_ns = is_refused.filter(|refused| *refused).and(refused_ns.or(Some(now_ns)));
        if core == 0 && refused_ns.is_some() {
            state.look(refused_ns);
        }
        let waits = core == 0 && tries && state.pair.mode().is_starting();
        if waits && now_ns > waits_ns.get_or_insert(now_ns).saturating_add(SILENCE_NS) {
            waits_ns = Some(u64::MAX);
            let to = &state.setup.cluster.nodes()[node];
            let what =
                "it may have newer records, so until it answers requests for records with two copies get code 11";
            let (name, host, port) = (to.name(), &to.host, to.port);
            state.warn("hb", "hb.c", format!("waits for node {name} at {host}:{port} - {what} - start it"));
        }
        drop(state);
        std::thread::sleep(pause);
    }
}
