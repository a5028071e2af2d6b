//! A proxy that adds TLS and a login to a server without either. After a client's login, its frames are passed on.

use super::info_server::{CREDENTIAL_OF_ADMIN, log_in, security_reply, tls};
use rustls::{ServerConnection, StreamOwned};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// Read timeout of one direction, before the other direction is read.
const TURN: Duration = Duration::from_millis(1);

/// Listens for clients that have a certificate and log in as user admin with password admin. Stops when dropped.
pub struct TlsFront {
    pub address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    is_over: AtomicBool,
    logins: AtomicUsize,
    /// Number of connections that passed on a frame of a client.
    used: AtomicUsize,
}

impl TlsFront {
    pub fn before(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let serving = state.clone();
        thread::spawn(move || {
            for socket in listener.incoming().map_while(Result::ok) {
                if serving.is_over.load(Ordering::SeqCst) {
                    break;
                }
                let state = serving.clone();
                // Errors are ignored: the handshake of a client without a certificate fails.
                thread::spawn(move || drop(state.pass_on(socket, server)));
            }
        });
        Self { address, state }
    }

    /// Number of logins, by password or session.
    pub fn logins(&self) -> usize {
        self.state.logins.load(Ordering::SeqCst)
    }

    /// Number of connections that did more than a login.
    pub fn used(&self) -> usize {
        self.state.used.load(Ordering::SeqCst)
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn pass_on(&self, client: TcpStream, server: SocketAddr) -> io::Result<()> {
        let mut server = TcpStream::connect(server)?;
        for socket in [&client, &server] {
            socket.set_nodelay(true)?;
            socket.set_read_timeout(Some(TURN))?;
        }
        let mut client = StreamOwned::new(
            ServerConnection::new(tls(true)).map_err(io::Error::other)?,
            client,
        );
        let mut asked = Vec::new();
        let mut is_in = false;
        let mut is_used = false;
        while !self.is_over.load(Ordering::SeqCst) {
            read_some(&mut client, &mut asked)?;
            while let Some(frame) = take_frame(&mut asked) {
                if frame[1] == 2 {
                    let result = log_in(&frame[8..], "admin", CREDENTIAL_OF_ADMIN);
                    is_in |= result == 0;
                    self.logins
                        .fetch_add(usize::from(result == 0), Ordering::SeqCst);
                    client.write_all(&security_reply(result))?;
                } else if is_in {
                    self.used.fetch_add(usize::from(!is_used), Ordering::SeqCst);
                    is_used = true;
                    server.write_all(&frame)?;
                } else {
                    return Ok(());
                }
            }
            let mut answered = Vec::new();
            read_some(&mut server, &mut answered)?;
            client.write_all(&answered)?;
            client.flush()?;
        }
        Ok(())
    }
}

fn read_some(from: &mut impl Read, to: &mut Vec<u8>) -> io::Result<()> {
    let mut bytes = [0; 65_536];
    match from.read(&mut bytes) {
        Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
        Ok(count) => {
            to.extend_from_slice(&bytes[..count]);
            Ok(())
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => Ok(()),
        Err(error) => Err(error),
    }
}

fn take_frame(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let header: [u8; 8] = *bytes.first_chunk()?;
    let length = 8 + (u64::from_be_bytes(header) & 0xffff_ffff_ffff) as usize;
    (bytes.len() >= length).then(|| bytes.drain(..length).collect())
}
