use super::*;
use crate::observe::{NamespaceCounts, ServerCounts};
use crate::ops::{self, BinEntry, operation, particle};
use crate::wire::message::{self, MessageHeader, field, info1, info2, info3};
use crate::wire::{FrameKind, frame};
use crate::{DeviceHeader, ResultCode};
use device::guard::{EraseAnswers, Guard, WriteRequest};
use device::target::Target;
use results::testing::modified;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};

mod hangs;
mod unsupported;
mod words;

const LIMIT: Duration = Duration::from_secs(20);

fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

struct Bench {
    server: Option<Server>,
    address: SocketAddr,
    _dir: tempfile::TempDir,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Bench {
    fn new(cores: u16, limits: ClientLimits) -> Option<Self> {
        let listener = listener();
        let port = listener.local_addr().unwrap().port();
        Self::on(
            listener,
            cores,
            limits,
            Cluster::new(vec![ClusterNode::new("127.0.0.1", port)], 0),
        )
    }

    fn on(
        listener: TcpListener,
        cores: u16,
        limits: ClientLimits,
        cluster: Cluster,
    ) -> Option<Self> {
        Self::with(40 << 20, "", listener, cores, limits, cluster)
    }

    fn with(
        bytes: u64,
        settings: &str,
        listener: TcpListener,
        cores: u16,
        limits: ClientLimits,
        cluster: Cluster,
    ) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("records").to_str().unwrap().to_owned();
        let storage =
            format!("file {file}\n filesize {bytes}\n write-block-size 256K\n {settings}");
        let request = WriteRequest {
            file_size_bytes: Some(bytes),
            ..WriteRequest::new(file, "test")
        };
        Self::storing(dir, &storage, request, listener, cores, limits, cluster)
    }

    fn storing(
        dir: tempfile::TempDir,
        storage: &str,
        request: WriteRequest,
        listener: TcpListener,
        cores: u16,
        limits: ClientLimits,
        cluster: Cluster,
    ) -> Option<Self> {
        let address = listener.local_addr().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = lines.clone();
        let text = format!(
            "service {{\n service-threads {cores}\n}}\nnamespace test {{\n replication-factor {}\n storage-engine device \
             {{\n {storage}\n }}\n}}",
            cluster.nodes().len().min(2)
        );
        let config = crate::conf::parse(text.as_bytes()).unwrap().config;
        let guard = Guard::new(Some(dir.path().join("state")));
        let mut answers = EraseAnswers::named([request.path.clone()]);
        let consent = guard.consent(&[request], &mut answers).unwrap().remove(0);
        let header = DeviceHeader::new(&config.namespaces[0].settings, 1, 0, cores, 1);
        let setup = ServerSetup {
            accept_losses: false,
            config,
            devices: vec![vec![(Arc::new(Target::writable(consent)), header)]],
            listeners: vec![listener],
            address: (address.ip(), address.port()),
            limits,
            cluster,
            log: Box::new(move |line| log.lock().unwrap().push(line.text)),
        };
        match Server::start(setup) {
            Ok(server) => {
                let begin = Instant::now();
                while !server.state().is_ready() {
                    assert!(begin.elapsed() < LIMIT && !server.has_ended());
                    std::thread::sleep(Duration::from_millis(1));
                }
                Some(Self {
                    server: Some(server),
                    address,
                    _dir: dir,
                    lines,
                })
            }
            Err(error) => {
                println!("skipped: no io_uring with sockets: {error}");
                None
            }
        }
    }

