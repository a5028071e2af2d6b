//! A namespace as reported by a server: configuration and newest counters.
//!
//! Names changed over the years; each value is looked up under all of its names, new ones first. A value that a version
//! does not report is `None`, never 0.

use super::Build;
use crate::server_log::text::is_block_size;
use std::collections::BTreeMap;

/// Devices of a namespace, at most. Source: the server's `datamodel.h`, `AS_STORAGE_MAX_DEVICES`.
const DEVICES_MAX: usize = 128;

/// A namespace on one node.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Namespace {
    /// Devices or files, in the server's order.
    pub devices: Vec<StorageDevice>,
    /// Every name and value of its newest configuration and statistics.
    newest: BTreeMap<String, String>,
}

/// A device or file of a namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageDevice {
    /// As the server names it: `/dev/nvme0n1p1`, or the path of a file.
    pub name: String,
    /// The device that all writes go to, too.
    pub shadow: Option<String>,
    /// True for a file.
    pub is_file: bool,
}

impl Namespace {
    /// Takes in the reply to `namespace/NS` or of its configuration; `at` where the time is known.
    pub(super) fn take(&mut self, reply: &str) {
        let mut named = Vec::new();
        for (name, value) in pairs(reply) {
            named.extend(Place::of(name).map(|place| (place, value)));
            self.newest.insert(name.to_owned(), value.to_owned());
        }
        named.retain(|(place, _)| matches!(place.field, "" | "shadow"));
        if !named.is_empty() {
            self.devices = storage_devices(&named);
        }
    }

    /// The value of the newest configuration or statistic called `name`, without `storage-engine.` before it.
    pub fn value(&self, name: &str) -> Option<&str> {
        let value = self.newest.get(&format!("storage-engine.{name}")).or_else(|| self.newest.get(name));
        value.map(String::as_str).filter(|value| *value != "null")
    }

    /// The value of `name` as a whole number.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.value(name)?.parse().ok()
    }

    /// Likewise `true` or `false`.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.value(name)?.parse().ok()
    }

    /// True if its records are on devices or files.
    pub fn is_on_devices(&self) -> bool {
        match self.newest.get("storage-engine").map(String::as_str) {
            Some(engine) => engine == "device" || engine == "ssd" || engine == "memory" && !self.devices.is_empty(),
            None => !self.devices.is_empty(),
        }
    }

    /// Likewise one that write blocks and flushes can have.
    fn block_size(&self, name: &str) -> Option<u64> {
        self.number(name).filter(|bytes| is_block_size(*bytes))
    }

    /// Bytes of the blocks that drv_ssd counts: what `build` fixes, or `write-block-size`.
    pub fn write_block_bytes(&self, build: Option<Build>) -> Option<u64> {
        build.and_then(Build::fixed_write_block_bytes).or_else(|| self.block_size("write-block-size"))
    }

    /// Bytes of one large write: `flush-size`, or the whole block before 7.1.
    pub fn flush_bytes(&self, build: Option<Build>) -> Option<u64> {
        self.block_size("flush-size").or_else(|| self.write_block_bytes(build))
    }

    /// True if each record is written on its own before the client gets its reply.
    pub fn commit_to_device(&self) -> Option<bool> {
        self.flag("commit-to-device")
    }

    /// Copies of each record: those in force, or those configured.
    pub fn replication_factor(&self) -> Option<u64> {
        ["effective_replication_factor", "replication-factor", "repl-factor"].iter().find_map(|name| self.number(name))
    }
}

/// The device in a key such as `storage-engine.device[0].writes`, `storage-engine.file[0]`, `dev` (3.x).
struct Place<'a> {
    is_file: bool,
    /// `None` where a version repeats the name for each device.
    index: Option<usize>,
    field: &'a str,
}

impl<'a> Place<'a> {
    fn of(name: &'a str) -> Option<Self> {
        let bare = name.strip_prefix("storage-engine.").unwrap_or(name);
        let (kind, rest) = bare.split_at(bare.find(['[', '.']).unwrap_or(bare.len()));
        let is_file = match kind {
            "device" | "dev" => false,
            "file" => true,
            _ => return None,
        };
        if rest.is_empty() {
            return Some(Self { is_file, index: None, field: "" });
        }
        let (index, field) = rest.strip_prefix('[')?.split_once(']')?;
        let index = index.parse().ok().filter(|index| *index < DEVICES_MAX)?;
        Some(Self { is_file, index: Some(index), field: field.strip_prefix('.').unwrap_or(field) })
    }
}

