//! Tests with known answers, and invariants.

use super::timed::FILLS;
use super::*;
use crate::{Tenants, client_stream};
use Arrangement::*;
use engine::sim::{DriveSpec, FtlDrive};
use ftl::{Append, Isolation, Spec};
use load::rate::Rate;
use results::testing::modified;

/// Four tenants with the write blocks of `examples/tenants/micron-2024-op*.toml`, these weights and this fill.
fn tenants(weights: [u32; 4], fill_pct: u32, keys: &str) -> Tenants {
    let mut text = format!(
        "operations-per-sec = 40000\n[defaults]\nmix = \"ycsb-a\"\nrecord-bytes = 1100\nfill-pct = {fill_pct}\nkeys = \
         \"{keys}\"\n"
    );
    for (block, weight) in [32, 64, 128, 256].into_iter().zip(weights) {
        text += &format!(
            "[[tenant]]\nname = \"t{block}\"\nwrite-block = \"{block}KiB\"\nweight = {weight}\n"
        );
    }
    Tenants::parse("test", &text).unwrap()
}

fn equal() -> Tenants {
    tenants([1; 4], 50, "uniform")
}

/// A drive with a thousand superblocks, small enough for a test.
fn spec(over_provisioning: f64) -> Spec {
    Spec {
        unit_bytes: 32 << 10,
        over_provisioning,
        superblock_bytes: 1 << 20,
        handles: 4,
        append: Append::PerHandle,
        isolation: Isolation::Persistently,
        ..Spec::with_logical_bytes(1 << 30)
    }
}

fn drive(spec: &Spec) -> FtlDrive {
    FtlDrive {
        spec: spec.clone(),
        ..FtlDrive::default()
    }
}

fn found(
    arrangement: Arrangement,
    tenants: &Tenants,
    spec: &Spec,
    seed: u64,
) -> (ArrangementResult, Experiment) {
    let layout = TenantLayout::new(arrangement, tenants, &drive(spec)).unwrap();
    let mut experiment = Experiment::new(&layout, Interleaving::default(), seed).unwrap();
    let found = experiment.run(40, |_| true).unwrap();
    (found, experiment)
}

/// The assumptions in `micron-2024-op*.toml` and docs/waf.md lead to the published WAFs of 1.84 and 1.08.
#[test]
fn the_published_wafs_of_1_84_and_1_08_follow_from_documented_assumptions() {
    for (weights, fill_pct, over_provisioning) in
        [([5, 7, 9, 11], 40, 0.145), ([4, 3, 2, 1], 50, 0.22)]
    {
        let tenants = tenants(weights, fill_pct, "uniform");
        let spec = Spec {
            logical_bytes: 8 << 30,
            superblock_bytes: 8 << 20,
            ..spec(over_provisioning)
        };
        let waf = |arrangement| {
            found(arrangement, &tenants, &spec, 1)
                .0
                .steady_waf()
                .unwrap()
        };
        let shared = waf(Shared);
        let dedicated = waf(Dedicated);
        assert!(
            (shared - 1.84).abs() <= 0.10,
            "{weights:?}: {shared} shared"
        );
        assert!(
            (dedicated - 1.08).abs() <= 0.03,
            "{weights:?}: {dedicated} dedicated"
        );
    }
}

#[test]
fn every_byte_of_a_host_is_counted_once_and_drives_lose_none() {
    for arrangement in Arrangement::ALL {
        let (found, experiment) = found(arrangement, &equal(), &spec(0.145), 7);
        let hosts: u64 = found
            .tenants
            .iter()
            .map(|tenant| tenant.client + tenant.defrag)
            .sum();
        assert_eq!(found.total().host, hosts, "{arrangement}");
        for drive in experiment.drives() {
            drive.check().unwrap();
        }
        let all: u64 = found.drives.iter().map(|drive| drive.logical_bytes).sum();
        assert!(
            all.abs_diff(1 << 30) <= 4 * (32 << 10),
            "{arrangement}: {all} bytes of the same flash"
        );
    }
}

#[test]
fn the_same_seed_gives_the_same_results_and_another_seed_different_results() {
    let of = |seed| found(Fdp, &equal(), &spec(0.1), seed).0;
    assert_eq!(of(3), of(3));
    assert_ne!(of(3).drives, of(4).drives);
}

