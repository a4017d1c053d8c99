//! References to who counts what is in flight. There is one count, so that they need only be right.

use crate::config::problem::Problem;
use crate::config::resolve::instances::{Instances, Kind};
use crate::schedule::Product;

/// The parameter by which a plugin names its producer.
const BY_NAME: &str = "inFlightLoadProducerName";

/// The producer that is meant when none is named.
const DEFAULT: &str = "inflight-load-producer";

/// Reports references to what does not count.
pub(super) fn check(instances: &Instances<'_>, problems: &mut Vec<Problem>) {
    for consumer in instances.iter() {
        let named = consumer.parameters.get(BY_NAME).and_then(|name| name.as_str());
        let Some(name) = named.filter(|name| !name.is_empty() && *name != DEFAULT) else {
            continue;
        };
        let path = format!("plugins[{}].parameters.{BY_NAME}", consumer.at);
        match instances.named(name) {
            None => problems.push(instances.undefined(path, name)),
            Some(producer) => {
                let bad_already = matches!(producer.kind, Kind::Later | Kind::Unknown);
                if !bad_already && !matches!(producer.product, Some(Product::InFlight(_))) {
                    let message = format!("`{name}` does not count what is in flight");
                    problems.push(Problem::error(path, message).hint(format!("name {DEFAULT}")));
                }
            }
        }
    }
}
