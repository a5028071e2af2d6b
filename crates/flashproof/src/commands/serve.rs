//! `flashproof engine serve CONFIG`: runs the record engine as a server, until a signal ends it.

use super::done;
use crate::args::ServeArgs;
use device::guard::Request;
use device::target::Target;
use jiff::Timestamp;
use procedures::formatting;
use results::files::{self, Links};
use results::units::quoted;
use session::console;
use session::devices::consent;
use session::failure::{Failure, collect_all};
use session::signals::EndSignals;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{Seek, SeekFrom};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use store::conf::{self, Config, NamespaceConfig, ParsedConfig};
use store::observe::{Facts, Line, Logs, NamespaceCounts, Ticker, start_lines};
use store::server::{Cluster, Device, Limits, Node, Server, Setup, cores};
use store::{DeviceHeader, HeaderCheck, Losses, WRITTEN_BYTES, wire};

/// Maximum size of a configuration, bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Descriptors that are not client connections.
const OWN_FILES: u64 = 64;

/// Maximum number of queued log lines; more are dropped.
const LINES_MAX: usize = 10_000;

/// Poll interval for due log lines.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum time for which a killed server may still hold the port.
const PORT_RELEASE_MAX: Duration = Duration::from_secs(2);

/// Serves until SIGTERM or SIGINT.
pub fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let (config, text) = read(args)?;
    if args.dry_run {
        return done(&described(&config));
    }
    check_files(&config);
    let end_signals = EndSignals::listen("data that was only in memory is lost".to_owned())?;
    let listeners = listen(&config)?;
    let address = address(&config, &listeners)?;
    let cluster = cluster(&config, address)?;
    Logs::check(&config).map_err(cannot_log)?;
    let devices = open(&config, &args.erase)?;
    let mut logs = Logs::open(&config).map_err(cannot_log)?;
    let batch = wire::Limits { batch_requests: config.batch_max_requests, ..wire::Limits::default() };
    let (connections, idle_ms) = (config.proto_fd_max as usize, config.proto_fd_idle_ms.into());
    let limits = Limits { connections, idle_ms, batch, ..Limits::default() };
    // A slow reader of the log must not block the serving threads.
    let (sender, lines) = mpsc::sync_channel(LINES_MAX);
    let log = Box::new(move |line| _ = sender.try_send(line));
    let address = (address.ip(), address.port());
    let accept_losses = args.accept_losses;
    let setup = Setup { config, devices, listeners, address, limits, cluster, accept_losses, log };
    let begin = Instant::now();
    let server = Server::start(setup).map_err(Failure::environment)?;
    let started = server.state().facts(|facts| start_lines(facts, &text));
    write(&mut logs, &started);
    serve(&server, begin, &mut logs, &lines, &end_signals, SocketAddr::from(address));
    let damage = server.state().damage();
    let stop_result = server.stop();
    write(&mut logs, &lines.try_iter().collect::<Vec<_>>());
    stop_result.map_err(Failure::environment)?;
    refuse(&damage)?;
    write(&mut logs, &[Line::info("as", "as.c", "finished clean shutdown - exiting".to_owned())]);
    Ok(ExitCode::SUCCESS)
}

fn cannot_log((path, error): (String, std::io::Error)) -> Failure {
    Failure::environment(format!(
        "cannot write the log {} - {error} - check the path, or log to the console",
        quoted(&path)
    ))
}

