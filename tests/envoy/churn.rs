//! Servers that come and go under load.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use anyhow::ensure;
use lodesman_e2e::{Envoy, Lodesman, eventually};
use serde_json::json;
use tempfile::TempDir;

use super::stage::{
    SOON, at_rest, chat, duplex, fleet, is_whole, memory, picker_of, total, watching,
};
use super::traffic::{Load, send_all, server_of, tally};

const SERVERS: usize = 100;

const SWAPS: usize = 20;

/// A mounted `ConfigMap` with a list of endpoints.
pub(super) struct Mount {
    directory: TempDir,
    version: usize,
}

impl Mount {
    pub(super) fn new(text: &str) -> Self {
        let mut mount = Self { directory: tempfile::tempdir().unwrap(), version: 0 };
        mount.swap(text);
        symlink("..data/endpoints.yaml", mount.path()).unwrap();
        mount
    }

    pub(super) fn path(&self) -> PathBuf {
        self.directory.path().join("endpoints.yaml")
    }

    /// Puts another text in place as the kubelet does: all files at once, by a symbolic link to their directory.
    pub(super) fn swap(&mut self, text: &str) {
        let at = |name: &str| self.directory.path().join(name);
        let old = format!("..{}", self.version);
        self.version += 1;
        let new = format!("..{}", self.version);
        fs::create_dir(at(&new)).unwrap();
        fs::write(at(&new).join("endpoints.yaml"), text).unwrap();
        symlink(&new, at("..data_tmp")).unwrap();
        fs::rename(at("..data_tmp"), at("..data")).unwrap();
        if self.version > 1 {
            fs::remove_dir_all(at(&old)).unwrap();
        }
    }

    /// Takes the files away.
    fn vanish(&self) {
        fs::remove_file(self.directory.path().join("..data")).unwrap();
    }
}

pub(super) fn listing(servers: &[SocketAddr]) -> String {
    let entry = |server: &SocketAddr| {
        let (ip, port) = (server.ip(), server.port());
        json!({"name": format!("pod-{ip}"), "address": ip, "port": port})
    };
    json!({"endpoints": servers.iter().map(entry).collect::<Vec<_>>()}).to_string()
}

async fn picker(mount: &Mount) -> Lodesman {
    picker_of(["--config-text".to_owned(), watching(&mount.path())]).await
}

/// Waits until so many endpoints are in use.
async fn taken_up(picker: &Lodesman, count: usize) {
    let taken = eventually(SOON, async || {
        let ready = total(picker, "llm_d_epp_ready_endpoints", "").await?;
        ensure!(ready == count, "{ready} of {count} endpoints");
        Ok(())
    });
    taken.await.unwrap();
}

#[tokio::test]
async fn endpoints_appear_and_vanish_under_load_without_a_failed_request() {
    let fleet = fleet(SERVERS, "--address 127.1.0.1 --time-scale 20").await;
    let mut mount = Mount::new(&listing(&fleet.servers));
    let picker = picker(&mount).await;
    let envoy = Envoy::start(&duplex(&picker, &fleet)).await.unwrap();
    let mut load = Load::start(envoy.client(), 6);
    let mut random = fastrand::Rng::with_seed(11);
    let mut servers = fleet.servers.clone();
    let mut rss = Vec::new();
    for swap in 0..SWAPS {
        random.shuffle(&mut servers);
        // Never as many as before, so that the count tells when the list was taken up.
        let listed = &servers[..random.usize(10..50) * 2 + swap % 2];
        mount.swap(&listing(listed));
        taken_up(&picker, listed.len()).await;
        let answers = send_all(envoy.client(), 3, vec![chat(4, false); 12]).await;
        let used: BTreeSet<_> = answers.iter().map(server_of).collect();
        assert!(used.iter().all(|server| listed.contains(server)), "{used:?}");
        load.pass(20).await;
        rss.push(memory(&picker));
    }
    let answers = load.stop().await;
    let (settled, last) = (rss[SWAPS / 4], rss[SWAPS - 1]);
    assert!(last < settled + settled / 4, "{rss:?} KiB");
    let used = tally(&answers).len();
    assert!(used > SERVERS / 2, "{used} servers in {} requests", answers.len());
    at_rest(&picker).await;
}

#[tokio::test]
async fn last_good_list_stays_when_the_file_breaks_or_vanishes() {
    let fleet = fleet(3, "--time-scale 50").await;
    let mut mount = Mount::new(&listing(&fleet.servers));
    let mut picker = picker(&mount).await;
    let envoy = Envoy::start(&duplex(&picker, &fleet)).await.unwrap();
    let useless = "endpoints: [{name: a, addres: 127.0.0.1, port: '80'}]";
    for (text, count) in [(Some("{"), 1), (Some("endpoints: 5"), 2), (Some(useless), 3), (None, 4)]
    {
        match text {
            Some(text) => mount.swap(text),
            None => mount.vanish(),
        }
        let told = |lines: &[&str]| {
            let told = lines.iter().filter(|line| line.contains("endpoint file not usable"));
            (told.count() >= count).then_some(())
        };
        picker.process.find(SOON, told).await.unwrap();
        let answers = send_all(envoy.client(), 3, vec![chat(1, false); 12]).await;
        assert!(answers.iter().all(is_whole));
    }
    mount.swap(&listing(&fleet.servers[..1]));
    taken_up(&picker, 1).await;
    at_rest(&picker).await;
}
