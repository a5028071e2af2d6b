//! Each example job in fio's repository is accepted, or refused with a reason, as the table in `docs/fio.md` says.
//! `FLASHPROOF_FIO_EXAMPLES` names the directory of the examples in a checkout of fio.

use crate::support;

use std::fs;
use std::path::PathBuf;
use support::Bench;

const ACCEPTED: &str = "\
     1mbs_clients aio-read backwards-read basic-verify cmdprio-bssplit cmdprio-percentage \
     disk-zone-profile exitwhat fio-rand-RW fio-rand-read fio-rand-write fio-seq-RW \
     fio-seq-read fio-seq-write fixed-rate-submission fsx iometer-file-access-server jesd219 \
     latency-profile null poisson-rate-submission rand-zones ssd-steadystate ssd-test steadystate \
     surface-scan tiobench-example waitfor uring-cmd-ng zipf";

/// Refused examples for files and block devices, with a part of the message.
const REFUSED: &[(&str, &str)] = &[
    ("cpp_null", "ioengine=cpp_null"),
    ("cross-stripe-verify", "write to the same range"),
    ("dedupe-global", "dedupe_global=1"),
    (
        "example_latency_steadystate",
        "steadystate_check_interval=10",
    ),
    ("butterfly", "flow="),
    ("flow", "flow="),
    ("uring-cmd-zoned", "zonemode=zbd"),
    ("zbd-rand-write", "zonemode=zbd"),
    ("zbd-rand-write-trim-gc", "zonemode=zbd"),
    ("zbd-rand-write-zone-reset-gc", "zonemode=zbd"),
    ("zbd-seq-read", "zonemode=zbd"),
];

/// Examples of engines that do no I/O on files or block devices through the kernel's block layer.
const OTHER_ENGINES: &str = "\
     cpuio dev-dax dircreate-ioengine dirdelete-ioengine dirstat-ioengine e4defrag e4defrag2 exec falloc \
     filecreate-ioengine filedelete-ioengine filestat-ioengine ftruncate gfapi ime libhdfs libiscsi \
     libpmem libzbc-rand-write libzbc-seq-read mtd netio netio_multicast page_fault rados rbd sg_verify \
     sg_verify-fail sg_write_same_ndob";

#[test]
fn examples_of_fio_are_accepted_or_refused_with_a_reason() {
    let Some(dir) = std::env::var_os("FLASHPROOF_FIO_EXAMPLES").map(PathBuf::from) else {
        return support::skip("FLASHPROOF_FIO_EXAMPLES names no directory with fio's example jobs")
            .unwrap_or(());
    };
    let bench = Bench::new();
    let mut seen = 0;
    let mut wrong = Vec::new();
    for entry in fs::read_dir(&dir).unwrap() {
        let path = entry.unwrap().path();
        let Some(name) = path
            .file_name()
            .and_then(|name| name.to_str()?.strip_suffix(".fio"))
            .map(str::to_owned)
        else {
            continue;
        };
        let mut command = bench.prepare(&["fio", path.to_str().unwrap(), "--dry-run"]);
        let output = command.env("SIZE", "64m").output().unwrap();
        let code = output.status.code();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let reason = REFUSED
            .iter()
            .find(|(of, _)| *of == name)
            .map(|(_, reason)| *reason);
        let is_in = |list: &str| list.split(' ').any(|other| other == name);
        let reason = reason.or(is_in(OTHER_ENGINES).then_some("\"ioengine="));
        let is_known = reason.is_some() || is_in(ACCEPTED);
        let is_right = match reason {
            Some(reason) => {
                code == Some(2) && text.contains(reason) && text.contains("nothing was run")
            }
            None if is_known => code == Some(0),
            // This example is of another version of fio, or needs other environment variables.
            None => matches!(code, Some(0 | 2)),
        };
        seen += u32::from(is_known);
        if !is_right {
            wrong.push(format!("{name}: {code:?} {text}"));
        }
    }
    assert!(seen > 50, "{} has {seen} of fio's examples", dir.display());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
