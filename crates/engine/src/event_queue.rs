//! A queue of future events, sorted by key. A key is an instant, or begins with an instant.

/// Number of items at the end that [`EventQueue::push`] scans before it uses a binary search.
const NEAR: usize = 8;

/// Items sorted by key; items with equal keys in insertion order.
///
/// A sorted list, not a heap: few events are pending, and most insertions are near either end. In the worst case an
/// insertion into thousands of items moves some kilobytes.
#[derive(Debug, Clone)]
pub struct EventQueue<K, T> {
    /// The first `popped` items are already removed.
    items: Vec<(K, T)>,
    popped: usize,
}

impl<K: Ord + Copy, T: Copy> EventQueue<K, T> {
    /// An empty queue with room for `capacity` items; it grows if needed.
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            items: Vec::with_capacity(2 * capacity),
            popped: 0,
        }
    }

    /// Inserts an item, after items with the same key.
    #[inline]
    pub fn push(&mut self, key: K, item: T) {
        // Inserting at either end moves no other item.
        if self.popped > 0
            && self
                .items
                .get(self.popped)
                .is_some_and(|(first, _)| key < *first)
        {
            self.popped -= 1;
            self.items[self.popped] = (key, item);
            return;
        }
        if self.items.len() == self.items.capacity() && self.popped >= self.items.len() / 2 {
            self.items.drain(..self.popped);
            self.popped = 0;
        }
        let items = &self.items[self.popped..];
        let (far, near) = items.split_at(items.len().saturating_sub(NEAR));
        let at = match near.iter().rposition(|(other, _)| *other <= key) {
            Some(before) => far.len() + before + 1,
            None => far.partition_point(|(other, _)| *other <= key),
        };
        if at == items.len() {
            self.items.push((key, item));
        } else {
            self.items.insert(self.popped + at, (key, item));
        }
    }

    /// The item with the smallest key, without removing it.
    #[inline]
    pub fn first(&self) -> Option<(K, T)> {
        self.items.get(self.popped).copied()
    }

    /// Removes the item with the smallest key.
    #[inline]
    pub fn pop(&mut self) -> Option<(K, T)> {
        let first = self.first()?;
        self.popped += 1;
        if self.popped == self.items.len() {
            self.items.clear();
            self.popped = 0;
        }
        Some(first)
    }

    /// The item `n` places before the last.
    #[inline]
    pub fn from_last(&self, n: usize) -> Option<(K, T)> {
        self.items[self.popped..].iter().nth_back(n).copied()
    }

    /// All items in order.
    pub fn iter(&self) -> impl Iterator<Item = (K, T)> {
        self.items[self.popped..].iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_returned_by_key_and_items_with_equal_keys_in_insertion_order() {
        let mut state = 1_u64;
        for spread in [1, 5, 1_000] {
            let mut queue = EventQueue::with_capacity(0);
            let mut expected = Vec::new();
            for item in 0..300_u64 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let key = item / 50 + (state >> 33) % spread;
                queue.push(key, item);
                expected.push((key, item));
            }
            expected.sort_unstable();
            let found = queue.iter().collect::<Vec<_>>();
            assert_eq!(found, expected, "keys spread over {spread}");
            assert_eq!(queue.first(), expected.first().copied());
            assert_eq!(queue.from_last(0), expected.last().copied());
            assert_eq!(queue.from_last(299), expected.first().copied());
            assert_eq!(queue.from_last(300), None);
            let found = std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>();
            assert_eq!(found, expected);
        }
    }
}
