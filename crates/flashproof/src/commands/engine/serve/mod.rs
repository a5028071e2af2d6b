//! `flashproof engine serve CONFIG`: runs the record engine as a server, until a signal ends it.

mod network;
pub mod options;

use crate::commands::engine::formatting;
use crate::commands::engine::serve::network::{advertised, bound_port, cluster, listen};
use crate::commands::engine::serve::options::ServeArgs;
use crate::output::done;
use device::guard::WriteRequest;
use device::target::Target;
use jiff::Timestamp;
use results::files::{self, Links};
use results::format::{self, quoted};
use session::console;
use session::devices::consent;
use session::failure::{Failure, collect_all};
use session::signals::EndSignals;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Seek, SeekFrom};
use std::net::SocketAddr;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use store::conf::{self, AerospikeConf, NamespaceConfig, ParsedConfig};
use store::observe::{Facts, LogWriter, NamespaceCounts, ServerLogLine, Ticker, start_lines};
use store::server::{ClientLimits, FormattedDevice, Server, ServerSetup, cores};
use store::{
    BORDER_BYTES, DEVICE_HEADER_BYTES, DeviceHeader, HEADER_OFFSETS, HeaderCheck, Losses, Starts,
    WRITTEN_BYTES, wire,
};

/// Maximum size of a configuration, bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Descriptors that are not client connections.
const OWN_FILES: u64 = 64;

/// Maximum number of queued log lines; more are dropped.
const LINES_MAX: usize = 10_000;

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Advice of last resort if the devices of a namespace cannot be used.
const CLEAR_HINT: &str = "clear all devices of the namespace (blkdiscard -z; remove a file): its records are lost, unless \
                          the other node of a pair has them";

pub fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let (config, text) = read(args)?;
    let mut address = advertised(&config);
    if args.dry_run {
        return done(&described(&config, address));
    }
    check_files(&config);
    let end_signals = EndSignals::listen("data that was only in memory is lost".to_owned())?;
    let listeners = listen(&config)?;
    if address.port() == 0 {
        address.set_port(bound_port(&listeners[0])?);
    }
    let cluster = cluster(&config, address);
    LogWriter::check(&config).map_err(cannot_log)?;
    let devices = open(&config, args)?;
    let mut logs = LogWriter::open(&config).map_err(cannot_log)?;
    let batch = wire::BatchLimits {
        batch_requests: config.batch_max_requests,
        ..wire::BatchLimits::default()
    };
    let connections = config.proto_fd_max as usize;
    let idle_ms = config.proto_fd_idle_ms.into();
    let limits = ClientLimits {
        connections,
        idle_ms,
        batch,
        ..ClientLimits::default()
    };
    // A slow reader of the log must not block the serving threads.
    let (sender, lines) = mpsc::sync_channel(LINES_MAX);
    let log = Box::new(move |line| _ = sender.try_send(line));
    let address = (address.ip(), address.port());
    let accept_losses = args.accept_losses;
    let setup = ServerSetup {
        config,
        devices,
        listeners,
        address,
        limits,
        cluster,
        accept_losses,
        log,
    };
    let begin = Instant::now();
    let server = Server::start(setup).map_err(Failure::environment)?;
    let started = server.state().facts(|facts| start_lines(facts, &text));
    write(&mut logs, &started);
    serve(
        &server,
        begin,
        &mut logs,
        &lines,
        &end_signals,
        SocketAddr::from(address),
    );
    let damage = server.state().damage();
    let stop_result = server.stop();
    write(&mut logs, &lines.try_iter().collect::<Vec<_>>());
    stop_result.map_err(Failure::environment)?;
    refuse(&damage)?;
    write(
        &mut logs,
        &[ServerLogLine::info(
            "as",
            "as.c",
            "finished clean shutdown - exiting".to_owned(),
        )],
    );
    Ok(ExitCode::SUCCESS)
}

