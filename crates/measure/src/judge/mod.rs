//! Slices, shares over thresholds, the verdict.
