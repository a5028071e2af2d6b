//! Commands to the guest, and their results, over a dedicated serial port. A request is a line with a shell script in
//! hexadecimal digits. The answer is a line with exit code and sizes, then the bytes of standard output and standard
//! error.

use crate::support::Ended;
use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Script of the guest's first process, which starts all others. Devices are named by the serial number of their
/// controller (`$FDP0`, `$DATA0`), because the kernel's numbers can change from boot to boot.
pub(super) const INIT: &str = r#"#!/bin/busybox sh
/bin/busybox mount -t devtmpfs dev /dev 2>/dev/null
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs tmp /tmp
mount -t debugfs debug /sys/kernel/debug
export PATH=/bin:/sbin:/usr/sbin HOME=/tmp FLASHPROOF_STATE=/tmp/state
exec </dev/null >/dev/console 2>&1
until [ -e /dev/vport0p1 ]; do sleep 0.05; done
# A controller can be there before its namespace is.
for controller in /sys/class/nvme/nvme*; do
    until ls /dev/${controller##*/}n1 >/dev/null 2>&1; do sleep 0.05; done
    read -r serial <$controller/serial
    export "$serial=/dev/${controller##*/}n1"
done
cd /tmp
exec 3<>/dev/vport0p1
echo up >&3
while read -r script <&3; do
    echo "$script" | xxd -r -p >/tmp/.script
    sh /tmp/.script >/tmp/.stdout 2>/tmp/.stderr 3>&-
    echo "$? $(stat -c %s /tmp/.stdout) $(stat -c %s /tmp/.stderr)" >&3
    cat /tmp/.stdout /tmp/.stderr >&3
done
poweroff -f
"#;

/// The host's side of the serial port.
pub(super) struct Agent {
    stream: BufReader<UnixStream>,
}

impl Agent {
    /// Waits until the guest is up.
    pub(super) fn new(stream: UnixStream) -> io::Result<Self> {
        let mut this = Self {
            stream: BufReader::new(stream),
        };
        match this.line()?.as_str() {
            "up" => Ok(this),
            other => Err(io::Error::other(format!("the guest began with {other:?}"))),
        }
    }

    pub(super) fn wait_at_most(&mut self, patience: Duration) {
        self.stream
            .get_mut()
            .set_read_timeout(Some(patience))
            .expect("a time that is not zero");
    }

    pub(super) fn run(&mut self, script: &str) -> io::Result<Ended> {
        let mut line = String::with_capacity(script.len() * 2 + 1);
        for byte in script.bytes() {
            write!(line, "{byte:02x}").expect("a string takes all");
        }
        line.push('\n');
        self.stream.get_mut().write_all(line.as_bytes())?;
        let sizes = self.line()?;
        let numbers: Vec<usize> = sizes
            .split(' ')
            .filter_map(|number| number.parse().ok())
            .collect();
        let [code, stdout, stderr] = numbers[..] else {
            return Err(io::Error::other(format!("the guest answered {sizes:?}")));
        };
        let mut text = |size| {
            let mut bytes = vec![0; size];
            self.stream.read_exact(&mut bytes)?;
            io::Result::Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(Ended {
            code: Some(code as i32),
            signal: None,
            stdout: text(stdout)?,
            stderr: text(stderr)?,
        })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line)? {
            0 => Err(io::Error::other("the guest is gone")),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}
