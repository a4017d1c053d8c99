//! The configuration that the documentation ships, as it stands but for its ports.

use std::path::Path;

use lodesman_e2e::envoy::validate;

#[tokio::test]
async fn the_documented_configuration_is_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/envoy.yaml");
    validate(&path).await.unwrap();
}
