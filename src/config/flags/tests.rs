use std::ffi::OsString;

use clap::{Args as _, Command, FromArgMatches};

use super::*;
use crate::config::argv;
use crate::config::sources::MIN_INTERVAL;

fn parse(args: &[&str]) -> Result<Flags, clap::Error> {
    let command = Flags::augment_args(Command::new("lodesman"));
    let args = ["lodesman"].iter().chain(args).map(OsString::from);
    command
        .try_get_matches_from(argv::spelled(args, &Flags::names()))
        .and_then(|m| Flags::from_arg_matches(&m))
}

#[test]
fn the_defaults_are_the_references() {
    let flags = parse(&[]).unwrap();
    let Listen { grpc_port, grpc_health_port, metrics_port, admin_port, .. } = flags.listen;
    assert_eq!((grpc_port, grpc_health_port, metrics_port, admin_port), (9002, 9003, 9090, 9091));
    assert_eq!(flags.listen.admin_address, IpAddr::V4(Ipv4Addr::LOCALHOST));
    assert_eq!(flags.listen.drain_timeout, Duration::from_secs(30));
    assert_eq!(flags.listen.grpc_max_recv_msg_size, 65 << 20);
    assert_eq!(flags.scrape.metrics_staleness_threshold, Duration::from_secs(2));
    assert_eq!(flags.scrape.refresh_metrics_interval, None);
    assert_eq!((flags.log.verbosity, flags.tls.secure_serving), (2, None));
    assert_eq!(flags.warnings(), Vec::<String>::new());
}

#[test]
fn the_arguments_of_a_deployment_of_the_reference_are_accepted() {
    let flags = parse(&[
        "--pool-name",
        "vllm-llama",
        "--pool-namespace",
        "prod",
        "--pool-group=inference.networking.k8s.io",
        "-v",
        "4",
        "--zap-encoder",
        "json",
        "--grpc-port",
        "9012",
        "-grpc-health-port=9013",
        "--secure-serving=false",
        "--health-checking",
        "--config-file",
        "/config/default-plugins.yaml",
        "--tracing=false",
        "--grpc-max-recv-msg-size=10MiB",
        "-refreshMetricsInterval",
        "20ms",
        "--emit-endpoint-scores",
        "--kv-cache-usage-percentage-metric",
        "my:kv",
        "--tls-min-version",
        "VersionTLS13",
    ])
    .unwrap();
    assert_eq!((flags.listen.grpc_port, flags.listen.grpc_health_port), (9012, 9013));
    assert_eq!((flags.log.verbosity, flags.tls.secure_serving), (4, Some(false)));
    assert_eq!(flags.listen.grpc_max_recv_msg_size, 10 << 20);
    assert_eq!(flags.scrape.refresh_metrics_interval, Some(MIN_INTERVAL));
    assert_eq!(flags.scrape.names.kv_usage, "my:kv".parse().ok());
    assert_eq!(flags.tls.tls_min_version, TlsVersion::Tls13);
    assert!(flags.pool.emit_endpoint_scores && !flags.pool.disable_endpoint_subset_filter);
    let warned: Vec<_> =
        flags.warnings().iter().map(|text| text.split(' ').next().unwrap().to_owned()).collect();
    let expected =
        ["--refresh-metrics-interval", "--kv-cache-usage-percentage-metric", "--zap-encoder"];
    assert_eq!(warned, expected);
}

#[test]
fn booleans_are_gos() {
    let given = |arg: &str| parse(&[arg]).map(|flags| flags.listen.enable_grpc_stream_metrics).ok();
    let args = [
        "--enable-grpc-stream-metrics",
        "--enable-grpc-stream-metrics=T",
        "-enable-grpc-stream-metrics=0",
    ];
    assert_eq!(args.map(given), [Some(true), Some(true), Some(false)]);
    assert_eq!(given("--enable-grpc-stream-metrics=yes"), None);
}

#[test]
fn the_last_of_a_repeated_flag_counts() {
    let flags =
        parse(&["--grpc-port=1", "--grpc-port=2", "--secure-serving", "--secure-serving=false"])
            .unwrap();
    assert_eq!((flags.listen.grpc_port, flags.tls.secure_serving), (2, Some(false)));
}

