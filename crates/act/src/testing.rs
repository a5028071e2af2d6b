//! For tests: a configuration.

use crate::config::ActConfig;
use crate::options::Test;

/// ACT's load on `/dev/a` for a second.
pub(crate) fn act_config(test: Test, read_reqs_per_sec: u32, write_reqs_per_sec: u32) -> ActConfig {
    let device_names = vec!["/dev/a".parse().unwrap()];
    ActConfig {
        device_names,
        test_duration_sec: 1,
        read_reqs_per_sec,
        write_reqs_per_sec,
        ..ActConfig::new(test)
    }
}
