//! The configuration of an index test, for the device of a primary index on flash.

use super::{
    ConfigurationError, TestConfiguration, TestOptions, device_names, sentences, whole_rate,
};
use crate::drive_io::DriveIo;
use crate::profile::{IndexLoad, Profile};
use act::ActConfig;
use act::options::Test;
use act::rates::{PAGE_BYTES, derive_index};
use act::reference::AnnotatedConfig;
use act::scale::scale;
use load::factor::Factor;

/// Database's default of `defrag-lwm-pct`.
const DEFRAG_LWM_PCT: u32 = 50;

pub(super) fn configuration(
    index: &IndexLoad,
    profile: &Profile,
    test: &TestOptions,
) -> Option<Result<TestConfiguration, ConfigurationError>> {
    let rates = index.transactions()?;
    let configuration = build(index, rates, profile, test);
    Some(
        configuration.map_err(|problems| ConfigurationError::Refused {
            namespace: format!("{}-index", index.namespace),
            problems,
        }),
    )
}

/// The configuration for `rates`: reads and writes per second of all drives of `index`.
fn build(
    index: &IndexLoad,
    rates: [f64; 2],
    profile: &Profile,
    test: &TestOptions,
) -> Result<TestConfiguration, String> {
    let IndexLoad {
        node,
        mounts,
        defrag_lwm_pct,
        ..
    } = index;
    let drives = mounts.len().max(1);
    let [reads, writes] = rates.map(|rate| whole_rate(rate / drives as f64));
    let mut config = ActConfig {
        test: Test::Index,
        device_names: device_names(test)?,
        test_duration_sec: test.duration_sec,
        read_reqs_per_sec: reads,
        write_reqs_per_sec: writes,
        defrag_lwm_pct: defrag_lwm_pct.unwrap_or(DEFRAG_LWM_PCT),
        ..ActConfig::default()
    };
    let io = requested_io(&config)?;
    scale(&mut config, test.factor).map_err(sentences)?;
    let requested_io = requested_io(&config)?;
    let times = if test.factor == Factor::ONE {
        String::new()
    } else {
        format!("{} times ", test.factor)
    };
    let mut document = AnnotatedConfig::new(config);
    document.paragraph(&format!(
        "{times}the load of the primary index of namespace {} on one of its drives, node {node}. Written by {}.",
        index.namespace, profile.tool
    ));
    document.paragraph(
        "ERASES THE DRIVE in device-names. flashproof asks first, and refuses a drive in use.",
    );
    profile
        .doubts()
        .iter()
        .for_each(|doubt| document.paragraph(&format!("IN DOUBT: {doubt}")));
    let split = match mounts.len() {
        0 => "; the log names no mount points: divide by the number of drives of the index"
            .to_owned(),
        count => format!("; divided by {count} ({})", mounts.join(", ")),
    };
    let [reads, writes] = rates.map(|rate| format!("{rate:.1}"));
    document.note(
        "read-reqs-per-sec",
        &format!("Here: {reads} reads/s of clients at this node{split}."),
    );
    document.note(
        "write-reqs-per-sec",
        &format!("Here: {writes} records written/s, including replicas{split}."),
    );
    let lwm = if defrag_lwm_pct.is_some() {
        "from the server's configuration"
    } else {
        "the database's default"
    };
    document.note("defrag-lwm-pct", &format!("Here: {lwm}."));

    Ok(TestConfiguration {
        test: Test::Index,
        namespace: format!("{}-index", index.namespace),
        drives,
        text: document.to_string(),
        requested_io,
        cluster_io: io,
        remarks: Vec::new(),
    })
}

fn requested_io(config: &ActConfig) -> Result<DriveIo, String> {
    let derived = derive_index(config).map_err(sentences)?;
    let updates = derived.update_rate.per_sec_f64();
    let pages = [derived.service_read_rate.per_sec_f64() + updates, updates];
    let kib = f64::from(PAGE_BYTES) / 1024.0;
    Ok(DriveIo::from([
        pages[0],
        pages[1],
        pages[0] * kib,
        pages[1] * kib,
    ]))
}
