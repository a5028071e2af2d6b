use super::*;
use crate::{Reuse, SpaceSize, TenantSpace};
use Keys::*;
use load::rate::Rate;
use results::assert_contains;

fn tenant(keys: Keys, records_per_block: u32, fill: f64, lwm_pct: u32) -> Tenant {
    Tenant {
        name: "t".to_owned(),
        device: None,
        space: TenantSpace {
            size: SpaceSize::Pct(100.0),
            at: None,
        },
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

/// A store of `tenant` that tracks the place of each record: the exact reference.
fn by_record(tenant: &Tenant, blocks: u64, seed: u64) -> StoreModel {
    let steady = StoreGeometry::new(tenant, blocks).unwrap();
    let mut random = Random::for_part(seed, 0);
    let mut all: Vec<u32> = (0..blocks as u32).collect();
    shuffle(&mut all, &mut random);
    let draw = KeyGenerator::new(tenant.keys, steady.records as u32);
    let store = ExactStore::new(&steady, draw, true, &mut all, Random::for_part(seed, 1));
    let mut host = StoreModel::with(tenant, steady, true, seed).unwrap();
    host.store = StoreKind::Records(store.into());
    host.free_blocks = FreeBlocks::new(tenant.reuse, all, random);
    (host.open_client_block, host.open_defrag_block) =
        (host.take(0).unwrap(), host.take(0).unwrap());
    host
}

/// A store of uniform keys just after loading: the first blocks are full, the others were never written. All full
/// blocks have the same age; after some updates of every record, ages are mixed.
fn just_loaded(tenant: &Tenant, blocks: u64, seed: u64) -> StoreModel {
    let mut host = StoreModel::with(
        tenant,
        StoreGeometry::new(tenant, blocks).unwrap(),
        true,
        seed,
    )
    .unwrap();
    let mut store = UniformStore::empty(&host.steady, Random::for_part(seed, 1));
    let loaded = host.loaded_blocks() as u32;
    (0..loaded).for_each(|block| store.write(block));
    host.store = StoreKind::Uniform(store.into());
    host.free_blocks = FreeBlocks::new(
        tenant.reuse,
        (loaded..blocks as u32).collect(),
        Random::for_part(seed, 0),
    );
    (host.open_client_block, host.open_defrag_block) =
        (host.take(0).unwrap(), host.take(0).unwrap());
    host
}

/// Maximum fill that a store of `tenant` survives right after its records were loaded in sequence.
fn fill_max_loaded(tenant: &Tenant, steady: &StoreGeometry) -> f64 {
    let lifetime: f64 = (steady.mark..=steady.records_per_block)
        .map(|live| 1.0 / f64::from(live))
        .sum();
    let usable = (((1.0 + 4.0 * (steady.blocks - RESERVE) as f64).sqrt() - 1.0) / 2.0).powi(2);
    tenant.fill * usable
        / (steady.records as f64 / f64::from(steady.records_per_block) * (1.0 + lifetime))
}

/// Engine WA, average number of blocks in use, and mean and standard deviation of the live share of collected blocks.
fn seen(host: &mut StoreModel, client_blocks: u64) -> [f64; 4] {
    let begun = host.counters();
    let mut used = 0.0;
    let mut shares = 0.0;
    let mut squares = 0.0;
    let mut collected = 0.0;
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
            used += (host.steady().blocks
                - host.free_blocks.len() as u64
                - host.vacated.len() as u64) as f64;
        }
        before = now;
    }
    let now = host.counters();
    let clients = (now.client_blocks - begun.client_blocks) as f64;
    let mean = shares / collected;
    let deviation = (squares / collected - mean * mean).max(0.0).sqrt();
    [
        1.0 + (now.defrag_blocks - begun.defrag_blocks) as f64 / clients,
        used / clients,
        mean,
        deviation,
    ]
}

