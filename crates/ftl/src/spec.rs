//! Parameters of the FTL of a drive.

#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Spec {
    /// Bytes that the host sees (U).
    pub logical_bytes: u64,
    /// Bytes of a mapping unit, the smallest amount that is written or moved: 4 KiB to 64 KiB.
    pub unit_bytes: u32,
    /// Over-provisioning, (T - U) / U, where T is all flash. Above 0. See [`crate::over_provisioning`].
    pub over_provisioning: f64,
    /// Bytes of a superblock (NVMe: a reclaim unit), which is erased as a whole.
    pub superblock_bytes: u64,
    pub victim: Victim,
    pub append: Append,
    /// Number of reclaim unit handles, at least 1. A write without a handle uses the first handle.
    pub handles: u16,
    /// Isolation of the handles' data by garbage collection.
    pub isolation: Isolation,
    /// Superblocks that are kept free for garbage collection, at least 1.
    pub reserve_superblocks: u32,
    /// Wear levelling: maximum difference in erases between two superblocks; `None`: no wear levelling.
    pub wear_gap: Option<u32>,
}

impl Spec {
    /// A drive of `logical_bytes` with 7 % over-provisioning, 4 KiB units, one handle, greedy garbage collection with
    /// its own append point, and superblocks of about a thousandth of the drive.
    pub fn with_logical_bytes(logical_bytes: u64) -> Self {
        let unit_bytes = 4096;
        Self {
            logical_bytes,
            unit_bytes,
            over_provisioning: 0.07,
            superblock_bytes: (logical_bytes / 1024)
                .next_power_of_two()
                .max(64 * u64::from(unit_bytes)),
            victim: Victim::Greedy,
            append: Append::Separate,
            handles: 1,
            isolation: Isolation::Persistently,
            reserve_superblocks: 1,
            wear_gap: None,
        }
    }

    /// Number of superblocks: (1 + over-provisioning) x the logical bytes, rounded to the nearest superblock.
    pub fn superblocks(&self) -> u64 {
        (self.logical_bytes as f64 * (1.0 + self.over_provisioning) / self.superblock_bytes as f64)
            .round() as u64
    }

    /// Memory that the simulation of the drive needs: about 8 bytes per unit.
    pub fn memory_bytes(&self) -> u64 {
        let units = self.logical_bytes / u64::from(self.unit_bytes);
        let superblocks = self.superblocks() + 1;
        // 4 bytes per host unit and per flash unit; per superblock the counts, ages, owners and others.
        4 * units + superblocks * (4 * self.superblock_bytes / u64::from(self.unit_bytes) + 64)
    }

    /// Maximum number of superblocks that garbage collection has open.
    pub(crate) fn collection_points(&self) -> u64 {
        match self.append {
            Append::Shared => 0,
            Append::Separate => 1,
            Append::PerHandle => u64::from(self.handles),
        }
    }

    /// Checks the parameters, and that garbage collection always finds space.
    pub fn check(&self) -> Result<(), SpecError> {
        match self.mistake() {
            Some(what) => Err(SpecError(what)),
            None => Ok(()),
        }
    }

    fn mistake(&self) -> Option<String> {
        let &Self {
            logical_bytes,
            over_provisioning,
            superblock_bytes,
            handles,
            ..
        } = self;
        if !(over_provisioning > 0.0 && over_provisioning <= OVER_PROVISIONING_MAX) {
            return Some(format!(
                "over-provisioning of {over_provisioning}: garbage collection needs flash that the host does not see; \
                 over-provisioning is (T - U) / U, where T is all flash and U the logical size - give a value above 0, \
                 such as 0.07 or 0.28, at most {OVER_PROVISIONING_MAX}"
            ));
        }
        let unit = u64::from(self.unit_bytes);
        if !unit.is_power_of_two() || !(4 << 10..=64 << 10).contains(&unit) {
            return Some(format!(
                "a mapping unit of {unit} bytes - give a power of two from 4096 to 65536"
            ));
        }
        if superblock_bytes < 2 * unit || !superblock_bytes.is_multiple_of(unit) {
            return Some(format!(
                "a superblock of {superblock_bytes} bytes with mapping units of {unit} - give a multiple of the unit, \
                 two or more"
            ));
        }
        if logical_bytes == 0 || !logical_bytes.is_multiple_of(unit) {
            return Some(format!(
                "a logical size of {logical_bytes} bytes with mapping units of {unit} - give a multiple of the unit, \
                 one or more"
            ));
        }
        if handles == 0 {
            return Some(
                "a drive with no reclaim unit handle - give at least 1, for writes that name no handle".to_owned(),
            );
        }
        if self.victim == Victim::Choices(0) {
            return Some(
                "a victim chosen among 0 superblocks - give at least 1, such as 10".to_owned(),
            );
        }
        if handles > 1
            && self.append == Append::Separate
            && self.isolation == Isolation::Persistently
        {
            return Some(format!(
                "one append point for all of {handles} handles mixes the data of persistently isolated handles during garbage \
                 collection - give each handle its own append point, or make the handles initially isolated"
            ));
        }
        // Superblock 0 is not part of the drive, see `UnitMap`.
        let units = u128::from(self.superblocks() + 1) * u128::from(superblock_bytes / unit);
        if units >= UNITS_MAX {
            return Some(format!(
                "{units} mapping units of {unit} bytes, but fewer than 2^32 are supported - give a larger unit or a \
                 smaller drive"
            ));
        }
        // If only the reserve is free and all append points are full, there must be a superblock with an invalid unit.
        let data = logical_bytes / superblock_bytes + 1;
        let reserve = u64::from(self.reserve_superblocks);
        let host_points = u64::from(handles);
        let collection_points = self.collection_points();
        if reserve == 0 {
            return Some(
                "no superblocks in reserve: garbage collection needs a free superblock to begin - give at least 1"
                    .to_owned(),
            );
        }
        let needed = data + reserve + host_points + collection_points;
        let superblocks = self.superblocks();
        (superblocks < needed).then(|| {
            format!(
                "{needed} superblocks of {superblock_bytes} bytes are needed ({data} for data, {reserve} in reserve, \
                 {host_points} for host writes, {collection_points} for garbage collection), but over-provisioning of \
                 {over_provisioning} gives only {superblocks} - give more over-provisioning, smaller superblocks, or \
                 fewer handles"
            )
        })
    }
}

