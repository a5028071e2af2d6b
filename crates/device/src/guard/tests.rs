//! Tests of the guard on regular files, which need no special machine. Devices: [`super::loop_tests`].

use super::*;
use crate::target::Target;
use results::assert_contains;
use results::testing::modified;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::time::Duration;
use sys::salt::Salt;
use tempfile::TempDir;

const SIZE: u64 = 4 << 20;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn guard(&self) -> Guard {
        Guard {
            settle: Duration::from_millis(20),
            ..Guard::new(Some(self.0.path().join("state")))
        }
    }

    fn request(&self, name: &str) -> WriteRequest {
        WriteRequest {
            file_size_bytes: Some(SIZE),
            ..WriteRequest::new(self.path(name), "test")
        }
    }

    fn consent(&self, request: &WriteRequest) -> Result<WriteConsent, String> {
        self.consent_with(request, &mut EraseAnswers::default())
    }

    fn consent_with(
        &self,
        request: &WriteRequest,
        answers: &mut EraseAnswers<'_>,
    ) -> Result<WriteConsent, String> {
        let answer = self.guard().consent(std::slice::from_ref(request), answers);
        answer
            .map(|mut consents| consents.remove(0))
            .map_err(|refused| refused.to_string())
    }

    fn identity(&self, name: &str) -> String {
        let consent = self.consent(&self.request(name)).unwrap();
        consent.facts().identity().unwrap()
    }

    fn assert_refused(&self, request: &WriteRequest, why: &str) {
        let text = self.consent(request).expect_err(why);
        assert!(
            text.starts_with(&format!("refusing to write to {} - {why}", request.path)),
            "{text}"
        );
        assert!(!text.contains('\n'), "{text}");
    }

    fn run_once(&self, request: &WriteRequest, bytes: usize) -> u64 {
        let consent = self.consent(request).unwrap();
        let key = consent.stamp_key();
        let mut buf = sys::buffer::Pool::new(bytes).unwrap().cut(bytes).unwrap();
        Salt::new(3, 100, key).fill(&mut buf);
        let target = Target::writable(consent);
        let file = File::from(target.fd().try_clone_to_owned().unwrap());
        file.write_all_at(&buf, 0).unwrap();
        key
    }
}

#[test]
fn a_file_is_created_with_its_space_reserved_and_holes_are_noted() {
    let place = Place::new();
    let consent = place.consent(&place.request("new")).unwrap();
    let metadata = fs::metadata(place.path("new")).unwrap();
    assert_eq!((metadata.len(), metadata.mode() & 0o777), (SIZE, 0o600));
    assert_eq!((consent.size_bytes(), consent.erases().len()), (SIZE, 0));
    assert!(consent.facts().file_identity.is_some());
    let said = consent.notes().join("|");
    assert!(
        said.contains("reads of those bytes do not reach the drive") || said.contains("holes"),
        "{said}"
    );
    // A run that only writes gets no warning about reads of holes.
    let written = place
        .consent(&modified(place.request("other"), |it| it.reads = false))
        .unwrap();
    assert!(
        written
            .notes()
            .iter()
            .all(|note| !note.contains("reads of")),
        "{:?}",
        written.notes()
    );
}

#[test]
fn a_writable_target_is_opened_with_o_dsync_unless_disabled() {
    let place = Place::new();
    for odsync in [true, false] {
        let target = Target::writable(
            place
                .consent(&modified(place.request("new"), |it| it.odsync = odsync))
                .unwrap(),
        );
        let info =
            fs::read_to_string(format!("/proc/self/fdinfo/{}", target.fd().as_raw_fd())).unwrap();
        let flags = info
            .lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .unwrap()
            .trim();
        let flags = i32::from_str_radix(flags, 8).unwrap();
        assert_eq!(flags & libc::O_DIRECT != 0, target.is_direct());
        assert_eq!(flags & libc::O_DSYNC != 0, odsync);
        assert_eq!(target.is_odsync(), odsync);
        assert_eq!(flags & libc::O_ACCMODE, libc::O_RDWR);
    }
}

