//! Percentiles by nearest rank.

/// The value below or at which `percent` (0 to 100) of `sorted` lies; absent if there are no values.
///
/// Nearest rank: the value at rank `ceil(percent / 100 * n)`, so always one that was measured.
pub fn percentile<T: Copy>(sorted: &[T], percent: u8) -> Option<T> {
    let rank = (usize::from(percent) * sorted.len()).div_ceil(100);
    sorted.get(rank.max(1) - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_is_rounded_up() {
        let values = [10, 20, 30, 40];
        let at = |percent| percentile(&values, percent);
        assert_eq!([at(0), at(50), at(51), at(99), at(100)], [10, 20, 30, 40, 40].map(Some));
        assert_eq!(percentile::<u8>(&[], 50), None);
    }
}
