use std::time::{Duration, Instant};

use super::*;

fn addresses(listing: &Listing) -> Vec<String> {
    listing.members.iter().map(|endpoint| endpoint.address.to_string()).collect()
}

fn document(entries: &[(&str, u16)]) -> String {
    let entry = |(name, port): &(&str, u16)| {
        format!("- {{name: {name}, address: 127.0.0.1, port: {port}}}\n")
    };
    format!("endpoints:\n{}", entries.iter().map(entry).collect::<String>())
}

#[test]
fn the_references_document_is_read() {
    let text = "endpoints:\n- name: a\n  namespace: prod\n  address: 10.0.0.1\n  port: \"8000\"\n  labels: {tier: gold}\n\
                - {name: b, address: \"fd00::1\", port: 8001}\n- {name: c, address: \"[fd00::2]\", port: 8001, labels: }\n";
    let listing = parse(text).unwrap();
    assert_eq!(addresses(&listing), ["10.0.0.1:8000", "[fd00::1]:8001", "[fd00::2]:8001"]);
    assert_eq!(
        (listing.members[0].namespace.as_str(), listing.members[1].namespace.as_str()),
        ("prod", "default")
    );
    assert_eq!(listing.members[0].labels["tier"], "gold");
    assert_eq!(listing.problems, []);
}

#[test]
fn an_entry_that_cannot_be_used_is_left_out_with_its_line() {
    let text = "endpoints:\n- {name: a, address: 10.0.0.1, port: 8000}\n- {name: b, address: host..example, port: 1}\n\
                - {name: c, address: 10.0.0.3, port: 70000}\n- {address: 10.0.0.4, port: 1}\n\
                - {name: a, address: 10.0.0.5, port: 1}\n- {name: f, address: 10.0.0.1, port: 8000}\n\
                - {name: g, address: 10.0.0.7, port: \"0\"}\n- {name: h, address: 10.0.0.8, port: 8}\n- {name: i, address: 10.0.0.9}\n\
                - {name: j, address: engines.example, port: 80}\n- {name: k, address: _http._tcp.engines.example}\n";
    let listing = parse(text).unwrap();
    assert_eq!(
        addresses(&listing),
        ["10.0.0.1:8000", "10.0.0.8:8", "engines.example:80", "_http._tcp.engines.example"]
    );
    let places: Vec<_> = listing
        .problems
        .iter()
        .map(|problem| (problem.path.as_str(), problem.line.unwrap()))
        .collect();
    let expected = [
        ("endpoints[1].address", 3),
        ("endpoints[2].port", 4),
        ("endpoints[3]", 5),
        ("endpoints[4].name", 6),
        ("endpoints[5].address", 7),
        ("endpoints[6].port", 8),
        ("endpoints[8].address", 10),
    ];
    assert_eq!(places, expected);
}

#[test]
fn no_endpoints_are_a_list_and_no_document_is_none() {
    assert_eq!(parse("endpoints: []\n").unwrap(), Listing::default());
    for text in ["endpoints: 7", "- a", "endpoints: [", "endpoints: {a: b}"] {
        assert!(parse(text).is_err(), "{text}");
    }
}

fn refusal(text: &str) -> String {
    parse(text).unwrap_err()[0].in_file("f").to_string()
}

#[test]
fn a_list_of_which_no_entry_can_be_used_is_no_list() {
    for (entry, expected) in [
        (
            "{name: a, addres: 10.0.0.1, port: 8000}",
            "f:2: error: endpoints[0].addres: unknown field",
        ),
        (
            "{name: a, address: 10.0.0.1, port: \"0\"}",
            "f:2: error: endpoints[0].port: is not between",
        ),
        (
            "{name: a, address: 10.0.0.1, port: 8, labels: {x: 5}}",
            "f:2: error: endpoints[0].labels.x: invalid type",
        ),
        (
            "{name: a, address: 10.0.0.1}",
            "f:2: error: endpoints[0].address: `10.0.0.1` has no port",
        ),
        ("nothing", "f:2: error: endpoints[0]: is not a map"),
    ] {
        let told = refusal(&format!("endpoints:\n- {entry}\n"));
        assert!(told.starts_with(expected), "{told}");
        let good = format!("endpoints:\n- {entry}\n- {{name: b, address: 10.0.0.2, port: 8}}\n");
        assert_eq!(addresses(&parse(&good).unwrap()), ["10.0.0.2:8"]);
    }
}

#[test]
fn nothing_in_the_place_of_a_list_is_no_list() {
    let hint = "(write `endpoints: []` for none)";
    for null in ["endpoints:\n", "endpoints: null\n", "endpoints: ~\n"] {
        assert_eq!(refusal(null), format!("f:1: error: endpoints: is null {hint}"));
    }
    for empty in ["", "# nothing\n"] {
        assert_eq!(
            refusal(empty),
            format!("f: error: has no `endpoints` {hint}"),
            "without a line"
        );
    }
}

#[test]
fn ten_thousand_endpoints_are_no_file_too_large() {
    let entry = |n: usize| {
        format!(
            "- {{name: pod-{n}, namespace: prod, address: 10.0.{}.{}, port: 8000, labels: {{tier: gold}}}}\n",
            n / 256,
            n % 256
        )
    };
    let text: String = (0..10_000).map(entry).collect();
    let text = format!("endpoints:\n{text}");
    assert!(text.len() as u64 <= LONGEST_FILE);
    let listing = parse(&text).unwrap();
    assert_eq!((listing.members.len(), listing.problems), (10_000, vec![]));
}

