//! A client's queries and logins, and the replies to them.
//!
//! ```text
//! info      "name\nname\n" -> "name\tvalue\nname\tvalue\n", in the same order
//! security  scheme, result, command, number of fields (a byte each), 12 unused bytes; then the fields, each as:
//!           length, 32 bits | id | value
//! ```
//!
//! Sources: the server's `proto.h` and `security.h`; the names of commands and fields are from the Go client.

use super::frame::{self, FrameKind, HEADER_BYTES, Malformed};
use super::message;
use crate::ResultCode;
use results::format::{Grouped, quoted};

/// Maximum bytes of a reply. The longest known, partition maps and lists of sets, are below 1 MiB.
const REPLY_BYTES_MAX: usize = 16 << 20;

/// Maximum characters of an unexpected reply that are shown.
const SHOWN_CHARS: usize = 80;

const LOGIN: u8 = 20;
const AUTHENTICATE: u8 = 0;

const USER: u8 = 0;
const CREDENTIAL: u8 = 3;
const CLEAR_PASSWORD: u8 = 4;
const SESSION_TOKEN: u8 = 5;

/// The salt with which the database hashes every password for the wire: `$2a$10$7EqJtq98hPqEX7fNZaFWoO`.
/// Source: the Go client, `hashPassword`; asadm, `_ADMIN_SALT`.
const SALT: [u8; 16] = [
    0xf4, 0x6b, 0x0b, 0xbe, 0xcf, 0xfe, 0x8d, 0x1b, 0x06, 0x67, 0xd8, 0x4f, 0x6d, 0xc1, 0xd8, 0xa9,
];
const COST: u32 = 10;

/// Bytes of the fixed part of a security message.
const SECURITY_BYTES: usize = 16;

/// Length of the body behind the header of a reply of `kind`, bytes. Errors: another protocol or kind, or more than
/// 16 MiB.
pub fn body_bytes(header: [u8; HEADER_BYTES], kind: FrameKind) -> Result<usize, String> {
    match frame::header(header, REPLY_BYTES_MAX) {
        Ok((found, bytes)) if found == kind => Ok(bytes),
        Err(Malformed::Length { bytes, .. }) => {
            let limit = Grouped(REPLY_BYTES_MAX as u64);
            let bytes = Grouped(bytes);
            Err(format!(
                "expected a reply of at most {limit} bytes, found a reply of {bytes} bytes"
            ))
        }
        _ => {
            let hex: Vec<_> = header.iter().map(|byte| format!("{byte:02x}")).collect();
            let hex = hex.join(" ");
            let text = quoted(&String::from_utf8_lossy(&header));
            Err(format!(
                "expected a reply that begins with 02 {:02x} (Aerospike's protocol), found {hex} ({text}) - is it the port of \
                 the database's clients (3000, or 4333 with TLS)?",
                kind as u8
            ))
        }
    }
}

pub fn info_request(names: &[String]) -> Vec<u8> {
    let mut request = Vec::new();
    let begin = frame::begin(&mut request, FrameKind::Info);
    names
        .iter()
        .for_each(|name| request.extend_from_slice(format!("{name}\n").as_bytes()));
    frame::end(&mut request, begin);
    request
}

/// The values of the requested `names`. `None` for a name that the server skipped: older servers skip unknown names.
pub fn info_replies(names: &[String], body: &[u8]) -> Result<Vec<Option<String>>, String> {
    let mut values = vec![None; names.len()];
    let mut next = 0;
    let text = String::from_utf8_lossy(body);
    for line in text.split('\n').filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once('\t').unwrap_or((line, ""));
        if let Some(offset) = names[next..].iter().position(|asked| asked == name) {
            values[next + offset] = Some(value.to_owned());
            next += offset + 1;
        } else if name.starts_with("ERROR:80:") {
            return Err(format!(
                "the server wants a login: {} - give --user, and the password by --password-file, FLASHPROOF_PASSWORD or when \
                 asked",
                quoted(name)
            ));
        } else {
            let expected = match names.get(next) {
                Some(name) => format!("a line that begins with {}", quoted(name)),
                None => "no more lines".to_owned(),
            };
            return Err(format!("expected {expected}, found {}", begin_of(line)));
        }
    }
    Ok(values)
}

