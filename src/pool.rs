//! What is known of the endpoints: one immutable snapshot, one writer.
//!
//! Everything that can change the pool is an [`Event`]. One task applies events to the [`State`] and publishes a
//! [`Snapshot`]; a decision loads that snapshot once and sees one consistent view. The only state that requests share
//! and change themselves is [`Live`], the count of what they have in flight on an endpoint.

pub use self::activity::Standing;
pub use self::cached::Cached;
pub use self::dump::Dump;
pub use self::endpoint::{Endpoint, EndpointId, EndpointSpec, Slot};
pub use self::failure_mode::FailureMode;
pub use self::labels::{is_label_key, is_label_value};
pub use self::life::{Drain, Facts, Life, Phase, Reason, Remaining, Transition};
pub use self::live::{InFlight, Live};
pub use self::names::Names;
pub use self::routes::{Routes, Targets};
pub use self::sample::{Adapters, Attributes, Reading, Sample};
pub use self::selector::{Requirement, Selector, SelectorError};
pub use self::served::Models;
pub use self::snapshot::{Roster, Snapshot};
pub use self::speed::{CHUNK_TOKENS, PROMPT_TOKEN_SECONDS, STEP_SECONDS, Speed};
pub use self::state::{Change, Event, Judging, State};
pub use self::subset::{Allowed, Subset};
pub use self::tally::Tally;
pub use self::view::EndpointView;
pub use self::work::{Outlook, Prompt};
pub use self::worth::{Worth, worths};

pub mod readiness;

mod activity;
mod cached;
mod dump;
mod endpoint;
mod failure_mode;
mod health;
mod labels;
mod life;
mod live;
mod names;
mod routes;
mod sample;
mod selector;
mod served;
mod snapshot;
mod speed;
mod state;
mod subset;
mod tally;
mod view;
mod work;
mod worth;
