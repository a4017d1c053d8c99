//! Whether a pod is to drain, by what it says itself and by its node.

use k8s_openapi::jiff::Timestamp;

use crate::k8s::follow::Item;
use crate::k8s::types::{Node, Pod};
use crate::pool::Reason;

/// The annotation of a pod that is to drain: `true`, or the time until which it drains (RFC 3339).
pub(in crate::k8s) const DRAIN: &str = "lodesman.dev/drain";

/// What an autoscaler puts on a node that it is about to remove.
const REMOVED: [&str; 3] =
    ["ToBeDeletedByClusterAutoscaler", "karpenter.sh/disrupted", "karpenter.sh/disruption"];

/// A node whose pods are to drain, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::k8s) struct Emptied(pub(in crate::k8s) Reason);

impl Item for Emptied {
    const PAGE: u32 = 100;
    const ROOM: usize = 1 << 20;

    fn size(&self) -> usize {
        size_of::<Self>()
    }
}

/// Whether a node is about to be emptied; none when it is not.
#[expect(clippy::needless_pass_by_value, reason = "what items are made by")]
pub(in crate::k8s) fn emptied(node: Node) -> Option<Emptied> {
    let removed = node.spec.taints.iter().any(|taint| REMOVED.contains(&&*taint.key));
    match (removed, node.spec.unschedulable) {
        (true, _) => Some(Emptied(Reason::NodeRemoved)),
        (false, true) => Some(Emptied(Reason::NodeCordoned)),
        (false, false) => None,
    }
}

/// A pod that is to drain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::k8s) struct Leaving {
    /// Why.
    pub(in crate::k8s) reason: Reason,
    /// Until when; none while it is not withdrawn.
    pub(in crate::k8s) until: Option<Timestamp>,
    /// Whether it still is ready.
    pub(in crate::k8s) serves: bool,
}

/// What the annotation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word<'a> {
    No,
    Yes,
    Until(Timestamp),
    /// Nothing that can be understood.
    Unread(&'a str),
}

impl<'a> Word<'a> {
    pub(super) fn read(text: &'a str) -> Self {
        match text.trim() {
            "true" => Self::Yes,
            "" | "false" => Self::No,
            time => time.parse().map_or(Self::Unread(text), Self::Until),
        }
    }
}

/// Why a pod is to drain, the cause that cannot be withdrawn first; none when it is not.
pub(super) fn leaving(pod: &Pod, said: Option<Word<'_>>) -> Option<Leaving> {
    let told = |reason| Leaving { reason, until: None, serves: pod.has("Ready") };
    if pod.metadata.deletion_timestamp.is_some() {
        return Some(told(Reason::PodDeleted));
    }
    if pod.has("DisruptionTarget") {
        return Some(told(Reason::DisruptionTarget));
    }
    let until = match said? {
        Word::Yes => None,
        Word::Until(time) => Some(time),
        Word::No | Word::Unread(_) => return None,
    };
    Some(Leaving { until, ..told(Reason::Annotation) })
}
