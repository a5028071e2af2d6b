//! Things with a number that is used again.

/// A slab: values addressed by reusable integer keys.
#[derive(Debug)]
pub(super) struct Slab<T> {
    things: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(super) const fn new() -> Self {
        Self { things: Vec::new(), free: Vec::new() }
    }

    /// Stores a value under the number that was freed last.
    pub(super) fn insert(&mut self, thing: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.things[number as usize] = Some(thing);
                number
            }
            None => {
                self.things.push(Some(thing));
                self.things.len() as u32 - 1
            }
        }
    }

    pub(super) fn get(&mut self, number: u32) -> Option<&mut T> {
        self.things.get_mut(number as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<T> {
        let thing = self.things.get_mut(number as usize)?.take();
        if thing.is_some() {
            self.free.push(number);
        }
        thing
    }

    pub(super) fn len(&self) -> usize {
        self.things.len() - self.free.len()
    }

    /// All there are, with their numbers.
    pub(super) fn iter(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        (0..).zip(&mut self.things).filter_map(|(number, thing)| Some((number, thing.as_mut()?)))
    }
}