#[test]
fn tenants_that_overwrite_in_order_are_not_amplified_with_a_drive_or_a_handle_each() {
    let mut tenants = tenants([4, 3, 2, 1], 50, "sequential");
    // All records of a block become obsolete before those of the next block, so there is nothing to defragment.
    tenants
        .tenants
        .iter_mut()
        .for_each(|tenant| tenant.defrag_lwm_pct = 1);
    let waf = |arrangement| {
        found(arrangement, &tenants, &spec(0.07), 1)
            .0
            .steady_waf()
            .unwrap()
    };
    assert_eq!(waf(Dedicated), 1.0);
    assert!(waf(Fdp) < 1.001, "{}", waf(Fdp));
    assert!(waf(Shared) > 1.2);
}

#[test]
fn tenants_get_the_handles_named_in_the_file_or_one_handle_each() {
    let handles = |tenants: &Tenants| {
        let layout = TenantLayout::new(Fdp, tenants, &drive(&spec(0.1))).unwrap();
        layout
            .tenants
            .iter()
            .map(|placed| placed.handles)
            .collect::<Vec<_>>()
    };
    let mut tenants = equal();
    assert_eq!(handles(&tenants), [[0; 2], [1; 2], [2; 2], [3; 2]]);
    (
        tenants.tenants[1].placement,
        tenants.tenants[1].defrag_placement,
    ) = (Some(2), Some(3));
    tenants.tenants[2].placement = Some(4);
    assert_eq!(handles(&tenants), [[0; 2], [1, 2], [3; 2], [0; 2]]);
}

#[test]
fn an_impossible_experiment_is_refused_with_its_numbers_and_a_remedy() {
    let refused = |tenants: &Tenants, spec: &Spec| {
        TenantLayout::new(Fdp, tenants, &drive(spec))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused(&equal(), &modified(spec(0.1), |it| it.handles = 3)),
        "arrangement fdp needs 4 placement handles - the drive has 3 - give the drive a handle for each tenant \
         (handles=), name shared handles in the file, or leave fdp out of --arrange"
    );
    assert_eq!(
        refused(
            &equal(),
            &modified(spec(0.1), |it| it.unit_bytes = 64 << 10)
        ),
        "tenant \"t32\": its write block of 32,768 bytes is not a multiple of the drive's mapping unit of 65,536 bytes, so \
         parts of units would be written - choose a smaller unit (unit=) or another write block"
    );
    let mut idle = equal();
    idle.tenants
        .iter_mut()
        .for_each(|tenant| tenant.writes = Rate::ZERO);
    assert!(refused(&idle, &spec(0.1)).starts_with("no tenant writes"));
    let refused = |tenants: &Tenants, spec: &Spec| {
        let layout = TenantLayout::new(Shared, tenants, &drive(spec)).unwrap();
        Experiment::new(&layout, Interleaving::default(), 1)
            .err()
            .unwrap()
            .to_string()
    };
    let why = refused(&equal(), &spec(0.0));
    assert!(
        why.starts_with("drive of all: ") && why.contains("over-provisioning of 0"),
        "{why}"
    );
    let mut full = equal();
    full.tenants[0].fill = 0.9;
    let why = refused(&full, &spec(0.1));
    assert!(why.contains("t32") && why.contains("fill"), "{why}");
}

#[test]
fn an_experiment_that_never_settles_ends_at_its_limit() {
    let tenants = equal();
    let layout = TenantLayout::new(Shared, &tenants, &drive(&spec(0.1))).unwrap();
    let found = Experiment::new(&layout, Interleaving::default(), 1)
        .unwrap()
        .run(3, |_| true)
        .unwrap();
    assert_eq!(found.rounds(), 3);
    assert_eq!(found.steady_after, None);
    assert_eq!(found.steady_waf(), None);
}