    fn client(&self) -> Client {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(LIMIT)).unwrap();
        socket.set_nodelay(true).unwrap();
        Client(socket)
    }

    fn is_linked(&self) -> bool {
        self.server.as_ref().unwrap().state().is_linked()
    }

    fn has_said(&self, begin: &str) -> bool {
        self.lines
            .lock()
            .unwrap()
            .iter()
            .any(|line| line.starts_with(begin))
    }

    fn counted(&self, of: impl FnOnce(&ServerCounts) -> u64) -> u64 {
        self.server
            .as_ref()
            .unwrap()
            .state()
            .facts(|facts| of(&facts.counts))
    }

    fn until(&self, what: &str, mut is: impl FnMut(&Self) -> bool) {
        let begin = Instant::now();
        while !is(self) {
            assert!(
                begin.elapsed() < LIMIT,
                "{what}: {:?}",
                self.lines.lock().unwrap()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn stop(mut self) {
        self.server.take().unwrap().stop().unwrap();
    }
}

struct Client(TcpStream);

impl Client {
    fn reply(&mut self) -> io::Result<(FrameKind, Vec<u8>)> {
        let mut header = [0; frame::HEADER_BYTES];
        self.0.read_exact(&mut header)?;
        let (kind, len) = frame::header(header, 1 << 30).unwrap();
        let mut body = vec![0; len];
        self.0.read_exact(&mut body)?;
        Ok((kind, body))
    }

    /// Result, generation and the first value of the next reply.
    fn result(&mut self) -> (u8, u32, Vec<u8>) {
        let (kind, body) = self.reply().unwrap();
        assert_eq!(kind, FrameKind::Message);
        let mut rest = &body[..];
        let header = MessageHeader::take(&mut rest).unwrap();
        (
            header.result,
            header.generation,
            ops::entries(rest)
                .next()
                .map_or(Vec::new(), |op| op.value.to_vec()),
        )
    }

    fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0; 64]) {
            Ok(0) => true,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
            Ok(_) => false,
        }
    }

    fn ask(&mut self, frames: &[u8]) -> (u8, u32, Vec<u8>) {
        self.0.write_all(frames).unwrap();
        self.result()
    }
}

fn digest_of(key: u32) -> crate::Digest {
    crate::digest(b"set", particle::INTEGER, &u64::from(key).to_be_bytes())
}