/// True for an error instead of a value: `ERROR:4:bad parameter`, `FAIL`, `error=no-such-thing`.
pub(crate) fn is_refusal(value: &str) -> bool {
    let word = value.split([':', '=', ';', ' ']).next().unwrap_or_default();
    word.eq_ignore_ascii_case("error") || word.eq_ignore_ascii_case("fail")
}

/// The quoted beginning of `text`, for messages.
pub(crate) fn begin_of(text: &str) -> String {
    let begin: String = text.chars().take(SHOWN_CHARS).collect();
    if begin.len() < text.len() {
        format!("{}...", quoted(&begin))
    } else {
        quoted(text)
    }
}

#[derive(Clone)]
pub struct Login {
    pub(crate) user: String,
    /// bcrypt hash of the password with the database's fixed salt, as text. The server compares the hashes.
    credential: String,
    /// The password itself, if an external directory (LDAP) checks it. Sent only over TLS.
    clear_password: Option<String>,
}

impl Login {
    /// A login by `password`. With `is_external`, the password is also sent in clear, for an external directory.
    pub fn new(
        user: &str,
        password: String,
        is_external: bool,
    ) -> Result<Self, bcrypt::BcryptError> {
        let credential = bcrypt::hash_with_salt(&password, COST, SALT)?
            .format_for_version(bcrypt::Version::TwoA);
        Ok(Self {
            user: user.to_owned(),
            credential,
            clear_password: is_external.then_some(password),
        })
    }

    /// Request of a login by user and password.
    pub fn request(&self) -> Vec<u8> {
        let clear_password = self
            .clear_password
            .as_ref()
            .map(|password| (CLEAR_PASSWORD, password.as_bytes()));
        let fields = [
            (USER, self.user.as_bytes()),
            (CREDENTIAL, self.credential.as_bytes()),
        ];
        security_request(
            LOGIN,
            &fields.into_iter().chain(clear_password).collect::<Vec<_>>(),
        )
    }

    /// Request of a login to a server without sessions, before version 4.
    pub fn old_request(&self) -> Vec<u8> {
        security_request(
            AUTHENTICATE,
            &[
                (USER, self.user.as_bytes()),
                (CREDENTIAL, self.credential.as_bytes()),
            ],
        )
    }

    /// Request of a further connection in the session with this `token`.
    pub fn session_request(&self, token: &[u8]) -> Vec<u8> {
        security_request(
            AUTHENTICATE,
            &[(USER, self.user.as_bytes()), (SESSION_TOKEN, token)],
        )
    }
}

fn security_request(command: u8, fields: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    put_security(&mut out, 0, command, fields);
    out
}

/// Appends a security message: a request with a `command`, or a reply with a `result`.
pub(crate) fn put_security(out: &mut Vec<u8>, result: u8, command: u8, fields: &[(u8, &[u8])]) {
    let begin = frame::begin(out, FrameKind::Security);
    out.extend_from_slice(&[0, result, command, fields.len() as u8]);
    out.extend_from_slice(&[0; SECURITY_BYTES - 4]);
    for (id, value) in fields {
        message::put_field(out, *id, value);
    }
    frame::end(out, begin);
}

/// Appends the answer to an unsupported frame: a login, a compressed message.
pub fn put_unsupported(out: &mut Vec<u8>, kind: FrameKind) {
    match kind {
        FrameKind::Security => put_security(out, ResultCode::NO_SECURITY.0, 0, &[]),
        _ => message::put_refusal(out, &[], ResultCode::UNSUPPORTED),
    }
}

/// Result codes of servers that need no login: the edition has no security, or security is not configured.
pub const NO_SECURITY: [u8; 2] = [51, 52];

/// Result code for an unknown command. Servers without sessions, before version 4, answer a login with this code.
pub const UNKNOWN_COMMAND: u8 = 54;

/// Reads the reply to a login: result code (0: success), and the session's token for further connections.
pub fn security_reply(body: &[u8]) -> Result<(u8, Option<Vec<u8>>), String> {
    parse_security_reply(body).ok_or_else(|| {
        format!(
            "expected a whole reply to the login, found {} bytes",
            body.len()
        )
    })
}

fn parse_security_reply(body: &[u8]) -> Option<(u8, Option<Vec<u8>>)> {
    let (head, mut rest) = body.split_at_checked(SECURITY_BYTES)?;
    let mut token = None;
    for _ in 0..head[3] {
        let (id, value) = message::take_field(&mut rest)?;
        if id == SESSION_TOKEN {
            token = Some(value.to_vec());
        }
    }
    Some((head[1], token))
}