#[test]
fn data_that_is_only_read_is_on_the_drive_and_does_not_delay_the_steady_state() {
    let text = "[defaults]\nrecord-bytes = 1100\nfill-pct = 50\nwrite-block = \"128KiB\"\n\
                [[tenant]]\nname = \"reads\"\nreads-per-sec = 1000\n[[tenant]]\nname = \"writes\"\nwrites-per-sec = 1000\n";
    let tenants = Tenants::parse("test", text).unwrap();
    for (arrangement, drives) in [(Shared, 1), (Fdp, 1), (Dedicated, 2)] {
        let (found, experiment) = found(arrangement, &tenants, &spec(0.145), 3);
        assert_eq!(experiment.drives().len(), drives);
        for drive in experiment.drives() {
            assert_eq!(drive.mapped_units(), drive.units(), "{arrangement}");
        }
        assert!(
            found.steady_after.is_some() && found.tenants[0].client == 0,
            "{arrangement}"
        );
    }
}

#[test]
fn a_drive_that_is_hardly_written_is_not_steady() {
    let tenants = tenants([1000, 1, 1, 1], 50, "uniform");
    let spec = spec(0.145);
    let layout = TenantLayout::new(Dedicated, &tenants, &drive(&spec)).unwrap();
    let found = Experiment::new(&layout, Interleaving::default(), 1)
        .unwrap()
        .run(12, |_| true)
        .unwrap();
    let host: u64 = found.drives[3]
        .octiles
        .iter()
        .map(|octile| octile.host)
        .sum();
    let steady_after = found.steady_after;
    assert!(
        host < found.drives[3].logical_bytes / 2 && steady_after.is_none(),
        "{host} {steady_after:?}"
    );
}

/// WAF of the tenants of `micron-2024-op14.toml` in the steady state of a small drive, and the timed run that follows.
fn with_time(arrangement: Arrangement, drive: &FtlDrive) -> (Option<f64>, TimedResult) {
    let tenants = tenants([5, 7, 9, 11], 40, "uniform");
    let layout = TenantLayout::new(arrangement, &tenants, drive).unwrap();
    let mut experiment = Experiment::new(&layout, Interleaving::default(), 5).unwrap();
    let waf = experiment.run(40, |_| true).unwrap().steady_waf();
    (
        waf,
        timed(experiment, &layout, &DriveSpec::default(), 5).unwrap(),
    )
}

fn small() -> Spec {
    Spec {
        logical_bytes: 512 << 20,
        superblock_bytes: 512 << 10,
        ..spec(0.145)
    }
}

#[test]
fn a_timed_run_has_the_same_waf_and_omits_no_operation() {
    for arrangement in Arrangement::ALL {
        let (waf, timed) = with_time(arrangement, &drive(&small()));
        let waf = waf.unwrap();
        let with_time = timed.bytes.waf().unwrap();
        assert!(
            (with_time / waf - 1.0).abs() < 0.05,
            "{arrangement}: {waf} and {with_time}"
        );
        let fills = timed.fills;
        let end = &timed.end_cause;
        assert!(
            (fills - FILLS).abs() < 0.05 && end.is_none(),
            "{arrangement}: {fills} {end:?}"
        );
        assert_eq!(
            timed.streams.len(),
            4 * 4,
            "reads and writes of clients and of defragmentation"
        );
        for (stream, cell) in timed
            .streams
            .iter()
            .filter(|(stream, ..)| client_stream(&stream.name).is_some())
        {
            let name = &stream.name;
            let expected = stream.offered_iops * timed.seconds;
            let counted = cell.counts.counted_ops();
            let done = cell.counts.ops;
            assert!(
                (counted as f64 - expected).abs() <= 1.0,
                "{name}: {counted} of {expected}"
            );
            assert_eq!(done, counted, "{name}");
            assert_eq!(cell.service.len(), done, "{name}");
            assert_eq!(cell.counts.overtime / 10, 0, "{name}");
        }
    }
}

#[test]
fn a_drive_that_is_too_slow_shows_the_late_operations() {
    let mut slow = drive(&small());
    slow.flash.read_ns = 2_000_000;
    let (_, timed) = with_time(Shared, &slow);
    let (stream, reads) = timed
        .streams
        .iter()
        .find(|(stream, ..)| stream.name == "t256/reads")
        .unwrap();
    let done = (reads.counts.ops - reads.counts.overtime) as f64 / timed.seconds;
    assert!(
        reads.counts.backlog.waiting > 0,
        "{:?}",
        reads.counts.backlog
    );
    assert!(
        reads.wait.max() > 1_000_000 && done < 0.9 * stream.offered_iops,
        "{done} of {stream:?}"
    );
}
