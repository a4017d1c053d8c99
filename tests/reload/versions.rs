//! What becomes of versions of the file.

use std::sync::atomic::{AtomicBool, Ordering};

use super::rig::{Rig, status};
use super::volume::Volume;

/// The first server has the shorter queue, the second the emptier cache.
const QUEUE: &str = "plugins: [{type: queue-scorer}]\n";
const CACHE: &str = "plugins: [{type: kv-cache-utilization-scorer}]\n";
const PREFIX: &str = "plugins: [{type: prefix-cache-scorer}]\n";

#[tokio::test]
async fn a_good_version_takes_effect_and_a_bad_one_changes_nothing() {
    let mut volume = Volume::with(QUEUE);
    let rig = Rig::over(&volume).await;
    assert_eq!(rig.placed("hi").await.unwrap(), 0);
    rig.adopts(1).await;
    let began = rig.sum("lodesman_config_last_success_timestamp_seconds{").await.unwrap();
    assert!(began > 1.7e9, "{began}");
    volume.swap(CACHE);
    rig.adopts(2).await;
    assert_eq!(rig.placed("hi").await.unwrap(), 1);
    volume.swap(
        "plugins:\n- type: queue-scoer\n- {type: active-request-scorer, parameters: {a: 1}}\n",
    );
    rig.counts(
        "lodesman_config_reload_total{namespace=\"default\",pool=\"epp\",result=\"error\"",
        1.0,
    )
    .await;
    assert_eq!(rig.placed("hi").await.unwrap(), 1);
    let shown = rig.configuration().await;
    assert_eq!((&shown["generation"], &shown["refused"][0]["line"]), (&2.into(), &4.into()));
    let plugins = &shown["resolved"]["schedulingProfiles"][0]["plugins"];
    assert_eq!(plugins[0]["pluginRef"], "kv-cache-utilization-scorer");
    let log = rig.lodesman.process.output();
    for told in [
        "\"path\":\"plugins[0].type\",\"line\":4,\"hint\":\"did you mean `queue-scorer`?\"",
        "\"path\":\"plugins[1].parameters",
    ] {
        assert!(log.contains(told), "{told}:\n{log}");
    }
    volume.empty();
    rig.refuses(2).await;
    assert_eq!(rig.placed("hi").await.unwrap(), 1);
    volume.swap(QUEUE);
    rig.adopts(3).await;
    assert_eq!(rig.placed("hi").await.unwrap(), 0);
    assert_eq!(rig.configuration().await["refused"], serde_json::json!([]));
}

#[tokio::test]
async fn a_hundred_changes_end_in_the_last_and_fail_no_request() {
    let mut volume = Volume::with(QUEUE);
    let rig = Rig::over(&volume).await;
    let over = AtomicBool::new(false);
    let ask = async || {
        let mut asked = 0;
        while !over.load(Ordering::Relaxed) {
            rig.placed("hi").await.unwrap();
            asked += 1;
        }
        asked
    };
    let change = async {
        for text in [CACHE, QUEUE].repeat(50) {
            volume.swap(text);
            rig.placed("hi").await.unwrap();
        }
        volume.swap(&format!("{CACHE}# the last\n"));
        rig.places_on(1).await;
        over.store(true, Ordering::Relaxed);
    };
    let (a, b, c, ()) = tokio::join!(ask(), ask(), ask(), change);
    assert!(a + b + c > 100, "{a} + {b} + {c}");
    rig.refuses(0).await;
}