#[test]
fn the_runtime_goes_on_while_a_file_is_read() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.max_blocking_threads(1).build().unwrap().block_on(async {
        let (release, released) = std::sync::mpsc::channel::<()>();
        let slow = tokio::task::spawn_blocking(move || released.recv());
        let mut reading = std::pin::pin!(read(PathBuf::new(), document(&[("a", 1)])));
        tokio::select! {
            biased;
            listing = &mut reading => panic!("read where the runtime runs: {listing:?}"),
            () = tokio::task::yield_now() => {}
        }
        release.send(()).unwrap();
        slow.await.unwrap().unwrap();
        assert_eq!(reading.await.unwrap().members.len(), 1);
    });
}

#[test]
fn listed_endpoints_are_named_by_their_addresses() {
    let addresses = ["10.0.0.1:8000", "[fd00::1]:1", "engines.example:80", "_http._tcp.example"];
    let members = listed(&addresses.map(|address| address.parse().unwrap()));
    let names: Vec<_> = members.iter().map(|member| member.name.as_str()).collect();
    assert_eq!(names, ["10.0.0.1:8000", "[fd00::1]:1", "engines.example", "_http._tcp.example"]);
}

/// A mounted volume of Kubernetes: the file is a link through `..data`, which is a link that is swapped as a whole.
struct Mount {
    root: tempfile::TempDir,
    version: u32,
}

impl Mount {
    fn new(text: &str) -> Self {
        let mut mount = Self { root: tempfile::tempdir().unwrap(), version: 0 };
        mount.swap(text);
        std::os::unix::fs::symlink("..data/endpoints.yaml", mount.path()).unwrap();
        mount
    }

    fn path(&self) -> PathBuf {
        self.root.path().join("endpoints.yaml")
    }

    fn swap(&mut self, text: &str) {
        self.version += 1;
        let directory = self.root.path().join(format!("..{}", self.version));
        std::fs::create_dir(&directory).unwrap();
        std::fs::write(directory.join("endpoints.yaml"), text).unwrap();
        let link = self.root.path().join("..data_tmp");
        std::os::unix::fs::symlink(&directory, &link).unwrap();
        std::fs::rename(link, self.root.path().join("..data")).unwrap();
    }
}

/// A watch that ends with the test, however that ends.
struct Following {
    events: mpsc::Receiver<Event>,
    _task: tokio::task::JoinSet<Result<(), DiscoveryError>>,
}

impl Following {
    fn new(path: PathBuf) -> Self {
        let (sender, events) = mpsc::channel(4);
        let mut task = tokio::task::JoinSet::new();
        task.spawn(follow(Source::File(FileDiscovery { path, watch: true }), sender));
        Self { events, _task: task }
    }

    /// The ports of the next list, and how long it took.
    #[expect(clippy::disallowed_methods, reason = "measures")]
    async fn next(&mut self) -> (Vec<u16>, Duration) {
        let begin = Instant::now();
        let event = tokio::time::timeout(Duration::from_secs(10), self.events.recv()).await;
        let Ok(Some(Event::Endpoints(endpoints))) = event else { panic!("{event:?}") };
        (endpoints.iter().map(|endpoint| endpoint.address.port()).collect(), begin.elapsed())
    }
}

#[tokio::test]
async fn a_swapped_config_map_is_seen_in_half_a_second_and_rubbish_keeps_the_list() {
    let mut mount = Mount::new(&document(&[("a", 1)]));
    let mut following = Following::new(mount.path());
    assert_eq!(following.next().await.0, [1]);
    mount.swap(&document(&[("a", 1), ("b", 2)]));
    let (ports, took) = following.next().await;
    assert_eq!(ports, [1, 2]);
    assert!(took < Duration::from_secs(2), "{took:?}, nominally 400 ms");
    for rubbish in ["endpoints: [", "endpoints:\n- {name: c, addres: 127.0.0.1, port: 3}\n"] {
        mount.swap(rubbish);
        tokio::time::timeout(Duration::from_secs(1), following.events.recv())
            .await
            .expect_err("no list");
    }
    mount.swap(&document(&[("c", 3)]));
    assert_eq!(following.next().await.0, [3]);
}

#[tokio::test]
async fn a_file_that_goes_keeps_the_list_and_one_that_comes_late_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("endpoints.yaml");
    let mut following = Following::new(path.clone());
    std::fs::write(&path, document(&[("a", 1)])).unwrap();
    assert_eq!(following.next().await.0, [1]);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(directory.path().join("new"), document(&[("a", 2)])).unwrap();
    std::fs::rename(directory.path().join("new"), &path).unwrap();
    assert_eq!(following.next().await.0, [2]);
}

#[tokio::test]
async fn a_file_not_watched_is_read_once_and_must_be_good() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("endpoints.yaml");
    let (sender, mut events) = mpsc::channel(4);
    let file = Source::File(FileDiscovery { path: path.clone(), watch: false });
    let error = follow(file.clone(), sender.clone()).await.unwrap_err();
    assert!(matches!(error, DiscoveryError::Read { .. }), "{error}");
    std::fs::write(&path, "endpoints: 7").unwrap();
    let error = follow(file.clone(), sender.clone()).await.unwrap_err().to_string();
    assert!(error.contains("endpoints.yaml:1: error: endpoints:"), "{error}");
    std::fs::write(&path, "endpoints: [7, 8, 9]").unwrap();
    let error = follow(file.clone(), sender.clone()).await.unwrap_err().to_string();
    assert!(error.ends_with(", and 2 more"), "{error}");
    std::fs::write(&path, document(&[("a", 1)])).unwrap();
    follow(file.clone(), sender.clone()).await.unwrap();
    assert!(matches!(events.try_recv(), Ok(Event::Endpoints(list)) if list.len() == 1));
    std::fs::write(&path, vec![b' '; (1 << 20) + 1]).unwrap();
    assert!(follow(file, sender).await.is_err(), "longer than 1 MiB");
}
