//! Tests of reports, by theme. They are one program, because linking each program takes seconds.

#![allow(clippy::disallowed_methods, reason = "tests make files of their own")]

mod browser;
#[path = "../../results/tests/common/docs_page.rs"]
mod docs_page;
mod rejudged;
mod schema;
mod support;
