//! Threads that work on several objects in parallel.

use std::panic::resume_unwind;
use std::thread;

/// Does `work` on all `items` at the same time, each on its own thread, so that a slow item does not delay the others.
/// The results are in the order of the items. A panic on one of these threads continues on the calling thread.
pub fn in_parallel<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = items
            .into_iter()
            .map(|item| scope.spawn(move || work(item)))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}
