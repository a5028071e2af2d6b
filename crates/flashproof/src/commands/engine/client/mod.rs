//! `flashproof engine client`: transactions on the records of a database, recorded and judged like device operations.

pub mod options;

use crate::access::access;
use crate::commands::engine::client::options::ClientArgs;
use crate::output::FormArgs;
use crate::record::record;
use engine::DeviceName;
use load::keys::Keys;
use load::rate::Rate;
use load::records::{Mix, RecordWorkload};
use results::format::{self, printable, quoted};
use results::run_dir::NAMESPACE;
use serde_json::json;
use session::clock::fresh_seed;
use session::devices::Devices;
use session::engine::Engine;
use session::failure::Failure;
use session::in_process::began;
use session::run_directory::default_dir;
use session::runner::{self, NamedWorkload, OpenDevices, RunRequest, cpus, findings_about};
use session::{CompatMode, console};
use std::process::ExitCode;
use std::sync::Arc;
use store::client::cluster::{ClientCluster, PartitionMap};
use store::client::{BatchReads, ClientSettings, StoredRecord};
use store::nodes::HostPort;
use store::object::RecordSpec;
use store::{Overload, Verification};
use sys::process;

/// Default length of a run, seconds.
const DURATION_SEC: u64 = 60;

/// Upper bound on the length of an insertion, seconds. An insertion ends when all keys are written.
const INSERT_SEC: u64 = 30 * 86_400;

/// Transactions in flight per issuing thread.
const THREAD_TRANSACTIONS: u32 = 64;

pub fn run(args: &ClientArgs) -> Result<ExitCode, Failure> {
    let mut seeds = Vec::new();
    for host in &args.host {
        let seed = HostPort::parse(host, args.port)
            .map_err(|why| Failure::usage(format!("cannot use host {} - {why}", quoted(host))))?;
        seeds.push(seed);
    }
    let value = args.object;
    let began = began(false);
    let mut object = RecordSpec {
        set: args.set.as_bytes().into(),
        bins: args.bins,
        value,
        single_bin: false,
        replace: args.replace,
        began,
    };
    if args.verify && !object.can_be_verified() {
        return Err(Failure::usage(format!(
            "cannot verify values of {value} - each value must have room for the number of its write - give -o I, S:16 \
             or more, or B:8 or more"
        )));
    }
    check_open_files(args.connections.div_ceil(args.pipeline))?;
    let access = access(&args.access)?;
    let cluster = ClientCluster::find(&seeds, &args.namespace, access, args.services_alternate)
        .map_err(Failure::environment)?;
    let map = cluster.map();
    console::note(&cluster_summary(&map, args.debug));
    if let Some(rack) = args
        .rack_id
        .filter(|rack| map.nodes.iter().all(|node| node.rack != Some(*rack)))
    {
        console::warning(&format!(
            "no node reports rack {rack}: reads go to the masters (-D shows the racks)"
        ));
    }
    object.single_bin = cluster.has_single_bins;
    if object.single_bin && object.bins > 1 {
        return Err(Failure::usage(format!(
            "cannot write {} bins - records of namespace {} have a single bin - leave out -b",
            object.bins,
            quoted(&args.namespace)
        )));
    }
    let (name, devices) = as_devices(&args.namespace, &map);
    let object = Arc::new(object);
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let workload = RecordWorkload {
        target: DeviceName::Path(name.clone()),
        file_size_bytes: None,
        device_bytes_min: 0,
        keys: args.keys,
        first_key: args.start_key.into(),
        mix: args.workload,
        next_key: args
            .zipfian
            .map_or(Keys::Uniform, |theta| Keys::Zipfian { theta }),
        record_bytes: object.bytes(),
        batch_records: args.batch_read_size,
        depth: args.connections,
        rate: args.rate.filter(|rate| *rate > 0).map(Rate::per_sec),
        threads: args.threads.unwrap_or_else(|| threads(args.connections)),
        duration_sec: match (args.duration, args.workload) {
            (Some(seconds), _) => seconds.into(),
            (None, Mix::Insert) => INSERT_SEC,
            (None, Mix::ReadUpdate { .. }) => DURATION_SEC,
        },
        seed: Some(seed),
    };
    let batch = (args.batch_read_size > 1).then(|| BatchReads {
        records: args.batch_read_size,
        keys: Arc::new(workload.batch_keys(seed)),
    });
    let overload = Arc::new(Overload::default());
    overload.set_waits(args.workload == Mix::Insert);
    let settings = ClientSettings {
        cluster,
        namespace: args.namespace.clone(),
        object,
        verification: Arc::new(Verification::new(args.verify)),
        batch,
        replica: args.replica,
        rack: args.rack_id,
        timeout_ms: args.timeout,
        pipeline: pipeline(args.pipeline, &map),
        overload: overload.clone(),
    };
    if args.verify && args.workload != Mix::Insert {
        check_records(&settings, args)?;
    }
    let opened = OpenDevices {
        devices,
        engine: Engine::client(settings),
    };
    let dir = args
        .record
        .out
        .clone()
        .unwrap_or_else(|| default_dir("client"));
    // Findings about this host only: the devices belong to other machines.
    let findings = Some(findings_about(&[], &dir));
    let request = args
        .record
        .request(NamedWorkload::alone(workload, command_line()));
    let request = RunRequest {
        opened: Some(&opened),
        findings,
        ..request
    };
    let exit_code = record(
        "client",
        Some(&dir),
        &FormArgs::default(),
        request,
        CompatMode::Native,
    )?;
    if overload.waited() > 0 {
        let waited = format::count(overload.waited(), "insert");
        console::note(&format!(
            "{waited} had to wait and were retried: the server reported device overload (code 18)"
        ));
    }
    Ok(exit_code)
}

