//! Determines who can change a name: only trusted users, or others as well.
//!
//! Trusted are root, the effective user and, for root, the user who called sudo or pkexec. A name is stable if every
//! directory on the way to the name belongs to a trusted user, and only trusted users can write to it. A sticky
//! directory such as /tmp protects the names of the files that trusted users own there.

use super::Links;
use rustix::fs::{CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::LazyLock;

/// A file or directory that an untrusted user can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changeable {
    path: PathBuf,
    by: ForeignWriter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ForeignWriter {
    Owner(u32),
    Group(u32),
    Everyone,
    /// Users in an access control list, which `ls -l` shows as `+`.
    AccessList,
}

impl Changeable {
    /// The command after which only trusted users can change the object.
    fn remedy(&self) -> String {
        let command = match self.by {
            ForeignWriter::Owner(_) => "chown root",
            ForeignWriter::Group(_) | ForeignWriter::Everyone => "chmod go-w",
            ForeignWriter::AccessList => "setfacl -b",
        };
        let command = if effective_user() == 0 {
            command
        } else {
            command.trim_end_matches(" root")
        };
        format!("{command} {}", self.path.display())
    }

    fn refused(&self) -> io::Error {
        let why = format!("{self}; if its content is yours: {}", self.remedy());
        io::Error::new(ErrorKind::PermissionDenied, why)
    }
}

impl fmt::Display for Changeable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match self.by {
            ForeignWriter::Owner(user) => write!(
                f,
                "{path} belongs to {}, who can change it",
                Accounts::get().user(user)
            ),
            ForeignWriter::Group(group) => write!(
                f,
                "the group {} can change {path}",
                Accounts::get().group(group)
            ),
            ForeignWriter::Everyone => write!(f, "all users can change {path}"),
            ForeignWriter::AccessList => write!(
                f,
                "the access control list of {path} lets other users change it"
            ),
        }
    }
}

fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

static TRUSTED: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let effective = effective_user();
    let caller = |variable| std::env::var(variable).ok()?.parse().ok();
    let callers = ["SUDO_UID", "PKEXEC_UID"]
        .into_iter()
        .filter_map(caller)
        .filter(|_| effective == 0);
    let outside = is_outside_namespace(OVERFLOW_USER).then_some(OVERFLOW_USER);
    [0, effective]
        .into_iter()
        .chain(callers)
        .chain(outside)
        .collect()
});

/// True if `user` has no number in this process's user namespace. The kernel then shows [`OVERFLOW_USER`] for all users
/// outside, the host's root among them.
fn is_outside_namespace(user: u32) -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    !map.is_empty()
        && !map
            .lines()
            .filter_map(|line: &str| {
                let mut numbers = line
                    .split_whitespace()
                    .map(|number| number.parse::<u64>().ok());
                let first = numbers.next()??;
                Some(first..first + numbers.nth(1)??)
            })
            .any(|mapped| mapped.contains(&u64::from(user)))
}

fn is_trusted(user: u32) -> bool {
    TRUSTED.contains(&user)
}

/// Users and groups of /etc/passwd and /etc/group. Directory services (LDAP) are not asked.
struct Accounts {
    /// Name, user ID and primary group of each user.
    users: Vec<(String, u32, u32)>,
    /// Name, group ID and names of further members of each group.
    groups: Vec<(String, u32, Vec<String>)>,
}

const ACCOUNTS_BYTES_MAX: u64 = 16 << 20;

