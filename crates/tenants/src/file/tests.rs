use super::*;
use load::testing::cases;
use proptest::prelude::*;
use results::{assert_contains, assert_starts_with};

const FOUR: &str = include_str!("../../../../examples/tenants/ycsb-a-four.toml");

fn parse(text: &str) -> Result<Tenants, String> {
    Tenants::parse("t.toml", text).map_err(|error| error.to_string())
}

#[test]
fn the_example_is_four_tenants_with_equal_parts_of_drive_and_load() {
    let tenants = parse(FOUR).unwrap();
    let blocks: Vec<_> = tenants
        .tenants
        .iter()
        .map(|tenant| tenant.write_block_bytes >> 10)
        .collect();
    assert_eq!(blocks, [32, 64, 128, 256]);
    for tenant in &tenants.tenants {
        assert_eq!(tenant.reads, Rate::per_sec(5_000));
        assert_eq!(tenant.writes, Rate::per_sec(5_000));
        assert_eq!(tenant.record_bytes, 1_104);
        assert_eq!(tenant.fill, 0.5);
        assert_eq!(tenant.keys, Keys::Uniform);
    }
    let gb = 1_000_000_000;
    let layout = tenants.layout("sim:", true, 7_680 * gb).unwrap();
    let ends: Vec<_> = layout.iter().map(|(_, range)| range.end / gb).collect();
    assert_eq!(ends, vec![1_919, 3_839, 5_759, 7_679]);
    assert_eq!(layout[0].1.start, 0);
    assert!(
        layout
            .windows(2)
            .all(|pair| pair[0].1.end == pair[1].1.start)
    );
    assert_eq!(tenants.layout("/dev/other", false, gb).unwrap(), []);
}

#[test]
fn missing_options_of_a_tenant_come_from_the_defaults() {
    let text = "operations-per-sec = 900\nengine = \"passthrough\"\n[defaults]\nmix = \"ycsb-b\"\nreuse = \"random\"\nplacement = 3\n\
                [[tenant]]\nname = \"a\"\nweight = 2\nspace-pct = 40\nreuse = \"lowest\"\n\
                [[tenant]]\nname = \"b\"\nread-pct = 10\ndefrag-placement = 4\nkeys = { hot-cold = { keys-pct = 20, traffic-pct = 80 } }\n\
                [[tenant]]\nname = \"c\"\ndevice = \"/dev/nvme1n1\"\nwrites-per-sec = 7\nkeys = { zipfian = { theta = 1 } }\n";
    let Tenants {
        tenants,
        duration_sec,
        seed,
        engine,
    } = parse(text).unwrap();
    assert_eq!(duration_sec, 3_600);
    assert_eq!(seed, None);
    assert_eq!(engine, Engine::Passthrough);
    let [a, b, c] = &tenants[..] else {
        panic!("{tenants:?}")
    };
    assert_eq!(a.reads, Rate::new(900 * 2 * 95, 400).unwrap());
    assert_eq!(a.writes, Rate::new(900 * 2 * 5, 400).unwrap());
    assert_eq!(b.reads, Rate::new(900 * 10, 400).unwrap());
    assert_eq!(b.writes, Rate::new(900 * 90, 400).unwrap());
    assert_eq!((c.reads, c.writes), (Rate::ZERO, Rate::per_sec(7)));
    assert_eq!(
        [a, b, c].map(|tenant| tenant.space.size),
        [40.0, 60.0, 100.0].map(SpaceSize::Pct)
    );
    assert_eq!(
        [a, b, c].map(|tenant| tenant.reuse),
        [Reuse::Lowest, Reuse::Random, Reuse::Random]
    );
    assert_eq!(
        [a, b].map(|tenant| (tenant.placement, tenant.defrag_placement)),
        [(Some(3), Some(3)), (Some(3), Some(4))]
    );
    for (word, keys) in [
        ("zipfian", Keys::Zipfian { theta: 0.99 }),
        (
            "hot-cold",
            Keys::HotCold {
                keys_pct: 20.0,
                traffic_pct: 80.0,
            },
        ),
        ("sequential", Keys::Sequential),
    ] {
        let text = format!("operations-per-sec = 1\n[[tenant]]\nname = \"a\"\nkeys = \"{word}\"\n");
        assert_eq!(parse(&text).unwrap().tenants[0].keys, keys);
    }
    assert_eq!(
        b.keys,
        Keys::HotCold {
            keys_pct: 20.0,
            traffic_pct: 80.0
        }
    );
    assert_eq!(c.keys, Keys::Zipfian { theta: 1.0 });
    // 128 KiB hold 128 records of the 1,024 bytes that are the default.
    assert_eq!(c.client_blocks(), Rate::new(7, 128).unwrap());
}

