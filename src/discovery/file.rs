//! The file of endpoints, as the reference writes it.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

use crate::config::reader::{Readable, read};
use crate::config::tree::{self, Node, Value};
use crate::config::{Address, Problem, problem};
use crate::discovery::{Member, NAMESPACE};

/// What a file says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The usable entries, in their order.
    pub members: Vec<Member>,
    /// One for each entry that is left out, and for each unknown field.
    pub problems: Vec<Problem>,
}

/// Reads the text of a file.
///
/// # Errors
/// When it is no YAML, no map with a list of `endpoints`, or none of what it lists can be used: what is wrong with it, by
/// line.
pub fn parse(text: &str) -> Result<Listing, Vec<Problem>> {
    let tree = tree::parse(text)?;
    let (document, mut problems) = read::<Document>(&tree);
    problems.extend(unlisted(&tree));
    let mut listing = Listing::default();
    let mut taken = Taken::default();
    for (at, entry) in document.endpoints.iter() {
        match entry.member().and_then(|member| taken.take(member)) {
            Ok(member) => listing.members.push(member),
            Err((field, message)) => {
                problems.push(Problem::error(format!("endpoints[{at}].{field}"), message));
            }
        }
    }
    if problems.is_empty() {
        return Ok(listing);
    }
    problem::locate(&mut problems, &tree.lines());
    problems.sort_by_key(|problem| problem.line);
    // A list of which nothing is left says that it is wrong, not that there is no endpoint.
    if listing.members.is_empty() {
        return Err(problems);
    }
    Ok(Listing { problems, ..listing })
}

/// The problem of a file without a list, of which nobody knows whether it means none.
fn unlisted(tree: &Node) -> Option<Problem> {
    let problem = match tree.member("endpoints") {
        None => Problem::error("", "has no `endpoints`"),
        Some(Node { value: Value::Null, .. }) => Problem::error("endpoints", "is null"),
        Some(_) => return None,
    };
    Some(problem.hint("write `endpoints: []` for none"))
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Document {
    endpoints: Readable<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    name: String,
    #[serde(default)]
    namespace: String,
    address: String,
    #[serde(default)]
    port: Option<Port>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

impl Entry {
    /// The member; else the field that is wrong, and why.
    fn member(&self) -> Result<Member, (&'static str, String)> {
        if self.name.is_empty() {
            return Err(("name", "is empty".to_owned()));
        }
        let port = self.port.as_ref().map(|Port(port)| *port);
        let address = Address::at(&self.address, port);
        let namespace = if self.namespace.is_empty() { NAMESPACE } else { &self.namespace };
        Ok(Member {
            name: self.name.clone(),
            namespace: namespace.to_owned(),
            address: address.map_err(|error| ("address", error.to_string()))?,
            labels: self.labels.clone().unwrap_or_default(),
        })
    }
}

/// Names and addresses that are in the list already.
#[derive(Debug, Default)]
struct Taken {
    names: HashSet<(String, String)>,
    addresses: HashSet<Address>,
}

impl Taken {
    fn take(&mut self, member: Member) -> Result<Member, (&'static str, String)> {
        if !self.names.insert((member.namespace.clone(), member.name.clone())) {
            return Err(("name", format!("another endpoint is named `{}`", member.name)));
        }
        if !self.addresses.insert(member.address.clone()) {
            return Err(("address", format!("another endpoint is at {}", member.address)));
        }
        Ok(member)
    }
}

/// A port, 1 ..= 65535, as a number or a text.
#[derive(Debug)]
struct Port(u16);

impl<'de> Deserialize<'de> for Port {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number;

        impl Visitor<'_> for Number {
            type Value = Port;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a port, 1 to 65535")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Port, E> {
                let port = u16::try_from(number).ok().filter(|port| *port > 0);
                port.map(Port).ok_or_else(|| E::custom("is not between 1 and 65535"))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Port, E> {
                // What is no number is no port either.
                self.visit_u64(text.parse().unwrap_or_default())
            }
        }

        deserializer.deserialize_any(Number)
    }
}