#[test]
fn a_file_without_a_size_is_refused() {
    let place = Place::new();
    fs::write(place.path("old"), "precious").unwrap();
    let request = modified(place.request("old"), |it| it.file_size_bytes = None);
    place.assert_refused(
        &request,
        "it is a regular file; to test a file give its size with file-size-mbytes",
    );
    let request = modified(place.request("absent"), |it| it.file_size_bytes = None);
    place.assert_refused(&request, "there is no such device or file; check the name");
}

#[test]
fn a_mistyped_device_name_is_refused_and_creates_no_file() {
    let place = Place::new();
    let no_device = "there is no such device or file; check the name".to_owned();
    let no_folder = format!(
        "its folder {} does not exist; create it",
        place.path("no/such")
    );
    for (path, why) in [
        ("/dev/nvme9n9-mistyped".to_owned(), no_device),
        (place.path("no/such/directory"), no_folder),
    ] {
        let request = modified(place.request("x"), |it| it.path = path.clone());
        place.assert_refused(&request, &why);
        assert!(fs::symlink_metadata(&path).is_err());
    }
    for (path, what) in [("/dev/null", "a character device"), ("/tmp", "a directory")] {
        let request = modified(place.request("x"), |it| it.path = path.into());
        place.assert_refused(
            &request,
            &format!("it is {what}, not a block device; name a whole disk"),
        );
    }
}

#[test]
fn a_file_too_large_for_its_file_system_or_too_small_for_its_load_is_not_created() {
    let place = Place::new();
    let request = WriteRequest {
        file_size_bytes: Some(1 << 60),
        ..place.request("huge")
    };
    place.assert_refused(
        &request,
        "the file needs 1152921504606846976 more bytes and its file system has ",
    );
    assert!(!fs::exists(place.path("huge")).unwrap());
    let request = modified(place.request("small"), |it| it.min_size_bytes = 8 << 20);
    place.assert_refused(
        &request,
        "its 4194304 bytes are less than the 8388608 bytes of one operation",
    );
    assert!(!fs::exists(place.path("small")).unwrap());
}

#[test]
fn a_users_file_needs_consent_and_stays_unchanged_until_written_to() {
    let place = Place::new();
    fs::write(place.path("old"), "precious").unwrap();
    let request = place.request("old");
    place.assert_refused(
        &request,
        "data of no known format in 1 of 1 samples, first at byte 0: flashproof has no record of a write to the device (",
    );
    assert_eq!(fs::read(place.path("old")).unwrap(), b"precious");

    let consent = place
        .consent_with(&request, &mut EraseAnswers::named([request.path.clone()]))
        .unwrap();
    assert_eq!(consent.erases().len(), 1);
    drop(consent);
    let content = fs::read(place.path("old")).unwrap();
    assert_eq!(content.len() as u64, SIZE);
    assert_eq!(&content[..8], &b"precious"[..]);
}

#[test]
fn a_file_that_flashproof_wrote_needs_no_consent_and_may_grow() {
    let place = Place::new();
    let key = place.run_once(&place.request("ours"), SIZE as usize);
    let grown = WriteRequest {
        file_size_bytes: Some(2 * SIZE),
        ..place.request("ours")
    };
    assert_eq!(place.run_once(&grown, 2 * SIZE as usize), key);
    // If the request is smaller than the file, the file keeps its length, and the test uses only the requested part.
    let consent = place.consent(&place.request("ours")).unwrap();
    assert_eq!((consent.stamp_key(), consent.size_bytes()), (key, SIZE));
    assert_eq!(fs::metadata(place.path("ours")).unwrap().len(), 2 * SIZE);
}

