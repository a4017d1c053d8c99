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
    mount.swap("endpoints: [");
    tokio::time::timeout(Duration::from_secs(1), following.events.recv())
        .await
        .expect_err("no list");
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
    std::fs::write(&path, document(&[("a", 1)])).unwrap();
    follow(file.clone(), sender.clone()).await.unwrap();
    assert!(matches!(events.try_recv(), Ok(Event::Endpoints(list)) if list.len() == 1));
    std::fs::write(&path, vec![b' '; (1 << 20) + 1]).unwrap();
    assert!(follow(file, sender).await.is_err(), "longer than 1 MiB");
}
