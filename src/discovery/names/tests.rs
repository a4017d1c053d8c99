use std::net::Ipv4Addr;
use std::sync::Arc;

use hickory_resolver::Resolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::rdata::{A, AAAA, SRV};
use hickory_resolver::proto::rr::{Name as DnsName, Record};
use parking_lot::Mutex;
use tokio::net::UdpSocket;

use super::*;
use crate::config::FileDiscovery;
use crate::discovery::{Follower, Source};
use crate::pool::Event;

const DEADLINE: Duration = Duration::from_secs(10);

/// A name server on loopback that says what the test tells it to; it ends with the test.
struct NameServer {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    _task: JoinSet<()>,
}

/// What a name server knows.
#[derive(Default)]
struct Zone {
    records: Vec<(&'static str, RData)>,
    failing: bool,
    /// Names that were asked for.
    asked: Vec<String>,
}

impl NameServer {
    async fn start(records: &[(&'static str, RData)]) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = socket.local_addr().unwrap();
        let zone = Arc::new(Mutex::new(Zone { records: records.to_vec(), ..Zone::default() }));
        let (mut task, shared) = (JoinSet::new(), Arc::clone(&zone));
        task.spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                let answer = shared.lock().answer(&buffer[..length]);
                socket.send_to(&answer, from).await.unwrap();
            }
        });
        Self { address, zone, _task: task }
    }

    fn names(&self) -> Names {
        let mut connection = ConnectionConfig::udp();
        connection.port = self.address.port();
        let server = NameServerConfig::new(self.address.ip(), true, vec![connection]);
        let config = ResolverConfig::from_name_servers(vec![server]);
        let resolver =
            build(Resolver::builder_with_config(config, TokioRuntimeProvider::default()));
        let soon = Duration::from_millis(10);
        Names::by(Ok(resolver.unwrap()), Pace { retry: soon, soonest: soon, latest: soon })
    }

