//! ACT's configuration dialect.
