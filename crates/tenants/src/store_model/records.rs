//! The store record by record, for keys of any distribution: the place of each record, and the contents of each block.
//!
//! The store is exact: a reference for the approximate stores, and the store for sequential keys. The memory is 4 bytes
//! for each record and 4 bytes for each place in a block.

use super::steady::StoreGeometry;
use super::uniform::age;
use load::keys::KeyGenerator;
use std::collections::VecDeque;
use sys::random::Random;

/// Maximum memory for the records of a tenant, bytes.
pub(super) const MEMORY_MAX: u64 = 1 << 30;

#[derive(Debug, Clone)]
pub(super) struct ExactStore {
    draw: KeyGenerator,
    random: Random,
    records_per_block: u32,
    mark: u32,
    /// The place of each key's record: block times records per block, plus the position.
    places: Box<[u32]>,
    /// The key written at each place. The record there is live if `places` has the same place for the key.
    keys: Box<[u32]>,
    live: Box<[u32]>,
    /// Blocks below the mark, to be collected.
    due_blocks: VecDeque<u32>,
    /// Places whose records defragmentation will write.
    moving: VecDeque<u32>,
}

impl ExactStore {
    pub(super) fn memory_bytes(steady: &StoreGeometry) -> u64 {
        4 * (steady.records + steady.blocks + steady.blocks * u64::from(steady.records_per_block))
    }

    /// Takes blocks from `blocks` and fills them: with `spread`, blocks of every age, else full blocks.
    pub(super) fn new(
        steady: &StoreGeometry,
        draw: KeyGenerator,
        spread: bool,
        blocks: &mut Vec<u32>,
        mut random: Random,
    ) -> Self {
        let places = steady.blocks * u64::from(steady.records_per_block);
        debug_assert!(Self::memory_bytes(steady) <= MEMORY_MAX && places < u64::from(u32::MAX));
        let count = steady.records as u32;
        let mut order: Vec<u32> = (0..count).collect();
        if !draw.is_sequential() {
            shuffle(&mut order, &mut random);
        }
        let mut store = Self {
            draw,
            records_per_block: steady.records_per_block,
            mark: steady.mark,
            places: vec![0; count as usize].into(),
            keys: vec![0; places as usize].into(),
            live: vec![0; steady.blocks as usize].into(),
            due_blocks: VecDeque::new(),
            moving: VecDeque::new(),
            random,
        };
        let mut keys_left = &order[..];
        while !keys_left.is_empty()
            && let Some(block) = blocks.pop()
        {
            let live_max = if spread {
                age(&mut store.random, store.mark, store.records_per_block)
            } else {
                store.records_per_block
            };
            let (block_keys, other_keys) =
                keys_left.split_at((live_max as usize).min(keys_left.len()));
            let first_place = block * store.records_per_block;
            // A place whose record was overwritten gets a key whose live record is at another place.
            let own_then_gone = block_keys
                .iter()
                .chain(std::iter::repeat(&block_keys[0]))
                .take(store.records_per_block as usize);
            store.keys[first_place as usize..]
                .iter_mut()
                .zip(own_then_gone)
                .for_each(|(place, key)| *place = *key);
            (first_place..)
                .zip(block_keys)
                .for_each(|(place, key)| store.places[*key as usize] = place);
            store.live[block as usize] = block_keys.len() as u32;
            if store.live[block as usize] < store.mark {
                store.due_blocks.push_back(block);
            }
            keys_left = other_keys;
        }
        store
    }

    pub(super) fn clients(&mut self, block: u32) {
        self.live[block as usize] = 0;
        let first_place = block * self.records_per_block;
        for place in first_place..first_place + self.records_per_block {
            let key = self.draw.next(&mut self.random);
            let old_block =
                std::mem::replace(&mut self.places[key as usize], place) / self.records_per_block;
            self.keys[place as usize] = key;
            self.live[block as usize] += 1;
            self.live[old_block as usize] -= 1;
            if old_block != block && self.live[old_block as usize] + 1 == self.mark {
                self.due_blocks.push_back(old_block);
            }
        }
        self.check(block);
    }

    /// Writes waiting records to `block`, as many as fit; records updated meanwhile become dead copies.
    pub(super) fn write(&mut self, block: u32) {
        self.live[block as usize] = 0;
        let first_place = block * self.records_per_block;
        for place in first_place..first_place + self.records_per_block {
            let Some(source) = self.moving.pop_front() else {
                break;
            };
            let key = self.keys[source as usize];
            self.keys[place as usize] = key;
            if self.places[key as usize] == source {
                self.places[key as usize] = place;
                self.live[block as usize] += 1;
                self.live[(source / self.records_per_block) as usize] -= 1;
            }
        }
        self.check(block);
    }

    fn check(&mut self, block: u32) {
        if self.live[block as usize] < self.mark {
            self.due_blocks.push_back(block);
        }
    }

    /// The next block below the mark, and the number of its live records, which wait to be written from now on.
    pub(super) fn collect(&mut self) -> Option<(u32, u32)> {
        let block = self.due_blocks.pop_front()?;
        let first_place = block * self.records_per_block;
        let is_live = |place: &u32| self.places[self.keys[*place as usize] as usize] == *place;
        let count_before = self.moving.len();
        self.moving
            .extend((first_place..first_place + self.records_per_block).filter(is_live));
        Some((block, (self.moving.len() - count_before) as u32))
    }

    /// Number of live records. Asserts that each record is at the place of its key.
    #[cfg(test)]
    pub(super) fn live_records(&self) -> u64 {
        assert!(
            (0..)
                .zip(&self.places)
                .all(|(key, place)| self.keys[*place as usize] == key)
        );
        self.live.iter().map(|live| u64::from(*live)).sum()
    }
}

pub(super) fn shuffle(items: &mut [u32], random: &mut Random) {
    for last in (1..items.len()).rev() {
        items.swap(last, random.below(last as u64 + 1) as usize);
    }
}
