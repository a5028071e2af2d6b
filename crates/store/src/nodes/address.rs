//! Addresses of a cluster's nodes, from the command line and from the nodes' replies.

use crate::wire::query::begin_of;
use std::fmt;
use std::net::Ipv6Addr;

pub const DEFAULT_PORT: u16 = 3000;

const HOSTS_MAX: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// Name or address, without brackets.
    pub name: String,
    pub port: u16,
}

impl HostPort {
    /// Reads `db1`, `db1:3100`, `10.0.0.1`, `[fe80::1]:3000`, `fe80::1`.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, String> {
        let advice = "give HOST or HOST:PORT; put an IPv6 address in brackets";
        let text = text.trim();
        let (name, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (name, port) = rest
                    .split_once(']')
                    .ok_or_else(|| format!("the bracket is not closed - {advice}"))?;
                if !port.is_empty() && !port.starts_with(':') {
                    return Err(format!(
                        "unexpected {} after the bracket - {advice}",
                        begin_of(port)
                    ));
                }
                (name, port.strip_prefix(':'))
            }
            // More than one colon: an IPv6 address without a port.
            None if text.matches(':').count() > 1 => (text, None),
            None => text
                .split_once(':')
                .map_or((text, None), |(name, port)| (name, Some(port))),
        };
        let forbidden = |c: char| c.is_whitespace() || c.is_control() || "/;,=[]".contains(c);
        if name.is_empty() || name.contains(forbidden) || name.contains(':') && !is_ipv6(name) {
            return Err(format!("{} is not a valid host - {advice}", begin_of(name)));
        }
        let port = port.map_or(Some(default_port), |port| {
            port.parse().ok().filter(|port| *port > 0)
        });
        let port =
            port.ok_or_else(|| format!("the port must be a number from 1 to 65535 - {advice}"))?;
        Ok(Self {
            name: name.to_owned(),
            port,
        })
    }
}

/// True for an IPv6 address, with or without a zone: `fe80::1%eth0`.
fn is_ipv6(name: &str) -> bool {
    let address = name.split('%').next().unwrap_or(name);
    address.parse::<Ipv6Addr>().is_ok()
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

/// A node that another node reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// Node id, upper case; empty if the server is too old to report it.
    pub node: String,
    /// The name in the node's certificate.
    pub tls_name: Option<String>,
    pub hosts: Vec<HostPort>,
}

impl Peer {
    /// A peer of which only the address is known.
    pub(crate) fn at(host: HostPort) -> Self {
        Self {
            node: String::new(),
            tls_name: None,
            hosts: vec![host],
        }
    }
}

/// Selects the kind of addresses in a query for peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeersQuery {
    pub uses_tls: bool,
    pub uses_alternate: bool,
}

impl PeersQuery {
    /// Name of the info request, such as `peers-clear-std`.
    pub fn name(self) -> String {
        let tls = if self.uses_tls { "tls" } else { "clear" };
        let alternate = if self.uses_alternate { "alt" } else { "std" };
        format!("peers-{tls}-{alternate}")
    }

    /// Name of the info request for servers before 3.10, which have no TLS.
    pub fn old_name(self) -> &'static str {
        if self.uses_alternate {
            "services-alternate"
        } else {
            "services"
        }
    }
}

/// Reads a list of peers: `GENERATION,DEFAULT-PORT,[[ID,TLS-NAME,[HOST,HOST:PORT]],...]`. TLS-NAME is empty without
/// TLS; a node that left has no hosts.
pub fn peers(value: &str) -> Result<Vec<Peer>, String> {
    parse_peers(value).ok_or_else(|| {
        format!(
            "expected peers such as 0,3000,[[BB9,,[10.0.0.1:3000]]], found {}",
            begin_of(value)
        )
    })
}

