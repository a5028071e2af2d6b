//! A queue of future events, sorted by key. Keys are instants or begin with one.

use std::collections::VecDeque;

/// Number of last items that [`EventQueue::push`] scans before it falls back to a binary search.
const NEAR: usize = 8;

/// Items sorted by key; items with equal keys in insertion order.
///
/// A sorted ring, not a heap: few events are pending, and most new ones go near either end, which costs less than
/// sifting a heap. In the worst case, in the middle of thousands, half of the items move: a copy of some kilobytes.
#[derive(Debug, Clone)]
pub struct EventQueue<K, T> {
    items: VecDeque<(K, T)>,
}

impl<K: Ord + Copy, T: Copy> EventQueue<K, T> {
    /// An empty queue with room for `capacity` items; it grows if needed.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { items: VecDeque::with_capacity(capacity) }
    }

    /// Inserts an item, after items with the same key.
    #[inline]
    pub fn push(&mut self, key: K, item: T) {
        let near = self.items.len().saturating_sub(NEAR);
        let mut at = self.items.len();
        while at > near && self.items[at - 1].0 > key {
            at -= 1;
        }
        if at == near && near > 0 {
            at = self.items.partition_point(|(other, _)| *other <= key);
        }
        // Either end needs no other item to move.
        match at {
            _ if at == self.items.len() => self.items.push_back((key, item)),
            0 => self.items.push_front((key, item)),
            _ => self.items.insert(at, (key, item)),
        }
    }

    /// The item with the smallest key, without removing it.
    #[inline]
    pub fn first(&self) -> Option<(K, T)> {
        self.items.front().copied()
    }

    /// Removes the item with the smallest key.
    #[inline]
    pub fn pop(&mut self) -> Option<(K, T)> {
        self.items.pop_front()
    }

    /// The item `n` places before the last.
    #[inline]
    pub fn from_last(&self, n: usize) -> Option<(K, T)> {
        let at = self.items.len().checked_sub(n + 1)?;
        Some(self.items[at])
    }

    /// All items in order.
    pub fn iter(&self) -> impl Iterator<Item = (K, T)> {
        self.items.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_in_the_order_of_their_keys_and_equal_ones_as_they_were_put_in() {
        let mut state = 1_u64;
        for spread in [1, 5, 1_000] {
            let (mut queue, mut wanted) = (EventQueue::with_capacity(0), Vec::new());
            for item in 0..300_u64 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let key = item / 50 + (state >> 33) % spread;
                queue.push(key, item);
                wanted.push((key, item));
            }
            wanted.sort_unstable();
            assert_eq!(queue.iter().collect::<Vec<_>>(), wanted, "keys spread over {spread}");
            assert_eq!((queue.first(), queue.from_last(0)), (wanted.first().copied(), wanted.last().copied()));
            assert_eq!((queue.from_last(299), queue.from_last(300)), (wanted.first().copied(), None));
            assert_eq!(std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>(), wanted);
        }
    }
}
