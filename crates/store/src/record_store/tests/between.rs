//! Tests of interleavings: reads of records, searches of blocks, full queues, and a drive that fails.

use super::*;
use sys::op::Outcome;

fn on(name: &str, change: impl FnOnce(&mut NamespaceSettings)) -> Bench {
    let mut namespace = namespace();
    change(&mut namespace);
    Bench::on(&namespace, &[space()], drive(name))
}

#[test]
fn a_read_finds_a_record_that_moved_while_it_was_read() {
    let mut bench = Bench::new(|_| {}, 64);
    assert_eq!(bench.put(1, b"old"), ResultCode::OK);
    push_out(&mut bench);
    bench.submit(5, 1, RecordOp::ReadAll);
    assert!(bench.replies.is_empty(), "the drive reads");
    assert_eq!(bench.put(1, b"new"), ResultCode::OK);
    for mut done in bench.reaped(u64::MAX) {
        // Zeros stand for the bytes of a block that was reused during the read.
        done.buf.fill(0);
        bench.completed(done);
    }
    let read = bench
        .replies
        .iter()
        .find(|(number, _)| *number == 5)
        .map(|(_, reply)| (reply.result, value(reply)));
    assert_eq!(read, Some((ResultCode::OK, b"new".to_vec())));
    assert_eq!(bench.store.statistics().corrupted, 0);
}

#[test]
fn a_damaged_record_can_be_replaced_and_deleted() {
    let mut bench = Bench::new(|_| {}, 64);
    for key in [1, 2] {
        let with_key = Write {
            key: b"\x03name".to_vec(),
            ..write(b"old", Exists::Any)
        };
        assert_eq!(
            bench.ask(key, RecordOp::Write(with_key)).result,
            ResultCode::OK
        );
    }
    push_out(&mut bench);
    // Executes a transaction while the drive returns damaged bytes.
    let mut ask = |key: u64, record_op: RecordOp| {
        bench.submit(77, key, record_op);
        while bench.replies.is_empty() {
            for mut done in bench.reaped(u64::MAX) {
                done.buf.iter_mut().for_each(|byte| *byte ^= 1);
                bench.completed(done);
            }
        }
        bench.replies.remove(0).1.result
    };
    let update = || RecordOp::Write(write(b"new", Exists::Any));
    assert_eq!(
        [ask(1, RecordOp::ReadAll), ask(1, update())],
        [ResultCode::SERVER_ERROR; 2],
        "nobody knows its other bins"
    );
    assert_eq!(ask(1, put(b"new")), ResultCode::OK);
    assert_eq!(
        [
            ask(2, RecordOp::Delete(Delete::default())),
            ask(2, update())
        ],
        [ResultCode::OK; 2]
    );
    assert_eq!(bench.value(1), b"new");
    assert_eq!(bench.value(2), b"new");
    assert_eq!(bench.store.statistics().corrupted, 3);
}

#[test]
fn buffers_are_written_before_blocks_are_searched_for_versions_that_tombstones_hide() {
    let slow = "sim:capacity=64MiB+write-us=3000000";
    let mut bench = on(slow, |namespace| {
        (namespace.tomb_raider_period_sec, namespace.flush_max_ms) = (10, 0)
    });
    assert_eq!(bench.put(1, b"x"), ResultCode::OK);
    bench.write_out();
    bench.run(5_500);
    // When the search begins, the drive is still writing the block of this record; the tombstone is in a later block.
    assert_eq!(bench.put(2, b"y"), ResultCode::OK);
    for key in 1_000..1_020 {
        bench.submit(key, key, put(&[1; 2_000]));
    }
    assert_eq!(bench.delete(2), ResultCode::OK);
    bench.run(10_000);
    let statistics = bench.store.statistics();
    assert_eq!(statistics.tombstones, 1);
    assert_eq!(statistics.raided, 0, "a cold start would find the record");
}

