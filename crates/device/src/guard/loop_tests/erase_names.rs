//! Tests of the names by which a user consents to an erasure. The drive is a loop device, whose names are in a fake
//! /sys and /dev.

use super::bench::no_attachment;
use super::*;
use std::fs;
use std::os::unix::fs::symlink;

const WWID: &str = "t10.ATA     ACME Fast 1TB      S123";
const SERIAL: &str = "  S123 ";

/// A loop device with a file system, which a fake /sys shows as a drive.
struct Drive {
    // The bench must be dropped first: Rust drops fields in the order of declaration.
    bench: Bench,
    guard: Guard,
}

impl Drive {
    fn new(attributes: &[(&str, &str)]) -> Option<Self> {
        let bench = Bench::new(&[])?;
        bench.pose(&bench.device, "sdx", attributes);
        bench.put(1080, b"\x53\xef");
        Some(Self {
            guard: bench.guard_of_posed(),
            bench,
        })
    }

    fn link(&self, name: &str) -> String {
        let link = self.bench.dir.path().join("dev").join(name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(&self.bench.device, &link).unwrap();
        link.to_str().unwrap().to_owned()
    }

    fn consent(&self, path: &str, names: &[&str]) -> Result<(), String> {
        let mut answers = EraseAnswers::named(names.iter().map(|&name| name.to_owned()));
        let consent = self
            .guard
            .consent(&[WriteRequest::new(path, "test")], &mut answers);
        consent.map(|_| ()).map_err(|refused| refused.to_string())
    }

    #[track_caller]
    fn refused(&self, names: &[&str], says: &str) {
        let before = self.bench.content();
        let text = self.consent(&self.bench.device, names).unwrap_err();
        assert!(
            text.ends_with(says),
            "{names:?}: `{says}` is not the end of `{text}`"
        );
        assert!(before == self.bench.content());
    }
}

#[test]
fn to_erase_a_file_system_a_lasting_name_is_needed_and_a_path_is_not_enough() {
    let Some(drive) = Drive::new(&[("device/wwid", WWID), ("device/serial", SERIAL)]) else {
        return;
    };
    let device = drive.bench.device.as_str();
    let by_id = drive.link("disk/by-id/ata-ACME_S123");
    let by_uuid = drive.link("disk/by-uuid/0d5a1c4e");
    let by_path = drive.link("disk/by-path/pci-0000:00:1f.2");
    let hand_made = drive.link("mine");
    let pass = "pass `--erase S123` or set FLASHPROOF_ERASE=S123";
    let why = format!("its serial number; {device} may be another drive after a reboot");
    drive.refused(&[], &format!("to allow this, {pass} ({why})"));
    for path in [device, &by_path, &hand_made] {
        drive.refused(
            &[path],
            &format!("{pass} ({why}, so `{path}` is not enough to erase the data on it)"),
        );
    }
    for other in [
        "S12",
        "S1234",
        "ata-ACME",
        "sdx",
        "t10.ATA",
        "S123-part1",
        "/dev/disk/by-id/ata-ACME_S123",
    ] {
        drive.refused(&[other], &format!("{pass} ({why})"));
    }
    for name in [
        "S123",
        "t10.ATA_ACME_Fast_1TB_S123",
        &by_id,
        "ata-ACME_S123",
        &by_uuid,
    ] {
        assert_eq!(
            drive.consent(device, &["/dev/null", name]),
            Ok(()),
            "{name}"
        );
    }
    // A configuration that uses the lasting name is enough.
    assert_eq!(drive.consent(&by_id, &[&by_id]), Ok(()));
    assert!(drive.consent(&by_id, &[device]).is_err());
    for (name, is_one) in [
        ("S123", true),
        (&by_id, true),
        (device, true),
        ("S124", false),
        ("/dev/null", false),
    ] {
        assert_eq!(drive.guard.is_name_of(name, device), is_one, "{name}");
    }
}

#[test]
fn a_path_is_not_enough_to_erase_data_of_unknown_format() {
    let Some(drive) = Drive::new(&[("device/serial", SERIAL)]) else {
        return;
    };
    let device = drive.bench.device.as_str();
    drive.bench.put(1024, &[0; 512]);
    drive.bench.put(SIZE - 512, &[7; 512]);
    let pass = "pass `--erase S123` or set FLASHPROOF_ERASE=S123";
    let why = format!("its serial number; {device} may be another drive after a reboot");
    drive.refused(&[], &format!("{pass} ({why})"));
    let hand_made = drive.link("mine");
    for path in [device, &hand_made] {
        drive.refused(
            &[path],
            &format!("{pass} ({why}, so `{path}` is not enough to erase the data on it)"),
        );
    }
    assert_eq!(drive.consent(device, &["S123"]), Ok(()));
}

#[test]
fn a_link_by_id_is_a_lasting_name_of_a_drive_without_a_serial_number() {
    let Some(drive) = Drive::new(&[]) else { return };
    let device = drive.bench.device.as_str();
    assert_eq!(drive.consent(device, &[device]), Ok(()));
    let by_id = drive.link("disk/by-id/virtio-data");
    let why = format!("its link in /dev/disk/by-id; {device} may be another drive after a reboot");
    drive.refused(
        &[device],
        &format!(
            "pass `--erase {by_id}` or set FLASHPROOF_ERASE={by_id} ({why}, so `{device}` is not enough to erase the data on it)"
        ),
    );
    for name in [by_id.as_str(), "virtio-data"] {
        assert_eq!(drive.consent(device, &[name]), Ok(()), "{name}");
    }
}

#[test]
fn a_serial_number_that_two_drives_share_is_no_consent_for_either() {
    let wwid = "eui.0025385b21404321";
    let Some(drive) = Drive::new(&[("wwid", wwid), ("device/serial", SERIAL)]) else {
        return;
    };
    let device = drive.bench.device.clone();
    File::create(drive.bench.path("other image"))
        .unwrap()
        .set_len(SIZE)
        .unwrap();
    let Some((other, _detach)) = drive.bench.attach(&drive.bench.path("other image"), &[]) else {
        return;
    };
    // The other device now has the names of another namespace of the same NVMe drive.
    drive.bench.pose(
        &other,
        "sdy",
        &[("wwid", "eui.0025385b21404322"), ("device/serial", SERIAL)],
    );
    let pass = format!("pass `--erase {wwid}` or set FLASHPROOF_ERASE={wwid}");
    drive.refused(&["S123"], &format!("{pass}; `S123` names /dev/sdy too"));
    drive.refused(
        &[],
        &format!("{pass} (its world-wide name; {device} may be another drive after a reboot)"),
    );
    assert_eq!(drive.consent(&device, &[wwid]), Ok(()));
}

#[test]
fn two_paths_to_a_drive_share_its_serial_number() {
    let attributes = [("wwid", "naa.5000c500a1b2c3d4"), ("device/serial", SERIAL)];
    let Some(drive) = Drive::new(&attributes) else {
        return;
    };
    File::create(drive.bench.path("other image"))
        .unwrap()
        .set_len(SIZE)
        .unwrap();
    let Some((other, _detach)) = drive.bench.attach(&drive.bench.path("other image"), &[]) else {
        return;
    };
    drive.bench.pose(&other, "sdy", &attributes);
    assert_eq!(drive.consent(&drive.bench.device, &["S123"]), Ok(()));
}

#[test]
fn the_path_typed_on_a_terminal_is_enough_because_the_question_shows_the_drive() {
    let Some(drive) = Drive::new(&[("device/wwid", WWID), ("device/serial", SERIAL)]) else {
        return;
    };
    let device = drive.bench.device.clone();
    for (typed, is_enough) in [
        (device.as_str(), true),
        ("S123", true),
        ("S124", false),
        ("yes", false),
    ] {
        let mut asked = String::new();
        let mut answers = EraseAnswers::named([device.clone()]).or_ask(|question| {
            asked = question.to_string();
            Some(typed.to_owned())
        });
        let consent = drive.guard.consent(&[drive.bench.request()], &mut answers);
        assert_eq!(consent.is_ok(), is_enough, "{typed}");
        drop(answers);
        let drive_told = format!("{device} (serial S123, wwid {WWID}, ");
        assert!(
            asked.starts_with(&drive_told) && asked.contains(") holds: an ext2"),
            "{asked}"
        );
    }
}

#[test]
fn the_path_is_accepted_as_erase_name_of_a_device_without_a_lasting_name() {
    let Some(drive) = Drive::new(&[]) else { return };
    let device = drive.bench.device.as_str();
    drive.refused(
        &[],
        &format!("pass `--erase {device}` or set FLASHPROOF_ERASE={device} (exactly as you gave the device)"),
    );
    assert_eq!(drive.consent(device, &[device]), Ok(()));
}

fn refused_after(drive: &Drive, change: impl Fn()) -> String {
    let mut answers = EraseAnswers::default().or_ask(|question| {
        change();
        Some(question.name.to_owned())
    });
    drive
        .guard
        .consent(&[drive.bench.request()], &mut answers)
        .unwrap_err()
        .to_string()
}

#[test]
fn a_drive_exchanged_after_the_question_is_noticed() {
    let Some(drive) = Drive::new(&[("wwid", "eui.0025385b21404321"), ("device/serial", SERIAL)])
    else {
        return;
    };
    let sys = drive.bench.dir.path().join("sys/devices/sdx");
    let before = drive.bench.content();
    let text = refused_after(&drive, || {
        fs::write(sys.join("wwid"), "eui.0025385b21404322").unwrap()
    });
    let why = "it changed after it was examined: it was wwid eui.0025385b21404321 and is wwid eui.0025385b21404322 now";
    assert!(text.contains(why), "{text}");
    let text = refused_after(&drive, || {
        fs::rename(&sys, sys.with_extension("gone")).unwrap()
    });
    assert!(
        text.contains("it changed after it was examined: it is no longer there; make sure"),
        "{text}"
    );
    assert!(before == drive.bench.content());
}

#[test]
fn a_drive_exchanged_between_examination_and_claim_is_noticed() {
    let attributes = [("wwid", "eui.0025385b21404321"), ("device/serial", SERIAL)];
    let Some(drive) = Drive::new(&attributes) else {
        return;
    };
    let request = drive.bench.request();
    let examined = |change: &dyn Fn()| {
        let found = examine::resolve_target(&drive.guard, &request).unwrap();
        change();
        let reasons = examine::examine(&drive.guard, &request, found)
            .map(|_| ())
            .unwrap_err();
        GuardRefusals(vec![Refusal {
            device: "x".into(),
            reasons,
        }])
        .to_string()
    };
    let wwid = drive.bench.dir.path().join("sys/devices/sdx/wwid");
    let text = examined(&|| fs::write(&wwid, "eui.0025385b21404322").unwrap());
    assert!(
        text.contains("it was wwid eui.0025385b21404321 and is wwid eui.0025385b21404322 now"),
        "{text}"
    );

    // The same device number with another backing file: the disk sequence number differs.
    File::create(drive.bench.path("other image"))
        .unwrap()
        .set_len(SIZE)
        .unwrap();
    let text = examined(&|| {
        let _turn = no_attachment();
        succeed("losetup", &["--detach", &drive.bench.device]).unwrap();
        succeed(
            "losetup",
            &[&drive.bench.device, &drive.bench.path("other image")],
        )
        .unwrap();
    });
    assert!(
        text.contains("another disk took its place (sequence number "),
        "{text}"
    );
}