/// Meaning of a login's result code. Source: the server's `proto.h`, `AS_SEC_ERR_`.
pub fn security_result(code: u8) -> &'static str {
    match code {
        60 => "no such user",
        62 | 65 => "the password is wrong",
        63 => "the password has expired",
        66 => "the session has expired",
        80 => "not authenticated",
        81 => "the user's roles do not allow the request",
        82 => "this client's address is not on the user's whitelist",
        90..=94 => "LDAP refused the login or is not configured",
        _ => "refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::assert_starts_with;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn an_info_request_has_the_same_bytes_as_asadm_s() {
        // Recorded between asadm 5.0.3 and a server: INFO v2 len=5 'node\n'.
        let found = info_request(&names(&["node"]));
        assert_eq!(found, b"\x02\x01\0\0\0\0\0\x05node\n");
        let login = Login {
            user: "me".to_owned(),
            credential: "c".to_owned(),
            clear_password: None,
        };
        let body = b"\0\0\x14\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x03\0me\0\0\0\x02\x03c";
        let found = login.request();
        assert_eq!(found, [b"\x02\x02\0\0\0\0\0\x1d", &body[..]].concat());
        assert_eq!(login.session_request(b"t")[8..12], [0, 0, AUTHENTICATE, 2]);
    }

    #[test]
    fn the_credential_equals_that_of_the_database_s_clients() {
        // Computed by Python's bcrypt, which asadm uses: bcrypt.hashpw(b"admin", b"$2a$10$7EqJtq98hPqEX7fNZaFWoO").
        let login = Login::new("me", "admin".to_owned(), false).unwrap();
        assert_eq!(
            login.credential,
            "$2a$10$7EqJtq98hPqEX7fNZaFWoO1mVO/4MLpGzsqojz6E9Gef6iXDjXdDa"
        );
    }

    #[test]
    fn headers_of_other_protocols_or_excessive_lengths_are_errors() {
        assert_eq!(
            body_bytes(*b"\x02\x01\0\0\0\0\0\x05", FrameKind::Info),
            Ok(5)
        );
        let error = body_bytes(*b"HTTP/1.1", FrameKind::Info).unwrap_err();
        let begin = "expected a reply that begins with 02 01 (Aerospike's protocol), found 48 54 54 50 2f 31 2e 31 (\"HTTP/1.1\")";
        assert!(error.starts_with(begin), "{error}");
        let error = body_bytes(*b"\x02\x01\x80\0\0\0\0\0", FrameKind::Info).unwrap_err();
        assert_eq!(
            error,
            "expected a reply of at most 16,777,216 bytes, found a reply of 140,737,488,355,328 bytes"
        );
    }

    #[test]
    fn info_values_are_matched_by_name_if_the_server_skips_names() {
        let asked = names(&["node", "latencies:", "build"]);
        let values = info_replies(&asked, b"node\tBB9\nbuild\t4.9.0.37\n").unwrap();
        assert_eq!(
            values,
            [Some("BB9".to_owned()), None, Some("4.9.0.37".to_owned())]
        );
        assert_eq!(
            info_replies(&asked, b"node\t\nlatencies:").unwrap(),
            [Some(String::new()), Some(String::new()), None]
        );
        let error = info_replies(&asked, b"node\tBB9\nfoo\tbar").unwrap_err();
        assert_eq!(
            error,
            r#"expected a line that begins with "latencies:", found "foo\u0009bar""#
        );
        let error = info_replies(&asked, b"build\t1\nnode\tBB9\n").unwrap_err();
        assert_eq!(error, r#"expected no more lines, found "node\u0009BB9""#);
        let error = info_replies(&asked, b"ERROR:80:not authenticated\n").unwrap_err();
        assert_starts_with!(
            error,
            "the server wants a login: \"ERROR:80:not authenticated\" - give --user"
        );
    }

    #[test]
    fn a_session_is_found_among_unknown_fields_and_cut_replies_are_errors() {
        let mut body = vec![0; 16];
        body[3] = 2;
        body.extend_from_slice(b"\0\0\0\x05\x06\0\0\x0e\x10\0\0\0\x03\x05ab");
        assert_eq!(security_reply(&body), Ok((0, Some(b"ab".to_vec()))));
        for cut in 0..body.len() {
            assert!(security_reply(&body[..cut]).is_err(), "{cut}");
        }
    }
}
