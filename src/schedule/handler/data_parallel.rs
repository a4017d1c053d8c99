//! Sends requests by way of a side car that stands before all ranks of a host. Deprecated: a pool with several target ports
//! needs none.
//!
//! The only profile chooses among endpoints that are ranks, one a port. The request goes to `primaryPort` of the chosen
//! host, and its header `x-data-parallel-host-port` names the rank to the side car there. A client's own header of that
//! name is taken off. With the port 0 the destination is left as it was chosen.

use serde::Deserialize;

use crate::schedule::registry::{BadParameters, Build, Plugin, parameters};
use crate::schedule::{Handler, Needs, PickContext, Relay};

pub(in crate::schedule) const PLUGIN: Plugin = Plugin {
    name: "data-parallel-profile-handler",
    summary: "Runs the only profile and sends the request to `primaryPort` of the chosen host, where a side car sends it on \
              to the rank that the header `x-data-parallel-host-port` names. Deprecated: give the pool several target ports.",
    needs: Needs::NONE,
    build: Build::Handler(|raw| Ok(Box::new(parameters::<DataParallel>(raw)?.checked()?))),
};

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct DataParallel {
    /// The side car's port, 0 to 65535; default 8000.
    primary_port: i64,
}

impl Default for DataParallel {
    fn default() -> Self {
        Self { primary_port: 8000 }
    }
}

/// The handler; none where the destination stays as it was chosen.
#[derive(Debug)]
struct Ranks(Option<Relay>);

impl DataParallel {
    fn checked(self) -> Result<Ranks, BadParameters> {
        let port = self.primary_port;
        let refused = |_| BadParameters(format!("primaryPort is {port}, give 0 to 65535"));
        let port = u16::try_from(port).map_err(refused)?;
        Ok(Ranks((port > 0).then_some(Relay { port })))
    }
}

impl Handler for Ranks {
    fn choose(&self, _cx: PickContext<'_>, names: &[Box<str>]) -> Option<usize> {
        (!names.is_empty()).then_some(0)
    }

    fn relay(&self) -> Option<Relay> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::schedule::fixture;

    fn relay(raw: Value) -> Result<Option<Relay>, String> {
        let read = parameters::<DataParallel>(raw).and_then(DataParallel::checked);
        read.map(|handler| handler.relay()).map_err(|error| error.0)
    }

    #[test]
    fn the_request_goes_to_the_port_of_the_side_car_on_the_chosen_host() {
        let pool = fixture::at(&["10.0.0.1:8001", "[fd00::1]:8002"]);
        let relay = relay(json!({"primaryPort": 9000})).unwrap().unwrap();
        let told: Vec<_> = pool.endpoints().map(|rank| relay.address(rank).to_string()).collect();
        assert_eq!(told, ["10.0.0.1:9000", "[fd00::1]:9000"]);
    }

    #[test]
    fn the_port_is_8000_unless_given_and_0_is_none() {
        assert_eq!(relay(Value::Null), Ok(Some(Relay { port: 8000 })));
        assert_eq!(relay(json!({"primaryPort": 0})), Ok(None));
        for port in [-1, 65_536] {
            let error = relay(json!({"primaryPort": port})).unwrap_err();
            assert_eq!(error, format!("primaryPort is {port}, give 0 to 65535"));
        }
    }
}
