//! Real NVMe: the binary in a virtual machine that has an emulated drive with FDP.
//!
//! scripts/guest-setup gets QEMU and a kernel; without them, these tests are skipped with a message. QEMU emulates the
//! processor, so KVM is not needed: a boot takes some five seconds, and times measured inside mean nothing.
//! CONTRIBUTING.md shows how to run a guest by hand.

mod agent;
mod cpio;
mod drive;
mod durability;
mod inside;
mod machine;
mod passthrough;
mod placement;
mod power;
mod qmp;
mod refused;
mod waf;

/// These tests share a machine and its drive, because a boot takes as long as some of the tests.
#[test]
fn an_nvme_drive_is_listed_refuses_unsupported_features_and_may_be_removed_and_replaced() {
    let Some(machine) = machine::Machine::new(&format!("{} {}", machine::FDP, refused::LOCKED))
    else {
        return;
    };
    std::fs::File::create(machine.bench.path("spare.img"))
        .unwrap()
        .set_len(machine::DRIVE_BYTES)
        .unwrap();
    let mut guest = machine.boot();
    drive::is_shown(&mut guest);
    refused::nothing_is_written(&mut guest);
    passthrough::splits_and_leaves_no_stale_page(&mut guest);
    drive::is_in_a_campaign(&mut guest);
    drive::is_taken_away(&mut guest);
    drive::is_replaced(&mut guest);
}
