//! Thread and process facts and settings.
