//! Health as the protocol wants it of a watch: one that ends is begun anew by its client, again and again.

use std::pin::Pin;

use tokio_stream::{Stream, StreamExt, once, pending};
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::Health;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_health::server::HealthService;

/// Tells those who watch an unknown name that it is, and lets them wait.
#[derive(Debug)]
pub struct Watchable(pub(super) HealthService);

#[tonic::async_trait]
impl Health for Watchable {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn check(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<HealthCheckResponse>, Status> {
        self.0.check(request).await
    }

    async fn watch(
        &self,
        request: Request<HealthCheckRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        Ok(match self.0.watch(request).await {
            Ok(known) => known.map(|statuses| -> Self::WatchStream { Box::pin(statuses) }),
            Err(_unknown) => {
                let status = ServingStatus::ServiceUnknown.into();
                let told = once(Ok(HealthCheckResponse { status }));
                Response::new(Box::pin(told.chain(pending())))
            }
        })
    }
}