/// The devices in their order.
fn storage_devices(named: &[(Place<'_>, &str)]) -> Vec<StorageDevice> {
    let names = named.iter().filter(|(place, _)| place.field.is_empty()).take(DEVICES_MAX);
    let mut devices: Vec<_> = names
        .enumerate()
        .map(|(position, (place, name))| {
            let device = StorageDevice { name: (*name).to_owned(), shadow: None, is_file: place.is_file };
            (place.index.unwrap_or(position), device)
        })
        .collect();
    devices.sort_by_key(|(index, _)| *index);
    for (place, shadow) in named.iter().filter(|(place, _)| place.field == "shadow") {
        if let Some((_, device)) = devices.iter_mut().find(|(index, _)| Some(*index) == place.index) {
            device.shadow = Some((*shadow).to_owned());
        }
    }
    devices.into_iter().map(|(_, device)| device).collect()
}

/// The names and values of a reply: `a=1;b=2`.
pub(super) fn pairs(reply: &str) -> impl Iterator<Item = (&str, &str)> {
    reply.split(';').filter_map(|pair| pair.split_once('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(reply: &str) -> Namespace {
        let mut namespace = Namespace::default();
        namespace.take(reply);
        namespace
    }

    #[test]
    fn devices_keep_the_servers_order_with_their_shadows() {
        let text = "storage-engine=device;storage-engine.device[1]=/dev/b;storage-engine.device[0]=/dev/a;\
                    storage-engine.device[1].shadow=/dev/s;storage-engine.device[1].writes=7;storage-engine.device[0].age=-1";
        let namespace = of(text);
        let names: Vec<_> =
            namespace.devices.iter().map(|device| (device.name.as_str(), device.shadow.as_deref())).collect();
        assert_eq!(names, [("/dev/a", None), ("/dev/b", Some("/dev/s"))]);
        assert_eq!(namespace.number("device[1].writes"), Some(7));
        assert!(namespace.is_on_devices());
    }

    #[test]
    fn old_names_are_found_under_the_new_ones() {
        // As 4.0 and 3.x say it: a name repeated for each device, no statistics of devices.
        let namespace = of("storage-engine=device;storage-engine.device=/dev/a;storage-engine.device=/dev/b;\
                            storage-engine.write-block-size=131072;device_used_bytes=5;objects=3");
        assert_eq!(namespace.devices.len(), 2);
        assert_eq!(namespace.flush_bytes(Build::parse("4.0.0.1")), Some(131_072));
        let namespace = of("used-bytes-disk=5;cache-read-pct=12;repl-factor=2;dev=/dev/sdb");
        assert_eq!((namespace.devices[0].name.as_str(), namespace.replication_factor()), ("/dev/sdb", Some(2)));
    }

    #[test]
    fn blocks_are_8_mib_from_7_1_whatever_is_flushed() {
        let namespace = of("storage-engine=device;storage-engine.flush-size=131072");
        let build = Build::parse("8.0.0.15");
        assert_eq!((namespace.write_block_bytes(build), namespace.flush_bytes(build)), (Some(8 << 20), Some(131_072)));
    }

    #[test]
    fn a_block_size_that_no_server_has_is_not_known() {
        for size in ["0", "1310", "131073", "16777216", "256", "x"] {
            let namespace = of(&format!("write-block-size={size};flush-size={size}"));
            let build = Build::parse("6.4.0.1");
            let known = (namespace.write_block_bytes(build), namespace.flush_bytes(build));
            assert_eq!(known, (None, None), "{size}");
        }
    }

    #[test]
    fn a_memory_namespace_stores_on_devices_only_where_it_is_backed() {
        assert!(!of("storage-engine=memory;storage-engine.stripe[0].used_bytes=1").is_on_devices());
        assert!(of("storage-engine=memory;storage-engine.file[0]=/a").is_on_devices());
    }

    #[test]
    fn nonsense_costs_no_memory_and_no_panic() {
        let namespace =
            of("device[99999999999]=x;device[4294967295].writes=1;device[;=;;device[]=;device[1=2;device].x=1;a;b=");
        assert!(namespace.devices.is_empty());
    }
}
