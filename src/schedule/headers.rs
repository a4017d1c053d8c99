//! The request headers that plugins read.
//!
//! A filter or scorer names the headers that it reads, and the director gathers the names once; an exchange keeps those
//! headers and no others, which costs nothing where no plugin names one.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::schedule::registry::BadParameters;

/// Headers of one request, each as it came first. Bounded by the names that are wanted.
#[derive(Clone, Default)]
pub struct Headers(Vec<(Arc<str>, Bytes)>);

impl Headers {
    /// Takes a header in if it is wanted and was not there before; names are in lower case.
    pub fn take(&mut self, wanted: &[Arc<str>], name: &[u8], value: &[u8]) {
        let Some(name) = wanted.iter().find(|wanted| wanted.as_bytes() == name) else { return };
        if self.0.iter().all(|(taken, _)| taken != name) {
            self.0.push((Arc::clone(name), Bytes::copy_from_slice(value)));
        }
    }

    /// The name of each, and the length of its value in bytes.
    pub fn lengths(&self) -> impl Iterator<Item = (&Arc<str>, usize)> {
        self.0.iter().map(|(name, value)| (name, value.len()))
    }

    /// The value of a header; none when the request has it not, or when no plugin has named it.
    pub fn find(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(taken, _)| **taken == *name).map(|(_, value)| &**value)
    }
}

/// Names and lengths: values may be secrets.
impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, value)| (name, value.len()))).finish()
    }
}

/// A header's name as it is looked for, in lower case, from the `field` of a plugin's parameters.
///
/// # Errors
/// When no header can have the name.
pub(in crate::schedule) fn header_name(field: &str, given: &str) -> Result<String, BadParameters> {
    let of_name = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let good = !given.is_empty() && given.chars().all(of_name);
    let refused = || BadParameters(format!("{field}: `{given}` is no name of a header"));
    good.then(|| given.to_ascii_lowercase()).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_wanted_header_is_kept() {
        let (wanted, mut headers) = ([Arc::from("x-session")], Headers::default());
        for (name, value) in [("cookie", "c"), ("x-session", "first"), ("x-session", "second")] {
            headers.take(&wanted, name.as_bytes(), &Bytes::from_static(value.as_bytes()));
        }
        assert_eq!(headers.find("x-session"), Some(&b"first"[..]));
        assert_eq!(headers.find("cookie"), None);
        assert_eq!(format!("{headers:?}"), r#"{"x-session": 5}"#, "a value is not shown");
    }

    #[test]
    fn a_name_is_looked_for_in_lower_case_and_what_is_none_is_refused() {
        assert_eq!(header_name("headerName", "X-Session_1"), Ok("x-session_1".to_owned()));
        for name in ["", "a b", ":path", "é", "a:"] {
            assert!(header_name("headerName", name).is_err(), "{name}");
        }
    }
}