fn cannot_log((path, error): (String, std::io::Error)) -> Failure {
    Failure::environment(format!(
        "cannot write the log {} - {error} - check the path, or log to the console",
        quoted(&path)
    ))
}

fn serve(
    server: &Server,
    begin: Instant,
    logs: &mut LogWriter,
    lines: &Receiver<ServerLogLine>,
    end_signals: &EndSignals,
    address: SocketAddr,
) {
    let state = server.state();
    let mut ticker: Option<Ticker> = None;
    let now_ms = || begin.elapsed().as_millis() as u64;
    loop {
        let pause = if ticker.is_some() {
            POLL_INTERVAL
        } else {
            POLL_INTERVAL / 20
        };
        if end_signals.wait(pause).is_some() || server.has_ended() || !state.damage().is_empty() {
            break;
        }
        write(logs, &lines.try_iter().collect::<Vec<_>>());
        match &mut ticker {
            None if state.is_ready() => {
                ticker = Some(Ticker::new(now_ms()));
                let objects = state.facts(|facts| {
                    facts
                        .counts
                        .namespaces
                        .iter()
                        .map(|of| of.store.objects)
                        .sum::<u64>()
                });
                let seconds = begin.elapsed().as_secs_f64();
                let bytes = state.io().read_bytes;
                let text = format!(
                    "service ready: {objects} records, indexed in {seconds:.3} s, {bytes} bytes read"
                );
                write(logs, &[ServerLogLine::info("as", "as.c", text)]);
                write(logs, &state.facts(|facts| maybe_older(facts)));
                console::note(&format!(
                    "listening on {address}; {}",
                    end_signals.stop_hint()
                ));
            }
            None => {}
            Some(ticker) => write(logs, &state.facts(|facts| ticker.tick(now_ms(), facts))),
        }
    }
}

fn refuse(damage: &[(String, Losses)]) -> Result<(), Failure> {
    if damage.is_empty() {
        return Ok(());
    }
    let lines = damage
        .iter()
        .map(|(name, losses)| format!("cannot open namespace {name} - {losses}"));
    Err(Failure::environment(format!(
        "{} - the log lists the damaged blocks; none was overwritten - copy the devices if you may want to recover \
         more, then start with --accept-losses, or clear the devices and lose all records",
        lines.collect::<Vec<_>>().join("\n")
    )))
}

/// A warning for each replicated namespace that may have lost acknowledged writes, if both nodes were killed at once.
fn maybe_older(facts: &Facts) -> Vec<ServerLogLine> {
    let namespaces = facts.config.namespaces.iter().zip(&facts.counts.namespaces);
    let doubtful = namespaces.filter(|(namespace, counts)| {
        namespace.replication_factor > 1
            && !namespace.settings.commit_to_device
            && counts.store.objects > 0
    });
    doubtful.map(|(namespace, counts): (&NamespaceConfig, &NamespaceCounts)| {
        let text = format!(
            "{{{}}} {} records of an earlier run: if both nodes were killed at once, writes that were only in memory \
             are lost, and a node does not fetch records that only the other node has - set commit-to-device to avoid \
             such losses",
            namespace.settings.name, counts.store.objects
        );
        ServerLogLine::warning("hb", "hb.c", text)
    }).collect()
}

/// Writes lines to the log. Errors do not end the service: the lines are lost.
fn write(logs: &mut LogWriter, lines: &[ServerLogLine]) {
    if !lines.is_empty() {
        let _ = logs.write(Timestamp::now(), lines);
    }
}

fn read(args: &ServeArgs) -> Result<(AerospikeConf, String), Failure> {
    let name = quoted(&args.config.display().to_string());
    let bytes = files::read(&args.config, Links::Followed, BYTES_MAX)
        .map_err(|error| Failure::usage(format!("cannot read {name} - {error}")))?;
    let ParsedConfig { config, notes } = conf::parse(&bytes).map_err(|problems| {
        let lines: Vec<_> = problems
            .0
            .iter()
            .map(|problem| format!("{name}, {problem}"))
            .collect();
        Failure::usage(lines.join("\n"))
    })?;
    notes
        .iter()
        .for_each(|note| console::warning(&format!("{name}, {note}")));
    Ok((config, String::from_utf8_lossy(&bytes).into_owned()))
}

