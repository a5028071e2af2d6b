//! Numbers of the server's starts in the headers of the devices, by which an older state of a device is recognised.
//!
//! A start writes its number to the first header of all devices, then to the second header of all devices, and only
//! then opens the stores. So if the second header of a device has number n, the first header of each device has n or a
//! greater number. A device with a smaller number has an older state: it was restored from a copy, for example. A crash
//! between the writes never causes such a difference. A start that did not write all headers changed no records, so the
//! next start may take the same number again.

/// Numbers in the two headers of a device; `None`: the copy is damaged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Starts {
    pub first: Option<u64>,
    pub second: Option<u64>,
}

impl Starts {
    pub fn both(number: u64) -> Self {
        Self {
            first: Some(number),
            second: Some(number),
        }
    }

    /// Number of the last start that may have written to the device.
    fn begun(self) -> u64 {
        self.first
            .or(self.second.map(|number| number.saturating_add(1)))
            .unwrap_or(0)
    }

    /// Number of the last start that certainly wrote to all devices.
    fn reached_all(self) -> u64 {
        self.second
            .or(self.first.map(|number| number.saturating_sub(1)))
            .unwrap_or(0)
    }

    /// The number of the next start, from the headers of all devices.
    pub fn next(devices: &[Self]) -> u64 {
        devices
            .iter()
            .map(|starts| starts.reached_all())
            .max()
            .unwrap_or(0)
            .saturating_add(1)
    }

    /// Index and number of a device with an older state, and of the device that proves it.
    pub fn older(devices: &[Self]) -> Option<[(usize, u64); 2]> {
        let older = devices
            .iter()
            .map(|starts| starts.begun())
            .enumerate()
            .min_by_key(|(_, number)| *number)?;
        let newest = devices
            .iter()
            .map(|starts| starts.reached_all())
            .enumerate()
            .max_by_key(|(_, number)| *number)?;
        (older.1 < newest.1).then_some([older, newest])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The states of the devices after each write of a start. The last state is that of a finished start.
    fn start(devices: &[Starts]) -> Vec<Vec<Starts>> {
        let number = Starts::next(devices);
        let mut states = vec![devices.to_vec()];
        for second in [false, true] {
            for device in 0..devices.len() {
                let mut next = states[states.len() - 1].clone();
                let header = if second {
                    &mut next[device].second
                } else {
                    &mut next[device].first
                };
                *header = Some(number);
                states.push(next);
            }
        }
        states
    }

    fn damaged(devices: &[Starts]) -> impl Iterator<Item = Vec<Starts>> {
        (0..2 * devices.len()).map(|copy| {
            let mut state = devices.to_vec();
            let starts = &mut state[copy / 2];
            *if copy % 2 == 0 {
                &mut starts.first
            } else {
                &mut starts.second
            } = None;
            state
        })
    }

    #[test]
    fn a_crashed_start_or_a_damaged_header_is_not_taken_for_an_older_device_state() {
        for count in 1..4 {
            let mut states = vec![vec![Starts::both(0); count]];
            // Each start may crash after each of its writes, and so may the starts after it.
            for _ in 0..3 {
                let next: Vec<_> = states.iter().flat_map(|state| start(state)).collect();
                for state in &next {
                    assert_eq!(Starts::older(state), None, "{state:?}");
                }
                states = next;
            }
            // A damaged header, and a crash of the start that restores it.
            let finished = vec![Starts::both(7); count];
            for state in start(&finished).iter().flat_map(|state| damaged(state)) {
                for after in start(&state) {
                    assert_eq!(Starts::older(&after), None, "{state:?}, then {after:?}");
                }
            }
        }
    }

    #[test]
    fn a_device_with_the_state_of_an_earlier_start_is_found() {
        for count in 2..4 {
            for old in 0..count {
                let mut devices = vec![Starts::both(7); count];
                devices[old] = Starts::both(6);
                let found = Starts::older(&devices).unwrap();
                assert_eq!((found[0], found[1].1), ((old, 6), 7));
                // The next start crashed somewhere, before the device was restored.
                for mut crashed in start(&vec![Starts::both(7); count]) {
                    crashed[old] = Starts::both(6);
                    assert_eq!(
                        Starts::older(&crashed).map(|[older, _]| older),
                        Some((old, 6)),
                        "{crashed:?}"
                    );
                }
                // After consent, the next start makes all numbers equal.
                assert_eq!(start(&devices).pop().unwrap(), vec![Starts::both(8); count]);
            }
        }
        assert_eq!(Starts::older(&[]), None);
        let forged = [Starts::both(u64::MAX); 2];
        assert_eq!(Starts::next(&forged), u64::MAX);
        assert_eq!(Starts::older(&forged), None);
    }
}
