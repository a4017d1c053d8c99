//! The request headers that plugins read.
//!
//! A filter or scorer names the headers that it reads, and the director gathers the names once; an exchange keeps those
//! headers and no others, which costs nothing where no plugin names one.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// Headers of one request, each as it came first. Bounded by the names that are wanted.
#[derive(Clone, Default)]
pub struct Headers(Vec<(Arc<str>, Bytes)>);

impl Headers {
    /// Takes a header in if it is wanted and was not there before; names are in lower case.
    pub fn take(&mut self, wanted: &[Arc<str>], name: &[u8], value: &Bytes) {
        let Some(name) = wanted.iter().find(|wanted| wanted.as_bytes() == name) else { return };
        if self.0.iter().all(|(taken, _)| taken != name) {
            self.0.push((Arc::clone(name), value.clone()));
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
}
