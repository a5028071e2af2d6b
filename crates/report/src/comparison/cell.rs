//! A value that can be missing, and then says why: what could not be compared is never filled in.

use serde::Serialize;

/// A value, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell<T> {
    Value(T),
    /// No value.
    Missing {
        /// The reason, a phrase.
        why_not: String,
    },
}

impl<T> Cell<T> {
    /// No value, because of `why_not`.
    pub fn missing(why_not: impl Into<String>) -> Self {
        Self::Missing { why_not: why_not.into() }
    }

    /// The value; missing because of `why_not` where there is none.
    pub fn or_missing(value: Option<T>, why_not: impl Into<String>) -> Self {
        value.map_or_else(|| Self::missing(why_not), Self::Value)
    }

    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Missing { .. } => None,
        }
    }

    /// Another value made of this one; missing for the same reason.
    pub fn map<U>(&self, of: impl FnOnce(&T) -> U) -> Cell<U> {
        self.and_then(|value| Cell::Value(of(value)))
    }

    /// Another cell made of this value; missing for the same reason.
    pub fn and_then<U>(&self, of: impl FnOnce(&T) -> Cell<U>) -> Cell<U> {
        match self {
            Self::Value(value) => of(value),
            Self::Missing { why_not } => Cell::missing(why_not.clone()),
        }
    }
}
