//! Whether the picker may do what it does.

use std::collections::BTreeMap;

use crate::cli::doctor::facts::{Facts, Right};
use crate::cli::doctor::finding::{Check, Finding, Outcome};

pub(in crate::cli::doctor) const CHECK: Check =
    Check { name: "rights", good: "the account may do what the picker does", run };

/// A rule of a Role: group, resource and name of the object.
type Rule<'a> = (&'a str, &'a str, Option<&'a str>);

/// Rules with their verbs, and what is off without them.
type Rules<'a> = BTreeMap<Rule<'a>, (Vec<&'a str>, &'a str)>;

fn run(facts: &Facts) -> Outcome {
    let cluster = facts.cluster()?;
    let mut missing = Rules::new();
    let mut unknown = None;
    for right in &cluster.rights {
        let Right { group, resource, verb, name, purpose, allowed } = right;
        match allowed {
            Ok(true) => {}
            Ok(false) => {
                let rule = missing.entry((group, resource, name.as_deref())).or_default();
                rule.0.push(verb);
                rule.1 = purpose;
            }
            Err(why) => unknown = Some(why),
        }
    }
    let (account, namespace) = (&cluster.account, &cluster.namespace);
    let told = |((group, resource, name), (verbs, purpose)): (Rule<'_>, (Vec<&str>, &str))| {
        let verbs = verbs.join(", ");
        let of = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        let found = format!("{account} may not {verbs} {of} in {namespace}");
        let only = |name: &str| format!(" resourceNames: [{name:?}],");
        let names = name.map(only).unwrap_or_default();
        let rule = format!(
            "{{apiGroups: [{group:?}], resources: [{resource:?}],{names} verbs: [{verbs}]}}"
        );
        let fix = format!(
            "add {rule} to a Role in {namespace} that is bound to it, as manifests/base/rbac.yaml does"
        );
        Finding::problem(CHECK, found, format!("off: {purpose}"), fix)
    };
    let unseen = unknown.map(|why| {
        let fix = "ask as an account that may make (self) subject access reviews";
        Finding::unseen(CHECK, "the rights", why, fix)
    });
    Ok(missing.into_iter().map(told).chain(unseen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::checks::fixture::{cluster, told, with};

    fn right(verb: &'static str, allowed: Result<bool, String>) -> Right {
        let (group, resource, purpose) = ("", "pods", "the endpoints");
        Right { group, resource, verb, name: None, purpose, allowed }
    }

    // FR-153
    #[test]
    fn the_rule_that_is_missing_is_written_out() {
        let mut closed = cluster();
        closed.rights = vec![right("list", Ok(false)), right("watch", Ok(false))];
        let findings = (CHECK.run)(&with(closed.clone())).unwrap();
        let [finding] = &findings[..] else { panic!("{findings:?}") };
        assert_eq!(finding.found, "this account may not list, watch pods in prod");
        assert_eq!(finding.means, "off: the endpoints");
        let rule =
            r#"add {apiGroups: [""], resources: ["pods"], verbs: [list, watch]} to a Role in prod"#;
        assert!(finding.fix.starts_with(rule), "{}", finding.fix);
        closed.rights = vec![right("list", Err("forbidden".to_owned()))];
        assert_eq!(told(CHECK, &with(closed)), ["note: the rights cannot be read: forbidden"]);
    }
}
