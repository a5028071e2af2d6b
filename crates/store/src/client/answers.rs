//! Answers: replies that arrive, and requests whose reply is lost or late; which of them end a transaction, and which are
//! sent to another node.

use super::Client;
use super::connection::{Awaited, Key};
use super::replies::{take_entry, take_reply};
use super::routes::{Replica, Request, Waiting};
use crate::issuer::{Answer, Seen};
use crate::wire::frame::Malformed;
use crate::{Digest, ResultCode, Work};
use sys::op::Outcome;

impl Client {
    /// Takes received bytes; returns an error number if they violate the protocol.
    pub(super) fn arrived(&mut self, slot: usize, bytes: &[u8], seen: Seen) -> Option<i32> {
        if self.connections[slot].is_ending {
            return None;
        }
        let Ok(bytes) = self.connections[slot].received(bytes) else { return Some(libc::EPROTO) };
        if self.connections[slot].has_unsent() {
            self.list(slot);
        }
        if self.connections[slot].arrived.is_empty() {
            let (rest, errno) = self.replies(slot, &bytes, seen);
            self.connections[slot].arrived.extend_from_slice(rest);
            return errno;
        }
        let mut all = std::mem::take(&mut self.connections[slot].arrived);
        all.extend_from_slice(&bytes);
        let (rest, errno) = self.replies(slot, &all, seen);
        let taken = all.len() - rest.len();
        all.drain(..taken);
        self.connections[slot].arrived = all;
        errno
    }

    /// Ends the transactions whose replies are in `bytes`; returns the rest.
    fn replies<'a>(&mut self, slot: usize, mut bytes: &'a [u8], seen: Seen) -> (&'a [u8], Option<i32>) {
        loop {
            match take_reply(&mut bytes).and_then(|body| body.map(|body| self.reply(slot, body, seen)).transpose()) {
                Ok(Some(())) => {}
                Ok(None) => break,
                Err(_) => return (bytes, Some(libc::EPROTO)),
            }
        }
        self.free(slot);
        (bytes, None)
    }

    /// Takes a reply to the first request of a connection.
    ///
    /// Errors: it is none.
    fn reply(&mut self, slot: usize, mut body: &[u8], seen: Seen) -> Result<(), Malformed> {
        loop {
            let entry = take_entry(&mut body)?;
            let answer = Answer::of(ResultCode(entry.code), entry.bins);
            let awaited = self.connections[slot].awaited.front_mut();
            let Awaited { token, tries, part } = awaited.ok_or(Malformed::Body("replies without a request"))?;
            let (token, tries) = (*token, *tries);
            let Some(part) = part else {
                self.connections[slot].awaited.pop_front();
                if let Some(token) = token
                    && !(self.is_elsewhere(answer.outcome) && self.retry_read(token, tries))
                {
                    self.finish(token, answer, seen);
                }
                return Ok(());
            };
            let keys = part.answered(&entry)?;
            if entry.is_last {
                self.connections[slot].awaited.pop_front();
            }
            if let Some(token) = token {
                keys.into_iter().for_each(|key| self.record(token, key, tries, answer, seen));
            }
            if entry.is_last || body.is_empty() {
                return Ok(());
            }
        }
    }

    /// Sends a read to another node with a copy of its record; `false`: there is none, or it is not a read.
    pub(super) fn retry_read(&mut self, token: u32, tries: usize) -> bool {
        let read = self.issuer.transaction(token).filter(|transaction| matches!(transaction.work, Work::ReadAll));
        read.is_some_and(|read| self.retry(token, tries, read.digest, Request::One(read)))
    }

    fn retry(&mut self, token: u32, tries: usize, digest: Digest, request: Request) -> bool {
        let tries = tries + 1;
        let may = self.settings.replica != Replica::Master && tries < self.map.owners(&digest).count();
        if may {
            let number = self.out[token as usize].number;
            self.route(Waiting { token, number, tries, request });
        }
        may
    }

    /// Takes the answer about one record of a batch.
    pub(super) fn record(&mut self, token: u32, key: Key, tries: usize, answer: Answer<'_>, seen: Seen) {
        let is_lost = !matches!(answer.outcome, Outcome::Done | Outcome::Result(_));
        let request = Request::Batch(vec![key]);
        if (is_lost || self.is_elsewhere(answer.outcome)) && self.retry(token, tries, key.1, request) {
            return;
        }
        self.issuer.answer(token, key.0, answer);
        let left = &mut self.out[token as usize].left;
        *left -= 1;
        if *left == 0 {
            self.finish(token, Answer::of(ResultCode::OK, &[]), seen);
        }
    }

    /// True if the node has no copy of the record; then the nodes are queried again.
    fn is_elsewhere(&self, outcome: Outcome) -> bool {
        let is_elsewhere = outcome == Outcome::Result(ResultCode::UNAVAILABLE.0);
        if is_elsewhere {
            self.settings.cluster.ask_now();
        }
        is_elsewhere
    }

    /// Ends expired transactions.
    pub(super) fn expire(&mut self, now_ns: u64) {
        while let Some((until_ns, token, number)) = self.deadlines.front().copied() {
            let present = self.out[token as usize].number;
            if present == number && until_ns > now_ns {
                return;
            }
            self.deadlines.pop_front();
            if present != number {
                continue;
            }
            let seen = Seen { at_ns: now_ns, unseen_ns: 0 };
            let slots = std::mem::take(&mut self.out[token as usize].slots);
            if slots.is_empty() {
                // The request was never sent: that is certain. The node's error, if any, gives the reason.
                let refused = self.nodes.iter().filter(|node| !node.waiting.is_empty()).find_map(|node| node.errno);
                self.finish(token, Answer::lost(refused.unwrap_or(libc::ETIMEDOUT), false), seen);
                continue;
            }
            let mut useless = Vec::new();
            for slot in slots {
                let awaited = &mut self.connections[slot].awaited;
                let of_token = awaited.iter_mut().filter(|one| one.token == Some(token));
                let is_out = of_token.map(|one| one.token = None).count() > 0;
                if is_out && awaited.iter().all(|one| one.token.is_none()) {
                    useless.push(slot);
                }
            }
            self.finish(token, Answer::lost(libc::ETIMEDOUT, true), seen);
            useless.into_iter().for_each(|slot| self.end(slot, libc::ETIMEDOUT));
        }
    }
}
