//! Tests of the crate's public interface, as one program, because linking each program takes seconds.

#![allow(clippy::disallowed_methods, reason = "tests make files of their own")]

mod act_bad_input;
mod act_docs;
mod act_examples;
mod act_keys;
mod act_properties;
#[path = "../../results/tests/common/docs_page.rs"]
mod docs_page;
mod sizing_paper;