#[test]
fn the_model_with_a_count_per_block_agrees_with_the_exact_model_of_records() {
    for (records_per_block, fill, lwm_pct) in [
        (128, 0.6, 50),
        (16, 0.5, 50),
        (4, 0.4, 50),
        (64, 0.7, 75),
        (1, 0.5, 50),
    ] {
        let tenant = tenant(Uniform, records_per_block, fill, lwm_pct);
        let mut counted = StoreModel::new(&tenant, 4_000, 1).unwrap();
        let mut exact = by_record(&tenant, 4_000, 2);
        // Both stores run until they have left their initial state.
        let _ = (seen(&mut counted, 4_000), seen(&mut exact, 8_000));
        let counted = seen(&mut counted, 200_000);
        let exact = seen(&mut exact, 20_000);
        let what = format!(
            "{records_per_block} records, fill {fill}, mark {lwm_pct}: {counted:?} {exact:?}"
        );
        assert!(
            (counted[0] / exact[0] - 1.0).abs() < 0.005,
            "engine WA, {what}"
        );
        assert!(
            (counted[1] / exact[1] - 1.0).abs() < 0.01,
            "blocks in use, {what}"
        );
        assert!(
            (counted[2] - exact[2]).abs() < 0.002 && (counted[3] - exact[3]).abs() < 0.005,
            "live share, {what}"
        );
        let steady = StoreGeometry::new(&tenant, 4_000).unwrap();
        assert!(
            (counted[0] / steady.engine_wa() - 1.0).abs() < 0.005,
            "closed form, {what}"
        );
        assert!(
            (counted[1] / (steady.blocks_used + 2.0) - 1.0).abs() < 0.01,
            "closed form, {what} {steady:?}"
        );
    }
}

/// Lifetimes of blocks, in client blocks: the quartiles for blocks of clients, then for blocks of defragmentation.
fn in_use(host: &mut StoreModel, client_blocks: u64) -> [f64; 6] {
    let mut written = vec![None; host.steady().blocks as usize];
    let mut lives = [Vec::new(), Vec::new()];
    let until = host.counters().client_blocks + client_blocks;
    while host.counters().client_blocks < until {
        let step = host.step().unwrap();
        let now = host.counters().client_blocks;
        match step {
            StoreStep::Write(BlockWrite { block, cause }) => {
                written[block as usize] = Some((now, cause))
            }
            StoreStep::Read(block) => {
                if let Some((at, cause)) = written[block as usize].take() {
                    lives[usize::from(cause == WriteCause::Defrag)].push(now - at);
                }
            }
        }
    }
    lives.iter_mut().for_each(|lives| lives.sort_unstable());
    std::array::from_fn(|at| lives[at / 3][lives[at / 3].len() * (at % 3 + 1) / 4] as f64)
}

#[test]
fn the_model_with_a_time_of_death_per_record_agrees_with_the_exact_model_of_records() {
    let hot_cold = HotCold {
        keys_pct: 10.0,
        traffic_pct: 70.0,
    };
    for (keys, records_per_block, lwm_pct) in [
        (hot_cold, 64, 50),
        (Zipfian { theta: 0.99 }, 64, 50),
        (Zipfian { theta: 0.7 }, 16, 70),
        (hot_cold, 4, 75),
    ] {
        let tenant = tenant(keys, records_per_block, 0.5, lwm_pct);
        let mut drawn = StoreModel::new(&tenant, 2_000, 1).unwrap();
        let mut exact = by_record(&tenant, 2_000, 2);
        let _ = (seen(&mut drawn, 6_000), seen(&mut exact, 6_000));
        let counts = seen(&mut drawn, 60_000);
        let exact_counts = seen(&mut exact, 20_000);
        let lives = in_use(&mut drawn, 60_000);
        let exact_lives = in_use(&mut exact, 20_000);
        let what = format!(
            "{keys}, {records_per_block} records: {counts:?} {lives:?}, by place {exact_counts:?} {exact_lives:?}"
        );
        assert!(
            (counts[0] / exact_counts[0] - 1.0).abs() < 0.005,
            "engine WA, {what}"
        );
        assert!(
            (counts[1] / exact_counts[1] - 1.0).abs() < 0.01,
            "blocks in use, {what}"
        );
        assert!(
            (counts[2] - exact_counts[2]).abs() < 0.003 && counts[3] < 0.01,
            "live share, {what}"
        );
        // Lifetimes are counted in client blocks, so a deviation of one block is allowed.
        let near = |(life, exact): (f64, f64)| (life - exact).abs() <= 0.06 * exact + 1.0;
        assert!(lives.into_iter().zip(exact_lives).all(near), "{what}");
    }
}

/// Client blocks in which each record is updated once on average.
fn turn(host: &StoreModel) -> u64 {
    host.loaded_blocks()
}