#[test]
fn a_partly_prepared_file_may_not_grow() {
    let place = Place::new();
    place.run_once(&place.request("ours"), SIZE as usize);
    let identity = place.identity("ours");
    let half = PreparationRecord {
        size_bytes: SIZE,
        used_bytes: SIZE / 2,
        ..preparation::tests::prepared("ours", 1)
    };
    place
        .guard()
        .records
        .keep_prepared(&identity, &half)
        .unwrap();
    let grown = WriteRequest {
        file_size_bytes: Some(2 * SIZE),
        ..place.request("ours")
    };
    for _ in 0..2 {
        place.assert_refused(
            &grown,
            "the file would grow from 4194304 to 8388608 bytes, and the limit of its preparation",
        );
    }
    assert_eq!(fs::metadata(place.path("ours")).unwrap().len(), SIZE);
    assert_eq!(
        Target::writable(place.consent(&place.request("ours")).unwrap()).size_bytes(),
        SIZE / 2
    );
    // A preparation of the whole file is allowed.
    place
        .consent(&modified(grown, |it| it.uses_whole_device = true))
        .unwrap();
}

#[test]
fn a_new_file_with_the_inode_of_a_prepared_file_does_not_count_as_prepared() {
    let place = Place::new();
    place.run_once(&place.request("ours"), SIZE as usize);
    let identity = place.identity("ours");
    let records = place.guard().records;
    let recorded = preparation::tests::prepared("ours", 1);
    let half = PreparationRecord {
        size_bytes: SIZE,
        used_bytes: SIZE / 2,
        ended_unix_s: Some(2),
        ..recorded
    };
    records.keep_prepared(&identity, &half).unwrap();
    let found = place.consent(&place.request("ours")).unwrap().size_bytes();
    assert_eq!(found, SIZE / 2);
    let key = records.find(&identity).unwrap().key;

    // An empty file with the same inode and length.
    let file = fs::OpenOptions::new()
        .write(true)
        .open(place.path("ours"))
        .unwrap();
    file.set_len(0).unwrap();
    file.set_len(SIZE).unwrap();
    drop(file);
    let consent = place.consent(&place.request("ours")).unwrap();
    assert_eq!(consent.facts().identity().unwrap(), identity.clone());
    assert_eq!(consent.size_bytes(), SIZE);
    let record = records.find(&identity).unwrap();
    assert_eq!((record.prepared, record.key), (None, key));
}

#[test]
fn foreign_data_behind_the_written_part_needs_consent() {
    let place = Place::new();
    place.run_once(&place.request("ours"), SIZE as usize);
    let file = fs::OpenOptions::new()
        .append(true)
        .open(place.path("ours"))
        .unwrap();
    io::Write::write_all(&mut &file, &[7; 4096]).unwrap();
    drop(file);
    place.assert_refused(&place.request("ours"), "data of no known format in 1 of ");
}

#[test]
fn a_second_run_on_a_file_is_refused_unless_both_share() {
    let place = Place::new();
    let request = place.request("file");
    let shared = modified(request.clone(), |it| it.shared = true);
    let alone = place.consent(&request).unwrap();
    place.assert_refused(
        &request,
        "another run of flashproof uses it, exclusively; wait until that run ends",
    );
    place.assert_refused(&shared, "another run of flashproof uses it, exclusively");
    drop(alone);
    let _one = place.consent(&shared).unwrap();
    let _two = place.consent(&shared).unwrap();
    place.assert_refused(
        &request,
        "another run of flashproof uses it, with --shared; wait until that run ends, or start this run with --shared, too",
    );
}

#[test]
fn a_file_named_twice_is_refused_even_if_once_through_a_symlink() {
    let place = Place::new();
    drop(place.consent(&place.request("file")).unwrap());
    symlink(place.path("file"), place.path("link")).unwrap();
    for (one, two) in [("file", "link"), ("new", "new")] {
        let requests = [place.request(one), place.request(two)];
        let text = place
            .guard()
            .consent(&requests, &mut EraseAnswers::default())
            .unwrap_err()
            .to_string();
        assert_contains!(
            text,
            &format!(
                "{} - it has bytes in common with {}",
                place.path(two),
                place.path(one)
            )
        );
    }
    assert!(!fs::exists(place.path("new")).unwrap());
}

