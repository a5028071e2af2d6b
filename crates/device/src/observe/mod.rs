//! diskstats, block tracepoints, host facts.