#[test]
fn a_block_begun_during_the_search_is_written_before_it_is_searched() {
    let mut bench = Bench::new(
        |namespace| {
            (namespace.tomb_raider_period_sec, namespace.flush_max_ms) = (10, 0);
            namespace.tomb_raider_sleep_us = 1_000_000;
        },
        64,
    );
    assert_eq!(bench.put(1, b"x"), ResultCode::OK);
    assert_eq!(bench.delete(1), ResultCode::OK);
    bench.write_out();
    // A transaction triggers the next search.
    bench.ask(1, RecordOp::Exists);
    bench.run(10_500);
    // The first block was searched; now a second block is begun.
    for key in 10..30 {
        assert_eq!(bench.put(key, &[1; 2_000]), ResultCode::OK);
    }
    let parts = |bench: &Bench| bench.store.statistics().devices[0].partial_writes;
    let before = parts(&bench);
    bench.run(5_000);
    assert_eq!(
        parts(&bench),
        before + 1,
        "its header, or after a loss of power it could be another"
    );
}

#[test]
fn tombstones_stay_when_a_block_cannot_be_read() {
    let mut bench = on("sim:capacity=64MiB+gone-at-s=5", |namespace| {
        namespace.tomb_raider_period_sec = 10
    });
    for key in 0..30 {
        assert_eq!(bench.put(key, &[1; 2_000]), ResultCode::OK);
    }
    assert_eq!(bench.delete(7), ResultCode::OK);
    bench.write_out();
    // A transaction triggers the next search.
    bench.ask(7, RecordOp::Exists);
    bench.run(45_000);
    let statistics = bench.store.statistics();
    assert_eq!((statistics.tombstones, statistics.raided), (1, 0));
    assert!(statistics.devices[0].read_errors > 0, "it was tried");
}

#[test]
fn writes_are_refused_below_min_avail_pct_and_deletions_still_succeed() {
    let mut bench = Bench::new(|namespace| namespace.min_avail_pct = 50, 64);
    let mut key = 0;
    while bench.put(key, &[1; 10_000]) == ResultCode::OK {
        key += 1;
    }
    assert_eq!(bench.put(key, &[1; 10_000]), ResultCode::OUT_OF_SPACE);
    let statistics = bench.store.statistics();
    assert!(
        statistics.stop_writes && (28..33).contains(&statistics.devices[0].free_wblocks),
        "{statistics:?}"
    );
    assert_eq!(
        bench.put(0, b"x"),
        ResultCode::OUT_OF_SPACE,
        "a smaller one in place of another, too"
    );
    for key in 0..key {
        assert_eq!(bench.delete(key), ResultCode::OK);
    }
    bench.run(5_000);
    assert_eq!(bench.put(key, &[1; 10_000]), ResultCode::OK);
}

#[test]
fn no_block_is_begun_for_deletions_while_the_write_queue_is_full() {
    let mut bench = Bench::new(|namespace| namespace.max_write_cache_bytes = 2 * BLOCK, 64);
    // No time passes, so nothing is written to the drive.
    (0..5_000).for_each(|key| bench.submit(key, key, put(b"x")));
    let of = |bench: &mut Bench, code| {
        let replies = std::mem::take(&mut bench.replies);
        replies
            .into_iter()
            .filter(|(_, reply)| reply.result == code)
            .map(|(number, _)| number)
            .collect::<Vec<_>>()
    };
    let written = of(&mut bench, ResultCode::OK);
    assert!((500..4_000).contains(&written.len()), "{}", written.len());
    written
        .iter()
        .for_each(|key| bench.submit(*key, *key, RecordOp::Delete(Delete::default())));
    let refused = of(&mut bench, ResultCode::DEVICE_OVERLOAD);
    assert!(
        !refused.is_empty() && refused.len() < written.len(),
        "{}",
        refused.len()
    );
    bench.run(1_000);
    refused
        .iter()
        .for_each(|key| assert_eq!(bench.delete(*key), ResultCode::OK));
    bench.store.check().unwrap();
}

