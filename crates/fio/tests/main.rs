//! Tests of the crate's public interface, by theme. They are one program, because linking each program takes seconds.

#![allow(clippy::disallowed_methods, reason = "tests make files of their own")]

#[path = "../../results/tests/common/docs_page.rs"]
mod docs_page;
mod fio;
