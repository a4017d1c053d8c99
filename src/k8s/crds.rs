//! The CRDs in `manifests/crds`, made of the types that read their objects.
//!
//! The types say which fields there are and what they mean. The rules here say what the API server refuses and fills
//! in, which is what the CRDs of the Gateway API Inference Extension and of llm-d do; they also add the fields that are
//! for gateways and never read here.
//!
//! `UPDATE_EXPECT=1 cargo test -p lodesman --lib crds` writes the files.

use std::path::Path;

use expect_test::expect_file;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use self::rules::Rules;
use super::types::model::ModelSpec;
use super::types::objective::ObjectiveSpec;
use super::types::pool::{LegacyPoolSpec, PoolSpec};
use super::types::rewrite::RewriteSpec;
use super::types::{GROUP, LEGACY_GROUP, LLM_D_GROUP};

mod rules;

/// The release of the Gateway API Inference Extension whose InferencePool this is. Its conformance suite wants exactly
/// one such release in a cluster, so the kinds that have left that project carry none.
const BUNDLE: (&str, &str) = ("inference.networking.k8s.io/bundle-version", "v1.6.0");

/// What the API server asks for in a group of `k8s.io`: where this API was reviewed.
const APPROVED: (&str, &str) = (
    "api-approved.kubernetes.io",
    "https://github.com/kubernetes-sigs/gateway-api-inference-extension/pull/1173",
);

const UNAPPROVED: (&str, &str) = ("api-approved.kubernetes.io", "unapproved, experimental-only");

const POOL_COLUMN: (&str, &str, &str) = ("Inference Pool", "string", ".spec.poolRef.name");

/// A custom resource, one version of it.
struct Crd {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    short: &'static [&'static str],
    annotations: &'static [(&'static str, &'static str)],
    /// Name, type and path of what `kubectl get` shows besides the name; its default is the age.
    columns: Vec<(&'static str, &'static str, &'static str)>,
    about: &'static str,
    spec: Value,
    status: Value,
    /// Whether an object without a spec is refused.
    strict: bool,
}

impl Crd {
    fn name(&self) -> String {
        format!("{}s.{}", self.kind.to_lowercase(), self.group)
    }

    fn yaml(&self) -> String {
        let singular = self.kind.to_lowercase();
        let mut names = json!({
            "kind": self.kind,
            "listKind": format!("{}List", self.kind),
            "plural": format!("{singular}s"),
            "singular": singular,
        });
        if !self.short.is_empty() {
            names["shortNames"] = json!(self.short);
        }
        let mut metadata = json!({"name": self.name()});
        if !self.annotations.is_empty() {
            metadata["annotations"] = self.annotations.iter().copied().collect();
        }
        let crd = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": metadata,
            "spec": {
                "group": self.group,
                "names": names,
                "scope": "Namespaced",
                "versions": [self.served()],
            },
        });
        let note = "# Made of src/k8s/types by src/k8s/crds.rs, which says how.";
        format!("{note}\n{}", serde_saphyr::to_string(&crd).unwrap())
    }

    fn served(&self) -> Value {
        let mut schema = json!({
            "description": self.about,
            "type": "object",
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "spec": self.spec,
                "status": self.status,
            },
        });
        if self.strict {
            schema["required"] = json!(["spec"]);
        }
        let mut version = json!({
            "name": self.version,
            "served": true,
            "storage": true,
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}},
        });
        let age = ("Age", "date", ".metadata.creationTimestamp");
        if !self.columns.is_empty() {
            version["additionalPrinterColumns"] = (self.columns.iter().chain([&age]))
                .map(|(name, kind, path)| json!({"name": name, "type": kind, "jsonPath": path}))
                .collect();
        }
        version
    }
}

fn crds() -> Vec<Crd> {
    let mut crds = vec![pool(), legacy_pool(), model()];
    for group in [LEGACY_GROUP, LLM_D_GROUP] {
        crds.extend([objective(group), rewrite(group)]);
    }
    crds
}

