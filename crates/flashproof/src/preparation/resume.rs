//! Decides on the preparation of one device: start, resume, or refuse.
//!
//! An interrupted preparation is resumed only with the same device, size, passes and seed, because these determine the
//! written data: the two halves of the device must match. Otherwise the preparation is refused, with the values that
//! differ, until the user allows a new start.

use device::discover::DeviceFacts;
use device::guard::{PreparationRecord, RandomOrder, Records};
use ftl::over_provisioning;
use load::prepare::{BLOCK_BYTES, Order, OrderSpec};
use std::sync::Arc;
#[cfg(test)]
pub(super) use tests::begun;

#[derive(Debug, Clone, Copy)]
pub struct PrepOptions {
    pub discard_first: bool,
    pub zeros: bool,
    pub fills: u32,
    pub use_pct: u32,
    /// A single pass of random data in the order of random writes, on a drive that is discarded if possible.
    pub random: Option<RandomWrites>,
    /// `None`: any seed.
    pub seed: Option<u64>,
    /// True to start again, even after an interrupted preparation.
    pub restart: bool,
}

impl PrepOptions {
    /// Zeros, then one random fill, on the whole device.
    pub const DEFAULT: Self = Self {
        discard_first: false,
        zeros: true,
        fills: 1,
        use_pct: 100,
        random: None,
        seed: None,
        restart: false,
    };

    /// Number of passes over the used part.
    pub fn passes(&self) -> u64 {
        u64::from(self.zeros) + u64::from(self.fills)
    }
}

#[derive(Debug, Clone, Copy)]
pub struct RandomWrites {
    /// Over-provisioning (T - U) / U of the whole drive; `None`: assumed from usual flash sizes.
    pub over_provisioning: Option<f64>,
    pub block_bytes: u32,
    /// `None`: 1 GiB, but at most 1/64 of the part in use.
    pub cache_bytes: Option<u64>,
}

impl RandomWrites {
    /// The order on a drive of `size_bytes` whose first `used_bytes` are used.
    pub(crate) fn order(&self, size_bytes: u64, used_bytes: u64) -> RandomOrder {
        let block = u64::from(self.block_bytes);
        let over_provisioning = self
            .over_provisioning
            .unwrap_or_else(|| over_provisioning::estimate_from_capacity(size_bytes));
        let flash_blocks =
            (size_bytes as f64 * (1.0 + over_provisioning) / block as f64).round() as u64;
        RandomOrder {
            block_bytes: self.block_bytes,
            pass_bytes: flash_blocks.max(used_bytes.div_ceil(block)) * block,
            cache_bytes: self.cache_bytes.unwrap_or((1 << 30).min(used_bytes / 64)),
        }
    }
}

/// The order of the writes of `prepared`, if it is random.
pub(super) fn order(prepared: &PreparationRecord) -> Result<Option<Arc<Order>>, String> {
    let Some(RandomOrder {
        block_bytes,
        pass_bytes,
        cache_bytes,
    }) = prepared.random
    else {
        return Ok(None);
    };
    let spec = OrderSpec {
        block_bytes,
        pass_bytes,
        cache_bytes,
        seed: prepared.seed,
    };
    let order = Order::new(prepared.used_bytes, spec).map_err(|why| {
        let path = &prepared.path;
        format!("cannot prepare {path} for random writes - {why}")
    })?;
    Ok(Some(Arc::new(order)))
}

fn discards_first(facts: &DeviceFacts, options: &PrepOptions) -> bool {
    options.discard_first || options.random.is_some() && facts.max_discard_bytes.unwrap_or(0) > 0
}

#[derive(Debug, Clone, Copy)]
pub(super) struct StartParams {
    /// Seed of the random data, unless the user gives one.
    pub seed: u64,
    pub unix_s: u64,
}

/// A preparation to perform, new or partly done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resume {
    pub prepared: PreparationRecord,
    /// Key of the stamps written so far; `None` for a new preparation.
    pub key: Option<u64>,
}