fn parse_peers(value: &str) -> Option<Vec<Peer>> {
    let (_generation, rest) = value.split_once(',')?;
    let (port, list) = rest.split_once(',')?;
    let default_port = match port {
        "" => DEFAULT_PORT,
        port => port.parse().ok().filter(|port| *port > 0)?,
    };
    let mut rest = list.strip_prefix('[')?.trim_end().strip_suffix(']')?;
    let mut parsed = Vec::new();
    while let Some(peer) = rest.strip_prefix('[') {
        let (node, after) = peer.split_once(',')?;
        let (tls_name, after) = after.split_once(',')?;
        let (hosts, after) = match after.strip_prefix('[') {
            Some(hosts) => parse_hosts(hosts, default_port)?,
            None => (Vec::new(), after),
        };
        parsed.push(Peer {
            node: node.to_uppercase(),
            tls_name: Some(tls_name.to_owned()).filter(|name| !name.is_empty()),
            hosts,
        });
        let after = after.strip_prefix(']')?;
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    rest.is_empty().then_some(parsed)
}

/// Parses hosts up to the closing bracket, and returns the text behind it. IPv6 addresses have their own brackets.
fn parse_hosts(list: &str, default_port: u16) -> Option<(Vec<HostPort>, &str)> {
    let mut hosts = Vec::new();
    let mut rest = list;
    loop {
        if let Some(after) = rest.strip_prefix(']') {
            return Some((hosts, after));
        }
        let address = if rest.starts_with('[') {
            rest.find(']')? + 1
        } else {
            0
        };
        let end = address + rest[address..].find([',', ']'])?;
        if hosts.len() < HOSTS_MAX {
            hosts.push(HostPort::parse(&rest[..end], default_port).ok()?);
        }
        rest = rest[end..].strip_prefix(',').unwrap_or(&rest[end..]);
    }
}

/// Parses the value of `services`: `10.0.0.1:3000;10.0.0.2:3000`, one or more addresses for each peer.
pub fn services(value: &str) -> Result<Vec<Peer>, String> {
    let peers = value
        .split(';')
        .filter(|host| !host.is_empty())
        .map(|host| HostPort::parse(host, DEFAULT_PORT).map(Peer::at));
    peers
        .collect::<Result<_, String>>()
        .map_err(|error| format!("expected hosts such as 10.0.0.1:3000;10.0.0.2:3000: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> HostPort {
        HostPort::parse(text, DEFAULT_PORT).unwrap()
    }

    #[test]
    fn hosts_are_read_with_and_without_ports_and_brackets() {
        let texts = [
            "db1",
            "db1:3100",
            "10.0.0.1",
            "[fe80::1]:3001",
            "[::1]",
            "fe80::1%eth0",
        ]
        .map(|text| host(text).to_string());
        assert_eq!(
            texts,
            [
                "db1:3000",
                "db1:3100",
                "10.0.0.1:3000",
                "[fe80::1]:3001",
                "[::1]:3000",
                "[fe80::1%eth0]:3000"
            ]
        );
        for text in [
            "",
            ":3000",
            "db1:",
            "db1:x",
            "db1:0",
            "db1:65536",
            "[::1",
            "[::1]3000",
            "a b",
            "http://x",
            "a,b",
            "[[a]",
        ] {
            assert!(HostPort::parse(text, DEFAULT_PORT).is_err(), "{text}");
        }
    }

    #[test]
    fn peers_are_read_as_servers_write_them() {
        assert_eq!(peers("0,3000,[]"), Ok(vec![]));
        // The default port is left out; a node that left has no hosts.
        let text = "7,3000,[[bb9,db2.tls,[10.0.0.2,[fe80::2]:3100,[::3],db2:3200]],[CC1,,[10.0.0.3]],[DD1,,]]";
        let read = peers(text).unwrap();
        let hosts: Vec<_> = read[0].hosts.iter().map(HostPort::to_string).collect();
        assert_eq!(
            hosts,
            ["10.0.0.2:3000", "[fe80::2]:3100", "[::3]:3000", "db2:3200"]
        );
        assert_eq!(read[0].node.as_str(), "BB9");
        assert_eq!(read[0].tls_name.as_deref(), Some("db2.tls"));
        assert_eq!(&read[1].hosts, &vec![host("10.0.0.3")]);
        assert_eq!(&read[1].tls_name, &None);
        assert_eq!((read.len(), read[2].hosts.len()), (3, 0));
        assert_eq!(
            peers("7,4333,[[BB9,,[db]]]").unwrap()[0].hosts[0].port,
            4333
        );
    }

    #[test]
    fn a_malformed_list_of_peers_is_an_error_wherever_it_is_cut() {
        let text = "7,3000,[[BB9,,[10.0.0.2,[fe80::2]:3100]]]";
        assert!(peers(text).is_ok());
        for cut in 0..text.len() {
            let error = peers(&text[..cut]).unwrap_err();
            assert!(error.starts_with("expected peers such as"), "{error}");
        }
        for text in [
            "ERROR:4:unrecognized command",
            "7,3000,[[BB9,,[10.0.0.2:x]]]",
            "7,3000,[[[[[[",
            "7,3000,[]]",
            "7,70000,[]",
            "7,0,[[BB9,,[10.0.0.2]]]",
            "é,é,[é]",
        ] {
            assert!(peers(text).is_err(), "{text}");
        }
    }

    #[test]
    fn old_servers_report_only_addresses() {
        let read = services("10.0.0.2:3000;10.0.0.3:3100;").unwrap();
        assert_eq!(
            read.iter()
                .map(|peer| peer.hosts[0].to_string())
                .collect::<Vec<_>>(),
            ["10.0.0.2:3000", "10.0.0.3:3100"]
        );
        assert_eq!(services(""), Ok(vec![]));
        assert!(services("ERROR::x").is_err());
    }

    #[test]
    fn a_query_for_peers_selects_plain_tls_or_alternate_addresses() {
        let query = PeersQuery {
            uses_tls: true,
            uses_alternate: true,
        };
        assert_eq!(query.name(), "peers-tls-alt".to_owned());
        assert_eq!(query.old_name(), "services-alternate");
    }
}
