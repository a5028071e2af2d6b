//! Real NVMe: the binary in a virtual machine that has an emulated drive with FDP.
//!
//! scripts/guest-setup gets QEMU and a kernel; without them these tests are skipped aloud. QEMU emulates the
//! processor, so that no KVM is needed: a boot takes some five seconds, and times measured inside mean nothing.
//! CONTRIBUTING.md says how to run one by hand.

mod agent;
mod cpio;
mod drive;
mod inside;
mod machine;
mod passthrough;
mod placement;
mod power;
mod probe;
mod qmp;
mod refused;
mod waf;
