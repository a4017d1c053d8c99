//! Spellings that the reference still takes, and warns of.

use crate::config::problem::Problem;
use crate::schedule::registry::Parameters;

/// Other names for a type.
pub(in crate::config) const ALIASES: &[(&str, &str)] =
    &[("by-label-selector", "label-selector-filter"), ("tokenizer", "token-producer")];

/// Types that are deprecated, with what to write instead.
const TYPES: &[(&str, &str)] = &[
    ("by-label", "use label-selector-filter"),
    ("by-label-selector", "write label-selector-filter"),
    ("data-parallel-profile-handler", "give the pool several target ports"),
    ("disagg-headers-handler", "disagg-profile-handler does it by itself"),
    ("pd-profile-handler", "use disagg-profile-handler"),
    ("precise-prefix-cache-scorer", "use precise-prefix-cache-producer and prefix-cache-scorer"),
    ("prefill-header-handler", "disagg-profile-handler does it by itself"),
    ("tokenizer", "write token-producer"),
];

/// Parameters of the type in the first column that are deprecated.
const PARAMETERS: &[(&str, &str, Change)] = &[
    ("active-request-scorer", "requestTimeout", Change::Ignored),
    ("approx-prefix-cache-producer", "blockSize", Change::Renamed("blockSizeTokens")),
    ("no-hit-lru-scorer", "prefixPluginName", Change::Ignored),
    ("no-hit-lru-scorer", "prefixPluginType", Change::Ignored),
];

/// What became of a deprecated parameter.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// It has no effect.
    Ignored,
    /// It has another name, which stands over the old one; 0 was its absence.
    Renamed(&'static str),
}

/// The type that is meant by the name `type_name`.
pub(super) fn aliased(type_name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == type_name).map_or(type_name, |(_, name)| name)
}

/// What to write instead of a deprecated type.
pub(in crate::config) fn instead_of(type_name: &str) -> Option<&'static str> {
    TYPES.iter().find(|(old, _)| *old == type_name).map(|(_, hint)| *hint)
}

/// Takes the deprecated spellings out of the parameters at `path`.
pub(super) fn renew(
    type_name: &str,
    path: &str,
    parameters: &mut Parameters,
    problems: &mut Vec<Problem>,
) {
    let Some(map) = parameters.as_object_mut() else { return };
    for (_, old, change) in PARAMETERS.iter().filter(|(of, ..)| *of == type_name) {
        let Some(value) = map.remove(*old) else { continue };
        let problem = Problem::warning(format!("{path}.{old}"), "is deprecated");
        problems.push(match change {
            Change::Ignored => problem.hint("it has no effect, leave it out"),
            Change::Renamed(new) => {
                if value != 0 {
                    map.entry(*new).or_insert(value);
                }
                problem.hint(format!("write {new}"))
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_name_gives_way_to_the_new_one() {
        let renewed = |raw: &str| {
            let mut parameters = serde_json::from_str(raw).unwrap();
            let mut problems = Vec::new();
            renew("approx-prefix-cache-producer", "p", &mut parameters, &mut problems);
            (parameters.to_string(), problems.len())
        };
        assert_eq!(renewed("{\"blockSize\":5}"), ("{\"blockSizeTokens\":5}".to_owned(), 1));
        let both = "{\"blockSize\":5,\"blockSizeTokens\":7}";
        assert_eq!(renewed(both), ("{\"blockSizeTokens\":7}".to_owned(), 1));
        assert_eq!(renewed("{\"blockSize\":0}"), ("{}".to_owned(), 1));
        assert_eq!(renewed("null"), ("null".to_owned(), 0));
    }

    #[test]
    fn an_alias_is_deprecated_too() {
        assert!(ALIASES.iter().all(|(alias, _)| instead_of(alias).is_some()));
        assert_eq!((aliased("tokenizer"), aliased("other")), ("token-producer", "other"));
    }
}