fn described(config: &AerospikeConf, advertised: SocketAddr) -> String {
    let listen_address = |address: &_| SocketAddr::from((*address, config.listen.port));
    let addresses: Vec<_> = config.listen.addresses.iter().map(listen_address).collect();
    let addresses_text: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "{}; clients on {}",
        format::count(cores(config).into(), "core"),
        addresses_text.join(", ")
    );
    if addresses[0] != advertised {
        text += &format!("; clients get the address {advertised}");
    }
    text += "\n";
    for namespace in &config.namespaces {
        let settings = &namespace.settings;
        let devices = namespace.devices.join(", ");
        let copies = namespace
            .replication_factor
            .min(config.nodes.len().max(1) as u8);
        text += &format!(
            "namespace {}: write blocks of {} bytes on {devices}; {} of each record",
            settings.name,
            settings.write_block_bytes,
            if copies > 1 { "two copies" } else { "one copy" }
        );
        if copies < namespace.replication_factor {
            text += " (replication-factor 2 needs a second node: see mesh-seed-address-port)";
        }
        text += "\n";
    }
    text
}

/// Raises the limit of open files, and warns if it is too low for the clients that the configuration allows.
fn check_files(config: &AerospikeConf) {
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

struct ExpectedDevice<'a> {
    name: &'a str,
    file_bytes: Option<u64>,
    /// True if another node also has each record.
    has_copies: bool,
    header: DeviceHeader,
}

/// Opens the devices of all namespaces of `config`, and writes the number of this start to their headers.
/// Errors: the guard refuses; the device was written with other settings, has a damaged header or an older state, or is
/// too small.
fn open(config: &AerospikeConf, args: &ServeArgs) -> Result<Vec<Vec<FormattedDevice>>, Failure> {
    let expected: Vec<_> = config
        .namespaces
        .iter()
        .flat_map(|namespace| expected_devices(namespace, cores(config)))
        .collect();
    let existing = collect_all(expected.iter().map(existing_header), Failure::environment)?;
    check_sets(&expected, &existing)?;
    let numbers = check_starts(&expected, &existing, args.accept_losses)?;
    let mut requests = Vec::new();
    for (expected, existing) in expected.iter().zip(&existing) {
        requests.push(WriteRequest {
            file_size_bytes: expected.file_bytes,
            uses_whole_device: true,
            keeps_store: existing
                .as_ref()
                .is_some_and(|header| holds_only_records(expected.name, header)),
            ..WriteRequest::new(
                expected.name,
                format!("records of namespace {}", expected.header.namespace),
            )
        });
    }
    let consents = consent(&requests, &args.erase, &[])?;
    // All devices are checked before the first write.
    let mut targets = Vec::new();
    for consent in consents {
        for note in consent.notes() {
            console::warning(&format!("{}: {note}", consent.name()));
        }
        targets.push(Arc::new(Target::writable(consent)));
    }
    let header = |((target, requested), kept)| header(target, requested, kept);
    let headers = collect_all(
        targets.iter().zip(&expected).zip(&existing).map(header),
        Failure::environment,
    )?;
    let headers = headers
        .into_iter()
        .zip(numbers)
        .map(|(header, number)| DeviceHeader {
            starts: Starts::both(number),
            ..header
        });
    let devices: Vec<FormattedDevice> = targets.into_iter().zip(headers).collect();
    let mut unformatted: Vec<FormattedDevice> = Vec::new();
    let mut formatted: Vec<FormattedDevice> = Vec::new();
    for (device, existing) in devices.iter().zip(&existing) {
        match existing {
            Some(_) => formatted.push(device.clone()),
            None => unformatted.push(device.clone()),
        }
    }
    // Either all devices of a namespace are formatted, or none.
    formatting::format(&unformatted).map_err(Failure::environment)?;
    formatting::write_headers(&formatted).map_err(Failure::environment)?;
    for (target, header) in &unformatted {
        console::note(&format!(
            "{}: formatted for namespace {}",
            target.name(),
            header.namespace
        ));
    }
    let mut devices = devices.into_iter();
    Ok(config
        .namespaces
        .iter()
        .map(|namespace| devices.by_ref().take(namespace.devices.len()).collect())
        .collect())
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
            has_copies: namespace.replication_factor > 1,
            header: DeviceHeader::new(&namespace.settings, devices, index, cores, set),
        })
        .collect()
}

