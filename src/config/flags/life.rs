//! Flags of the life of endpoints.

use std::time::Duration;

use clap::Args;

use super::duration;

/// The life of endpoints.
#[derive(Args, Clone, Copy, Debug)]
pub struct Life {
    /// An endpoint that gave no token for so long is asked for one; 0 asks only where something speaks against it.
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    pub probe_interval: Duration,
    /// Ask endpoints for a token to see whether one comes out.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_value_t = true,
          hide_default_value = true, default_missing_value = "true", action = clap::ArgAction::Set, value_parser = super::boolean)]
    pub probe: bool,
    /// How long at most a new endpoint gets no more prompts at a time than it can show for: four, and one more for each that
    /// it computed; 0 gives it its whole share at once.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    pub warm_up: Duration,
    /// Largest share of the pool that is in quarantine at once for what is inferred, 0 to 1; refused connections and errors
    /// in a row have no limit.
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, value_parser = share)]
    pub max_quarantined: f32,
}

fn share(text: &str) -> Result<f32, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is no share, give 0 to 1 such as 0.5"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_between_nothing_and_all() {
        let shares = ["0", "0.25", "1"].map(|text| share(text).unwrap().to_string());
        assert_eq!(shares, ["0", "0.25", "1"]);
        for text in ["-0.1", "1.1", "NaN", "half", ""] {
            assert!(share(text).unwrap_err().contains("give 0 to 1"), "{text}");
        }
    }
}
