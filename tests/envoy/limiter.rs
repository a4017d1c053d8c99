//! A rate limit service with one budget for each key, which is never filled up again.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::{Code, DescriptorStatus};
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_server::{
    RateLimitService, RateLimitServiceServer,
};
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// A service; dropping it ends it.
pub(super) struct Limiter {
    pub(super) address: SocketAddr,
    spent: Spent,
    _task: JoinSet<()>,
}

/// What was spent, by the values of a descriptor.
type Spent = Arc<Mutex<HashMap<String, u64>>>;

struct Service {
    budget: u64,
    spent: Spent,
}

impl Limiter {
    pub(super) async fn start(budget: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, spent) = (listener.local_addr().unwrap(), Spent::default());
        let service = Service { budget, spent: Arc::clone(&spent) };
        let mut task = JoinSet::new();
        task.spawn(async move {
            let server = Server::builder().add_service(RateLimitServiceServer::new(service));
            server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        });
        Self { address, spent, _task: task }
    }

    /// What was spent of a key's budget.
    pub(super) fn spent(&self, key: &str) -> u64 {
        self.spent.lock().get(key).copied().unwrap_or_default()
    }
}

impl Service {
    /// Adds what is to be added, and tells whether there was something left before.
    fn limited(&self, descriptor: &RateLimitDescriptor, usual: u64) -> DescriptorStatus {
        let values: Vec<&str> = descriptor.entries.iter().map(|entry| &*entry.value).collect();
        let added = descriptor.hits_addend.map_or(usual, |added| added.value);
        let mut all = self.spent.lock();
        let spent = all.entry(values.join(" ")).or_default();
        let code = if *spent < self.budget { Code::Ok } else { Code::OverLimit };
        *spent += added;
        DescriptorStatus { code: code.into(), ..DescriptorStatus::default() }
    }
}

#[tonic::async_trait]
impl RateLimitService for Service {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        let RateLimitRequest { descriptors, hits_addend, .. } = request.into_inner();
        let usual = u64::from(hits_addend.max(1));
        let statuses: Vec<_> = descriptors.iter().map(|one| self.limited(one, usual)).collect();
        let over = statuses.iter().any(|status| status.code() == Code::OverLimit);
        let overall = if over { Code::OverLimit } else { Code::Ok };
        Ok(Response::new(RateLimitResponse {
            overall_code: overall.into(),
            statuses,
            ..RateLimitResponse::default()
        }))
    }
}