    fn says(&self, records: &[(&'static str, RData)]) {
        self.zone.lock().records = records.to_vec();
    }
}

impl Zone {
    fn answer(&mut self, question: &[u8]) -> Vec<u8> {
        let question = Message::from_vec(question).unwrap();
        let query = question.queries[0].clone();
        let name = query.name().to_ascii();
        let mut answer = Message::response(question.metadata.id, question.metadata.op_code);
        answer.metadata.recursion_available = true;
        answer.add_query(query.clone());
        let known = self.records.iter().filter(|(known, _)| format!("{known}.") == name);
        if self.failing {
            answer.metadata.response_code = ResponseCode::ServFail;
        } else if known.clone().next().is_none() {
            answer.metadata.response_code = ResponseCode::NXDomain;
        }
        for (_, data) in known.filter(|(_, data)| data.record_type() == query.query_type()) {
            answer.add_answer(Record::from_rdata(query.name().clone(), 1, data.clone()));
        }
        self.asked.push(name);
        answer.to_vec().unwrap()
    }
}

fn v4(last: u8) -> RData {
    RData::A(A::new(10, 0, 0, last))
}

fn v6(last: u16) -> RData {
    RData::AAAA(AAAA::new(0xfd00, 0, 0, 0, 0, 0, 0, last))
}

fn srv(port: u16, target: &str) -> RData {
    RData::SRV(SRV::new(0, 0, port, DnsName::from_ascii(target).unwrap()))
}

/// A follower that ends with the test.
struct Following {
    events: mpsc::Receiver<Event>,
    _task: JoinSet<()>,
}

impl Following {
    fn of(server: &NameServer, list: &[&str]) -> Self {
        let addresses = list.iter().map(|address| address.parse().unwrap()).collect();
        Self::source(server, Source::List(addresses))
    }

    fn source(server: &NameServer, source: Source) -> Self {
        let (sender, events) = mpsc::channel(4);
        let (follower, mut task) = (Follower::new(source, server.names()), JoinSet::new());
        task.spawn(async move { follower.run(sender).await.unwrap() });
        Self { events, _task: task }
    }

    /// The next list, as `name address`.
    async fn next(&mut self) -> Vec<String> {
        let event = tokio::time::timeout(DEADLINE, self.events.recv()).await;
        let Ok(Some(Event::Endpoints(endpoints))) = event else { panic!("{event:?}") };
        endpoints.iter().map(|spec| format!("{} {}", spec.name, spec.address)).collect()
    }
}

#[tokio::test]
async fn a_host_is_an_endpoint_at_each_of_its_addresses_and_is_asked_for_again() {
    let server = NameServer::start(&[("engines.test", v4(2)), ("engines.test", v4(1))]).await;
    let mut following = Following::of(&server, &["engines.test:8000", "10.9.9.9:80"]);
    let fixed = "10.9.9.9:80 10.9.9.9:80";
    let first =
        ["engines.test-10.0.0.1 10.0.0.1:8000", "engines.test-10.0.0.2 10.0.0.2:8000", fixed];
    assert_eq!(following.next().await, first);
    server.says(&[("engines.test", v4(3))]);
    assert_eq!(following.next().await, ["engines.test-10.0.0.3 10.0.0.3:8000", fixed]);
}

#[tokio::test]
async fn the_last_addresses_stay_while_the_name_server_fails() {
    let server = NameServer::start(&[("engines.test", v4(1))]).await;
    let mut following = Following::of(&server, &["engines.test:80"]);
    assert_eq!(following.next().await.len(), 1);
    let asked = {
        let mut zone = server.zone.lock();
        (zone.failing, zone.records) = (true, vec![("engines.test", v4(2))]);
        zone.asked.len()
    };
    let failures = async {
        while server.zone.lock().asked.len() < asked + 4 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(DEADLINE, failures).await.expect("it is asked again");
    assert!(following.events.try_recv().is_err(), "nothing changed");
    server.zone.lock().failing = false;
    assert_eq!(following.next().await, ["engines.test-10.0.0.2 10.0.0.2:80"]);
}

#[tokio::test]
async fn a_name_without_addresses_is_believed_in_the_end() {
    let server = NameServer::start(&[("engines.test", v4(1))]).await;
    let mut following = Following::of(&server, &["engines.test:80"]);
    assert_eq!(following.next().await.len(), 1);
    server.says(&[]);
    assert_eq!(following.next().await, Vec::<String>::new());
}

#[tokio::test]
async fn ipv6_addresses_count_where_there_are_no_others() {
    let both = [("both.test", v6(1)), ("both.test", v4(1)), ("six.test", v6(2))];
    let server = NameServer::start(&both).await;
    let mut following = Following::of(&server, &["both.test:80", "six.test:80"]);
    let expected = ["both.test-10.0.0.1 10.0.0.1:80", "six.test-fd00::2 [fd00::2]:80"];
    assert_eq!(following.next().await, expected);
}

#[tokio::test]
async fn a_service_names_hosts_and_ports() {
    let service = "_http._tcp.engines.test";
    let server = NameServer::start(&[
        (service, srv(8001, "a.engines.test.")),
        (service, srv(8002, "a.engines.test.")),
        (service, srv(8001, "b.engines.test.")),
        ("a.engines.test", v4(1)),
        ("b.engines.test", v4(2)),
    ])
    .await;
    let mut following = Following::of(&server, &["srv+_http._tcp.engines.test"]);
    let expected = [("10.0.0.1", 8001), ("10.0.0.1", 8002), ("10.0.0.2", 8001)]
        .map(|(ip, port)| format!("{service}-{ip}-{port} {ip}:{port}"));
    assert_eq!(following.next().await, expected);
}

#[tokio::test]
async fn names_of_a_file_come_and_go_with_their_entries() {
    let server = NameServer::start(&[("old.test", v4(1)), ("new.test", v4(2))]).await;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("endpoints.yaml");
    let write = |name: &str| {
        let text = format!(
            "endpoints: [{{name: a, address: {name}, port: 80, labels: {{tier: gold}}}}]\n"
        );
        std::fs::write(directory.path().join("new"), text).unwrap();
        std::fs::rename(directory.path().join("new"), &path).unwrap();
    };
    write("old.test");
    let file = FileDiscovery { path: path.clone(), watch: true };
    let mut following = Following::source(&server, Source::File(file));
    assert_eq!(following.next().await, ["a-10.0.0.1 10.0.0.1:80"]);
    write("new.test");
    let mut next = following.next().await;
    if next.is_empty() {
        next = following.next().await;
    }
    assert_eq!(next, ["a-10.0.0.2 10.0.0.2:80"]);
    let (settled, begin) = (server.zone.lock().asked.len(), "old.test.");
    let more = async {
        while server.zone.lock().asked.len() < settled + 5 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(DEADLINE, more).await.expect("the new name is asked for");
    assert!(!server.zone.lock().asked[settled..].iter().any(|asked| asked == begin));
}

#[test]
fn nothing_is_told_twice_and_an_empty_answer_only_when_it_comes_again() {
    let (mut known, one) = (Known::default(), BTreeSet::from(["10.0.0.1:80".parse().unwrap()]));
    let none = BTreeSet::new;
    assert_eq!(known.take(Err(())), Some(none()), "the first outcome, so that nobody waits");
    assert_eq!(known.take(Ok(one.clone())), Some(one.clone()));
    assert_eq!(known.take(Ok(one.clone())), None);
    assert_eq!(
        (known.take(Ok(none())), known.take(Err(())), known.take(Ok(none()))),
        (None, None, None)
    );
    assert_eq!(known.take(Ok(none())), Some(none()));
    assert_eq!(known.take(Ok(one.clone())), Some(one));
}
