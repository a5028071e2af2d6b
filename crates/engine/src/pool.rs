//! Engines that outlive a run: a run drops its engine at the end, but an engine lent by an [`EnginePool`] returns to
//! the pool, with its clock and the state of its drives.

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// Engines by number: the next run of a series continues with the same clock and drives.
pub struct EnginePool<E>(Mutex<Vec<Option<E>>>);

impl<E> fmt::Debug for EnginePool<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.engines().len()).finish()
    }
}

impl<E> Default for EnginePool<E> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<E> EnginePool<E> {
    /// Lends engine `index`; `open` creates the engine if the pool lacks it.
    pub fn lend(
        self: &Arc<Self>,
        index: usize,
        open: impl FnOnce() -> io::Result<E>,
    ) -> io::Result<Pooled<E>> {
        let existing = self.engines().get_mut(index).and_then(Option::take);
        Ok(Pooled {
            engine: Some(existing.map_or_else(open, Ok)?),
            index,
            pool: self.clone(),
        })
    }

    fn engines(&self) -> std::sync::MutexGuard<'_, Vec<Option<E>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `visit` with each engine that is not lent.
    pub fn each(&self, visit: impl FnMut(&mut E)) {
        self.engines().iter_mut().flatten().for_each(visit);
    }
}

/// A lent engine. Returns to its pool when dropped.
pub struct Pooled<E> {
    engine: Option<E>,
    index: usize,
    pool: Arc<EnginePool<E>>,
}

impl<E> Deref for Pooled<E> {
    type Target = E;

    fn deref(&self) -> &E {
        self.engine
            .as_ref()
            .expect("the engine is present until the drop")
    }
}

impl<E> DerefMut for Pooled<E> {
    fn deref_mut(&mut self) -> &mut E {
        self.engine
            .as_mut()
            .expect("the engine is present until the drop")
    }
}

impl<E> Drop for Pooled<E> {
    fn drop(&mut self) {
        let mut engines = self.pool.engines();
        if engines.len() <= self.index {
            engines.resize_with(self.index + 1, || None);
        }
        engines[self.index] = self.engine.take();
    }
}