/// Text of /etc/passwd or /etc/group; empty if the file cannot be read.
fn read_accounts(path: &str) -> String {
    let bytes =
        super::read(Path::new(path), Links::Followed, ACCOUNTS_BYTES_MAX).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Accounts {
    fn get() -> &'static Self {
        static ACCOUNTS: LazyLock<Accounts> = LazyLock::new(|| {
            Accounts::parse(&read_accounts("/etc/passwd"), &read_accounts("/etc/group"))
        });
        &ACCOUNTS
    }

    fn parse(passwd: &str, group: &str) -> Self {
        Self {
            users: passwd
                .lines()
                .filter_map(|line: &str| {
                    let mut fields = line.split(':');
                    let name = fields.next()?.to_owned();
                    Some((
                        name,
                        fields.nth(1)?.parse().ok()?,
                        fields.next()?.parse().ok()?,
                    ))
                })
                .collect(),
            groups: group
                .lines()
                .filter_map(|line: &str| {
                    let mut fields = line.split(':');
                    let name = fields.next()?.to_owned();
                    let number = fields.nth(1)?.parse().ok()?;
                    let members = fields
                        .next()?
                        .split(',')
                        .filter(|member| !member.is_empty());
                    Some((name, number, members.map(str::to_owned).collect()))
                })
                .collect(),
        }
    }

    fn user(&self, number: u32) -> String {
        match self.users.iter().find(|user| user.1 == number) {
            Some((name, ..)) => format!("{} (uid {number})", crate::format::in_one_line(name)),
            None => format!("uid {number}"),
        }
    }

    fn group(&self, number: u32) -> String {
        match self.groups.iter().find(|group| group.1 == number) {
            Some((name, ..)) => format!("{} (gid {number})", crate::format::in_one_line(name)),
            None => format!("gid {number}"),
        }
    }

    /// True if all members of the group are trusted. Root's group always is, because its other members are system
    /// accounts.
    fn is_trusted_group(&self, number: u32) -> bool {
        let primary = self
            .users
            .iter()
            .filter(|user| user.2 == number)
            .map(|user| user.1);
        let named = self
            .groups
            .iter()
            .filter(|group| group.1 == number)
            .flat_map(|group| &group.2);
        let named = named.map(|member| {
            self.users
                .iter()
                .find(|user| user.0 == *member)
                .map(|user| user.1)
        });
        let mut members = primary.map(Some).chain(named).peekable();
        match members.peek() {
            // A group without known members is private if it has the number of a trusted user: useradd creates such
            // groups.
            None => is_trusted(number),
            Some(_) => number == 0 || members.all(|member| member.is_some_and(is_trusted)),
        }
    }
}

/// The untrusted users who can write to the open object `fd`, whose metadata is `stat`; `None` if there are none.
fn untrusted_writer(stat: &Stat, fd: BorrowedFd<'_>) -> Option<ForeignWriter> {
    let mode = Mode::from_raw_mode(stat.st_mode);
    if !is_trusted(stat.st_uid) {
        return Some(ForeignWriter::Owner(stat.st_uid));
    }
    if mode.contains(Mode::WOTH) {
        return Some(ForeignWriter::Everyone);
    }
    if !mode.contains(Mode::WGRP) {
        return None;
    }
    // With an access control list, the mode's group bits are the list's mask.
    let by_descriptor = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let has_list =
        rustix::fs::getxattr(by_descriptor, "system.posix_acl_access", &mut [0_u8; 0]).is_ok();
    if has_list {
        return Some(ForeignWriter::AccessList);
    }
    (!Accounts::get().is_trusted_group(stat.st_gid)).then_some(ForeignWriter::Group(stat.st_gid))
}

/// Content of a file that flashproof follows, not only shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instructions {
    /// Names commands that are run.
    Commands,
    /// Names devices, files or steps.
    Data,
}

/// Checks that only trusted users can change `file`, which was opened as `path`, or its name. On a network file system
/// that maps root to nobody, root's own files seem to belong to nobody. Such files are accepted unless they name
/// commands. Errors: the object that others can change, with the remedy.
pub(super) fn check_instructions(path: &Path, file: &File, kind: Instructions) -> io::Result<()> {
    let Some(found) = changeable_file(path, file)?.or(changeable(super::dir_of(path))?) else {
        return Ok(());
    };
    let is_nobody = found.by == ForeignWriter::Owner(OVERFLOW_USER) && effective_user() == 0;
    let is_squashed =
        is_nobody && kind == Instructions::Data && is_network_file_system(file.as_fd());
    if is_squashed {
        Ok(())
    } else {
        Err(found.refused())
    }
}

/// Checks that only trusted users can change the content of the file `path`. Errors: with the remedy.
pub fn require_trusted_file(path: &Path) -> io::Result<()> {
    let found = changeable_file(path, &super::open(path, Links::Followed)?)?;
    found.map_or(Ok(()), |found| Err(found.refused()))
}

