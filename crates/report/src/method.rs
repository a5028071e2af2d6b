//! Method of a report's numbers and their limits: the same words in every output format.

use crate::words::Paragraph;
use results::run_dir::Manifest;
use results::units;

/// The explanations for a run, in the order in which a doubt would come up.
pub(crate) fn parts(manifest: &Manifest) -> Vec<Paragraph> {
    let part = |title: &str, text: String| Paragraph { title: title.to_owned(), text };
    let slice = units::span(manifest.slice_sec);
    let interval = units::span(manifest.report_interval_sec);
    let mut parts = vec![
        part(
            "The times of an operation",
            "An operation is intended at an instant of the schedule, eligible once a slot under the limit of operations \
             in flight is free, issued when it is handed over, and completed when its completion is seen. Wait = eligible \
             - intended (the device's doing, or the configured limit's); lag = issued - eligible (this program's own); \
             service = completed - issued (ACT's number); judged = wait + service; response = wait + lag + service."
                .into(),
        ),
        part(
            "The verdict",
            format!(
                "The run is cut into slices of {slice}. In each, the share of judged operations whose wait and service \
                 together took a threshold or longer is formed, for every device and for all of them together, and \
                 compared as whole numbers with the limits ({}). The worst complete slice decides. An operation that \
                 failed or never came back is over every threshold. Invalid means that this program's own lateness, or \
                 completions seen late, could decide it.",
                manifest.sla
            ),
        ),
        part(
            "What was counted exactly, and what was not",
            format!(
                "Shares are exact counts. Percentiles come from histograms with steps of 1 % for service and 6 % for wait \
                 and lag, nothing finer than a microsecond. Tables were written every {interval}, and were reduced for \
                 the charts; each chart says what a point of it is. The verdict shown was computed again from the \
                 recorded counts when this report was made."
            ),
        ),
        part(
            "What this does not say",
            "The load is a model of a database's device I/O: fixed rates, random places, a record cache that never helps. \
             It is no measurement of your database. It holds for this drive, this firmware, this fill, this host and \
             this length of time: drives fall off after hours, and another one of the same model may differ."
                .into(),
        ),
        part(
            "Screening and certification",
            "Certified means a full day of the load on a real device. Anything shorter, and anything simulated, is a \
             screening: it finds drives that fail, and certifies none."
                .into(),
        ),
    ];
    if manifest.simulated {
        parts.push(part(
            "Simulated drives",
            "This run's drives are a queueing model on virtual time. Its numbers show how this program measures and \
             judges; they say nothing about a real drive."
                .into(),
        ));
    }
    parts
}