#[test]
fn writes_to_a_failing_drive_are_not_retried_for_each_transaction() {
    let mut bench = on("sim:capacity=64MiB+gone-at-s=1", |namespace| {
        namespace.commit_to_device = true
    });
    bench.run(1_000);
    assert_eq!(bench.put(1, b"x"), ResultCode::TIMEOUT);
    let before_ns = bench.engine.now();
    assert_eq!(bench.put(2, &[1; 32_000]), ResultCode::SERVER_ERROR);
    assert_eq!(bench.engine.now(), before_ns, "at once");
}

#[test]
fn the_generation_after_65535_is_1() {
    let mut bench = Bench::new(|_| {}, 64);
    let digest = crate::digest(b"s", 1, &5_u64.to_be_bytes());
    let body = entry(ops::operation::READ, b"x");
    let last = Record {
        digest,
        version: WALL_MS * 1_000,
        generation: u16::MAX,
        void_time: 0,
        is_tombstone: false,
        set: b"s",
        key: b"",
        body: &body,
    };
    let mut image = vec![0; last.units() as usize * UNIT];
    last.write(&mut image, 0);
    assert_eq!(bench.ask(5, RecordOp::Image(image)).result, ResultCode::OK);
    assert_eq!(bench.ask(5, RecordOp::ReadAll).generation, u16::MAX);
    assert_eq!(
        bench.ask(5, put(b"y")).generation,
        1,
        "0 stands for no record"
    );
}

#[test]
fn a_replacement_without_a_key_keeps_the_stored_key() {
    let mut bench = Bench::new(|_| {}, 64);
    let with = |key: &[u8]| {
        RecordOp::Write(Write {
            key: key.into(),
            wants_image: true,
            ..write(b"x", Exists::CreateOrReplace)
        })
    };
    assert_eq!(bench.ask(1, with(b"name")).result, ResultCode::OK);
    push_out(&mut bench);
    let image = bench.ask(1, with(b"")).image.unwrap();
    let found = Record::read(&image, 0).map(|record| record.key.to_vec());
    assert_eq!(found, Some(b"name".to_vec()));
}

#[test]
fn a_record_that_expires_while_it_is_read_is_written_as_new() {
    let mut bench = on("sim:capacity=64MiB+read-us=3000000", |namespace| {
        namespace.nsup_period_sec = 0
    });
    write_expiring(&mut bench, 1, b"old");
    for key in 1_000..1_040 {
        bench.submit(key, key, put(&[1; 2_000]));
    }
    bench.write_out();
    bench.replies.clear();
    let append = Write {
        ops: entry(ops::operation::APPEND, b"new"),
        ..Write::default()
    };
    assert_eq!(bench.ask(1, RecordOp::Exists).result, ResultCode::OK);
    let reply = bench.ask(1, RecordOp::Write(append));
    // The record still existed when the read began.
    assert_eq!((reply.result, reply.generation), (ResultCode::OK, 1));
    assert_eq!(bench.value(1), b"new");
}

#[test]
fn a_tombstone_stores_the_sequence_number_of_the_next_block() {
    let mut bench = Bench::new(|_| {}, 64);
    for key in 0..100 {
        assert_eq!(bench.put(key, &[1; 2_000]), ResultCode::OK);
        let noted = bench
            .store
            .tombstone_body(&crate::digest(b"s", 1, &key.to_be_bytes()));
        // Blocks that are begun may hold hidden versions; later blocks cannot.
        let found = u64::from_le_bytes(noted);
        assert_eq!(found, bench.store.volumes[0].sequence + 1);
    }
}

#[test]
fn a_full_device_has_blocks_reserved_for_deletions() {
    let mut bench = Bench::new(
        |namespace| (namespace.min_avail_pct, namespace.defrag_lwm_pct) = (0, 0),
        16,
    );
    let mut key = 0;
    while bench.put(key, b"x") != ResultCode::OUT_OF_SPACE {
        key += 1;
    }
    // Delete every other record, so that no block becomes empty.
    let codes = (0..key).step_by(2).map(|key| bench.delete(key));
    let deleted = codes.filter(|code| *code == ResultCode::OK).count();
    let of_a_block = (BLOCK as usize - 512) / 80;
    assert!(
        deleted > of_a_block * 5 / 4,
        "{deleted} of {key}, a block holds at most {of_a_block}"
    );
}