fn changeable_file(path: &Path, file: &File) -> io::Result<Option<Changeable>> {
    let by = untrusted_writer(&rustix::fs::fstat(file)?, file.as_fd());
    Ok(by.map(|by| Changeable {
        path: path.to_owned(),
        by,
    }))
}

/// User ID of nobody. NFS servers map root to nobody, and the kernel maps users outside this user namespace to nobody.
const OVERFLOW_USER: u32 = 65_534;

/// Source of the numbers: linux/magic.h.
fn is_network_file_system(fd: BorrowedFd<'_>) -> bool {
    const NFS: i64 = 0x6969;
    const SMB2: i64 = 0xfe53_4d42;
    const CEPH: i64 = 0x00c3_6400;
    #[allow(
        clippy::unnecessary_cast,
        reason = "its type differs between C libraries and architectures"
    )]
    rustix::fs::fstatfs(fd).is_ok_and(|stat| [NFS, SMB2, CEPH].contains(&(stat.f_type as i64)))
}

/// Errors: an untrusted user can change names in `dir`, or on the way to `dir`.
pub fn require_trusted(dir: &Path) -> io::Result<()> {
    changeable(dir)?.map_or(Ok(()), |changeable| Err(changeable.refused()))
}

/// The first object on the way to the directory `dir`, or `dir` itself, in which an untrusted user can change names.
pub(super) fn changeable(dir: &Path) -> io::Result<Option<Changeable>> {
    Ok(walk(CWD, Path::new(""), dir)?.changeable)
}

#[derive(Debug)]
pub(super) struct Reached {
    pub(super) fd: OwnedFd,
    /// The first directory on the way, or the reached directory, in which an untrusted user can change names.
    pub(super) changeable: Option<Changeable>,
}

/// The kernel's limit of links in a path.
const LINKS_MAX: u32 = 40;

/// Follows `path` from the directory `from`, component by component, so that the directories used are those examined.
/// Links are followed. `shown`: the path of `from` in messages. Errors: a component is missing or no directory; too
/// many links.
pub(super) fn walk(from: BorrowedFd<'_>, shown: &Path, path: &Path) -> io::Result<Reached> {
    let mut at = open_dir(from, OsStr::new("."))?;
    let mut shown = shown.to_owned();
    let mut pending: Vec<OsString> = names_backwards(path);
    let mut changeable = None;
    let mut links = 0;
    while let Some(name) = pending.pop() {
        if name == "/" || name == ".." {
            at = open_dir(at.as_fd(), &name)?;
            shown.push(&name);
            continue;
        }
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // Without O_DIRECTORY, a directory that is mounted on demand (autofs) would stay empty.
        let entry = match rustix::fs::openat(&at, &name, flags | OFlags::DIRECTORY, Mode::empty()) {
            Err(Errno::NOTDIR) => rustix::fs::openat(&at, &name, flags, Mode::empty())?,
            entry => entry?,
        };
        let stat = rustix::fs::fstat(&entry)?;
        if changeable.is_none() {
            changeable = changeable_names(&at, Some(&stat), &shown)?;
        }
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => {
                at = entry;
                shown.push(&name);
            }
            // Links of /proc lead to open files, and their text is no path.
            FileType::Symlink if rustix::fs::fstatfs(&at)?.f_type == PROC_MAGIC => {
                at = open_dir(at.as_fd(), &name)?;
                shown.push(&name);
            }
            FileType::Symlink => {
                links += 1;
                if links > LINKS_MAX {
                    return Err(Errno::LOOP.into());
                }
                let target = rustix::fs::readlinkat(&at, &name, Vec::new())?;
                pending.extend(names_backwards(Path::new(OsStr::from_bytes(
                    target.to_bytes(),
                ))));
            }
            _ => return Err(Errno::NOTDIR.into()),
        }
    }
    if changeable.is_none() {
        changeable = changeable_names(&at, None, &shown)?;
    }
    Ok(Reached { fd: at, changeable })
}