/// Waits for the end, and writes the log meanwhile.
fn serve(
    server: &Server,
    begin: Instant,
    logs: &mut Logs,
    lines: &Receiver<Line>,
    end_signals: &EndSignals,
    address: SocketAddr,
) {
    let state = server.state();
    let mut ticker: Option<Ticker> = None;
    let now_ms = || begin.elapsed().as_millis() as u64;
    let pause = |ticker: &Option<Ticker>| if ticker.is_some() { POLL_INTERVAL } else { POLL_INTERVAL / 20 };
    while end_signals.wait(pause(&ticker)).is_none() && !server.has_ended() && state.damage().is_empty() {
        write(logs, &lines.try_iter().collect::<Vec<_>>());
        match &mut ticker {
            None if state.is_ready() => {
                ticker = Some(Ticker::new(now_ms()));
                let objects =
                    state.facts(|facts| facts.counts.namespaces.iter().map(|of| of.store.objects).sum::<u64>());
                let (seconds, bytes) = (begin.elapsed().as_secs_f64(), state.io().read_bytes);
                let text = format!("service ready: {objects} records, indexed in {seconds:.3} s, {bytes} bytes read");
                write(logs, &[Line::info("as", "as.c", text)]);
                write(logs, &state.facts(|facts| maybe_older(facts)));
                console::note(&format!("listening on {address}; {}", end_signals.stop_hint()));
            }
            None => {}
            Some(ticker) => write(logs, &state.facts(|facts| ticker.tick(now_ms(), facts))),
        }
    }
}

/// Refuses to serve damaged devices.
fn refuse(damage: &[(String, Losses)]) -> Result<(), Failure> {
    if damage.is_empty() {
        return Ok(());
    }
    let lines = damage.iter().map(|(name, losses)| format!("cannot open namespace {name} - {losses}"));
    Err(Failure::environment(format!(
        "{} - the log lists the damaged blocks; none was overwritten - copy the devices if you may want to recover \
         more, then start with --accept-losses, or clear the devices and lose all records",
        lines.collect::<Vec<_>>().join("\n")
    )))
}

/// Warnings at the start of a node with replication: if both nodes were killed at once, acknowledged data that was
/// only in memory is lost.
fn maybe_older(facts: &Facts) -> Vec<Line> {
    let namespaces = facts.config.namespaces.iter().zip(&facts.counts.namespaces);
    let doubtful = namespaces.filter(|(namespace, counts)| {
        namespace.replication_factor > 1 && !namespace.settings.commit_to_device && counts.store.objects > 0
    });
    let line = |(namespace, counts): (&NamespaceConfig, &NamespaceCounts)| {
        let text = format!(
            "{{{}}} {} records of an earlier run: if both nodes were killed at once, writes that were only in memory \
             are lost, and a node does not fetch records that only the other has - with commit-to-device, no \
             write is only in memory",
            namespace.settings.name, counts.store.objects
        );
        Line::warning("hb", "hb.c", text)
    };
    doubtful.map(line).collect()
}

/// Writes lines to the log. Errors do not end the service: the lines are lost.
fn write(logs: &mut Logs, lines: &[Line]) {
    if !lines.is_empty() {
        let _ = logs.write(Timestamp::now(), lines);
    }
}

