//! Where the tests of the candidates differ: said first, and never averaged away.

use super::source::Source;
use results::run_dir::{Manifest, Run};
use serde_json::Value;
use std::collections::BTreeMap;

/// Settings of a run that do not change what was tested, or that are said in other words.
const NO_MATTER: [&str; 8] = [
    "device-names",
    "num-devices",
    "report-interval-sec",
    "microsecond-histograms",
    "seed",
    "shards",
    "engine",
    "test-duration-sec",
];

/// Settings that are the load itself, which is what is compared.
const LOAD: [&str; 3] = ["read-reqs-per-sec", "write-reqs-per-sec", "service-threads"];

/// One sentence for each thing in which the tests differ, the weightiest first.
pub(super) fn differences(sources: &[Source]) -> Vec<String> {
    let runs: Vec<(&str, &Run)> =
        sources.iter().filter_map(|source| Some((source.name.as_str(), source.run.value()?))).collect();
    let mut said = Vec::new();
    let mut say = |what: &str, of: &dyn Fn(&Run) -> String| {
        let mut values: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        runs.iter().for_each(|(name, run)| values.entry(of(run)).or_default().push(name));
        if values.len() > 1 {
            let values = values.iter().map(|(value, names)| format!("{value} ({})", names.join(", ")));
            said.push(format!("different tests: {what}: {}", values.collect::<Vec<_>>().join("; ")));
        }
    };
    let m = |of: fn(&Manifest) -> String| move |run: &Run| of(&run.manifest);
    say("the test", &m(Manifest::kind));
    say("the drives", &m(|manifest| if manifest.simulated { "simulated" } else { "real" }.to_owned()));
    say("the limits", &m(|manifest| manifest.sla.to_string()));
    say("the length of the run", &|run| format!("{:.0} s", run.verdict.ran_sec));
    say("the length of a slice", &m(|manifest| format!("{} s", manifest.slice_sec)));
    say("the number of devices", &m(|manifest| manifest.devices.len().to_string()));
    say("reads to writes", &m(mix));
    // Another test has other settings; that it is another one is said already.
    let common = |key: &str| runs.iter().all(|(_, run)| setting(&run.manifest, key).is_some());
    let same_test = runs.windows(2).all(|pair| pair[0].1.manifest.kind() == pair[1].1.manifest.kind());
    let mut keys: Vec<&str> = Vec::new();
    for (key, _) in runs.iter().flat_map(|(_, run)| settings(&run.manifest)) {
        let skipped = NO_MATTER.contains(&key) || LOAD.contains(&key);
        if !skipped && !keys.contains(&key) && (same_test || common(key)) {
            keys.push(key);
        }
    }
    for key in keys {
        say(key, &|run| setting(&run.manifest, key).unwrap_or("not a setting of it").to_owned());
    }
    let kinds: BTreeMap<String, ()> = sources.iter().map(|source| (text(&source.kind), ())).collect();
    if kinds.len() > 1 {
        let kind = |source: &Source| format!("{} is a {}", source.name, kind_text(source));
        let kinds = sources.iter().map(kind).collect::<Vec<_>>().join("; ");
        said.push(format!("different kinds of result: {kinds}: a load held says less than a rating"));
    }
    said
}

fn kind_text(source: &Source) -> &'static str {
    match source.kind {
        super::Kind::Run => "run",
        super::Kind::Certify => "certification",
        super::Kind::Rate => "search for the highest rating",
        super::Kind::Series => "series that cannot be read",
    }
}

fn text(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    }
}

fn settings(manifest: &Manifest) -> impl Iterator<Item = (&str, &str)> {
    let configs = manifest.workloads.iter().map(|workload| &workload.config);
    configs
        .flat_map(|config| config.resolved.iter().chain(&config.settings))
        .map(|(key, value)| (key.as_str(), value.as_str()))
}

/// A setting of the configuration as it was in force.
pub(super) fn setting<'a>(manifest: &'a Manifest, key: &str) -> Option<&'a str> {
    settings(manifest).find(|(known, _)| *known == key).map(|(_, value)| value)
}

/// Client reads and writes a second, over all devices.
fn client_rates(manifest: &Manifest) -> Option<(u64, u64)> {
    let rate = |key| setting(manifest, key)?.parse().ok();
    Some((rate("read-reqs-per-sec")?, rate("write-reqs-per-sec")?))
}

/// Reads by writes, in lowest terms.
fn mix(manifest: &Manifest) -> String {
    let Some((reads, writes)) = client_rates(manifest) else { return "unknown".to_owned() };
    let mut divisor = (reads, writes);
    while divisor.1 > 0 {
        divisor = (divisor.1, divisor.0 % divisor.1);
    }
    let divisor = divisor.0.max(1);
    format!("{}:{}", reads / divisor, writes / divisor)
}
