//! The place of a request in a trace: `traceparent` of the W3C's Trace Context.

use crate::spans::{Ids, Sampler};

/// The length of a header of version 00: `00-` trace id `-` span id `-` flags.
const LENGTH: usize = 55;

/// A span, as others know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// The trace that it belongs to; not 0.
    pub trace_id: u128,
    /// Its id; not 0.
    pub span_id: u64,
    /// Whether it is recorded.
    pub sampled: bool,
}

impl Context {
    /// Reads a `traceparent`; none when it is not one.
    pub fn parse(header: &[u8]) -> Option<Self> {
        let header = std::str::from_utf8(header).ok()?;
        let (known, later) = header.split_at_checked(LENGTH)?;
        let mut parts = known.split('-');
        let version: u8 = hexadecimal(parts.next()?, 2)?.try_into().ok()?;
        let trace_id = hexadecimal(parts.next()?, 32).filter(|id| *id != 0)?;
        let span_id = hexadecimal(parts.next()?, 16).filter(|id| *id != 0)?.try_into().ok()?;
        let flags = hexadecimal(parts.next()?, 2)?;
        let ends = match version {
            0 => later.is_empty(),
            0xff => false,
            _ => later.is_empty() || later.starts_with('-'),
        };
        ends.then_some(Self { trace_id, span_id, sampled: flags & 1 == 1 })
    }

    /// A span below `parent`, else of a trace of its own; `random` is.
    pub fn begin(parent: Option<Self>, sampler: Sampler, random: u128) -> Self {
        let trace_id = parent.map_or_else(|| random.max(1), |parent| parent.trace_id);
        let seed = (random ^ (random >> 64)) & u128::from(u64::MAX);
        let span_id = Ids::new(u64::try_from(seed).unwrap_or_default()).draw();
        Self { trace_id, span_id, sampled: sampler.samples(parent, trace_id) }
    }

    /// The `traceparent` of what follows from it.
    pub fn header(self) -> String {
        let Self { trace_id, span_id, sampled } = self;
        format!("00-{trace_id:032x}-{span_id:016x}-{:02x}", u8::from(sampled))
    }
}

/// So many digits in lower case.
fn hexadecimal(digits: &str, count: usize) -> Option<u128> {
    let lower = digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    if digits.len() == count && lower { u128::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn parse(header: &str) -> Option<Context> {
        Context::parse(header.as_bytes())
    }

    #[test]
    fn a_header_is_read_and_written() {
        let context = parse(HEADER).unwrap();
        assert_eq!(context.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!((context.span_id, context.sampled), (0xb7ad_6b71_6920_3331, true));
        assert_eq!(context.header(), HEADER);
        let unsampled = HEADER.replace("-01", "-00");
        assert_eq!(parse(&unsampled).unwrap().header(), unsampled);
    }

    #[test]
    fn what_a_later_version_adds_is_no_matter() {
        let later = HEADER.replacen("00-", "cc-", 1);
        assert_eq!(parse(&later), parse(HEADER));
        assert_eq!(parse(&format!("{later}-what")), parse(HEADER));
        assert_eq!(parse(&format!("{later}what")), None);
        assert_eq!(parse(&later.replacen("cc-", "ff-", 1)), None);
    }

    #[test]
    fn what_is_no_header_is_none() {
        let zero = |part: &str| HEADER.replace(part, &"0".repeat(part.len()));
        let bad = [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
            &format!("{HEADER}-what"),
            &HEADER.to_uppercase(),
            &HEADER.replace("0af7", "+af7"),
            &HEADER.replace('-', "_"),
            &zero("0af7651916cd43dd8448eb211c80319c"),
            &zero("b7ad6b7169203331"),
            &format!("{}\u{e9}", HEADER.replace("-01", "-0")),
        ];
        for header in bad {
            assert_eq!(parse(header), None, "{header}");
        }
    }

    #[test]
    fn a_child_is_of_the_trace_of_its_parent() {
        let (parent, always) = (parse(HEADER), Sampler::new(1.0, true));
        let child = Context::begin(parent, always, 7 << 70 | 9);
        assert_eq!(Some(child.trace_id), parent.map(|parent| parent.trace_id));
        assert_ne!(Some(child.span_id), parent.map(|parent| parent.span_id));
        let orphan = Context::begin(None, always, 7 << 70 | 9);
        assert_eq!((orphan.trace_id, orphan.span_id), (7 << 70 | 9, child.span_id));
    }
}