fn read(args: &ServeArgs) -> Result<(Config, String), Failure> {
    let name = quoted(&args.config.display().to_string());
    let bytes = files::read(&args.config, Links::Followed, BYTES_MAX)
        .map_err(|error| Failure::usage(format!("cannot read {name} - {error}")))?;
    let ParsedConfig { config, notes } = conf::parse(&bytes).map_err(|problems| {
        let lines: Vec<_> = problems.0.iter().map(|problem| format!("{name}, {problem}")).collect();
        Failure::usage(lines.join("\n"))
    })?;
    notes.iter().for_each(|note| console::warning(&format!("{name}, {note}")));
    Ok((config, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Describes the effect of a configuration.
fn described(config: &Config) -> String {
    let listen_address = |address: &_| SocketAddr::from((*address, config.listen.port)).to_string();
    let addresses: Vec<_> = config.listen.addresses.iter().map(listen_address).collect();
    let mut text = format!("{} cores; clients on {}\n", cores(config), addresses.join(", "));
    for namespace in &config.namespaces {
        let (settings, devices) = (&namespace.settings, namespace.devices.join(", "));
        text += &format!(
            "namespace {}: write blocks of {} bytes on {devices}; {} of each record\n",
            settings.name,
            settings.write_block_bytes,
            if namespace.replication_factor > 1 { "two copies" } else { "one copy" }
        );
    }
    text
}

/// Raises the limit of open files, and warns if it is too low for the clients that the configuration allows.
fn check_files(config: &Config) {
    let needed_files = u64::from(config.proto_fd_max) + OWN_FILES;
    match sys::process::raise_open_files() {
        Ok(limit) if limit < needed_files => console::warning(&format!(
            "only {} clients can connect at once, but proto-fd-max allows {}: the limit of open files is {limit} - \
             raise the limit (ulimit -Hn, LimitNOFILE=)",
            limit.saturating_sub(OWN_FILES),
            config.proto_fd_max
        )),
        Ok(_) => {}
        Err(error) => console::warning(&format!("cannot read the limit of open files - {error}")),
    }
}

/// Listens at `socket_address`. Retries while a server that was just killed still holds the port: the kernel closes the
/// ring of that server with a delay.
fn bind_with_retries(socket_address: SocketAddr) -> std::io::Result<TcpListener> {
    let begin = Instant::now();
    loop {
        match TcpListener::bind(socket_address) {
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && begin.elapsed() < PORT_RELEASE_MAX => {
                std::thread::sleep(Duration::from_millis(10));
            }
            bound => return bound,
        }
    }
}

fn listen(config: &Config) -> Result<Vec<TcpListener>, Failure> {
    let bind = |address: &_| {
        let socket_address = SocketAddr::from((*address, config.listen.port));
        bind_with_retries(socket_address).map_err(|error| {
            let advice = match error.kind() {
                std::io::ErrorKind::AddrInUse => {
                    "another program has the port (ss -ltnp); end it, or give another port"
                }
                std::io::ErrorKind::AddrNotAvailable => "give an address of this machine",
                std::io::ErrorKind::PermissionDenied => "ports below 1024 need root; give a higher port",
                _ => sys::remedy(&error, "give another address or port"),
            };
            Failure::environment(format!("cannot listen on {socket_address} - {error} - {advice}"))
        })
    };
    config.listen.addresses.iter().map(bind).collect()
}

/// Address advertised to clients.
fn address(config: &Config, listeners: &[TcpListener]) -> Result<SocketAddr, Failure> {
    if let Some(any) =
        config.listen.addresses.iter().find(|address| address.is_unspecified() && config.access.is_none())
    {
        return Err(Failure::usage(format!(
            "cannot advertise an address to clients - {any} stands for all addresses of this machine - give a single \
             address, or add access-address"
        )));
    }
    let unknown = |error| Failure::environment(format!("cannot read the port of the listening socket - {error}"));
    let local_address = listeners[0].local_addr().map_err(unknown)?;
    Ok(config.access.map_or(local_address, SocketAddr::from))
}

fn cluster(config: &Config, address: SocketAddr) -> Result<Cluster, Failure> {
    let mut nodes: Vec<_> = config.nodes.iter().map(|(host, port)| Node::new(host, *port)).collect();
    let is_own = |node: &Node| {
        let at = node.host.parse().ok();
        node.port == address.port() && at.is_some_and(|at| at == address.ip() || config.listen.addresses.contains(&at))
    };
    if nodes.is_empty() {
        nodes.push(Node::new(&address.ip().to_string(), address.port()));
    }
    let Some(own_index) = nodes.iter().position(is_own) else {
        return Err(Failure::usage(format!(
            "cannot join the cluster - no mesh-seed-address-port line has {} {}, where clients reach this node - give \
             the same lines on each node, including a line for this node",
            address.ip(),
            address.port()
        )));
    };
    if let Some(id) = config.node_id.filter(|_| nodes.len() == 1) {
        nodes[own_index].id = id;
    }
    Ok(Cluster::new(nodes, own_index))
}

/// A device of a namespace, and its expected header.
struct ExpectedDevice<'a> {
    name: &'a str,
    file_bytes: Option<u64>,
    header: DeviceHeader,
}

/// Opens the devices of all namespaces of `config`. `erase` names devices that may be erased.
///
/// Errors: the guard refuses; the device was written with other settings, has a damaged header, or is too small.
fn open(config: &Config, erase: &[String]) -> Result<Vec<Vec<Device>>, Failure> {
    let expected: Vec<_> =
        config.namespaces.iter().flat_map(|namespace| expected_devices(namespace, cores(config))).collect();
    let existing = collect_all(expected.iter().map(existing_header), Failure::environment)?;
    check_sets(&expected, &existing)?;
    let request = |(expected, existing): (&ExpectedDevice<'_>, &Option<DeviceHeader>)| Request {
        file_size_bytes: expected.file_bytes,
        uses_whole_device: true,
        keeps_store: existing.as_ref().is_some_and(|header| holds_only_records(expected.name, header)),
        ..Request::new(expected.name, format!("records of namespace {}", expected.header.namespace))
    };
    let requests: Vec<_> = expected.iter().zip(&existing).map(request).collect();
    let consents = consent(&requests, erase, &[])?;
    let targets = consents.into_iter().map(|consent| {
        consent.notes().iter().for_each(|note| console::warning(&format!("{}: {note}", consent.name())));
        Arc::new(Target::writable(consent))
    });
    // All devices are checked before the first write.
    let targets: Vec<_> = targets.collect();
    let header = |((target, wanted), kept)| header(target, wanted, kept);
    let headers = collect_all(targets.iter().zip(&expected).zip(&existing).map(header), Failure::environment)?;
    let devices: Vec<Device> = targets.into_iter().zip(headers).collect();
    let unformatted: Vec<_> =
        devices.iter().zip(&existing).filter(|(_, kept)| kept.is_none()).map(|(new, _)| new.clone()).collect();
    formatting::format(&unformatted).map_err(Failure::environment)?;
    for (target, header) in &unformatted {
        console::note(&format!("{}: formatted for namespace {}", target.name(), header.namespace));
    }
    let mut devices = devices.into_iter();
    Ok(config.namespaces.iter().map(|namespace| devices.by_ref().take(namespace.devices.len()).collect()).collect())
}

fn expected_devices(namespace: &NamespaceConfig, cores: u16) -> Vec<ExpectedDevice<'_>> {
    let devices = namespace.devices.len() as u16;
    // Random identifier of the set of devices.
    let set = RandomState::new().hash_one(&namespace.devices);
    (0..)
        .zip(&namespace.devices)
        .map(|(index, name)| ExpectedDevice {
            name,
            file_bytes: namespace.file_bytes,
            header: DeviceHeader::new(&namespace.settings, devices, index, cores, set),
        })
        .collect()
}

/// The header of an existing store; `None` without a store. Errors: the store has other settings than expected.
fn existing_header(expected: &ExpectedDevice<'_>) -> Result<Option<DeviceHeader>, String> {
    // The guard refuses a path that cannot be read, or is neither file nor device.
    let Ok(metadata) = fs::metadata(expected.name) else { return Ok(None) };
    if !metadata.is_file() && !metadata.file_type().is_block_device() {
        return Ok(None);
    }
    let mut bytes = vec![0; WRITTEN_BYTES];
    let read_result = File::open(expected.name).and_then(|mut file| {
        file.read_exact_at(&mut bytes, 0)?;
        file.seek(SeekFrom::End(0))
    });
    let Ok(size_bytes) = read_result else { return Ok(None) };
    let Some(header) = compare_header(expected, &bytes, size_bytes)? else { return Ok(None) };
    // The position of each core's part depends on the size, so the size of an existing file must not change.
    match expected.file_bytes.filter(|bytes| metadata.is_file() && *bytes != metadata.len()) {
        Some(bytes) => Err(format!(
            "cannot open {} - it holds records and has {} bytes, but filesize is {bytes} - set filesize to the size of \
             the file, or remove the file and lose its records",
            expected.name,
            metadata.len()
        )),
        None => Ok(Some(header)),
    }
}

/// True if samples of the device show only the store of `header`. Otherwise says so: the guard then asks.
fn holds_only_records(name: &str, header: &DeviceHeader) -> bool {
    let Ok(device) = File::open(name) else { return false };
    let read = |at: u64, bytes: usize| {
        let mut read = vec![0; bytes];
        device.read_exact_at(&mut read, at).map(|()| read)
    };
    let foreign = header.foreign_block(RandomState::new().hash_one(name), read);
    if let Some(at) = foreign {
        console::warning(&format!(
            "{name} has the header of namespace {}, but the write block at byte {at} holds data that the namespace did \
             not write, and that the namespace would overwrite",
            header.namespace
        ));
    }
    foreign.is_none()
}

/// The header on the device, compared with the expected header; `None` if the device has no header.
fn compare_header(
    expected: &ExpectedDevice<'_>,
    bytes: &[u8],
    size_bytes: u64,
) -> Result<Option<DeviceHeader>, String> {
    let clear_hint = "or clear the device and lose its records (blkdiscard -z; if it is a file, remove it)";
    match expected.header.clone().sized(size_bytes).plan(bytes) {
        HeaderCheck::Format => Ok(None),
        HeaderCheck::Open(header) => Ok(Some(header)),
        HeaderCheck::Differs(differences) => Err(format!(
            "cannot open {} - it has records written with other settings: {} - use those settings, {clear_hint}",
            expected.name,
            differences.join(", ")
        )),
        HeaderCheck::Damaged => Err(format!(
            "cannot open {} - it has the header of a record store with a wrong checksum - {}",
            expected.name,
            clear_hint.trim_start_matches("or ")
        )),
    }
}

/// Checks that the devices of a namespace either all have its records, from one set, or none has records. Without one
/// of the devices, records would be missing; with a device of another set, older records would reappear.
fn check_sets(expected: &[ExpectedDevice<'_>], existing: &[Option<DeviceHeader>]) -> Result<(), Failure> {
    for (device, header) in expected.iter().zip(existing) {
        let namespace = &device.header.namespace;
        let mut others = expected.iter().zip(existing).filter(|(other, _)| other.header.namespace == *namespace);
        let other = others.find_map(|(other, kept)| {
            kept.as_ref()
                .filter(|kept| header.as_ref().is_none_or(|own| own.device_set != kept.device_set))
                .map(|kept| (other, kept))
        });
        let Some((other, kept)) = other else { continue };
        return Err(Failure::environment(match header {
            None => format!(
                "cannot open namespace {namespace} - {} has records of the namespace and {} has none - give all devices of \
                 the namespace, or clear {} and lose its records",
                other.name, device.name, other.name
            ),
            Some(own) => format!(
                "cannot open namespace {namespace} - {} and {} were not formatted together: they belong to the sets {:016x} \
                 and {:016x} - give devices of one set, or clear all of them and lose their records",
                device.name, other.name, own.device_set, kept.device_set
            ),
        }));
    }
    Ok(())
}

/// The header for a device that is now open for writing; an existing header is read again.
fn header(
    target: &Arc<Target>,
    expected: &ExpectedDevice<'_>,
    existing: &Option<DeviceHeader>,
) -> Result<DeviceHeader, String> {
    let cannot = |why: &str| format!("cannot open {} - {why}", expected.name);
    let space = expected.header.space(target.size_bytes(), 0, 0, target.min_io_bytes());
    space.map_err(|why| cannot(&why))?;
    // No records to keep: the device was empty, or the user consented to its erasure.
    let Some(existing) = existing else { return Ok(expected.header.clone().sized(target.size_bytes())) };
    let bytes = formatting::read_begin(target, WRITTEN_BYTES)
        .map_err(|error| cannot(&format!("its header cannot be read: {error}")))?;
    match compare_header(expected, &bytes, target.size_bytes())? {
        Some(now) if now == *existing => Ok(now),
        _ => Err(cannot("its header has changed since the first check - try again")),
    }
}
