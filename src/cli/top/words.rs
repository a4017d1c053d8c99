//! Numbers in few letters.

/// A count in at most five letters: 950, 1.2k, 34k, 1.2M.
pub(super) fn count(value: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.into_iter().find(|(size, _)| value >= size * 0.9995) {
        Some((size, unit)) if value < size * 9.95 => format!("{:.1}{unit}", value / size),
        Some((size, unit)) => format!("{:.0}{unit}", value / size),
        None => format!("{value:.0}"),
    }
}

/// A share, 0.0 ..= 1.0.
pub(super) fn percent(share: f32) -> String {
    format!("{:.0}%", share * 100.0)
}

/// How long ago: 80ms, 1.2s, 34s, 5m, 3h, 2d.
pub(super) fn age(seconds: f64) -> String {
    match seconds {
        under if under < 0.995 => format!("{:.0}ms", seconds * 1e3),
        under if under < 9.95 => format!("{seconds:.1}s"),
        under if under < 120.0 => format!("{seconds:.0}s"),
        under if under < 7_200.0 => format!("{:.0}m", (seconds / 60.0).floor()),
        under if under < 172_800.0 => format!("{:.0}h", (seconds / 3_600.0).floor()),
        _ => format!("{:.0}d", (seconds / 86_400.0).floor()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_never_look_larger_than_their_unit() {
        let counts = [0.0, 7.4, 999.0, 999.7, 1_234.0, 9_960.0, 34_500.0, 1_250_000.0, 2e9];
        assert_eq!(
            counts.map(count),
            ["0", "7", "999", "1.0k", "1.2k", "10k", "34k", "1.2M", "2.0G"]
        );
        let ages = [0.0, 0.08, 1.23, 34.0, 300.0, 10_800.0, 200_000.0];
        assert_eq!(ages.map(age), ["0ms", "80ms", "1.2s", "34s", "5m", "3h", "2d"]);
    }
}
