//! A client that asks an external scaler as KEDA does, with messages of its own, and scales by the answers as
//! Kubernetes does.

use std::collections::HashMap;
use std::net::SocketAddr;

use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

/// How far a value may be from its target before anything is scaled, as Kubernetes has it.
const TOLERANCE: f64 = 0.1;

/// A `ScaledObject` with one trigger.
#[derive(Clone)]
pub(super) struct Keda {
    channel: Channel,
    object: ScaledObjectRef,
}

/// What a poll tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Poll {
    pub(super) target: f64,
    pub(super) value: f64,
    pub(super) active: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ScaledObjectRef {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    namespace: String,
    #[prost(map = "string, string", tag = "3")]
    metadata: HashMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct IsActive {
    #[prost(bool, tag = "1")]
    pub(super) result: bool,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Specs {
    #[prost(message, repeated, tag = "1")]
    specs: Vec<Figure>,
}

/// A target, or a value: both messages look alike.
#[derive(Clone, PartialEq, prost::Message)]
struct Figure {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int64, tag = "2")]
    whole: i64,
    #[prost(double, tag = "3")]
    float: f64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Wanted {
    #[prost(message, optional, tag = "1")]
    object: Option<ScaledObjectRef>,
    #[prost(string, tag = "2")]
    name: String,
}

impl Figure {
    /// As KEDA reads it: the float unless it is 0.
    fn value(&self) -> f64 {
        if self.float > 0.0 { self.float } else { self.whole as f64 }
    }
}

impl Keda {
    pub(super) fn of(scaler: SocketAddr, metadata: &[(&str, &str)]) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{scaler}")).unwrap();
        let address = scaler.to_string();
        let all = metadata.iter().copied().chain([("scalerAddress", address.as_str())]);
        let metadata = all.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let (name, namespace) = ("model-server".to_owned(), "default".to_owned());
        Self {
            channel: endpoint.connect_lazy(),
            object: ScaledObjectRef { name, namespace, metadata },
        }
    }

    /// One poll: the calls of KEDA 2.21, in its order.
    pub(super) async fn poll(&self) -> Result<Poll, Status> {
        let specs: Specs = self.call("GetMetricSpec", self.object.clone()).await?;
        let [spec] = specs.specs.as_slice() else { panic!("{specs:?}") };
        let wanted = Wanted { object: Some(self.object.clone()), name: spec.name.clone() };
        let values: Specs = self.call("GetMetrics", wanted).await?;
        let [value] = values.specs.as_slice() else { panic!("{values:?}") };
        assert_eq!(value.name, spec.name);
        assert!((value.whole as f64 - value.float).abs() < 1.0, "{value:?}");
        let IsActive { result } = self.call("IsActive", self.object.clone()).await?;
        Ok(Poll { target: spec.value(), value: value.value(), active: result })
    }

    /// The stream of a trigger of the type `external-push`.
    pub(super) async fn push(&self) -> Streaming<IsActive> {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.unwrap();
        let answer = grpc.server_streaming(
            Request::new(self.object.clone()),
            path("StreamIsActive"),
            ProstCodec::default(),
        );
        answer.await.unwrap().into_inner()
    }

    pub(super) async fn call<Q, A>(&self, method: &str, message: Q) -> Result<A, Status>
    where
        Q: prost::Message + 'static,
        A: prost::Message + Default + 'static,
    {
        let mut grpc = Grpc::new(self.channel.clone());
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let codec = ProstCodec::<Q, A>::default();
        Ok(grpc.unary(Request::new(message), path(method), codec).await?.into_inner())
    }
}

impl Poll {
    /// The number of replicas that follows from `now`, of 0 ..= `most`: 0 without work, 1 at its begin, else what brings the
    /// mean to the target.
    pub(super) fn replicas(self, now: usize, most: usize) -> usize {
        if !self.active {
            return 0;
        }
        if now == 0 {
            return 1;
        }
        let wanted = self.value / self.target;
        if (wanted / now as f64 - 1.0).abs() <= TOLERANCE {
            return now;
        }
        (1..most).find(|count| wanted <= *count as f64).unwrap_or(most)
    }
}

fn path(method: &str) -> PathAndQuery {
    format!("/externalscaler.ExternalScaler/{method}").parse().unwrap()
}