impl Resume {
    /// The preparation of the device of `facts`, from its record; `start_params` apply to a new preparation.
    /// Errors: why the preparation is refused, and what to do.
    pub(super) fn from_records(
        facts: &DeviceFacts,
        options: &PrepOptions,
        records: &Records,
        start_params: StartParams,
    ) -> Result<Self, String> {
        let DeviceFacts {
            path,
            serial,
            size_bytes,
            ..
        } = facts;
        if !options.restart {
            let record = facts
                .identity()
                .and_then(|identity| records.find(&identity));
            let recorded = record.and_then(|record| Some((record.prepared?, record.key)));
            check_same_drive(
                facts,
                recorded.as_ref().map(|(prepared, _)| prepared),
                records,
            )?;
            if let Some((prepared, key)) = recorded.filter(|(own, _)| !own.is_complete()) {
                check_same_work(facts, &prepared, options)?;
                return Ok(Self {
                    prepared: PreparationRecord {
                        path: path.clone(),
                        ..prepared
                    },
                    key: Some(key),
                });
            }
        }
        let used_bytes = used_bytes(path, *size_bytes, options.use_pct)?;
        let prepared = PreparationRecord {
            tool: format!("flashproof {}", env!("CARGO_PKG_VERSION")),
            path: path.clone(),
            serial: serial.clone(),
            size_bytes: *size_bytes,
            used_bytes,
            discard_first: discards_first(facts, options),
            zeros: options.zeros,
            fills: options.fills,
            random: options
                .random
                .map(|random| random.order(*size_bytes, used_bytes)),
            seed: options.seed.unwrap_or(start_params.seed),
            started_unix_s: start_params.unix_s,
            ..PreparationRecord::default()
        };
        order(&prepared)?;
        Ok(Self {
            prepared,
            key: None,
        })
    }

    /// Decides again once no other process can write to the device: a test or another preparation may have run in
    /// between. Errors: the preparation is refused now, or the record has changed.
    pub(super) fn check(
        &self,
        facts: &DeviceFacts,
        options: &PrepOptions,
        records: &Records,
    ) -> Result<(), String> {
        let PreparationRecord {
            seed,
            started_unix_s: unix_s,
            ..
        } = self.prepared;
        if Self::from_records(facts, options, records, StartParams { seed, unix_s })? == *self {
            Ok(())
        } else {
            Err(format!(
                "cannot prepare {} - another run used it meanwhile, and its record changed - start again",
                facts.path
            ))
        }
    }

    pub(super) fn is_resumed(&self) -> bool {
        self.key.is_some()
    }
}

/// The first `use_pct` percent in whole blocks; all bytes for 100.
fn used_bytes(path: &str, size_bytes: u64, use_pct: u32) -> Result<u64, String> {
    if use_pct >= 100 {
        return Ok(size_bytes);
    }
    let block = u128::from(BLOCK_BYTES);
    let used = u128::from(size_bytes) * u128::from(use_pct) / 100 / block * block;
    match used as u64 {
        0 => Err(format!(
            "cannot prepare {path} - {use_pct} % of its {size_bytes} bytes are less than one block of {BLOCK_BYTES} bytes - raise --use-pct"
        )),
        used => Ok(used),
    }
}

/// Refuses if the preparation that was interrupted under this name belongs to another drive.
fn check_same_drive(
    facts: &DeviceFacts,
    recorded: Option<&PreparationRecord>,
    records: &Records,
) -> Result<(), String> {
    let (
        DeviceFacts {
            path, size_bytes, ..
        },
        identity,
    ) = (facts, facts.identity());
    // If this drive was prepared here later than the other drive, the user means this drive.
    let recorded_start = recorded.map_or(0, |own| own.started_unix_s);
    let last_record = records
        .last_under(path)
        .filter(|(_, last)| !last.is_complete() && last.started_unix_s > recorded_start);
    match last_record {
        Some((other, last)) if Some(&other) != identity.as_ref() => Err(format!(
            "cannot resume {path} - the preparation interrupted under this name ({}) was of {other} with {} bytes, but \
             the device is now {} with {size_bytes} bytes - put the earlier drive back, or give --restart to prepare \
             this drive from the beginning",
            last.progress(),
            last.size_bytes,
            identity
                .as_deref()
                .unwrap_or("a device without a lasting name"),
        )),
        _ => Ok(()),
    }
}

/// Refuses if `options` would write other data than the data that `prepared` has written so far.
fn check_same_work(
    facts: &DeviceFacts,
    prepared: &PreparationRecord,
    options: &PrepOptions,
) -> Result<(), String> {
    let DeviceFacts {
        path, size_bytes, ..
    } = facts;
    let (why, instead) = if prepared.size_bytes != *size_bytes {
        let had_bytes = prepared.size_bytes;
        let why = format!("it had {had_bytes} bytes then, and has {size_bytes} now");
        (why, "give ")
    } else if let Some(writer) = &prepared.written_since {
        let why = format!("it was written to since ({writer})");
        (why, "give ")
    } else {
        let differences = changed_options(facts, prepared, options)?;
        if differences.is_empty() {
            return Ok(());
        }
        let why = format!("its options differ: {}", differences.join(", "));
        (why, "give the same options to resume, or ")
    };
    let progress = prepared.progress();
    Err(format!(
        "cannot resume {path} - its preparation is incomplete or still runs in another process ({progress}); {why} - \
         {instead}--restart to start from the beginning"
    ))
}

