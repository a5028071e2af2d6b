//! The server's place in the network: where it listens, which address clients get, and the nodes of its cluster.

use session::failure::Failure;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};
use store::conf::AerospikeConf;
use store::server::{Cluster, ClusterNode};

/// Maximum time for which a killed server may still hold the port.
const PORT_RELEASE_MAX: Duration = Duration::from_secs(2);

/// Retries while a killed server still holds the port: the kernel closes the server's io_uring with a delay.
fn bind_with_retries(socket_address: SocketAddr) -> std::io::Result<TcpListener> {
    let begin = Instant::now();
    loop {
        match TcpListener::bind(socket_address) {
            Err(error)
                if error.kind() == std::io::ErrorKind::AddrInUse
                    && begin.elapsed() < PORT_RELEASE_MAX =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            bound => return bound,
        }
    }
}

pub(super) fn listen(config: &AerospikeConf) -> Result<Vec<TcpListener>, Failure> {
    config
        .listen
        .addresses
        .iter()
        .map(|address: &_| {
            let socket_address = SocketAddr::from((*address, config.listen.port));
            bind_with_retries(socket_address).map_err(|error| {
                let advice = match error.kind() {
                    std::io::ErrorKind::AddrInUse => {
                        "another program has the port (ss -ltnp); end it, or give another port"
                    }
                    std::io::ErrorKind::AddrNotAvailable => "give an address of this machine",
                    std::io::ErrorKind::PermissionDenied => {
                        "ports below 1024 need root; give a higher port"
                    }
                    _ => sys::remedy(&error, "give another address or port"),
                };
                Failure::environment(format!(
                    "cannot listen on {socket_address} - {error} - {advice}"
                ))
            })
        })
        .collect()
}

/// Address advertised to clients. The port is 0 if the kernel chooses the port.
pub(super) fn advertised(config: &AerospikeConf) -> SocketAddr {
    let listen = &config.listen;
    let chosen = config.advertised();
    SocketAddr::from(chosen.unwrap_or_else(|| (routed_address(listen.addresses[0]), listen.port)))
}

/// Address with which this machine reaches other networks; loopback if there is no route to them. The real server
/// advertises the addresses of all interfaces, but loopback. `any`: the unspecified address of the address family.
fn routed_address(any: IpAddr) -> IpAddr {
    // Addresses of other networks, reserved for documentation: RFC 5737, RFC 3849.
    let [loopback, elsewhere]: [IpAddr; 2] = match any {
        IpAddr::V4(_) => [Ipv4Addr::LOCALHOST.into(), [192, 0, 2, 1].into()],
        IpAddr::V6(_) => [
            Ipv6Addr::LOCALHOST.into(),
            [0x2001_u16, 0xdb8, 0, 0, 0, 0, 0, 1].into(),
        ],
    };
    // For UDP, `connect` only chooses the route: it sends nothing.
    let local_address = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect((elsewhere, 9))?;
        socket.local_addr()
    });
    local_address.map_or(loopback, |address| address.ip())
}

pub(super) fn bound_port(listener: &TcpListener) -> Result<u16, Failure> {
    let local_address = listener.local_addr().map_err(|error| {
        Failure::environment(format!(
            "cannot read the port of the listening socket - {error}"
        ))
    })?;
    Ok(local_address.port())
}

/// The nodes of `config`, or this node alone. `address`: where clients reach this node.
pub(super) fn cluster(config: &AerospikeConf, address: SocketAddr) -> Cluster {
    let mut nodes: Vec<_> = config
        .nodes
        .iter()
        .map(|(address, port)| ClusterNode::new(&address.to_string(), *port))
        .collect();
    if nodes.is_empty() {
        nodes.push(ClusterNode::new(&address.ip().to_string(), address.port()));
    }
    // The configuration was refused if its nodes did not include this node.
    let own_index = config.own_node().unwrap_or(0);
    if let Some(id) = config.node_id.filter(|_| nodes.len() == 1) {
        nodes[own_index].id = id;
    }
    Cluster::new(nodes, own_index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_all_addresses_of_a_machine_advertises_a_single_one() {
        let mut config = AerospikeConf::default();
        config.listen.addresses = vec![Ipv4Addr::UNSPECIFIED.into()];
        let address = advertised(&config);
        assert!(
            !address.ip().is_unspecified() && address.port() == 3_000,
            "{address}"
        );
        TcpListener::bind((address.ip(), 0)).expect("an address of this machine");
    }
}