#[test]
fn an_unknown_flag_is_refused_with_the_nearest() {
    for args in [["--grpc-prt", "1"], ["-grpc-prt", "1"], ["-grpcPrt", "1"]] {
        let error = parse(&args).unwrap_err().to_string();
        assert!(error.contains("'--grpc-port'"), "{error}");
    }
}

#[test]
fn a_configuration_comes_from_a_file_or_a_text_but_not_both() {
    assert!(parse(&["--config-file", "a", "--config-text", "b"]).is_err());
    assert!(
        parse(&["--config-file=", "--config-text", "b"]).is_ok(),
        "an empty value is the reference's default"
    );
}

#[test]
fn endpoints_are_addresses_with_ports() {
    let flags = parse(&["--endpoints", "10.0.0.1:8000,[fd00::1]:8001"]).unwrap();
    let addresses: Vec<_> = flags.pool.endpoints.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, ["10.0.0.1:8000", "[fd00::1]:8001"]);
    assert!(parse(&["--endpoints", "10.0.0.1"]).is_err());
    for wrong in ["10.0.0.1:0", "10.0.0.1:99999"] {
        let refusal = parse(&["--endpoints", wrong]).unwrap_err().to_string();
        assert!(refusal.contains("not between 1 and 65535"), "{refusal}");
    }
}

// FR-157
#[test]
fn limits_have_ranges() {
    assert!(parse(&["--max-chunk-bytes", "70000"]).is_err());
    let limits =
        parse(&["--max-chunk-bytes=1024", "--decision-deadline=1s"]).unwrap().limits.limits(None);
    assert_eq!(
        (limits.max_chunk_bytes.bytes(), limits.decision_deadline),
        (1024, Duration::from_secs(1))
    );
}

// FR-070
#[test]
fn an_interval_is_a_time_and_not_shorter_than_the_least() {
    let interval = |text: &str| {
        let flags = parse(&[&format!("--refresh-metrics-interval={text}")])?;
        Ok::<_, clap::Error>(flags.scrape.refresh_metrics_interval)
    };
    for short in ["0", "0s", "1ms", "50ms"] {
        assert_eq!(interval(short).unwrap(), Some(MIN_INTERVAL), "{short}");
    }
    let warned =
        |text: &str| parse(&[&format!("--refresh-metrics-interval={text}")]).unwrap().warnings();
    assert_eq!(warned("50ms"), [""; 0]);
    assert_eq!(
        warned("1ms"),
        ["--refresh-metrics-interval 1ms is too short, 50ms is taken"],
        "what is not kept is told"
    );
    for none in ["-1s", "5", "soon"] {
        let refusal = interval(none).unwrap_err().to_string();
        assert!(refusal.contains("--refresh-metrics-interval"), "{refusal}");
    }
}

// FR-112
#[test]
fn the_namespace_is_the_pools_or_the_flags_or_the_environments_or_default() {
    let namespace = |args: &[&str], environment| {
        let flags = parse(args).unwrap();
        flags.kubernetes.namespace(&[environment, Some("own")]).to_owned()
    };
    assert_eq!(namespace(&["--pool-name=a/p"], Some("c")), "a");
    assert_eq!(namespace(&["--pool-name=p", "--pool-namespace=b"], Some("c")), "b");
    assert_eq!(namespace(&["--pool-name=p"], Some("c")), "c");
    assert_eq!(namespace(&[], Some("")), "own");
    assert_eq!(parse(&[]).unwrap().kubernetes.namespace(&[None]), "default");
    assert_eq!(parse(&["--pool-name=a/p"]).unwrap().kubernetes.pool(), (Some("a"), "p"));
}

#[test]
fn two_namespaces_of_the_pool_contradict_each_other() {
    let contradiction = |args: &[&str]| parse(args).unwrap().kubernetes.contradiction();
    let two = contradiction(&["--pool-name=a/p", "--pool-namespace=b"]);
    assert!(two.is_some_and(|text| text.contains("--pool-name a/p")));
    assert_eq!(contradiction(&["--pool-name=a/p", "--pool-namespace=a"]), None);
    assert_eq!(contradiction(&["--pool-name=p", "--pool-namespace=b"]), None);
    assert_eq!(contradiction(&["--pool-name=a/p"]), None);
}