#[test]
fn skewed_keys_use_more_blocks_at_the_same_engine_wa_and_sequential_keys_move_nothing() {
    let hot_cold = HotCold {
        keys_pct: 20.0,
        traffic_pct: 80.0,
    };
    for (keys, more_in_use) in [
        (hot_cold, 1.04..1.10),
        (Zipfian { theta: 0.99 }, 1.06..1.13),
    ] {
        let mut host = StoreModel::new(&tenant(keys, 128, 0.5, 50), 4_000, 1).unwrap();
        let [waf, used, share, _] = seen(&mut host, 4 * 2_000);
        // Every block is collected at the mark.
        let StoreGeometry {
            mark,
            records_per_block,
            ..
        } = *host.steady();
        let at_mark = f64::from(mark - 1) / f64::from(records_per_block);
        assert!(
            (waf / host.steady().engine_wa() - 1.0).abs() < 0.01,
            "{keys}: {waf} {:?}",
            host.steady()
        );
        assert!(
            (host.expected_engine_wa() / waf - 1.0).abs() < 0.03,
            "{keys}: {} {waf}",
            host.expected_engine_wa()
        );
        assert!(
            more_in_use.contains(&(used / host.steady().blocks_used)),
            "{keys}: {used} {:?}",
            host.steady()
        );
        assert!((share - at_mark).abs() < 0.002, "{keys}: {share}");
    }
    let mut host = StoreModel::new(&tenant(Sequential, 128, 0.9, 50), 4_000, 1).unwrap();
    assert_eq!(host.expected_engine_wa(), 1.0);
    assert_eq!(seen(&mut host, 8_000)[0], 1.0);
}

#[test]
fn only_free_blocks_are_written_and_no_record_is_lost() {
    for keys in [Uniform, Sequential, Zipfian { theta: 0.8 }] {
        for reuse in [Reuse::Fifo, Reuse::Lowest, Reuse::Random] {
            let tenant = Tenant {
                reuse,
                ..tenant(keys, 32, 0.5, 50)
            };
            let mut host = StoreModel::new(&tenant, 500, 5).unwrap();
            let mut in_use = vec![true; 500];
            for _ in 0..5_000 {
                let free = match &host.free_blocks {
                    FreeBlocks::Fifo(blocks) => blocks.iter().copied().collect::<Vec<_>>(),
                    FreeBlocks::Lowest(blocks) => blocks.iter().map(|block| block.0).collect(),
                    FreeBlocks::Random(blocks, _) => blocks.clone(),
                };
                in_use.fill(true);
                free.iter().for_each(|block| {
                    assert!(std::mem::replace(&mut in_use[*block as usize], false))
                });
                let client = host.open_client_block;
                let defrag = host.open_defrag_block;
                let write = host.next_block().unwrap();
                assert_eq!(
                    write.block,
                    if write.cause == WriteCause::Client {
                        client
                    } else {
                        defrag
                    }
                );
                assert!(
                    in_use[write.block as usize],
                    "the block of a buffer is not free"
                );
                let next = if write.cause == WriteCause::Client {
                    host.open_client_block
                } else {
                    host.open_defrag_block
                };
                if let Reuse::Lowest = reuse {
                    assert!(
                        free.iter().all(|block| *block >= next
                            || host.vacated.iter().any(|(of, _)| of == block))
                    );
                }
            }
            if let StoreKind::Records(store) = &host.store {
                let found = store.live_records();
                assert_eq!(found, host.steady().records, "{keys} {reuse}");
            }
        }
    }
}

#[test]
fn reuse_takes_the_oldest_the_lowest_or_a_random_free_block() {
    let taken = |reuse| {
        let mut free = FreeBlocks::new(reuse, vec![5, 1, 9], Random::new(1));
        free.put(3);
        std::iter::from_fn(|| free.take()).collect::<Vec<_>>()
    };
    assert_eq!(taken(Reuse::Fifo), [5, 1, 9, 3]);
    assert_eq!(taken(Reuse::Lowest), [1, 3, 5, 9]);
    let mut random = taken(Reuse::Random);
    random.sort_unstable();
    assert_eq!(random, [1, 3, 5, 9]);
}

#[test]
fn the_same_seed_writes_the_same_blocks_and_another_does_not() {
    for keys in [Uniform, Zipfian { theta: 0.99 }] {
        let blocks = |seed| {
            let mut host = StoreModel::new(&tenant(keys, 64, 0.5, 50), 1_000, seed).unwrap();
            (0..3_000)
                .map(|_| host.next_block().unwrap())
                .collect::<Vec<_>>()
        };
        assert!(blocks(1) == blocks(1) && blocks(1) != blocks(2), "{keys}");
    }
}

