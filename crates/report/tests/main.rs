//! Tests of reports, by theme. They are one program, because linking each program takes seconds.

mod browser;
mod rejudged;
mod schema;
mod support;