/// The header of an existing store; `None` without a store. Warns of a damaged copy of the header. Errors: the store has
/// other settings than expected, or no valid header.
fn existing_header(expected: &ExpectedDevice<'_>) -> Result<Option<DeviceHeader>, String> {
    // The guard refuses a path that cannot be read, or is neither file nor device.
    let Ok(metadata) = fs::metadata(expected.name) else {
        return Ok(None);
    };
    if !metadata.is_file() && !metadata.file_type().is_block_device() {
        return Ok(None);
    }
    let Ok(mut device) = File::open(expected.name) else {
        return Ok(None);
    };
    let Ok(size_bytes) = device.seek(SeekFrom::End(0)) else {
        return Ok(None);
    };
    let copies = HEADER_OFFSETS.map(|at| read_at(&device, at, WRITTEN_BYTES));
    let first_block = read_at(&device, DEVICE_HEADER_BYTES, BORDER_BYTES).unwrap_or_default();
    let Some(header) = compare_header(expected, &copies, &first_block, size_bytes)? else {
        return Ok(None);
    };
    let starts = [header.starts.first, header.starts.second];
    for (copy, _) in copy_states(&copies)
        .iter()
        .zip(starts)
        .filter(|(_, number)| number.is_none())
    {
        console::warning(&format!(
            "{}: damaged header: {copy} - the other copy is valid, and this start restores the damaged copy",
            expected.name
        ));
    }
    // The position of each core's part depends on the size, so the size of an existing file must not change.
    match expected
        .file_bytes
        .filter(|bytes| metadata.is_file() && *bytes != metadata.len())
    {
        Some(bytes) => Err(format!(
            "cannot open {} - it holds records and has {} bytes, but filesize is {bytes} - set filesize to the size of \
             the file, or remove the file and lose its records",
            expected.name,
            metadata.len()
        )),
        None => Ok(Some(header)),
    }
}

/// True if samples of the device show only the store of `header`. If false, prints a warning; the guard then asks for
/// consent.
fn holds_only_records(name: &str, header: &DeviceHeader) -> bool {
    let Ok(device) = File::open(name) else {
        return false;
    };
    let foreign = header.foreign_block(RandomState::new().hash_one(name), |at, bytes| {
        read_at(&device, at, bytes)
    });
    if let Some(at) = foreign {
        console::warning(&format!(
            "{name} has the header of namespace {}, but the write block at byte {at} holds other data, which the \
             namespace would overwrite",
            header.namespace
        ));
    }
    foreign.is_none()
}

fn read_at(device: &File, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut read = vec![0; bytes];
    device.read_exact_at(&mut read, at).map(|()| read)
}

/// The state of each copy of a header, if the copy is not valid.
fn copy_states(copies: &[io::Result<Vec<u8>>; 2]) -> [String; 2] {
    std::array::from_fn(|copy| {
        let place = format!("the copy at byte {}", HEADER_OFFSETS[copy]);
        match &copies[copy] {
            Err(error) => format!("{place} cannot be read ({error})"),
            Ok(_) => format!("{place} is overwritten or has a wrong checksum"),
        }
    })
}