#[test]
fn all_refused_devices_are_reported_at_once_and_no_device_gets_consent() {
    let place = Place::new();
    fs::write(place.path("a"), "x").unwrap();
    fs::write(place.path("b"), "y").unwrap();
    let requests = [place.request("a"), place.request("new"), place.request("b")];
    let refused = place
        .guard()
        .consent(&requests, &mut EraseAnswers::default())
        .unwrap_err();
    assert_eq!(refused.0.len(), 2);
    assert_eq!(refused.to_string().lines().count(), 2);
    assert!(!fs::exists(place.path("new")).unwrap());

    // A person who answers "no" is asked nothing more.
    let mut asked = Vec::new();
    let mut answers = EraseAnswers::default().or_ask(|question| {
        asked.push(question.name.to_owned());
        Some("no".into())
    });
    let refused = place.guard().consent(&requests, &mut answers).unwrap_err();
    drop(answers);
    assert_eq!((refused.0.len(), asked), (1, vec![place.path("a")]));
}

#[test]
fn a_record_that_cannot_be_stored_is_noted_and_the_run_goes_ahead() {
    let place = Place::new();
    let guard = Guard::new(Some("/dev/null/state".into()));
    let consents = guard
        .consent(&[place.request("file")], &mut EraseAnswers::default())
        .unwrap();
    let said = consents[0].notes().join("|");
    assert!(
        said.contains("FLASHPROOF_STATE")
            && said.contains("the next run will ask for consent to erase"),
        "{said}"
    );
    assert!(!consents[0].is_key_recorded());
    assert!(
        place
            .consent(&place.request("another"))
            .unwrap()
            .is_key_recorded()
    );
}

#[test]
fn a_consent_that_fails_marks_no_device_as_written_to() {
    let place = Place::new();
    place.run_once(&place.request("ours"), SIZE as usize);
    let records = place.guard().records;
    let identity = place.identity("ours");
    records
        .keep_prepared(&identity, &preparation::tests::prepared("ours", 1))
        .unwrap();
    let written_since = || {
        records
            .find(&identity)
            .unwrap()
            .prepared
            .unwrap()
            .written_since
    };

    fs::write(place.path("theirs"), "precious").unwrap();
    let mut answers = EraseAnswers::default().or_ask(|question| {
        fs::write(place.path("new"), "made while the question waited").unwrap();
        Some(question.name.to_owned())
    });
    let requests = [
        place.request("ours"),
        place.request("theirs"),
        place.request("new"),
    ];
    let refused = place
        .guard()
        .consent(&requests, &mut answers)
        .unwrap_err()
        .to_string();
    assert_contains!(
        refused,
        &format!("refusing to write to {} - cannot create", place.path("new"))
    );
    assert_eq!(written_since(), None);
    drop(answers);

    drop(place.consent(&place.request("ours")).unwrap());
    assert_eq!(written_since().as_deref(), Some("test"));
}

#[test]
fn open_errors_of_the_kernel_are_explained_in_words() {
    for (errno, says) in [
        (
            libc::EACCES,
            "no permission to open it for writing (Permission denied (os error 13)); run as root, or as",
        ),
        (
            libc::EROFS,
            "it is read-only (its file system is mounted read-only)",
        ),
        (
            libc::EBUSY,
            "a mount, a driver or another program holds it exclusively",
        ),
        (
            libc::ENXIO,
            "cannot open it for writing (No such device or address (os error 6)); look at the kernel log",
        ),
    ] {
        let text = RefusalReason::io("open it for writing", io::Error::from_raw_os_error(errno))
            .to_string();
        assert!(text.starts_with(says), "{text}");
    }
}