fn pool() -> Crd {
    Crd {
        group: GROUP,
        version: "v1",
        kind: "InferencePool",
        short: &["infpool"],
        annotations: &[APPROVED, BUNDLE],
        columns: Vec::new(),
        about: "Pods that serve the same models, and the endpoint picker that chooses among them.",
        spec: schema::<PoolSpec>(rules::pool()),
        status: rules::pool_status(),
        strict: true,
    }
}

fn legacy_pool() -> Crd {
    Crd {
        group: LEGACY_GROUP,
        version: "v1alpha2",
        short: &["xinfpool"],
        annotations: &[UNAPPROVED],
        spec: schema::<LegacyPoolSpec>(rules::legacy_pool()),
        status: rules::legacy_pool_status(),
        strict: false,
        ..pool()
    }
}

fn model() -> Crd {
    Crd {
        group: LEGACY_GROUP,
        version: "v1alpha2",
        kind: "InferenceModel",
        short: &[],
        annotations: &[],
        columns: vec![
            ("Model Name", "string", ".spec.modelName"),
            POOL_COLUMN,
            ("Criticality", "string", ".spec.criticality"),
        ],
        about: "How urgent requests for a model are and which models they ask for; superseded by InferenceObjective \
                and InferenceModelRewrite.",
        spec: schema::<ModelSpec>(rules::model()),
        status: rules::status("Ready"),
        strict: false,
    }
}

fn objective(group: &'static str) -> Crd {
    Crd {
        group,
        kind: "InferenceObjective",
        columns: vec![POOL_COLUMN, ("Priority", "integer", ".spec.priority")],
        about: "How urgent the requests are that name it in the header x-llm-d-inference-objective.",
        spec: schema::<ObjectiveSpec>(rules::objective(group)),
        ..model()
    }
}

fn rewrite(group: &'static str) -> Crd {
    Crd {
        group,
        kind: "InferenceModelRewrite",
        columns: vec![POOL_COLUMN],
        about: "Which models are asked for instead of those that clients name.",
        spec: schema::<RewriteSpec>(rules::rewrite()),
        status: rules::status("Accepted"),
        ..model()
    }
}

/// The structural schema of a type, narrowed by rules.
fn schema<T: JsonSchema>(rules: Rules) -> Value {
    let inline = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = inline.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema);
    for (path, rule) in rules {
        rules::apply(&mut schema, path, rule);
    }
    schema
}

/// Drops what a structural schema does not know, and what comes of leniency: `null` and defaults of the reader.
fn tidy(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    for field in ["title", "default"] {
        fields.remove(field);
    }
    if let Some(Value::Array(types)) = fields.get("type") {
        let plain = types.iter().find(|kind| *kind != "null").cloned().unwrap();
        fields.insert("type".to_owned(), plain);
    }
    if let Some(any) = fields.remove("anyOf") {
        let plain = any[0].as_object().unwrap().clone();
        for (field, value) in plain {
            fields.entry(field).or_insert(value);
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(tidy);
    }
    for inner in ["items", "additionalProperties"] {
        fields.get_mut(inner).into_iter().for_each(tidy);
    }
}

#[test]
fn the_shipped_crds_are_those_of_the_types() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/crds");
    for crd in crds() {
        expect_file![folder.join(format!("{}.yaml", crd.name()))].assert_eq(&crd.yaml());
    }
}

#[test]
fn kustomize_lists_every_crd() {
    let list = include_str!("../../manifests/crds/kustomization.yaml");
    for crd in crds() {
        assert!(list.contains(&format!("- {}.yaml\n", crd.name())), "{}", crd.name());
    }
}

#[test]
#[should_panic(expected = "no field picker")]
fn a_rule_for_a_field_that_is_gone_is_found() {
    schema::<PoolSpec>(vec![("picker", json!({"default": "x"}))]);
}