fn message(info: [u8; 4], key: u32, bins: &[BinEntry<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    let begin = frame::begin(&mut out, FrameKind::Message);
    MessageHeader {
        info,
        timeout: 1000,
        fields: 3,
        ops: bins.len() as u16,
        ..MessageHeader::default()
    }
    .put(&mut out);
    message::put_field(&mut out, field::NAMESPACE, b"test");
    message::put_field(&mut out, field::SET, b"set");
    message::put_field(&mut out, field::DIGEST, &digest_of(key));
    bins.iter().for_each(|bin| ops::put(&mut out, bin));
    frame::end(&mut out, begin);
    out
}

fn put(key: u32, value: &[u8]) -> Vec<u8> {
    let bin = BinEntry {
        operation: operation::WRITE,
        particle: particle::BLOB,
        name: b"b",
        value,
    };
    message([0, info2::WRITE, 0, 0], key, &[bin])
}

fn get(key: u32) -> Vec<u8> {
    message([info1::READ | info1::GET_ALL, 0, 0, 0], key, &[])
}

fn info(body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let begin = frame::begin(&mut out, FrameKind::Info);
    out.extend_from_slice(body);
    frame::end(&mut out, begin);
    out
}

#[test]
fn pipelined_requests_are_answered_in_their_order_whichever_core_has_the_record() {
    let Some(bench) = Bench::new(3, ClientLimits::default()) else {
        return;
    };
    let mut client = bench.client();
    let mut frames = Vec::new();
    for key in 0..2_000 {
        frames.extend(put(key, &key.to_be_bytes()));
        frames.extend(get(key));
        frames.extend(info(format!("x{key}\n").as_bytes()));
    }
    let mut writer = client.0.try_clone().unwrap();
    let thread = std::thread::spawn(move || writer.write_all(&frames).unwrap());
    for key in 0..2_000_u32 {
        assert_eq!(client.result(), (0, 1, Vec::new()));
        assert_eq!(client.result(), (0, 1, key.to_be_bytes().to_vec()));
        let (kind, text) = client.reply().unwrap();
        assert_eq!(kind, FrameKind::Info);
        assert!(text.starts_with(format!("x{key}\tERROR").as_bytes()));
    }
    thread.join().unwrap();
    assert_eq!(client.ask(&get(2_000)).0, 2, "not found");
    let counts = |of: &ServerCounts| {
        let NamespaceCounts { client, store, .. } = &of.namespaces[0];
        (
            store.objects,
            client.write.success,
            client.read.success,
            client.read.not_found,
            of.info_requests,
        )
    };
    let all = (2_000, 2_000, 2_000, 1, 2_000);
    bench.until("all are counted", |bench| {
        bench.counted(|of| u64::from(counts(of) == all)) == 1
    });
    bench.stop();
}

#[test]
fn one_connection_writes_and_reads_the_records_of_both_cores() {
    let listener = listener();
    let cluster = Cluster::new(
        vec![ClusterNode::new(
            "127.0.0.1",
            listener.local_addr().unwrap().port(),
        )],
        0,
    );
    let settings = "commit-to-device true\n post-write-queue 0";
    let Some(bench) = Bench::with(
        40 << 20,
        settings,
        listener,
        2,
        ClientLimits::default(),
        cluster,
    ) else {
        return;
    };
    let mut client = bench.client();
    let value = |key: u32| vec![key as u8; 40_000];
    for key in 0..60 {
        assert_eq!(client.ask(&put(key, &value(key))), (0, 1, Vec::new()));
    }
    for key in 0..60 {
        assert_eq!(client.ask(&get(key)), (0, 1, value(key)));
    }
    // Each core has 30 records or so, of which up to six are in a block in memory.
    let read = |bench: &Bench| bench.counted(|of| of.namespaces[0].store.device_reads);
    bench.until("both devices are read", |bench| read(bench) >= 40);
    bench.stop();
}

#[test]
fn one_cpu_gets_no_server_thread_unless_service_threads_is_given() {
    let cores = |service: &str| {
        let text = format!(
            "service {{\n {service}\n}}\nnamespace test {{\n storage-engine device {{\n file f\n filesize 40M\n }}\n}}"
        );
        usize::from(cores(&crate::conf::parse(text.as_bytes()).unwrap().config))
    };
    let cpus = std::thread::available_parallelism().unwrap().get();
    assert_eq!(cores("service-threads 3"), 3);
    assert_eq!(cores(""), (cpus - 1).max(1));
}

#[test]
fn a_frame_may_arrive_in_any_pieces() {
    let Some(bench) = Bench::new(2, ClientLimits::default()) else {
        return;
    };
    let mut client = bench.client();
    let frames = [put(1, &[7; 300]), get(1)].concat();
    for byte in &frames {
        client.0.write_all(&[*byte]).unwrap();
    }
    assert_eq!(client.result(), (0, 1, Vec::new()));
    assert_eq!(client.result(), (0, 1, vec![7; 300]));
    // Send a request that is larger than a buffer of the ring, and the next requests in the same write.
    let large = vec![9; 200_000];
    client
        .0
        .write_all(&[put(2, &large), get(2), get(1)].concat())
        .unwrap();
    assert_eq!(client.result(), (0, 1, Vec::new()));
    assert_eq!(client.result(), (0, 1, large));
    assert_eq!(client.result().2, [7; 300]);
}

#[test]
fn bytes_that_are_no_frame_close_only_their_own_connection() {
    let Some(bench) = Bench::new(
        2,
        modified(ClientLimits::default(), |it| it.frame_bytes = 1 << 20),
    ) else {
        return;
    };
    let mut good = bench.client();
    assert_eq!(good.ask(&put(1, b"x")), (0, 1, Vec::new()));
    let mut cut = put(1, b"y");
    cut[8] = 1;
    let wrong = [
        b"GET / HTTP/1.0\r\n\r\n".to_vec(),
        vec![2, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        vec![2, 3, 0, 0, 0, 0x20, 0, 0],
        vec![2, 9, 0, 0, 0, 0, 0, 1, 0],
        cut,
        vec![node_message::MAGIC; 64],
    ];
    for (at, bytes) in (1..).zip(&wrong) {
        let mut bad = bench.client();
        bad.0.write_all(bytes).unwrap();
        assert!(bad.is_closed(), "{bytes:?}");
        bench.until("it is counted", |bench| {
            bench.counted(|of| of.malformed) == at
        });
    }
    assert_eq!(good.ask(&get(1)), (0, 1, b"x".to_vec()));
    // An unsupported request, such as a login, is answered.
    good.0.write_all(&[2, 2, 0, 0, 0, 0, 0, 0]).unwrap();
    assert_eq!(good.reply().unwrap().0, FrameKind::Security);
    let mut other = put(3, b"z");
    let at = other.windows(4).position(|bytes| bytes == b"test").unwrap();
    other[at..at + 4].copy_from_slice(b"none");
    assert_eq!(good.ask(&other).0, 20, "no such namespace");
}

#[test]
fn connections_with_half_a_frame_or_without_requests_are_closed() {
    let limits = ClientLimits {
        idle_ms: 300,
        stalled_ms: 300,
        ..ClientLimits::default()
    };
    let Some(bench) = Bench::new(1, limits) else {
        return;
    };
    let mut half = bench.client();
    let mut silent = bench.client();
    half.0.write_all(&put(1, b"x")[..20]).unwrap();
    assert!(half.is_closed() && silent.is_closed());
    bench.until("both are counted", |bench| {
        bench.counted(|of| of.connections_reaped) == 2
    });
    let limits = modified(ClientLimits::default(), |it| it.idle_ms = 60_000);
    let Some(bench) = Bench::new(1, limits) else {
        return;
    };
    assert_eq!(bench.client().ask(&put(1, b"x")), (0, 1, Vec::new()));
}

#[test]
fn the_server_stops_reading_from_a_client_that_reads_no_replies() {
    let Some(bench) = Bench::new(2, ClientLimits::default()) else {
        return;
    };
    let mut good = bench.client();
    assert_eq!(good.ask(&put(1, &[5; 20_000])).0, 0);
    let mut greedy = bench.client();
    greedy.0.set_nonblocking(true).unwrap();
    // Each request of about 70 bytes asks for 20,000 bytes. The server handles a limited number, then stops receiving.
    let requests = get(1).repeat(200);
    let mut asked = 0;
    let mut full = Instant::now();
    while full.elapsed() < Duration::from_millis(300) {
        match greedy.0.write(&requests[asked % requests.len()..]) {
            Ok(bytes) => (asked, full) = (asked + bytes, Instant::now()),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    assert_eq!(good.ask(&get(1)).2.len(), 20_000);
    // The replies fill 1 MiB in the server and the kernel's socket buffers: far less than the client requested.
    let answered = bench.counted(|of| of.namespaces[0].client.read.success) as usize * 20_000;
    assert!(
        answered < 50 << 20 && answered < asked / get(1).len() * 20_000,
        "{answered}"
    );
    // Once the client reads, it gets all replies.
    greedy.0.set_nonblocking(false).unwrap();
    let rest = asked.next_multiple_of(get(1).len()) - asked;
    let mut writer = greedy.0.try_clone().unwrap();
    let torn = get(1)[get(1).len() - rest..].to_vec();
    let thread = std::thread::spawn(move || writer.write_all(&torn).unwrap());
    for _ in 0..(asked + rest) / get(1).len() {
        assert_eq!(greedy.result().2.len(), 20_000);
    }
    thread.join().unwrap();
    assert_eq!(good.ask(&get(1)).2.len(), 20_000);
}

#[test]
fn unfinished_frames_stay_within_the_memory_limit() {
    let Some(bench) = Bench::new(
        2,
        modified(ClientLimits::default(), |it| it.memory_bytes = 16 << 20),
    ) else {
        return;
    };
    let mut good = bench.client();
    let mut greedy: Vec<_> = (0..10).map(|_| bench.client()).collect();
    let part = [&[2, 3, 0, 0, 3, 0, 0, 0][..], &[22; 6 << 20]].concat();
    // Each client sends 6 MiB of a frame of 48 MiB. A client whose connection is closed cannot send everything.
    greedy
        .iter_mut()
        .for_each(|client| _ = client.0.write_all(&part));
    bench.until("those that hold most are closed", |bench| {
        (6..10).contains(&bench.counted(|of| of.connections_reaped))
    });
    assert_eq!(good.ask(&put(1, b"x")), (0, 1, Vec::new()));
}

#[test]
fn a_client_that_closes_its_sending_side_still_gets_its_replies() {
    let Some(bench) = Bench::new(2, ClientLimits::default()) else {
        return;
    };
    let mut client = bench.client();
    client
        .0
        .write_all(&[put(1, &[7; 200_000]), get(1), get(1)].concat())
        .unwrap();
    client.0.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(client.result().0, 0);
    (0..2).for_each(|_| assert_eq!(client.result().2, [7; 200_000]));
    assert!(client.is_closed());
}

#[test]
fn thousands_of_connections_are_served_and_one_too_many_is_closed() {
    let files = sys::process::raise_open_files().unwrap();
    // Opens 10,000 connections, or fewer if the limit of open files requires it. Both ends of each are in this process.
    let count = 10_000.min((files as usize).saturating_sub(500) / 2);
    if count < 10_000 {
        println!("skipped: 10,000 connections (only {count}: the limit of open files is {files})");
    }
    let Some(bench) = Bench::new(
        2,
        modified(ClientLimits::default(), |it| it.connections = count),
    ) else {
        return;
    };
    let mut clients: Vec<_> = (0..count).map(|_| bench.client()).collect();
    for (key, client) in (0..).zip(&mut clients) {
        client.0.write_all(&put(key, b"x")).unwrap();
    }
    for client in &mut clients {
        assert_eq!(client.result(), (0, 1, Vec::new()));
    }
    let connections = |bench: &Bench| {
        bench
            .server
            .as_ref()
            .unwrap()
            .state()
            .connections
            .load(Ordering::Relaxed)
    };
    assert_eq!(connections(&bench), count);
    assert!(bench.client().is_closed());
    clients.truncate(10);
    bench.until("they are gone", |bench| connections(bench) == 10);
    assert_eq!(bench.client().ask(&get(7)), (0, 1, b"x".to_vec()));
}

fn batch(keys: std::ops::Range<u32>) -> Vec<u8> {
    let mut body = (keys.len() as u32).to_be_bytes().to_vec();
    body.push(0);
    for (index, key) in (0..).zip(keys) {
        body.extend_from_slice(&u32::to_be_bytes(index));
        body.extend_from_slice(&digest_of(key));
        if index > 0 {
            body.push(1);
            continue;
        }
        body.extend_from_slice(&[0, info1::READ | info1::GET_ALL, 0, 2, 0, 0]);
        message::put_field(&mut body, field::NAMESPACE, b"test");
        message::put_field(&mut body, field::SET, b"set");
    }
    let mut out = Vec::new();
    let begin = frame::begin(&mut out, FrameKind::Message);
    MessageHeader {
        info: [info1::READ | info1::BATCH, 0, 0, 0],
        fields: 1,
        ..MessageHeader::default()
    }
    .put(&mut out);
    message::put_field(&mut out, field::BATCH, &body);
    frame::end(&mut out, begin);
    out
}

#[test]
fn a_large_batch_is_answered_in_several_frames_and_in_order() {
    let Some(bench) = Bench::new(3, ClientLimits::default()) else {
        return;
    };
    let mut client = bench.client();
    for key in 0..500 {
        assert_eq!(client.ask(&put(key, &vec![key as u8; 10_000])).0, 0);
    }
    // The reply to each batch has 5 MB: more than the server buffers for a client that does not read.
    client
        .0
        .write_all(&[get(0), batch(0..501), batch(0..501), get(1)].concat())
        .unwrap();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(client.result().2.len(), 10_000);
    for _ in 0..2 {
        let mut found = Vec::new();
        let mut missing = 0;
        let mut frames = 0;
        'frames: loop {
            let body = client.reply().unwrap().1;
            frames += 1;
            let mut rest = &body[..];
            while !rest.is_empty() {
                let header = MessageHeader::take(&mut rest).unwrap();
                if header.info[2] & info3::LAST != 0 {
                    assert!(rest.is_empty());
                    break 'frames;
                }
                missing += usize::from(header.result == 2);
                for _ in 0..header.ops {
                    let value = ops::take(&mut rest).unwrap().value;
                    assert_eq!(value, vec![header.timeout as u8; 10_000]);
                    found.push(header.timeout);
                }
            }
        }
        found.sort_unstable();
        assert_eq!((found, missing), ((0..500).collect(), 1));
        assert!(frames > 1);
    }
    assert_eq!(client.result().2, vec![1; 10_000]);
}

#[test]
fn a_connection_with_a_batch_above_the_memory_limit_is_closed_once() {
    let Some(bench) = Bench::new(
        1,
        modified(ClientLimits::default(), |it| it.memory_bytes = 16 << 10),
    ) else {
        return;
    };
    let mut good = bench.client();
    for key in 0..500 {
        assert_eq!(good.ask(&put(key, &[5; 1000])).0, 0);
    }
    // The memory of the smaller batch is still in use when the larger batch arrives.
    for pair in 1..20 {
        let mut clients = [bench.client(), bench.client()];
        for (client, keys) in clients.iter_mut().zip([400, 500]) {
            client.0.write_all(&batch(0..keys)).unwrap();
        }
        bench.until("both are closed", |bench| {
            bench.counted(|of| of.connections_reaped) >= 2 * pair
        });
        assert_eq!(good.ask(&get(1)).2, [5; 1000]);
    }
    assert_eq!(bench.counted(|of| of.connections_reaped), 38);
}

#[test]
fn a_stopped_server_closes_its_connections() {
    let Some(bench) = Bench::new(2, ClientLimits::default()) else {
        return;
    };
    let mut client = bench.client();
    assert_eq!(client.ask(&put(1, b"x")), (0, 1, Vec::new()));
    bench.stop();
    assert!(client.is_closed());
}

#[test]
fn a_failed_ring_ends_the_server_after_the_other_cores_wrote_their_buffers() {
    let listener = listener();
    let cluster = Cluster::new(
        vec![ClusterNode::new(
            "127.0.0.1",
            listener.local_addr().unwrap().port(),
        )],
        0,
    );
    // Partly filled buffers are not written before the end.
    let settings = "flush-max-ms 0";
    let Some(mut bench) = Bench::with(
        40 << 20,
        settings,
        listener,
        2,
        ClientLimits::default(),
        cluster,
    ) else {
        return;
    };
    let mut clients = [bench.client(), bench.client()];
    let value = |key: u32| format!("value {key:04}");
    for key in 0..40 {
        assert_eq!(clients[0].ask(&put(key, value(key).as_bytes())).0, 0);
        assert_eq!(clients[1].ask(&get(key)).2, value(key).as_bytes());
    }
    let server = bench.server.take().unwrap();
    let why = "the ring of core 1 failed";
    server.state.mailboxes[1].push(CoreMessage::Fail(why.to_owned()));
    server.state.mailboxes[1].wake();
    // Requests to the failed core are neither answered nor waited for.
    clients
        .iter_mut()
        .for_each(|client| _ = client.0.write_all(&get(7)));
    assert!(
        clients
            .iter_mut()
            .all(|client| client.reply().is_err() || client.is_closed())
    );
    let begin = Instant::now();
    while !server.has_ended() && begin.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(server.stop(), Err(why.to_owned()));
    let bytes = std::fs::read(bench._dir.path().join("records")).unwrap();
    let mut written: Vec<_> = bytes
        .windows(10)
        .filter(|bytes| bytes.starts_with(b"value "))
        .collect();
    written.sort_unstable();
    written.dedup();
    let of_the_other: Vec<_> = (0..40)
        .filter(|key| crate::partition(&digest_of(*key)).is_multiple_of(2))
        .map(value)
        .collect();
    assert_eq!(
        written,
        of_the_other
            .iter()
            .map(String::as_bytes)
            .collect::<Vec<_>>()
    );
}

#[test]
fn two_nodes_replicate_and_proxy_records_and_one_takes_over_when_the_other_stops() {
    let listeners = [listener(), listener()];
    let nodes = listeners
        .each_ref()
        .map(|of| ClusterNode::new("127.0.0.1", of.local_addr().unwrap().port()))
        .to_vec();
    let [first, second] = listeners;
    let cluster = |own| Cluster::new(nodes.clone(), own);
    let Some(a) = Bench::on(first, 2, ClientLimits::default(), cluster(0)) else {
        return;
    };
    let b = Bench::on(second, 3, ClientLimits::default(), cluster(1)).unwrap();
    [&a, &b]
        .iter()
        .for_each(|of| of.until("paired", |of| of.has_said("paired with")));
    let mut to_a = a.client();
    let mut to_b = b.client();
    let mut masters = [0, 0];
    for key in 0..200 {
        let a_has = cluster(0).has(crate::partition(&digest_of(key)), 0);
        let [master, other] = if a_has {
            [&mut to_a, &mut to_b]
        } else {
            [&mut to_b, &mut to_a]
        };
        masters[usize::from(a_has)] += 1;
        let found = other.ask(&put(key, b"x"));
        assert_eq!(found, (0, 1, Vec::new()), "the master carries it out");
        assert_eq!(master.ask(&put(key, b"y")), (0, 2, Vec::new()));
        assert_eq!(other.ask(&get(key)), (0, 2, b"y".to_vec()));
    }
    assert!(masters.iter().all(|count| *count > 50), "{masters:?}");
    let objects = |of: &ServerCounts| of.namespaces[0].store.objects;
    b.until("each has all", |_| {
        a.counted(objects) == 200 && b.counted(objects) == 200
    });
    let counts = |of: &ServerCounts| {
        let NamespaceCounts {
            client, from_proxy, ..
        } = &of.namespaces[0];
        [
            client.proxy.success,
            from_proxy.write.success,
            client.read.success,
            from_proxy.read.success,
        ]
    };
    // Replicas serve reads themselves.
    for (node, own) in [(&a, masters[1]), (&b, masters[0])] {
        node.until("all are counted", |node| {
            let mut counted = [0; 4];
            node.counted(|of| {
                counted = counts(of);
                0
            });
            counted == [200 - own, own, 200 - own, 0]
        });
    }
    // The loss of a node is logged. The other node serves its own records, then takes over and serves all records.
    b.stop();
    a.until("said", |of| {
        of.lines
            .lock()
            .unwrap()
            .iter()
            .any(|line| line.contains("is disconnected"))
    });
    let own = (0..200)
        .find(|key| cluster(0).has(crate::partition(&digest_of(*key)), 0))
        .unwrap();
    assert_eq!(to_a.ask(&get(own)).0, 0);
    a.until("it takes over", |of| of.has_said("this node took over"));
    for key in 0..200 {
        assert_eq!(to_a.ask(&put(key, b"z")), (0, 3, Vec::new()));
    }
    a.until("said", |of| of.has_said("this node answers all requests"));
}

#[test]
fn a_write_that_the_replica_refuses_is_not_acknowledged() {
    let listeners = [listener(), listener()];
    let nodes = listeners
        .each_ref()
        .map(|of| ClusterNode::new("127.0.0.1", of.local_addr().unwrap().port()))
        .to_vec();
    let [first, second] = listeners;
    let cluster = |own| Cluster::new(nodes.clone(), own);
    let Some(a) = Bench::on(first, 1, ClientLimits::default(), cluster(0)) else {
        return;
    };
    let b = Bench::with(12 << 20, "", second, 1, ClientLimits::default(), cluster(1)).unwrap();
    a.until("they are paired", |of| of.has_said("paired with"));
    let mut keys = (0..).filter(|key| cluster(0).has(crate::partition(&digest_of(*key)), 0));
    let mut client = a.client();
    let written = keys
        .by_ref()
        .take(100)
        .take_while(|key| client.ask(&put(*key, &[1; 100_000])).0 == 0)
        .count();
    assert!(
        (8..40).contains(&written),
        "the other has no space for more: {written}"
    );
    let refused = client.ask(&put(keys.next().unwrap(), &[2; 100_000])).0;
    assert_eq!(refused, ResultCode::TIMEOUT.0, "it may take effect later");
    b.until("it has the others", |of| {
        of.counted(|counts| counts.namespaces[0].store.objects) == written as u64
    });
}

#[test]
fn every_node_answers_for_every_record_through_the_master_if_necessary() {
    let listeners = [listener(), listener(), listener()];
    let nodes = listeners
        .each_ref()
        .map(|of| ClusterNode::new("127.0.0.1", of.local_addr().unwrap().port()))
        .to_vec();
    let mut benches = Vec::new();
    for (own, listener) in listeners.into_iter().enumerate() {
        let Some(bench) = Bench::on(
            listener,
            2,
            ClientLimits::default(),
            Cluster::new(nodes.clone(), own),
        ) else {
            return;
        };
        benches.push(bench);
    }
    benches
        .iter()
        .for_each(|bench| bench.until("linked", Bench::is_linked));
    let mut clients: Vec<_> = benches.iter().map(Bench::client).collect();
    for key in 0..60 {
        let found = clients[key as usize % 3].ask(&put(key, &key.to_be_bytes()));
        assert_eq!(found, (0, 1, Vec::new()));
    }
    let linearizable = |key| {
        message(
            [info1::READ | info1::GET_ALL, 0, info3::READ_TYPE, 0],
            key,
            &[],
        )
    };
    for client in &mut clients {
        for key in 0..60_u32 {
            assert_eq!(client.ask(&get(key)), (0, 1, key.to_be_bytes().to_vec()));
            let found = client.ask(&linearizable(key));
            assert_eq!(found, (0, 1, key.to_be_bytes().to_vec()));
        }
        assert_eq!(client.ask(&get(60)).0, 2);
        client.0.write_all(&batch(0..61)).unwrap();
        let body = client.reply().unwrap().1;
        let mut rest = &body[..];
        let mut results = Vec::new();
        while !rest.is_empty() {
            let header = MessageHeader::take(&mut rest).unwrap();
            results.push(header.result);
            message::take_ops(&mut rest, header.ops).unwrap();
        }
        results.sort_unstable();
        assert_eq!(
            results,
            [vec![0; 61], vec![2]].concat(),
            "60 records, the last entry, and one that is missing"
        );
    }
    let counted = |of: fn(&NamespaceCounts) -> u64| {
        benches
            .iter()
            .map(move |bench| bench.counted(|all| of(&all.namespaces[0])))
    };
    benches[0].until("all are counted", |_| {
        counted(|of| of.client.proxy.success).sum::<u64>() > 100
            && counted(|of| of.client.read.success).all(|reads| reads > 0)
    });
}