/// Maximum over-provisioning: no real drive has more.
const OVER_PROVISIONING_MAX: f64 = 100.0;

/// The number of flash units must be below this bound, because their indices have 32 bits.
const UNITS_MAX: u128 = 1 << 32;

/// Reason why a spec is invalid: a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpecError(String);

/// Policy that chooses the next superblock to collect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum Victim {
    /// Superblock with the fewest valid units.
    Greedy,
    /// Superblock that became full first.
    Fifo,
    /// Superblock with the greatest (1 - u) / 2u x age; u is its share of valid units (Rosenblum, Ousterhout 1992).
    CostBenefit,
    /// d-choices: draws this many superblocks at random, and takes the one with the fewest valid units (Van Houdt
    /// 2013). If all are fully valid, the draw is repeated.
    Choices(u32),
}

/// Append point of garbage collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum Append {
    /// Same append point as host writes.
    Shared,
    /// Separate superblocks, shared by all handles.
    Separate,
    PerHandle,
}

/// NVMe's reclaim unit handle types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub enum Isolation {
    /// Initially isolated: garbage collection may mix data of different handles.
    Initially,
    /// Persistently isolated: garbage collection never mixes data of different handles.
    Persistently,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Spec)) -> String {
        let mut spec = Spec::with_logical_bytes(1 << 30);
        change(&mut spec);
        spec.check().unwrap_err().to_string()
    }

    #[test]
    fn drives_of_all_usual_sizes_are_valid() {
        for logical_bytes in [
            1 << 26,
            1 << 30,
            64 << 30,
            1_920_383_410_176,
            7_681_501_126_656,
        ] {
            let found = Spec::with_logical_bytes(logical_bytes).check();
            assert_eq!(found, Ok(()), "{logical_bytes}");
        }
    }

    #[test]
    fn an_impossible_spec_is_refused_with_its_numbers() {
        for value in [0.0, -0.07, f64::NAN, f64::INFINITY, 101.0] {
            assert!(
                refused(|spec| spec.over_provisioning = value)
                    .contains(&format!("over-provisioning of {value}: "))
            );
        }
        for unit in [0, 512, 5000, 128 << 10] {
            assert!(
                refused(|spec| spec.unit_bytes = unit)
                    .contains(&format!("a mapping unit of {unit} bytes - "))
            );
        }
        for superblock in [0, 2048, 4096, 10_000] {
            let message = refused(|spec| spec.superblock_bytes = superblock);
            assert!(message.contains(&format!(
                "a superblock of {superblock} bytes with mapping units of 4096 - "
            )));
        }
        for logical in [0, 1, (1 << 30) + 512] {
            assert!(
                refused(|spec| spec.logical_bytes = logical)
                    .contains(&format!("a logical size of {logical} bytes"))
            );
        }
        assert!(refused(|spec| spec.handles = 0).contains("no reclaim unit handle"));
        assert!(refused(|spec| spec.victim = Victim::Choices(0)).contains("among 0"));
        assert!(refused(|spec| spec.handles = 2).contains("one append point for all of 2 handles"));
        assert!(refused(|spec| spec.logical_bytes = 1 << 50).contains("fewer than 2^32"));
        assert!(refused(|spec| spec.logical_bytes = u64::MAX - 4095).contains("fewer than 2^32"));
    }

    #[test]
    fn a_drive_with_2_to_the_32_mapping_units_or_more_is_refused() {
        // 2^20 superblocks of 2^12 units, including superblock 0, which is not part of the drive.
        let superblock_bytes = 4096 << 12;
        let of = |superblocks: u64| Spec {
            superblock_bytes,
            ..Spec::with_logical_bytes(superblocks * superblock_bytes / 107 * 100 / 4096 * 4096)
        };
        assert_eq!((1 << 20) - 1, of((1 << 20) - 1).superblocks());
        assert_eq!((1 << 20) - 2, of((1 << 20) - 2).superblocks());
        let error = of((1 << 20) - 1).check().unwrap_err().to_string();
        assert!(
            error.starts_with("4294967296 mapping units of 4096 bytes, but fewer than 2^32"),
            "{error}"
        );
        assert_eq!(of((1 << 20) - 2).check(), Ok(()));
        assert_eq!(of((1 << 20) - 2).memory_bytes() / 1_000_000_000, 33);
    }

    #[test]
    fn too_few_superblocks_are_refused_with_the_arithmetic() {
        let message = refused(|spec| {
            (spec.handles, spec.append, spec.superblock_bytes) = (8, Append::PerHandle, 16 << 20);
        });
        assert_eq!(
            message,
            "82 superblocks of 16777216 bytes are needed (65 for data, 1 in reserve, 8 for host writes, 8 for garbage \
             collection), but over-provisioning of 0.07 gives only 68 - give more over-provisioning, smaller \
             superblocks, or fewer handles"
        );
        assert!(refused(|spec| spec.reserve_superblocks = 0).contains("no superblocks in reserve"));
        assert!(
            refused(|spec| spec.reserve_superblocks = u32::MAX).contains(", 4294967295 in reserve")
        );
    }
}