#[test]
fn each_mistake_is_reported_with_its_line_and_a_remedy() {
    let bare = "[[tenant]]\nname = \"a\"\n";
    let tenant = |lines: &str| format!("operations-per-sec = 10\n{bare}{lines}\n");
    let own = [
        (
            String::new(),
            "t.toml: the file has 0 tenants - give 1 to 128, each as [[tenant]]",
        ),
        ("[[tenant]\n".into(), "t.toml line 1: "),
        (
            "nonsense = 1\n[[tenant]]\n".into(),
            "t.toml line 1: unknown field `nonsense`",
        ),
        (
            format!("engine = \"steam\"\n{}", tenant("")),
            "t.toml line 1: engine: is \"steam\" - give one of auto, uring, aio, threads, passthrough",
        ),
        (
            tenant("\n\nwrite-block = \"48KiB\""),
            "t.toml line 6: write-block: is \"48KiB\" - give a power of two from 32KiB to 8MiB",
        ),
        (
            bare.into(),
            "t.toml line 1: writes-per-sec: is missing, and so is operations-per-sec",
        ),
        (
            format!("operations-per-sec = 0\n{bare}"),
            "t.toml line 1: operations-per-sec: is 0 - give 1 to",
        ),
        (
            format!("duration-sec = 0\noperations-per-sec = 1\n{bare}"),
            "t.toml line 1: duration-sec: is 0",
        ),
        (
            format!("a = \"{}\"", "x".repeat(100_000)),
            "t.toml line 1: unknown field `a`",
        ),
        (
            format!("{} = 1", "\u{9b}\u{202e}".repeat(3)),
            "t.toml line 1: ",
        ),
        (
            "[[tenant]]\n".repeat(129),
            "t.toml: the file has 129 tenants",
        ),
    ];
    let of_tenants = cases(include_str!("../../tests/data/mistakes.txt"));
    for (text, expected) in own
        .into_iter()
        .chain(of_tenants.map(|(lines, expected)| (tenant(lines), expected)))
    {
        let said = parse(&text).unwrap_err();
        assert!(
            said.contains(expected),
            "{text:.200}\n said {said}\n not  {expected}"
        );
        assert!(
            said.len() < 1_000 && !said.contains(format::is_unprintable),
            "{said}"
        );
    }
    let defaults = format!("operations-per-sec = 9\n[defaults]\nfill-pct = 0\n{bare}");
    assert_starts_with!(
        parse(&defaults).unwrap_err(),
        "t.toml line 3: fill-pct: is 0"
    );
}

#[test]
fn a_space_beyond_the_drive_or_of_another_tenant_is_refused_with_both_ranges() {
    let layout = |lines: &str| {
        let tenants = parse(&format!("operations-per-sec = 10\n{lines}")).unwrap();
        tenants
            .layout("/dev/x", true, 64 << 20)
            .map_err(|error| error.to_string())
    };
    let two = |a: &str, b: &str| {
        layout(&format!(
            "[[tenant]]\nname = \"a\"\n{a}\n[[tenant]]\nname = \"b\"\n{b}\n"
        ))
    };
    assert_eq!(
        two("space = \"32MiB\"", "space = \"16MiB\"\nat = \"24MiB\"").unwrap_err(),
        "tenant \"b\": cannot use bytes 25,165,824 to 41,943,040 of /dev/x - tenant \"a\" has bytes 0 to 33,554,432 - move one of \
         the tenants (at), or make one smaller"
    );
    assert_contains!(
        two("space = \"64MiB\"", "space = \"1MiB\"").unwrap_err(),
        "the device has 67,108,864 bytes - give"
    );
    assert_contains!(
        two("", "space = \"1MiB\"").unwrap_err(),
        "give the tenant less space"
    );
    let uneven = two("space = \"1000KiB\"\nwrite-block = \"256KiB\"", "").unwrap_err();
    assert!(
        uneven.contains(
            "a size of 1,024,000, not a multiple of its write block of 262,144 bytes - give 786432 or 1048576"
        ),
        "{uneven}"
    );
    assert_contains!(
        two("at = \"4KiB\"\nspace = \"1MiB\"", "").unwrap_err(),
        "begins at byte 4,096, not a multiple"
    );
    assert_contains!(
        two("space-pct = 100", "space-pct = 100").unwrap_err(),
        "give the tenant less space"
    );
    let nothing_left = two("space-pct = 100", "").unwrap_err();
    assert!(
        nothing_left.starts_with("tenant \"b\": its share of /dev/x is smaller than 131 kB"),
        "{nothing_left}"
    );
    let apart = two("space = \"1MiB\"\ndevice = \"/dev/y\"", "space = \"64MiB\"").unwrap();
    assert_eq!(apart, [(1, 0..64 << 20)]);
}

proptest! {
    #[test]
    fn parsing_any_text_never_panics(text in "([a-z\\-]{1,12}( = |\\.)?|[0-9\"\\[\\]{}=.\n]){0,60}") {
        let _ = parse(&text);
        let _ = parse(&format!("{FOUR}{text}"));
    }

    #[test]
    fn tenant_spaces_lie_within_the_device_and_do_not_overlap(
        parts in prop::collection::vec((1_u32..60, 0_u32..9, any::<bool>()), 1..12),
        device_bytes in 1_u64..1 << 40,
    ) {
        let tenants: String = parts.iter().enumerate().map(|(number, (pct, shift, is_said))| {
            let said = if *is_said { format!("space-pct = {pct}\n") } else { String::new() };
            format!("[[tenant]]\nname = \"{number}\"\nwrite-block = \"{}KiB\"\n{said}", 32 << shift)
        }).collect();
        if let Ok(layout) = parse(&format!("operations-per-sec = 10\n{tenants}")).unwrap().layout("x", true, device_bytes) {
            prop_assert_eq!(layout.len(), parts.len());
            for (place, range) in &layout {
                let block = 32_u64 << 10 << parts[*place].1;
                prop_assert!(range.start % block == 0 && range.end % block == 0 && !range.is_empty() && range.end <= device_bytes);
            }
            prop_assert!(layout.windows(2).all(|pair| pair[0].1.end <= pair[1].1.start));
        }
    }
}
