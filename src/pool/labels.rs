//! What Kubernetes takes for a label.

/// The longest part of a label: its name, or its value.
const LONGEST_PART: usize = 63;

/// The longest prefix of a label's key, which is a DNS name.
const LONGEST_PREFIX: usize = 253;

/// Whether a label can have this key: a name, or a DNS name, a slash and a name.
pub fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_prefix(prefix) && is_part(name),
        None => is_part(key),
    }
}

/// Whether a label can have this value: nothing, or what can be a name.
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_part(value)
}

fn is_prefix(prefix: &str) -> bool {
    let of_dns = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let is_label = |label: &str| {
        !label.is_empty()
            && label.chars().all(of_dns)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    prefix.len() <= LONGEST_PREFIX && prefix.split('.').all(is_label)
}

/// Letters and digits, within them also `-`, `_` and `.`.
fn is_part(text: &str) -> bool {
    let ends = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    text.len() <= LONGEST_PART
        && ends(text.chars().next())
        && ends(text.chars().next_back())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_are_those_that_the_api_server_takes() {
        for key in ["app", "llm-d.ai/role", "a_b.c-9", &"k".repeat(63)] {
            assert!(is_label_key(key), "{key}");
        }
        for key in ["", "-a", "a/b/c", "/a", "UP.example/a", "a..b/c", "a b", &"k".repeat(64)] {
            assert!(!is_label_key(key), "{key}");
        }
        assert!(["", "gold", "1.5"].iter().all(|value| is_label_value(value)));
        assert!(["-", "a b", "a/b", "ü"].iter().all(|value| !is_label_value(value)));
    }
}