#[test]
fn a_flag_without_effect_is_told_of_where_it_asks_for_one() {
    let warned = |arg: &str| parse(&[arg]).unwrap().warnings();
    for arg in [
        "--model-server-metrics-scheme=http",
        "--model-server-metrics-path=/metrics",
        "--model-server-metrics-https-insecure-skip-verify",
    ] {
        assert_eq!(warned(arg), [""; 0], "{arg}");
    }
    assert_eq!(warned("--enable-pprof"), ["--enable-pprof has no meaning here"]);
    for arg in ["--model-server-metrics-port=9100", "--model-server-metrics-scheme=https"] {
        assert!(warned(arg)[0].contains("metrics-data-source"), "{arg}");
    }
}

#[test]
fn an_empty_path_of_the_metrics_port_is_none() {
    let metrics = |args: &[&str]| parse(args).unwrap().metrics;
    let empty = metrics(&["--metrics-cert-dir=", "--metrics-client-ca-file", ""]);
    assert_eq!((empty.certificate(), empty.clients()), (None, None));
    let given = metrics(&["--metrics-cert-dir=/a", "--metrics-client-ca-file=/b"]);
    assert_eq!((given.certificate(), given.clients()), (Some("/a".as_ref()), Some("/b".as_ref())));
}

#[test]
fn who_reads_metrics_is_asked_where_there_is_an_api_server_unless_said() {
    let asked = |args: &[&str]| parse(args).unwrap().metrics.endpoint_auth;
    assert_eq!(asked(&[]), None);
    assert_eq!(asked(&["--metrics-endpoint-auth"]), Some(true));
    assert_eq!(asked(&["--metrics-endpoint-auth=0"]), Some(false));
    assert!(parse(&[]).unwrap().metrics.legacy_metrics);
    assert!(!parse(&["--legacy-metrics=false"]).unwrap().metrics.legacy_metrics);
}

#[test]
fn a_selector_has_ports_and_ports_a_selector() {
    let selector = "--endpoint-selector=app=llm,tier=gpu";
    let flags = parse(&[selector, "--endpoint-target-ports", "8000,8001"]).unwrap().kubernetes;
    assert_eq!(flags.endpoint_selector.unwrap().to_string(), "app=llm,tier=gpu");
    assert_eq!(flags.endpoint_target_ports.unwrap().as_slice(), [8000, 8001]);
    for alone in [selector, "--endpoint-target-ports=8000"] {
        assert!(parse(&[alone]).is_err(), "{alone}");
    }
    assert!(parse(&[selector, "--endpoint-target-ports=0"]).is_err());
    let twice = parse(&[selector, "--endpoint-target-ports=8000,8000"]).unwrap();
    assert_eq!(twice.kubernetes.endpoint_target_ports.as_ref().unwrap().as_slice(), [8000]);
    assert!(twice.warnings()[0].contains("8000 twice"));
}

#[test]
fn the_groups_of_the_pool_are_known() {
    let group = |args: &[&str]| parse(args).map(|flags| flags.kubernetes.pool_group).ok();
    assert_eq!(group(&[]), Some(PoolGroup::V1));
    assert_eq!(group(&["--pool-group=inference.networking.x-k8s.io"]), Some(PoolGroup::V1Alpha2));
    assert_eq!(group(&["--pool-group=llm-d.ai"]), None);
}

#[test]
fn traces_and_the_request_log_are_as_the_reference_has_them_and_off() {
    let flags = |args: &[&str]| parse(args).unwrap();
    assert_eq!([&[][..], &["--tracing=false"]].map(|it| flags(it).traces.tracing), [true, false]);
    assert_eq!(flags(&[]).log.request_log.to_string(), "off");
    assert_eq!(flags(&["--request-log=0.01"]).log.request_log.to_string(), "0.01");
    let error = parse(&["--request-log=some"]).unwrap_err().to_string();
    assert!(error.contains("give off, errors, or a share"), "{error}");
}

#[test]
fn the_command_is_consistent() {
    Flags::augment_args(Command::new("lodesman")).debug_assert();
}
