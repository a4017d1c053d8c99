//! The scenarios of `e2e/src/scenarios`, in a world of processes: the manifests that we ship on a real API
//! server with the controllers of Deployments, a played node, a real Envoy.

#[cfg(test)]
mod scenarios {
    use std::path::Path;
    use std::process::Command;

    use lodesman_e2e::Cluster;
    use lodesman_e2e::scenarios::{Scenario, local};
    use tokio::sync::OnceCell;

    /// The shared API server with our CRDs and controllers; none where there is none.
    async fn cluster() -> Option<&'static Cluster> {
        static PREPARED: OnceCell<()> = OnceCell::const_new();
        let cluster = Cluster::shared().await?;
        let server = cluster.server()?;
        let prepare = async || {
            let crds = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/crds");
            let crds = crds.display().to_string();
            cluster.kubectl(&["apply", "--server-side", "--kustomize", &crds], "").await.unwrap();
            let established =
                ["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"];
            cluster.kubectl(&established, "").await.unwrap();
            server.control(&local::CONTROLLERS, &[]).await.unwrap();
        };
        PREPARED.get_or_init(prepare).await;
        Some(cluster)
    }

    async fn play(scenario: Scenario) {
        let Some(cluster) = cluster().await else { return };
        let binary = Path::new(env!("CARGO_BIN_EXE_lodesman"));
        local::play(scenario, cluster, binary).await.unwrap();
    }

    #[tokio::test]
    async fn every_server_is_reached_with_a_body_and_without() {
        play(Scenario::Route).await;
    }

    #[tokio::test]
    async fn requests_for_an_adapter_go_where_it_is() {
        play(Scenario::Adapter).await;
    }

    #[tokio::test]
    async fn model_of_another_name_is_asked_for() {
        play(Scenario::Rewrite).await;
    }

    #[tokio::test]
    async fn gateway_that_allows_some_servers_gets_no_other() {
        play(Scenario::Subset).await;
    }

    #[tokio::test]
    async fn client_cannot_choose_the_server() {
        play(Scenario::ForgedHeader).await;
    }

    #[tokio::test]
    async fn rollout_of_the_model_servers_costs_no_request() {
        play(Scenario::RollModels).await;
    }

    // FR-114
    #[tokio::test]
    async fn rollout_of_the_pickers_costs_no_request() {
        play(Scenario::RollPickers).await;
    }

    #[tokio::test]
    async fn server_that_is_killed_breaks_its_own_answers_alone() {
        play(Scenario::KilledServer).await;
    }

    #[tokio::test]
    async fn pool_without_servers_refuses_until_there_is_one() {
        play(Scenario::ScaleToZero).await;
    }

    #[tokio::test]
    async fn gateway_without_a_picker_does_as_the_pool_says() {
        play(Scenario::FailureModes).await;
    }

    #[tokio::test]
    async fn deployment_of_the_reference_becomes_ours_by_its_image() {
        play(Scenario::Upgrade).await;
    }

    /// What the script for kind would run, without the marks before its lines.
    fn kind_would_run(gateway: &str) -> Vec<String> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("e2e/kind.sh");
        let output = Command::new(script).arg(gateway).env("DRY_RUN", "1").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        said.lines().filter_map(|line| line.strip_prefix("+ ")).map(str::to_owned).collect()
    }

    #[test]
    fn script_for_kind_applies_what_there_is_and_removes_its_cluster() {
        for gateway in ["istio", "envoy-gateway"] {
            let lines = kind_would_run(gateway);
            let words = lines.iter().flat_map(|line| line.split(' '));
            let applied: Vec<_> = words.filter(|word| word.starts_with("manifests/")).collect();
            assert_eq!(applied, ["manifests/crds", &format!("manifests/try/{gateway}")]);
            for folder in applied {
                assert!(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder).is_dir(), "{folder}");
            }
            let place = |part: &str| lines.iter().position(|line| line.contains(part)).unwrap();
            assert!(place("create cluster") < place("try/") && place("try/") < place("scenarios"));
            assert!(place("scenarios") < place("delete cluster"));
        }
    }
}
