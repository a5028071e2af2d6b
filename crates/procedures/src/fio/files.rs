//! The targets of the jobs: files or devices, file sizes, and files to create before they can be read.

use engine::DeviceName;
use load::workload::Workload;
use load::workload::fio::{FioLoad, Given, Section, Surroundings, jobs, runs};
use results::units::quoted;
use session::failure::Failure;
use std::collections::HashMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

/// Object at a path.
enum There {
    /// A block device, or an object that the guard refuses with a reason.
    Device,
    /// A file of this size.
    File(u64),
    Nothing,
}

fn look(name: &str) -> There {
    match fs::metadata(name) {
        Ok(metadata) if metadata.is_file() => There::File(metadata.len()),
        // A missing name under /dev is a mistyped device.
        Err(error)
            if error.kind() == ErrorKind::NotFound && (!name.starts_with("/dev/") || name.starts_with("/dev/shm/")) =>
        {
            There::Nothing
        }
        Ok(_) | Err(_) => There::Device,
    }
}

/// A file that has to be written before it can be read.
pub struct Layout {
    pub name: String,
    pub bytes: u64,
    /// Load that writes the file.
    pub load: FioLoad,
}

/// Settles the file sizes of `load`, and returns the files to write first. `made` holds the sizes of files made by
/// earlier runs, and then also those of this run.
///
/// Errors: a missing file of unknown size; files and devices in one run.
pub fn settle(load: &mut FioLoad, made: &mut HashMap<String, u64>) -> Result<Vec<Layout>, Failure> {
    let (mut sizes, mut layouts, mut device) = (Vec::new(), Vec::new(), None);
    let (writes, lays_out) = (load.writes(), load.reads() || load.jobs().any(|job| job.overwrite));
    for name in &load.devices.clone() {
        if name.drive().is_some() {
            continue;
        }
        let there = made.get(name.as_str()).map_or_else(|| look(name.as_str()), |len| There::File(*len));
        if load.appends_to(name) && !matches!(there, There::Device) {
            let end = if let There::File(len) = there { len } else { 0 };
            load.appended.insert(name.to_string(), end);
        }
        let wanted = load.wanted_file_bytes(name);
        let (size, is_short) = match (there, wanted) {
            (There::Device, _) => {
                device.get_or_insert_with(|| name.clone());
                continue;
            }
            // Laying it out would overwrite existing data of the user.
            (There::File(len), Some(wanted))
                if !writes && (1..wanted).contains(&len) && !made.contains_key(name.as_str()) =>
            {
                return Err(Failure::usage(format!(
                    "cannot read {wanted} bytes of {name} - it has {len} - lower size (or leave it out for all there is), or name another file"
                )));
            }
            (There::File(len), wanted) => (wanted.unwrap_or(len).max(len), wanted.is_some_and(|wanted| len < wanted)),
            (There::Nothing, Some(wanted)) => (wanted, true),
            (There::Nothing, None) => {
                return Err(Failure::usage(format!(
                    "cannot make the file {name} - no job says how large it is to be - give size=4g or the like, or check the name"
                )));
            }
        };
        sizes.push(size);
        made.insert(name.to_string(), size);
        // As fio does, also for mixed loads: reads of unwritten blocks do not reach the drive.
        if is_short && lays_out && !load.appends_to(name) {
            layouts.push(layout(name, 0, size)?);
        }
    }
    if !load.appended.is_empty() && sizes.iter().any(|size| *size != sizes[0]) {
        return Err(Failure::usage(
            "cannot append to a file beside files that end elsewhere: all files of a run get one size - run them apart (stonewall)",
        ));
    }
    match (device, sizes.into_iter().max()) {
        (Some(device), Some(_)) if writes => {
            return Err(Failure::usage(format!(
                "cannot write to files and to {device} at once - run them apart (stonewall)"
            )));
        }
        (None, size) if writes => load.file_size_bytes = size,
        _ => {}
    }
    Ok(layouts)
}

/// Checks that the devices of a `load` with `hipri` have queues that are polled.
///
/// Errors: a file, a device without such queues.
pub fn check_polled(load: &FioLoad) -> Result<(), Failure> {
    for name in load.devices.iter().filter(|_| load.extras().polled) {
        let is_device = |path: &PathBuf| fs::metadata(path).is_ok_and(|of| of.file_type().is_block_device());
        let Some(path) = fs::canonicalize(name.as_str()).ok().filter(is_device) else {
            return Err(Failure::usage(format!(
                "cannot poll {name} - it is no block device - name one, or leave out hipri"
            )));
        };
        let place = format!("/sys/class/block/{}", path.file_name().unwrap_or_default().to_string_lossy());
        // A partition has the queue of its disk.
        let polls = ["queue", "../queue"].map(|queue| fs::read_to_string(format!("{place}/{queue}/io_poll")));
        if !polls.iter().flatten().any(|polls| polls.trim() == "1") {
            return Err(Failure::environment(format!(
                "cannot poll {name} - it has no poll queues ({place}/queue/io_poll is not 1) - boot with nvme.poll_queues=2 for an NVMe drive, or leave out hipri"
            )));
        }
    }
    Ok(())
}

/// The load that writes `bytes` to the file `name`, or to a range of the device `name` from `offset` on. For a device the
/// caller removes the size of the file.
pub fn layout(name: &DeviceName, offset: u64, bytes: u64) -> Result<Layout, Failure> {
    // Largest operation that divides the size.
    let block = 1_u64 << bytes.trailing_zeros().min(20);
    let given = |name: &str, value: String| Given { name: name.into(), value: Some(value), at: "layout".into() };
    let options = vec![
        given("filename", name.as_str().replace(':', "\\:")),
        given("rw", "write".into()),
        given("bs", block.to_string()),
        given("offset", offset.to_string()),
        given("size", bytes.to_string()),
        given("iodepth", "8".into()),
        given("direct", u8::from(block >= 4096).to_string()),
    ];
    let section = Section { name: "layout".into(), options };
    let mut nothing = |_: &str| Err("nothing is included".to_owned());
    let around = Surroundings {
        read: &mut nothing,
        variable: &|_| None,
        cpus: 1,
        page_bytes: 4096,
        memory_mbytes: 0,
        readonly: false,
    };
    let made = jobs(&[section], &around, &mut Vec::new()).and_then(runs);
    let mut load = made
        .ok()
        .and_then(|mut runs| runs.pop())
        .ok_or_else(|| Failure::usage(format!("cannot make a file called {}", quoted(name.as_str()))))?;
    load.file_size_bytes = Some(bytes);
    Ok(Layout { name: name.to_string(), bytes, load })
}