#[tokio::test]
async fn what_was_learnt_stays_and_open_streams_go_on() {
    let mut volume = Volume::with(PREFIX);
    let rig = Rig::over(&volume).await;
    let prompt = "a long prompt ".repeat(400);
    let mut stream = rig.stream().await.unwrap();
    stream.ask(&prompt).await.unwrap();
    let first = rig.at(&stream.reply().await.unwrap()).unwrap();
    let known = rig.sum("llm_d_epp_prefix_indexer_size{").await.unwrap();
    assert!(known > 10.0, "{known}");
    volume.swap(&format!("{PREFIX}# the same, but for this\n"));
    rig.adopts(2).await;
    rig.counts("llm_d_epp_inflight_requests{", 1.0).await;
    for _ in 0..10 {
        assert_eq!(rig.placed(&prompt).await.unwrap(), first);
    }
    rig.counts("llm_d_epp_prefix_indexer_size{", known).await;
    stream.reply().await.unwrap();
    stream.answer().await.unwrap();
    stream.reply().await.unwrap();
    volume.swap(
        "plugins: [{type: prefix-cache-scorer}, {type: approx-prefix-cache-producer, parameters: {blockSizeTokens: 128}}]\n",
    );
    rig.adopts(3).await;
    rig.counts("llm_d_epp_prefix_indexer_size{", 0.0).await;
    rig.placed(&prompt).await.unwrap();
    let anew = rig.sum("llm_d_epp_prefix_indexer_size{").await.unwrap();
    assert!(0.0 < anew && anew < known, "larger blocks: {anew}");
}

#[tokio::test]
async fn limits_and_sources_take_effect() {
    let mut volume = Volume::with(QUEUE);
    let rig = Rig::over(&volume).await;
    assert_eq!(rig.placed("hi").await.unwrap(), 0);
    volume.swap(
        "plugins: [{type: queue-scorer}, {type: metrics-data-source, parameters: {path: /other}}]\n\
         lodesman: {limits: {maxRequestBody: 200}}\n",
    );
    rig.places_on(1).await;
    let mut stream = rig.stream().await.unwrap();
    stream.ask(&"x".repeat(200)).await.unwrap();
    assert_eq!(status(&stream.reply().await.unwrap()), Some(413));
    volume.overwrite(QUEUE);
    rig.places_on(0).await;
}

#[tokio::test]
async fn sessions_stay_where_they_are_while_their_plugin_stays_the_same() {
    let session = "{type: session-affinity-filter, parameters: {strategy: session_id}}";
    let with = |plugin: &str| format!("plugins: [{session}, {{type: {plugin}}}]\n");
    let mut volume = Volume::with(&with("queue-scorer"));
    let rig = Rig::over(&volume).await;
    assert_eq!(rig.placed_of("old", "hi").await.unwrap(), 0);
    volume.swap(&with("kv-cache-utilization-scorer"));
    rig.adopts(2).await;
    assert_eq!(rig.placed_of("new", "hi").await.unwrap(), 1);
    assert_eq!(rig.placed_of("old", "hi").await.unwrap(), 0);
    let other = with("kv-cache-utilization-scorer")
        .replace("session_id", "session_id, sessionIdConfig: {evictionTtlSeconds: 9}");
    volume.swap(&other);
    rig.adopts(3).await;
    assert_eq!(rig.placed_of("old", "hi").await.unwrap(), 1, "other parameters begin anew");
}

#[tokio::test]
async fn another_discovery_waits_for_the_next_start_and_is_refused_where_that_would_fail() {
    let folder = tempfile::tempdir().unwrap();
    let listing = folder.path().join("endpoints.yaml");
    let with = |path: &str| {
        format!(
            "plugins:\n- type: queue-scorer\n- {{type: file-discovery, parameters: {{path: {path}}}}}\n\
             dataLayer:\n  discovery: {{pluginRef: file-discovery}}\n"
        )
    };
    let mut volume = Volume::with(&with(listing.to_str().unwrap()));
    let rig = Rig::listed(&volume, &listing).await;
    volume.swap(&with("/nowhere"));
    rig.adopts(2).await;
    let late = "\"message\":\"takes effect at the next start\",\"path\":\"dataLayer.discovery\",\"line\":7";
    assert!(rig.lodesman.process.output().contains(late), "{}", rig.lodesman.process.output());
    assert_eq!(rig.placed("hi").await.unwrap(), 0);
    volume.swap(QUEUE);
    rig.refuses(1).await;
    let refused = rig.configuration().await["refused"][0]["message"].to_string();
    assert!(refused.contains("no source of endpoints"), "{refused}");
}
