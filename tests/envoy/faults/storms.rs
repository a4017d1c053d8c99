//! Somebody who reaches the picker's port sends frames of HTTP/2 without end, while others are served.

use std::time::Duration;

use anyhow::ensure;
use lodesman_e2e::eventually;
use lodesman_e2e::wait::now;
use tokio::io::{AsyncWriteExt as _, copy, sink};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::Scene;
use crate::envoy::stage::{SOON, memory, most_memory};

/// Types of frames (RFC 9113, 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const UNKNOWN: u8 = 0xbe;

const END_HEADERS: u8 = 4;

/// How long a storm blows, unless the picker ends the connection before.
const STORM: Duration = Duration::from_millis(300);

/// A call of the service, by the static table of HPACK and literals that are not indexed (RFC 7541).
const CALL: &[u8] = b"\x83\x86\x04\x34/envoy.service.ext_proc.v3.ExternalProcessor/Process\
    \x01\x01a\x0f\x10\x10application/grpc";

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The storm of that number, `turn` after turn: some frames that are legal each.
fn storm(number: usize, turn: u32) -> Vec<u8> {
    let stream = 2 * turn + 1;
    let opened = if turn == 0 { frame(HEADERS, END_HEADERS, 1, CALL) } else { Vec::new() };
    let headers = |flags, stream, block: &[u8]| frame(HEADERS, flags, stream, block);
    match number {
        0 => frame(PING, 0, 0, &[7; 8]).repeat(500),
        1 => frame(SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]).repeat(500),
        2 => [headers(END_HEADERS, stream, CALL), frame(RESET, 0, stream, &[0, 0, 0, 8])].concat(),
        3 => [opened, frame(DATA, 0, 1, &[]).repeat(500)].concat(),
        4 => [opened, frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]).repeat(500)].concat(),
        5 => frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 1]).repeat(500),
        6 => frame(UNKNOWN, 0, 0, &[1; 1000]).repeat(50),
        // Headers in a block that does not end: one after the other, or none at all.
        7 | 8 if turn == 0 => headers(0, 1, CALL),
        7 => frame(
            CONTINUATION,
            0,
            1,
            &[&b"\x00\x01a\x7f\x00"[..], &[b'b'; 127]].concat().repeat(100),
        ),
        8 => frame(CONTINUATION, 0, 1, &[]).repeat(500),
        // No HTTP at all.
        _ => vec![b'?'; 10_000],
    }
}

const STORMS: usize = 10;

/// Sends a storm on a connection of its own; whoever `reads` takes the answers.
async fn blow(address: std::net::SocketAddr, number: usize, reads: bool) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (mut answers, mut to) = stream.split();
    let frames = async {
        let end = now() + STORM;
        to.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
        to.write_all(&frame(SETTINGS, 0, 0, &[])).await?;
        let mut turn = 0;
        while now() < end {
            to.write_all(&storm(number, turn)).await?;
            turn += 1;
        }
        std::io::Result::Ok(())
    };
    let read = async {
        if reads {
            copy(&mut answers, &mut sink()).await.ok();
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        // That the picker ends the connection, or stops to read from it, is its right.
        _ = timeout(2 * STORM, frames) => {}
        () = read => {}
    }
}

/// Lets a storm blow while requests are served.
async fn weather(scene: &mut Scene, number: usize, reads: bool) {
    let mut storm = JoinSet::new();
    storm.spawn(blow(scene.picker().ext_proc, number, reads));
    while storm.try_join_next().map(Result::unwrap).is_none() {
        scene.load.pass(5).await;
    }
}

#[tokio::test]
async fn storms_of_frames_disturb_nobody_else() {
    let mut scene = Scene::start(2, "").await;
    scene.load.pass(100).await;
    let before = memory(scene.picker());
    for number in 0..STORMS {
        for reads in [true, false] {
            weather(&mut scene, number, reads).await;
            let most = most_memory(scene.picker());
            assert!(most < before + (64 << 10), "{number}: {before} KiB before, {most} at most");
        }
    }
    let returned = eventually(SOON, async || {
        let after = memory(scene.picker());
        ensure!(after < before + (16 << 10), "{before} KiB before, {after} KiB after");
        Ok(())
    });
    returned.await.unwrap();
    scene.unharmed().await;
}
