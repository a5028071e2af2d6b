//! A file that is written whole or not at all: an older one is only replaced by a whole one.

use std::path::Path;
use std::{fs, io};

/// Writes `text` to `file`. A terminal, a pipe or /dev/stdout cannot be replaced, only written to.
///
/// Errors: it cannot be written; what was there before is there still.
pub fn write(file: &Path, text: &str) -> io::Result<()> {
    if file.exists() && !file.is_file() {
        return fs::write(file, text);
    }
    let mut name = file.as_os_str().to_owned();
    name.push(".tmp");
    let temporary = Path::new(&name);
    fs::write(temporary, text).and_then(|()| fs::rename(temporary, file)).inspect_err(|_| {
        let _ = fs::remove_file(temporary);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole_and_nothing_temporary_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("report.html");
        write(&file, "one").unwrap();
        let reader = fs::File::open(&file).unwrap();
        write(&file, "two").unwrap();
        assert_eq!(io::read_to_string(reader).unwrap(), "one", "whoever reads the older one is not torn away from it");
        assert_eq!(fs::read_to_string(&file).unwrap(), "two");
        assert!(write(&dir.path().join("none/report.html"), "x").is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
