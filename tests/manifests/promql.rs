//! As much of `PromQL` as it takes to see what an expression asks of our metrics.

/// Begin the names of our metrics.
const OURS: [&str; 2] = ["lodesman_", "llm_d_epp_"];

/// Joins what has no pool to what has: both are of the same replica.
const JOIN: &str = "on (job, instance)";

/// A selector of series of ours.
#[derive(Debug)]
pub(super) struct Selector<'a> {
    /// The name, with the `_bucket` of a histogram.
    pub name: &'a str,
    /// Labels, and what they are held against.
    pub matchers: Vec<(&'a str, &'a str)>,
    /// Whether it only tells which replicas count.
    pub joined: bool,
}

/// The selectors of an expression.
pub(super) fn selectors(expression: &str) -> Vec<Selector<'_>> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(at) = OURS.iter().filter_map(|prefix| rest.find(prefix)).min() {
        let (before, from) = rest.split_at(at);
        let end = from.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(from.len());
        let (name, after) = from.split_at(end);
        let braced = after.strip_prefix('{').map(|inner| inner.split_once('}').unwrap());
        let matchers = braced.map_or_else(Vec::new, |(inside, _)| matchers(inside));
        found.push(Selector { name, matchers, joined: before.trim_end().ends_with(JOIN) });
        rest = braced.map_or(after, |(_, rest)| rest);
    }
    found
}

fn matcher(text: &str) -> (&str, &str) {
    let (label, value) = text.split_at(text.find(['=', '!']).unwrap());
    (label, value.trim_start_matches(['=', '!', '~']).trim_matches('"'))
}

fn matchers(inside: &str) -> Vec<(&str, &str)> {
    inside.split(',').map(matcher).collect()
}

/// The labels by which an expression groups.
pub(super) fn groups(expression: &str) -> Vec<&str> {
    let lists = expression.split("by (").skip(1).map(|rest| rest.split_once(')').unwrap().0);
    lists.flat_map(|list| list.split(',').map(str::trim)).collect()
}

/// The labels that a text of Grafana (`{{label}}`) or of an alert (`{{ $labels.label }}`) shows.
pub(super) fn shown(text: &str) -> Vec<&str> {
    let braces = text.split("{{").skip(1).map(|rest| rest.split_once("}}").unwrap().0.trim());
    let labels = braces.filter(|inside| !inside.contains("$value"));
    labels.map(|inside| inside.trim_start_matches("$labels.")).collect()
}

#[test]
fn an_expression_is_read() {
    let read = selectors(
        r#"sum by (le, m) (rate(llm_d_epp_x_bucket[5m]) and on (job, instance) lodesman_y{a="$a",b=~"c|d"}) > 1"#,
    );
    let [bucket, joined] = &read[..] else { panic!("{read:?}") };
    assert_eq!(
        (bucket.name, bucket.joined, bucket.matchers.len()),
        ("llm_d_epp_x_bucket", false, 0)
    );
    assert_eq!((joined.name, joined.joined), ("lodesman_y", true));
    assert_eq!(joined.matchers, [("a", "$a"), ("b", "c|d")]);
    assert_eq!(groups("sum by (le, m) (x) / max by (n) (y)"), ["le", "m", "n"]);
    assert_eq!(shown("{{a}}: {{ $labels.b }}, {{ $value | humanize }}"), ["a", "b"]);
}