/// A store that was closed and opened again on a drive whose first `failures` flushes fail.
fn opened_where_flushes_fail(failures: u64) -> Bench {
    let mut bench = Bench::new(|_| {}, 64);
    assert_eq!(bench.put(1, b"kept"), ResultCode::OK);
    bench.write_out();
    bench.store = Store::open(
        &namespace(),
        &[space()],
        0..64,
        WALL_MS,
        2,
        &mut bench.engine,
    )
    .unwrap();
    let mut flushes = 0;
    while !bench.store.is_ready() {
        for mut done in bench.reaped(u64::MAX) {
            // Among the operations of a cold start, only a flush has no bytes.
            if done.buf.is_empty() {
                flushes += 1;
                if flushes <= failures {
                    done.outcome = Outcome::Errno(5);
                }
            }
            bench.completed(done);
        }
        bench.store.poll(&mut bench.engine, &mut bench.replies);
    }
    assert_eq!(bench.store.statistics().devices[0].write_errors, failures);
    bench
}

#[test]
fn a_cold_start_retries_a_failed_flush_and_then_serves_reads_and_refuses_writes() {
    let mut again = opened_where_flushes_fail(5);
    assert_eq!(again.store.take_remark(), None);
    assert_eq!(again.put(2, b"new"), ResultCode::OK);
    let mut never = opened_where_flushes_fail(6);
    let remark = never.store.take_remark().unwrap();
    let Remark { device, text } = remark;
    assert!(
        device == Some(0)
            && text.contains("could not be flushed - ")
            && text.contains("writes are refused"),
        "{text}"
    );
    // The data may be only in the drive's cache, so no write may build on it.
    assert_eq!(never.put(2, b"new"), ResultCode::SERVER_ERROR);
    assert_eq!(never.value(1), b"kept");
}

#[test]
fn memory_that_deleted_records_take_is_reclaimed_before_writes_are_refused() {
    // 64 KiB hold about 950 entries.
    let mut bench = Bench::new(
        |namespace| namespace.memory_bytes = (64 << 10) + (16 << 10),
        64,
    );
    for key in 0..20_000 {
        assert_eq!(bench.put(key, &[1; 300]), ResultCode::OK, "key {key}");
        assert_eq!(bench.delete(key), ResultCode::OK, "key {key}");
    }
    let statistics = bench.store.statistics();
    assert!(
        statistics.raided > 18_000 && !statistics.stop_writes,
        "{} {}",
        statistics.raided,
        statistics.tombstones
    );
    bench.store.check().unwrap();
}

#[test]
fn a_full_device_accepts_writes_again_after_deletions() {
    for commit in [false, true] {
        let mut bench = Bench::new(|namespace| namespace.commit_to_device = commit, 64);
        let mut key = 0;
        // Submit more writes than the device has space for, without a pause.
        for _ in 0..2_000 {
            bench.submit(key, key, put(&[1; 3_000]));
            key += 1;
        }
        bench.run(5_000);
        let full = bench
            .replies
            .iter()
            .filter(|(_, reply)| reply.result != ResultCode::OK)
            .count();
        assert!(full > 500, "{full}");
        bench.replies.clear();
        for deleted in (0..key).step_by(2) {
            let code = bench.delete(deleted);
            assert!(
                [ResultCode::OK, ResultCode::NOT_FOUND].contains(&code),
                "{code:?}"
            );
        }
        assert!(bench.store.statistics().stop_writes && bench.store.statistics().hwm_breached);
        // Blocks are collected until min-avail-pct is free.
        bench.run(1_000);
        assert!(!bench.store.statistics().stop_writes);
        for key in 0..200 {
            assert_eq!(bench.put(key, &[2; 3_000]), ResultCode::OK, "key {key}");
        }
        bench.store.check().unwrap();
    }
}