/// The header on the device, compared with the expected header; `None` if the device has no header.
fn compare_header(
    expected: &ExpectedDevice<'_>,
    copies: &[io::Result<Vec<u8>>; 2],
    first_block: &[u8],
    size_bytes: u64,
) -> Result<Option<DeviceHeader>, String> {
    // A file that ends before the second copy was never formatted, so this is not an error.
    let fails = |error: &io::Error| error.kind() != io::ErrorKind::UnexpectedEof;
    let has_failed = copies.iter().any(|copy| copy.as_ref().is_err_and(fails));
    let bytes = copies
        .each_ref()
        .map(|copy| copy.as_deref().map_or_else(|_| Vec::new(), <[u8]>::to_vec));
    match expected
        .header
        .clone()
        .sized(size_bytes)
        .plan(&bytes, first_block)
    {
        HeaderCheck::Open(header) => Ok(Some(header)),
        HeaderCheck::Differs(differences) => Err(format!(
            "cannot open {} - it has records written with other settings: {} - use those settings, or \
             {CLEAR_HINT}",
            expected.name,
            differences.join(", ")
        )),
        HeaderCheck::Format if !has_failed => Ok(None),
        HeaderCheck::Format | HeaderCheck::Damaged => Err(format!(
            "cannot open {} - damaged header: {} - the records behind the header are still there: first copy the device; \
             then write the first {WRITTEN_BYTES} bytes of an earlier copy of the device to byte 0, or \
             {CLEAR_HINT}",
            expected.name,
            copy_states(copies).join(", and ")
        )),
    }
}

