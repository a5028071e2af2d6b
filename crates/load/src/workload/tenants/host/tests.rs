use super::*;
use crate::rate::Rate;
use crate::workload::tenants::{Reuse, Size, Space};

fn tenant(keys: Keys, records_per_block: u32, fill: f64, lwm_pct: u32) -> Tenant {
    Tenant {
        name: "t".to_owned(),
        device: None,
        space: Space { size: Size::Pct(100.0), at: None },
        write_block_bytes: 128 << 10,
        record_bytes: (128 << 10) / records_per_block,
        fill,
        defrag_lwm_pct: lwm_pct,
        keys,
        reuse: Reuse::Fifo,
        reads: Rate::ZERO,
        writes: Rate::per_sec(1),
        placement: None,
        defrag_placement: None,
    }
}

/// The same store, with each record's place.
fn by_record(tenant: &Tenant, blocks: u64, seed: u64) -> Host {
    let steady = Steady::of(tenant, blocks).unwrap();
    let mut random = Random::for_part(seed, 0);
    let mut all: Vec<u32> = (0..blocks as u32).collect();
    shuffle(&mut all, &mut random);
    let draw = Draw::new(tenant.keys, steady.records as u32);
    let store = Records::new(&steady, draw, true, &mut all, Random::for_part(seed, 1));
    let mut host = Host::with(tenant, steady, true, seed).unwrap();
    host.store = Store::Records(store.into());
    host.free = FreeBlocks::new(tenant.reuse, all, random);
    (host.client, host.defrag) = (host.take(0).unwrap(), host.take(0).unwrap());
    host
}

/// Host WAF, blocks in use on average, and of the live share of collected blocks mean and deviation.
fn seen(host: &mut Host, client_blocks: u64) -> [f64; 4] {
    let begun = host.counters();
    let (mut used, mut shares, mut squares, mut collected) = (0.0, 0.0, 0.0, 0.0);
    let mut before = host.counters();
    while host.counters().client_blocks < begun.client_blocks + client_blocks {
        host.step().unwrap();
        let now = host.counters();
        if now.collected_blocks > before.collected_blocks {
            let blocks = (now.collected_blocks - before.collected_blocks) as f64;
            let share = (now.collected_live - before.collected_live) as f64
                / blocks
                / f64::from(host.steady().records_per_block);
            collected += blocks;
            shares += share * blocks;
            squares += share * share * blocks;
        }
        if now.client_blocks > before.client_blocks {
            used += (host.steady().blocks - host.free_blocks() - host.vacated.len() as u64) as f64;
        }
        before = now;
    }
    let now = host.counters();
    let clients = (now.client_blocks - begun.client_blocks) as f64;
    let mean = shares / collected;
    let deviation = (squares / collected - mean * mean).max(0.0).sqrt();
    [1.0 + (now.defrag_blocks - begun.defrag_blocks) as f64 / clients, used / clients, mean, deviation]
}

#[test]
fn a_count_for_each_block_gives_what_single_records_give() {
    for (records_per_block, fill, lwm_pct) in [(128, 0.6, 50), (16, 0.5, 50), (4, 0.4, 50), (64, 0.7, 75), (1, 0.5, 50)]
    {
        let tenant = tenant(Keys::Uniform, records_per_block, fill, lwm_pct);
        let (mut counted, mut exact) = (Host::new(&tenant, 4_000, 1).unwrap(), by_record(&tenant, 4_000, 2));
        // What both forget: how they began.
        let _ = (seen(&mut counted, 4_000), seen(&mut exact, 8_000));
        let (counted, exact) = (seen(&mut counted, 40_000), seen(&mut exact, 20_000));
        let what = format!("{records_per_block} records, fill {fill}, mark {lwm_pct}: {counted:?} {exact:?}");
        assert!((counted[0] / exact[0] - 1.0).abs() < 0.005, "host WAF, {what}");
        assert!((counted[1] / exact[1] - 1.0).abs() < 0.01, "blocks in use, {what}");
        assert!((counted[2] - exact[2]).abs() < 0.002 && (counted[3] - exact[3]).abs() < 0.005, "live share, {what}");
        let steady = Steady::of(&tenant, 4_000).unwrap();
        assert!((counted[0] / steady.host_waf() - 1.0).abs() < 0.005, "closed form, {what}");
        assert!((counted[1] / (steady.blocks_used + 2.0) - 1.0).abs() < 0.01, "closed form, {what} {steady:?}");
    }
}
