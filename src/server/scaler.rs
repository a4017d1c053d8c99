//! The external scaler that KEDA asks: how much there is to do, from memory.
//!
//! Pull: on each poll KEDA asks for the specs, the value and whether there is work. Push: a stream tells of work as soon as
//! the first request finds no endpoint. `StreamMetricSpec` is not implemented, as KEDA allows: targets do not change.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::stream::{Stream, unfold};
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use crate::pool::Snapshot;
use crate::scale::{Board, Query};
use crate::server::clock;
use crate::wire::scaler::external_scaler_server::{ExternalScaler, ExternalScalerServer};
use crate::wire::scaler::{
    GetMetricSpecResponse, GetMetricsRequest, GetMetricsResponse, IsActiveResponse, MetricSpec,
    MetricValue, ScaledObjectRef,
};

/// The longest request in bytes: a trigger is a few names and numbers.
const LONGEST: usize = 64 * 1024;

/// Answers KEDA.
#[derive(Clone, Debug)]
pub struct Scaler {
    /// What is known of the demand.
    pub board: Arc<Board>,
    /// The newest snapshot.
    pub snapshot: Arc<ArcSwap<Snapshot>>,
    /// The name of the pool.
    pub pool: Arc<str>,
}

impl Scaler {
    /// The service to add to a gRPC server.
    pub fn service(self) -> ExternalScalerServer<Self> {
        ExternalScalerServer::new(self).max_decoding_message_size(LONGEST)
    }

    fn query(&self, metadata: &HashMap<String, String>) -> Result<Query, Status> {
        let query = Query::read(metadata, &self.pool);
        query.map_err(|error| Status::invalid_argument(error.to_string()))
    }

    fn active(&self, query: &Query) -> bool {
        self.board.active(query, &self.snapshot.load(), clock::now())
    }
}

/// What a stream goes on with.
struct Watch {
    scaler: Scaler,
    query: Query,
    changes: watch::Receiver<()>,
    /// What was told last.
    told: Option<bool>,
}

impl Watch {
    /// The next news; none when there will be no more.
    async fn next(mut self) -> Option<(Result<IsActiveResponse, Status>, Self)> {
        loop {
            self.changes.borrow_and_update();
            let result = self.scaler.active(&self.query);
            if self.told.replace(result) != Some(result) {
                return Some((Ok(IsActiveResponse { result }), self));
            }
            self.changes.changed().await.ok()?;
        }
    }
}

#[tonic::async_trait]
impl ExternalScaler for Scaler {
    async fn is_active(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<IsActiveResponse>, Status> {
        let query = self.query(&request.get_ref().scaler_metadata)?;
        Ok(Response::new(IsActiveResponse { result: self.active(&query) }))
    }

    type StreamIsActiveStream =
        Pin<Box<dyn Stream<Item = Result<IsActiveResponse, Status>> + Send>>;

    async fn stream_is_active(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<Self::StreamIsActiveStream>, Status> {
        let query = self.query(&request.get_ref().scaler_metadata)?;
        let (scaler, changes) = (self.clone(), self.board.changes());
        let watch = Watch { scaler, query, changes, told: None };
        Ok(Response::new(Box::pin(unfold(watch, Watch::next))))
    }

    async fn get_metric_spec(
        &self,
        request: Request<ScaledObjectRef>,
    ) -> Result<Response<GetMetricSpecResponse>, Status> {
        let query = self.query(&request.get_ref().scaler_metadata)?;
        let spec = MetricSpec {
            metric_name: query.metric.name().to_owned(),
            target_size: rounded(query.target).max(1),
            target_size_float: query.target,
        };
        Ok(Response::new(GetMetricSpecResponse { metric_specs: vec![spec] }))
    }

    async fn get_metrics(
        &self,
        request: Request<GetMetricsRequest>,
    ) -> Result<Response<GetMetricsResponse>, Status> {
        let GetMetricsRequest { scaled_object_ref, metric_name } = request.into_inner();
        let query = self.query(&scaled_object_ref.unwrap_or_default().scaler_metadata)?;
        let name = query.metric.name();
        if !metric_name.is_empty() && metric_name != name {
            let asked: String = metric_name.chars().take(64).collect();
            let told = format!("metricName: {asked:?} is not of this trigger, ask for {name}");
            return Err(Status::invalid_argument(told));
        }
        let value = self.board.value(&query, &self.snapshot.load(), clock::now());
        let value = MetricValue {
            metric_name: name.to_owned(),
            metric_value: rounded(value),
            metric_value_float: value,
        };
        Ok(Response::new(GetMetricsResponse { metric_values: vec![value] }))
    }
}

/// For versions of KEDA that know whole numbers alone: a part counts as one.
#[expect(clippy::cast_possible_truncation, reason = "saturates")]
fn rounded(value: f64) -> i64 {
    value.ceil() as i64
}
