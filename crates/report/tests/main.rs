//! What a report shows, by theme: one program, because each that is linked takes seconds.

mod browser;
mod rejudged;
mod schema;
mod support;
