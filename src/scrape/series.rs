//! One line of a metrics page after the metric's name: labels and value.

use std::borrow::Cow;

/// A series as it stands on the page.
#[derive(Clone, Copy, Debug)]
pub(in crate::scrape) struct Series<'a> {
    /// What stands between the braces; empty without them.
    labels: &'a [u8],
    value: &'a [u8],
}

impl<'a> Series<'a> {
    /// Reads what follows the name; none when the labels have no end.
    pub(in crate::scrape) fn parse(rest: &'a [u8]) -> Option<Self> {
        let (labels, rest) = match rest.strip_prefix(b"{") {
            Some(inside) => {
                let (labels, rest) = inside.split_at_checked(end_of_labels(inside)?)?;
                (labels, rest.get(1..)?)
            }
            None => (&[][..], rest),
        };
        let rest = rest.trim_ascii_start();
        let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        Some(Self { labels, value: rest.get(..end)? })
    }

    /// The value; none when it is no number. A time stamp or an exemplar after it means nothing here.
    pub(in crate::scrape) fn value(&self) -> Option<f64> {
        std::str::from_utf8(self.value).ok()?.parse().ok()
    }

    /// The text of a label.
    pub(in crate::scrape) fn label(&self, name: &[u8]) -> Option<Cow<'a, [u8]>> {
        let mut rest = self.labels;
        loop {
            let equals = memchr::memchr(b'=', rest)?;
            let (label, after) = rest.split_at_checked(equals)?;
            let text = after.get(1..)?.trim_ascii_start().strip_prefix(b"\"")?;
            let (text, after) = text.split_at_checked(end_of_text(text)?)?;
            if label.trim_ascii() == name {
                return Some(unescaped(text));
            }
            rest = after.get(1..)?.trim_ascii_start();
            rest = rest.strip_prefix(b",").unwrap_or(rest);
        }
    }
}

/// Where the closing brace is; braces in quoted text do not count.
fn end_of_labels(labels: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = labels.get(at..)?;
        let next = memchr::memchr2(b'"', b'}', rest)?;
        if rest.get(next) == Some(&b'}') {
            return Some(at + next);
        }
        let text = at + next + 1;
        at = text + end_of_text(labels.get(text..)?)? + 1;
    }
}

/// Where the closing quote is.
fn end_of_text(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let rest = text.get(at..)?;
        let next = memchr::memchr2(b'"', b'\\', rest)?;
        if rest.get(next) == Some(&b'"') {
            return Some(at + next);
        }
        at += next + 2;
    }
}

/// A label's text without its escapes: `\\`, `\"` and `\n`.
fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut escaped = false;
    for &byte in text {
        match (escaped, byte) {
            (false, b'\\') => {
                escaped = true;
                continue;
            }
            (true, b'n') => plain.push(b'\n'),
            (_, byte) => plain.push(byte),
        }
        escaped = false;
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label(rest: &str, name: &str) -> Option<String> {
        let series = Series::parse(rest.as_bytes())?;
        let text = series.label(name.as_bytes())?;
        Some(String::from_utf8(text.into_owned()).unwrap())
    }

    #[test]
    fn labels_are_found_by_their_whole_name() {
        let rest = r#"{ab="1", a="2",c = "x=\"y\",a=\\", d="}", } 7 123"#;
        let found = ["a", "ab", "b", "c", "d", "x"].map(|name| label(rest, name));
        let expected = [Some("2"), Some("1"), None, Some(r#"x="y",a=\"#), Some("}"), None];
        assert_eq!(found, expected.map(|text| text.map(str::to_owned)));
        assert_eq!(Series::parse(rest.as_bytes()).and_then(|series| series.value()), Some(7.0));
    }

    #[test]
    fn what_does_not_end_is_nothing() {
        for rest in ["{a=\"b} 1", "{a=\"b\\\"} 1", "{", "{a=\"b\""] {
            assert!(Series::parse(rest.as_bytes()).is_none(), "{rest}");
        }
        for rest in ["{a} 1", "{a=1} 1", "{=} 1", "{,} 1", " 1"] {
            assert_eq!(label(rest, "a"), None, "{rest}");
        }
    }
}