#[test]
fn a_store_just_loaded_has_a_lower_maximum_fill_than_a_store_in_its_steady_state() {
    let half = tenant(Uniform, 128, 0.5, 50);
    let highest = StoreGeometry::new(&half, 10_000).unwrap();
    let highest_loaded = fill_max_loaded(&half, &highest);
    // 1 / (1 + ln 2) and (1 - 1/2) / ln 2, less the reserve.
    assert!(
        (0.57..0.591).contains(&highest_loaded) && (0.70..0.722).contains(&highest.fill_max),
        "{highest:?} {highest_loaded}"
    );
    let mut host = just_loaded(&tenant(Uniform, 128, highest_loaded - 1e-6, 50), 10_000, 1);
    let loaded = host.loaded_blocks();
    assert_eq!(
        host.next_block().unwrap(),
        BlockWrite {
            block: loaded as u32,
            cause: WriteCause::Client
        }
    );
    for _ in 0..5 * turn(&host) {
        host.next_block().unwrap();
    }
    // A store with blocks of every age survives this fill, a store just loaded runs out.
    let over = tenant(Uniform, 128, highest.fill_max - 1e-6, 50);
    let mut host = just_loaded(&over, 10_000, 1);
    let full = (0..30_000)
        .find_map(|_| host.next_block().err())
        .unwrap()
        .to_string();
    assert_contains!(full, "too few fall below the low-water mark of 50 %");
    assert!(StoreModel::new(&over, 10_000, 1).is_ok());
}

#[test]
fn a_fill_that_defragmentation_cannot_sustain_is_refused_with_the_arithmetic() {
    let why = |tenant: &Tenant, blocks| StoreModel::new(tenant, blocks, 1).unwrap_err().to_string();
    assert_eq!(
        why(&tenant(Uniform, 128, 0.8, 50), 1_000),
        "tenant \"t\": cannot fill 80.0 % of its space - with uniform keys and a low-water mark of 50 %, blocks are 72.0 % full on \
         average, so the store needs 1,119 blocks and has 1,000 - lower fill-pct to at most 69.2, or raise defrag-lwm-pct (which \
         also raises the engine WA of 1.97)"
    );
    let limit = StoreGeometry::new(&tenant(Uniform, 128, 0.8, 50), 4_000)
        .unwrap()
        .fill_max;
    let mut host = StoreModel::new(&tenant(Uniform, 128, limit - 1e-6, 50), 4_000, 1).unwrap();
    assert!((0..100_000).all(|_| host.next_block().is_ok()));
    let hot = tenant(
        HotCold {
            keys_pct: 20.0,
            traffic_pct: 80.0,
        },
        128,
        0.7,
        50,
    );
    assert_contains!(why(&hot, 4_000), "its space is full after");
    let packed = Tenant {
        record_bytes: 70_000 / 16 * 16,
        ..tenant(Uniform, 128, 0.2, 60)
    };
    assert_contains!(
        why(&packed, 4_000),
        "1 records of 70000 bytes fill 53.4 % of a write block"
    );
    assert!(
        why(&tenant(Uniform, 128, 0.5, 50), 31)
            .contains("31 write blocks of 131072 bytes - a store needs at least 32")
    );
    assert!(why(&tenant(Uniform, 128, 0.5, 50), 1 << 32).contains("the maximum is 4,294,967,294"));
    assert!(why(&tenant(Uniform, 128, 0.5, 50), u64::MAX).contains("the maximum is"));
    // A petabyte in blocks of 256 KiB: refused on a machine with less than 94 GB of memory.
    if sys::buffer::available_bytes().is_some_and(|bytes| bytes < 94 << 30) {
        let petabyte = why(&tenant(Uniform, 128, 0.5, 50), (1 << 32) - 2);
        assert_contains!(
            petabyte,
            "cannot model 4,294,967,294 write blocks - 103 GB of memory are needed, but only "
        );
    }
    let many = why(&tenant(Sequential, 8_192, 0.5, 50), 1_000_000);
    assert!(
        many.contains("cannot model 4,096,000,000 records with non-uniform keys"),
        "{many}"
    );
}