/// The options that differ from those of `prepared`, each with both values.
fn changed_options(
    facts: &DeviceFacts,
    prepared: &PreparationRecord,
    options: &PrepOptions,
) -> Result<Vec<String>, String> {
    let size_bytes = facts.size_bytes;
    let used = used_bytes(&facts.path, size_bytes, options.use_pct)?;
    let yes_no = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let compared = [
        (
            "seed",
            prepared.seed.to_string(),
            options.seed.unwrap_or(prepared.seed).to_string(),
        ),
        (
            "fills",
            prepared.fills.to_string(),
            options.fills.to_string(),
        ),
        ("zeros", yes_no(prepared.zeros), yes_no(options.zeros)),
        (
            "discard-first",
            yes_no(prepared.discard_first),
            yes_no(discards_first(facts, options)),
        ),
        (
            "used bytes (--use-pct)",
            prepared.used_bytes.to_string(),
            used.to_string(),
        ),
        (
            "random writes (--for)",
            describe(prepared.random),
            describe(options.random.map(|it| it.order(size_bytes, used))),
        ),
    ];
    Ok(compared
        .iter()
        .filter(|(_, was, is)| was != is)
        .map(|(name, was, is)| format!("{name} was {was} and is now {is}"))
        .collect())
}

fn describe(random: Option<RandomOrder>) -> String {
    random.map_or(
        "no".to_owned(),
        |RandomOrder {
             block_bytes,
             pass_bytes,
             cache_bytes,
         }| {
            format!("{pass_bytes} bytes in blocks of {block_bytes} with a cache of {cache_bytes}")
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::guard::PREPARATION;

    const SIZE: u64 = 10 << 20;

    fn subject(identity: &str) -> DeviceFacts {
        let serial = identity.strip_prefix("serial ").map(str::to_owned);
        DeviceFacts {
            path: "/dev/x".into(),
            serial,
            size_bytes: SIZE,
            ..DeviceFacts::default()
        }
    }

    const WANTED: PrepOptions = PrepOptions::DEFAULT;

    const BEGINNING: StartParams = StartParams {
        seed: 9,
        unix_s: 1_000,
    };

    /// A preparation of the device `identity` at its start.
    pub(in crate::preparation) fn begun(identity: &str) -> PreparationRecord {
        Resume::from_records(
            &subject(identity),
            &WANTED,
            &Records::without_dir(),
            BEGINNING,
        )
        .unwrap()
        .prepared
    }

    /// Records with a preparation of `serial a`, with seed 5, interrupted in its second pass.
    fn interrupted() -> (tempfile::TempDir, Records, PreparationRecord) {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(Some(dir.path().into()));
        let beginning = StartParams {
            seed: 5,
            ..BEGINNING
        };
        let begun =
            Resume::from_records(&subject("serial a"), &WANTED, &records, beginning).unwrap();
        assert!(!begun.is_resumed());
        let prepared = PreparationRecord {
            passes_done: 1,
            mark_bytes: 1 << 20,
            ..begun.prepared
        };
        records.keep("serial a", SIZE, PREPARATION).unwrap();
        records.keep_prepared("serial a", &prepared).unwrap();
        (dir, records, prepared)
    }

    #[track_caller]
    fn refused(subject: &DeviceFacts, options: &PrepOptions, records: &Records, why: &str) {
        let text = Resume::from_records(subject, options, records, BEGINNING).unwrap_err();
        assert!(text.contains(why), "`{why}` is not in `{text}`");
        assert!(text.contains("--restart") && !text.contains('\n'), "{text}");
        let anew = Resume::from_records(
            subject,
            &PrepOptions {
                restart: true,
                ..*options
            },
            records,
            BEGINNING,
        )
        .unwrap();
        assert_eq!(
            (
                anew.key,
                anew.prepared.mark_bytes,
                anew.prepared.passes_done
            ),
            (None, 0, 0),
            "{why}"
        );
    }

    #[test]
    fn an_interrupted_preparation_resumes_with_the_seed_of_its_record() {
        let (_dir, records, prepared) = interrupted();
        let resume =
            Resume::from_records(&subject("serial a"), &WANTED, &records, BEGINNING).unwrap();
        let key = Some(records.find("serial a").unwrap().key);
        assert_eq!(resume, Resume { prepared, key });
        let named = Resume::from_records(
            &subject("serial a"),
            &PrepOptions {
                seed: Some(5),
                ..WANTED
            },
            &records,
            BEGINNING,
        )
        .unwrap();
        assert!(named.is_resumed());
    }

    #[test]
    fn a_preparation_resumes_only_with_equal_options_on_the_same_unchanged_drive() {
        let (_dir, records, prepared) = interrupted();
        let a = subject("serial a");
        let grown = DeviceFacts {
            size_bytes: 2 * SIZE,
            ..a.clone()
        };
        fn with(change: fn(&mut PrepOptions)) -> PrepOptions {
            let mut options = WANTED;
            change(&mut options);
            options
        }
        for (subject, options, why) in [
            (
                &a,
                with(|options| (options.seed, options.fills) = (Some(7), 2)),
                "incomplete or still runs in another process (at byte 1048576 of 10485760 of pass 2 of 2); its options \
                 differ: seed was 5 and is now 7, fills was 1 and is now 2 - give the same options to resume, or \
                 --restart",
            ),
            (
                &a,
                with(|options| (options.fills, options.zeros) = (2, false)),
                "fills was 1 and is now 2, zeros was yes and is now no",
            ),
            (
                &a,
                with(|options| options.use_pct = 50),
                "used bytes (--use-pct) was 10485760 and is now 5242880",
            ),
            (
                &a,
                with(|options| options.discard_first = true),
                "discard-first was no and is now yes",
            ),
            (
                &subject("serial b"),
                WANTED,
                "the preparation interrupted under this name (at byte 1048576 of 10485760 of pass 2 of 2) was of \
                 serial a with 10485760 bytes, but the device is now serial b with",
            ),
            (&subject(""), WANTED, "a device without a lasting name"),
            (
                &grown,
                WANTED,
                "it had 10485760 bytes then, and has 20971520 now",
            ),
        ] {
            refused(subject, &options, &records, why);
        }
        let written = PreparationRecord {
            written_since: Some("storage test".into()),
            ..prepared
        };
        records.keep_prepared("serial a", &written).unwrap();
        let why = "it was written to since (storage test)";
        refused(&a, &WANTED, &records, why);
    }

    #[test]
    fn a_second_drive_needs_no_option_restart_if_its_name_differs_or_its_preparation_has_begun() {
        let (_dir, records, _) = interrupted();
        let b = subject("serial b");
        let resume = |facts: &DeviceFacts| {
            Resume::from_records(facts, &WANTED, &records, BEGINNING).unwrap()
        };
        let elsewhere = DeviceFacts {
            path: "/dev/y".into(),
            ..b.clone()
        };
        assert!(!resume(&elsewhere).is_resumed());
        // The preparation of this drive began, with --restart, in the same second as that of the other drive.
        records.keep("serial b", SIZE, PREPARATION).unwrap();
        let begun = begun("serial b");
        records.keep_prepared("serial b", &begun).unwrap();
        assert_eq!(resume(&b).prepared, begun);
    }

    #[test]
    fn a_device_with_a_complete_preparation_is_prepared_again_from_the_start() {
        let (_dir, records, prepared) = interrupted();
        records
            .keep_prepared(
                "serial a",
                &PreparationRecord {
                    ended_unix_s: Some(1),
                    ..prepared
                },
            )
            .unwrap();
        let resume =
            Resume::from_records(&subject("serial a"), &WANTED, &records, BEGINNING).unwrap();
        assert_eq!((resume.key, resume.prepared.seed), (None, 9));
    }

    #[test]
    fn use_pct_below_100_is_rounded_down_to_whole_blocks_of_128_kib() {
        assert_eq!(used_bytes("x", 1_000_000, 100), Ok(1_000_000));
        assert_eq!(used_bytes("x", 1_000_000, 93), Ok(7 * 131_072));
        assert_eq!(
            used_bytes("x", u64::MAX, 50),
            Ok(((u64::MAX / 2) >> 17) << 17)
        );
        assert!(
            used_bytes("x", 1_000_000, 13)
                .unwrap_err()
                .contains("less than one block")
        );
    }
}