/// Checks that no device of a namespace has an older state than the others. Returns the number of this start for each
/// device. `accepts_losses` accepts older records, unless they could replace newer records of another node.
fn check_starts(
    expected: &[ExpectedDevice<'_>],
    existing: &[Option<DeviceHeader>],
    accepts_losses: bool,
) -> Result<Vec<u64>, Failure> {
    let mut numbers = Vec::new();
    for devices in expected.chunk_by(|a, b| a.header.namespace == b.header.namespace) {
        let existing = &existing[numbers.len()..][..devices.len()];
        let starts: Vec<Starts> = existing
            .iter()
            .flatten()
            .map(|header| header.starts)
            .collect();
        numbers.extend(devices.iter().map(|_| Starts::next(&starts)));
        let Some([(older, begun), (newer, finished)]) = Starts::older(&starts) else {
            continue;
        };
        let why = format!(
            "namespace {} - {old} has an older state than {}: the last server start on {old} has number {begun}, but start \
             {finished} reached all devices",
            devices[older].header.namespace,
            devices[newer].name,
            old = devices[older].name
        );
        let may_accept = !devices[older].has_copies;
        if accepts_losses && may_accept {
            console::warning(&format!(
                "{why} - newer records are missing, and deleted records may be back"
            ));
            continue;
        }
        let accept = if may_accept {
            "start with --accept-losses to use the older records, or "
        } else {
            ""
        };
        return Err(Failure::environment(format!(
            "cannot open {why} - restore the state of the same shutdown on all devices, or {accept}{CLEAR_HINT}"
        )));
    }
    Ok(numbers)
}

/// Checks that either all devices of a namespace have records and were formatted together (one set of devices), or that
/// no device has records. Without one of the devices, records would be missing; with a device of another set, older
/// records would reappear.
fn check_sets(
    expected: &[ExpectedDevice<'_>],
    existing: &[Option<DeviceHeader>],
) -> Result<(), Failure> {
    for (device, header) in expected.iter().zip(existing) {
        let namespace = &device.header.namespace;
        let mut others = expected
            .iter()
            .zip(existing)
            .filter(|(other, _)| other.header.namespace == *namespace);
        let other = others.find_map(|(other, kept)| {
            kept.as_ref()
                .filter(|kept| {
                    header
                        .as_ref()
                        .is_none_or(|own| own.device_set != kept.device_set)
                })
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
    let space = expected
        .header
        .space(target.size_bytes(), 0, 0, target.min_io_bytes());
    space.map_err(|why| cannot(&why))?;
    let copies = HEADER_OFFSETS.map(|at| formatting::read_at(target, at, WRITTEN_BYTES));
    let first_block =
        formatting::read_at(target, DEVICE_HEADER_BYTES, BORDER_BYTES).unwrap_or_default();
    match (
        existing,
        compare_header(expected, &copies, &first_block, target.size_bytes())?,
    ) {
        // There are no records to keep: the device was empty, or the user consented to its erasure.
        (None, None) => Ok(expected.header.clone().sized(target.size_bytes())),
        (Some(before), Some(now)) if now == *before => Ok(now),
        _ => Err(cannot(
            "its header has changed since the first check - try again",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use store::NamespaceSettings;

    fn parsed(network: &str) -> AerospikeConf {
        let text = format!(
            "service {{\nservice-threads 1\n}}\nnetwork {{\n{network}\n}}\n\
             namespace test {{\nreplication-factor 2\nstorage-engine device {{\ndevice /dev/a\n}}\n}}\n"
        );
        conf::parse(text.as_bytes()).unwrap().config
    }

    #[test]
    fn a_dry_run_shows_the_address_that_clients_get_and_the_copies_that_the_nodes_can_hold() {
        let alone = "one copy of each record (replication-factor 2 needs a second node: see mesh-seed-address-port)";
        let pair = "heartbeat {\nmesh-seed-address-port 10.0.0.1 3000\nmesh-seed-address-port 10.0.0.2 3000\n}";
        for (network, address, copies) in [
            ("", "clients on 127.0.0.1:3000", alone),
            (
                "service {\naddress any\naccess-address 10.0.0.9\n}",
                "clients on 0.0.0.0:3000; clients get the address 10.0.0.9:3000",
                alone,
            ),
            (
                &format!("service {{\naddress 10.0.0.2\n}}\n{pair}"),
                "clients on 10.0.0.2:3000",
                "two copies of each record",
            ),
        ] {
            let config = parsed(network);
            let expected = format!(
                "1 core; {address}\nnamespace test: write blocks of 131072 bytes on /dev/a; {copies}\n"
            );
            assert_eq!(described(&config, advertised(&config)), expected);
        }
    }

    #[test]
    fn a_header_that_cannot_be_read_is_damage_and_no_reason_to_format() {
        let header = DeviceHeader::new(&NamespaceSettings::new("test"), 1, 0, 1, 7).sized(16 << 20);
        let expected = ExpectedDevice {
            name: "drive",
            file_bytes: None,
            has_copies: false,
            header: header.clone(),
        };
        let compare = |first, second| compare_header(&expected, &[first, second], &[], 16 << 20);
        let failed = || Err(io::Error::from_raw_os_error(5));
        let zeros = || Ok(vec![0; WRITTEN_BYTES]);
        for (first, second, at) in [
            (failed(), zeros(), 0),
            (zeros(), failed(), 8_384_512),
            (failed(), failed(), 0),
        ] {
            let why = compare(first, second).unwrap_err();
            let place =
                format!("the copy at byte {at} cannot be read (Input/output error (os error 5))");
            assert!(
                why.contains("damaged header: ") && why.contains(&place),
                "{why}"
            );
            assert!(
                why.find("first copy the device") < why.find("clear all devices"),
                "{why}"
            );
        }
        let restored = compare(failed(), Ok(header.to_bytes())).unwrap().unwrap();
        assert_eq!(
            restored.starts,
            Starts {
                first: None,
                second: Some(0)
            }
        );
        let ends = || Err(io::ErrorKind::UnexpectedEof.into());
        assert_eq!(
            [compare(ends(), ends()), compare(zeros(), ends())],
            [Ok(None), Ok(None)],
            "a new or short file"
        );
    }
}
