//! Properties of NVMe pages with arbitrary bytes. The first byte selects the page.

use crate::assert_one_line;
use device::observe::nvme::NvmeNamespace;
use device::observe::nvme::fdp::{
    Fdp, FdpState, configurations, handle_users, placement_handles, statistics,
};
use device::observe::nvme::{OcpSmart, Smart};

const IDENTIFY_BYTES: usize = 4096;

/// Parses a page. Returns true if the page has more than fixed fields.
pub(crate) fn assert_nvme_property(bytes: &[u8]) -> bool {
    let Some((kind, page)) = bytes.split_first() else {
        return false;
    };
    match kind % 3 {
        0 => {
            let page = padded::<512>(page);
            let smart = Smart::parse(&page);
            smart
                .warnings()
                .iter()
                .for_each(|warning| assert_one_line(warning));
            assert_eq!(
                smart.warnings().len() as u32,
                (smart.critical_warning & 0x3f).count_ones()
            );
            assert!(smart.bytes_written() >= smart.data_units_written);
            OcpSmart::parse(&page).is_some()
        }
        1 => {
            let namespace = NvmeNamespace::parse(1, &padded::<IDENTIFY_BYTES>(page));
            assert!(namespace.block_bytes == 0 || namespace.block_bytes.is_power_of_two());
            namespace.size_bytes() > 0
        }
        _ => {
            // FDP log pages have any length, so the bytes are not padded.
            let (on, rest) = page.split_first().unwrap_or((&0, page));
            let fdp = Fdp {
                state: if on & 1 == 0 {
                    FdpState::Off
                } else {
                    FdpState::On(on >> 1)
                },
                configurations: configurations(rest),
                handle_users: handle_users(rest),
                placement: placement_handles(rest),
                statistics: Some(statistics(rest)),
                ..Fdp::default()
            };
            let handles: usize = fdp.configurations.iter().map(|one| one.handles.len()).sum();
            assert!(
                64 * fdp.configurations.len() + 4 * handles <= rest.len(),
                "{fdp:?}"
            );
            assert!(fdp.configurations.len() <= 256, "{fdp:?}");
            assert!(
                8 * fdp.handle_users.len() <= rest.len() && 32 * fdp.placement.len() <= rest.len(),
                "{fdp:?}"
            );
            fdp.to_string().lines().for_each(assert_one_line);
            assert!(
                fdp.configuration()
                    .is_none_or(|one| fdp.state == FdpState::On(one.index))
            );
            !fdp.configurations.is_empty()
        }
    }
}

fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut page = [0; N];
    let len = bytes.len().min(N);
    page[..len].copy_from_slice(&bytes[..len]);
    page
}