/// Source: linux/magic.h.
const PROC_MAGIC: rustix::fs::FsWord = 0x9fa0;

fn open_dir(at: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(at, name, flags, Mode::empty())?)
}

/// The components of `path`, last first.
fn names_backwards(path: &Path) -> Vec<OsString> {
    let components = path
        .components()
        .rev()
        .filter(|component| *component != Component::CurDir);
    components
        .map(|component| component.as_os_str().to_owned())
        .collect()
}

/// `Some` if an untrusted user can change the name of `entry` in `dir`. `entry` is `None` for a name that is created
/// exclusively.
fn changeable_names(
    dir: &OwnedFd,
    entry: Option<&Stat>,
    shown: &Path,
) -> io::Result<Option<Changeable>> {
    let stat = rustix::fs::fstat(dir)?;
    let Some(by) = untrusted_writer(&stat, dir.as_fd()) else {
        return Ok(None);
    };
    let is_sticky =
        is_trusted(stat.st_uid) && Mode::from_raw_mode(stat.st_mode).contains(Mode::SVTX);
    if is_sticky && entry.is_none_or(|entry| is_trusted(entry.st_uid)) {
        return Ok(None);
    }
    let path = if shown.as_os_str().is_empty() {
        Path::new(".")
    } else {
        shown
    };
    Ok(Some(Changeable {
        path: path.to_owned(),
        by,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assert_starts_with;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    const NOBODY: u32 = OVERFLOW_USER;

    #[test]
    fn a_group_is_trusted_if_all_its_members_are() {
        let passwd = "root:x:0:0::/root:/bin/sh\nana:x:1001:1001::/home/ana:/bin/sh\nsync:x:4:0::/bin:/bin/sync\n";
        let group = "root:x:0:\nana:x:1001:\nadm:x:4:root\nstaff:x:50:root,ana\nusers:x:100:gone\n";
        let accounts = Accounts::parse(passwd, group);
        let is_trusted_group = |number| accounts.is_trusted_group(number);
        assert!(is_trusted_group(0) && is_trusted_group(4));
        assert!(!is_trusted_group(50) && !is_trusted_group(100) && !is_trusted_group(77_777));
        assert_eq!(is_trusted_group(1001), effective_user() == 1001);
    }

    #[test]
    fn a_name_is_stable_only_below_directories_of_trusted_users() {
        if effective_user() != 0 {
            return eprintln!("skipped: only root can make directories of other users");
        }
        let top = tempfile::tempdir().unwrap();
        let dir = |name: &str, owner: u32, mode: u32| {
            let path = top.path().join(name);
            fs::create_dir_all(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            chown(&path, Some(owner), None).unwrap();
            path
        };
        let text = |path: &Path| changeable(path).unwrap().map(|found| found.to_string());
        let theirs = dir("theirs", NOBODY, 0o755);
        let below = dir("theirs/ours", 0, 0o755);
        let open = dir("open", 0, 0o777);
        let sticky = dir("sticky", 0, 0o1777);
        assert_eq!(text(&dir("private", 0, 0o755)), None);
        assert_eq!(text(&sticky), None);
        assert_eq!(text(&dir("sticky/ours", 0, 0o755)), None);
        assert!(text(&dir("sticky/theirs", NOBODY, 0o755)).is_some());
        assert_eq!(
            text(&open),
            Some(format!("all users can change {}", open.display()))
        );
        for path in [&theirs, &below] {
            let found = text(path).unwrap();
            assert_starts_with!(found, &format!("{} belongs to ", theirs.display()));
        }
        let link = top.path().join("link");
        let of_theirs = theirs.join("link");
        symlink(&theirs, &link).unwrap();
        symlink(&sticky, &of_theirs).unwrap();
        assert!(
            text(&link).is_some() && text(&of_theirs).is_some(),
            "their link can lead elsewhere later"
        );
        assert_eq!(
            changeable(&top.path().join("loop/x")).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        symlink("loop", top.path().join("loop")).unwrap();
        assert_eq!(
            changeable(&top.path().join("loop/x"))
                .unwrap_err()
                .raw_os_error(),
            Some(Errno::LOOP.raw_os_error())
        );
    }
}