/// Arguments of this program, which are the configuration of the run.
pub fn command_line() -> String {
    runner::command().split_off(1).join(" ")
}

/// Name and facts under which a run records a namespace as its device.
pub fn as_devices(namespace: &str, map: &PartitionMap) -> (String, Devices) {
    let name = format!("{namespace}@{}", map.nodes[0].host);
    let facts = json!({
        "path": name, "kind": NAMESPACE, "namespace": namespace,
        "nodes": map.nodes.iter().map(|node| json!({
            "name": node.name, "address": node.host.to_string(), "build": node.build, "pipelines": node.supports_pipelining,
        })).collect::<Vec<_>>(),
    });
    (name.clone(), Devices::Namespace(name, facts))
}

/// Checks that the first record can be verified. Errors: the record was inserted with another `-o` or `-b`.
fn check_records(settings: &ClientSettings, args: &ClientArgs) -> Result<(), Failure> {
    // If the node cannot be queried now, the run reports it.
    let Ok(Some(StoredRecord { bins, value })) = settings.probe_record(args.start_key.into())
    else {
        return Ok(());
    };
    if (bins, value) == (args.bins, args.object) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "cannot verify records of namespace {} - the record of key {} has {} of {value}, but this load uses {} of {} - \
         give -b {bins} -o {value} as at the insertion, or insert the records again (-w I)",
        quoted(&args.namespace),
        args.start_key,
        format::count(bins.into(), "bin"),
        format::count(args.bins.into(), "bin"),
        args.object
    )))
}

/// Raises the limit of open files for `connections`. Errors: the system does not allow enough.
pub fn check_open_files(connections: u32) -> Result<(), Failure> {
    // 100 more descriptors are for the run directory, the samples, and the cluster queries.
    let needed_files = u64::from(connections) + 100;
    match process::raise_open_files() {
        Ok(max_files) if max_files < needed_files => Err(Failure::environment(format!(
            "cannot open {connections} connections - a process may have {max_files} files open, {needed_files} are needed - raise the limit \
             (ulimit -Hn), lower -z, or use several transactions per connection (--pipeline)"
        ))),
        // If the limit is unknown, the connections are tried.
        _ => Ok(()),
    }
}

pub fn threads(at_once: u32) -> u32 {
    at_once.div_ceil(THREAD_TRANSACTIONS).min(cpus() / 2).max(1)
}

/// Transactions in flight per connection: `requested` if all nodes support pipelining, else 1.
fn pipeline(requested: u32, map: &PartitionMap) -> u32 {
    match map
        .nodes
        .iter()
        .find(|node| requested > 1 && !node.supports_pipelining)
    {
        None => requested,
        Some(node) => {
            console::warning(&format!(
                "--pipeline {requested} has no effect: node {} does not announce pipelining",
                printable(&node.name)
            ));
            1
        }
    }
}

/// The nodes found, in one line; with `debug` one line per node.
fn cluster_summary(map: &PartitionMap, debug: bool) -> String {
    let mut text = format!(
        "cluster of {}",
        format::count(map.nodes.len() as u64, "node")
    );
    if map.unowned() > 0 {
        text += &format!(
            ", {} without a node",
            format::count(map.unowned() as u64, "partition")
        );
    }
    for node in map.nodes.iter().filter(|_| debug) {
        text += &format!(
            "\n  {} at {}, build {}, {}{}{}",
            printable(&node.name),
            node.host,
            printable(&node.build),
            format::count(map.owned(node.number) as u64, "partition"),
            node.rack
                .map_or_else(String::new, |rack| format!(", rack {rack}")),
            if node.supports_pipelining {
                ", supports pipelining"
            } else {
                ""
            }
        );
    }
    text
}
