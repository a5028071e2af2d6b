//! Connections to the other nodes: made, and made again, by a thread that does nothing else.

use super::connection::Link;
use super::state::{Message, State};
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
    while let Some(state) = state.upgrade() {
        let mut pause = AGAIN;
        if state.quiet.load(Ordering::Relaxed) > 0 {
            return;
        }
        if !link.0.load(Ordering::Acquire) {
            let to = &state.setup.cluster.nodes()[node];
            let addresses = (to.host.as_str(), to.port).to_socket_addrs().into_iter().flatten();
            let connected = addresses.into_iter().find_map(|address| TcpStream::connect_timeout(&address, TRY).ok());
            if let Some(socket) = connected {
                link.0.store(true, Ordering::Release);
                pause = AGAIN_AFTER_LOSS;
                state.mailboxes[core].push(Message::Linked { node, socket, link: link.clone() });
                state.mailboxes[core].wake();
            }
        }
        drop(state);
        std::thread::sleep(pause);
    }
}
