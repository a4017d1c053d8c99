//! A filter by which a gateway names the endpoints that may be chosen.

/// The metadata in which it does.
pub(super) const NAMESPACE: &str = "envoy.lb.subset_hint";
const KEY: &str = "x-gateway-destination-endpoint-subset";

/// A script for Envoy's Lua filter that names those that the header `header` lists.
pub(super) fn script(header: &str) -> String {
    format!(
        "function envoy_on_request(handle)
           local subset = handle:headers():get('{header}')
           if subset then
             handle:streamInfo():dynamicMetadata():set('{NAMESPACE}', '{KEY}', subset)
           end
         end"
    )
}
