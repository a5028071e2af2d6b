//! Speed of the model of a record store, in write blocks per second on one core. `scripts/bench` runs this example:
//! `cargo run --release -p flashproof-tenants --example host_speed -- [SECONDS]`

use std::error::Error;
use std::time::Instant;
use tenants::{StoreModel, Tenants};

fn main() -> Result<(), Box<dyn Error>> {
    let seconds: f64 = std::env::args()
        .nth(1)
        .map_or(Ok(2.0), |text| text.parse())?;
    for (what, keys, block, space_bytes) in [
        (
            "uniform, 128 KiB blocks, 1.92 TB",
            "\"uniform\"",
            "128KiB",
            1_920_000_000_000_u64,
        ),
        (
            "uniform, 128 KiB blocks, 16 GB",
            "\"uniform\"",
            "128KiB",
            16_000_000_000,
        ),
        (
            "zipfian 0.99, 128 KiB blocks, 16 GB",
            "{ zipfian = { theta = 0.99 } }",
            "128KiB",
            16_000_000_000,
        ),
        (
            "hot/cold 20/80, 128 KiB blocks, 16 GB",
            "{ hot-cold = { keys-pct = 20, traffic-pct = 80 } }",
            "128KiB",
            16_000_000_000,
        ),
    ] {
        let text = format!(
            "operations-per-sec = 1\n[[tenant]]\nname = \"a\"\nwrite-block = \"{block}\"\nfill-pct = 60\nkeys = {keys}\n"
        );
        let tenant = Tenants::parse("a tenant", &text)?.tenants.remove(0);
        let began = Instant::now();
        let mut host = StoreModel::new(
            &tenant,
            space_bytes / u64::from(tenant.write_block_bytes),
            1,
        )?;
        let made = began.elapsed();
        let began = Instant::now();
        let mut blocks = 0_u64;
        while began.elapsed().as_secs_f64() < seconds {
            for _ in 0..10_000 {
                host.next_block()?;
            }
            blocks += 10_000;
        }
        let rate = blocks as f64 / began.elapsed().as_secs_f64();
        println!(
            "{what}: {:.2} million blocks/s, made in {:.1} s, engine WA {:.3}",
            rate / 1e6,
            made.as_secs_f64(),
            host.counters().engine_wa().unwrap_or(0.0)
        );
    }
    Ok(())
}
