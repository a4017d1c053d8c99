//! What the API server refuses and fills in.

use serde_json::{Map, Value, json};

use crate::k8s::types::{GROUP, LEGACY_GROUP};

/// By path, which names properties, `[]` for the items of a list, `*` for the values of a map: what to add to the schema
/// there. A rule with a type adds the field; without one the field is there already.
pub(super) type Rules = Vec<(&'static str, Value)>;

/// A name of a DNS subdomain, or none.
const SUBDOMAIN: &str = r"^$|^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The name of a kind.
const KIND: &str = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$";

/// The name of a namespace.
const NAMESPACE: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// A label's value.
const LABEL: &str = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";

/// A controller: a domain and a path.
const CONTROLLER: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$";

/// The reason and the type of a condition, as `metav1.Condition` has them.
const REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
const CONDITION: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// Adds a rule to a schema.
pub(super) fn apply(schema: &mut Value, path: &str, rule: Value) {
    let (step, rest) = path.split_once('.').unwrap_or((path, ""));
    let Value::Object(rule) = rule else { panic!("{path}: a rule is an object") };
    let Value::Object(fields) = schema else { panic!("{path}: a schema is an object") };
    if step.is_empty() {
        return fields.extend(rule);
    }
    let (name, item) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
    let field = match name {
        "*" => fields.get_mut("additionalProperties").expect("a map"),
        _ => property(fields, name, rest.is_empty() && rule.contains_key("type")),
    };
    let inner = if item { field.get_mut("items").expect("a list") } else { field };
    apply(inner, rest, Value::Object(rule));
}

fn property<'a>(fields: &'a mut Map<String, Value>, name: &str, new: bool) -> &'a mut Value {
    let properties = fields.get_mut("properties").and_then(Value::as_object_mut).expect("fields");
    if new {
        assert!(!properties.contains_key(name), "{name} is there already");
        properties.insert(name.to_owned(), json!({}));
    }
    properties.get_mut(name).unwrap_or_else(|| panic!("no field {name}"))
}

/// InferencePool v1.
pub(super) fn pool() -> Rules {
    let mut picker = picker("endpointPickerRef.group", "endpointPickerRef.kind");
    picker.extend([
        ("endpointPickerRef.name", name()),
        ("endpointPickerRef.failureMode", failure_mode()),
        (
            "endpointPickerRef.port",
            json!({
                "type": "object",
                "description": "The port of the picker's Service.",
                "required": ["number"],
                "properties": {"number": described("1 to 65535.", number())},
            }),
        ),
        (
            "endpointPickerRef",
            validation(
                "self.kind != 'Service' || has(self.port)",
                "port is required when kind is 'Service' or unspecified (defaults to 'Service')",
            ),
        ),
        ("selector", json!({"required": ["matchLabels"]})),
        ("selector.matchLabels", json!({"minProperties": 1, "maxProperties": 64})),
        ("selector.matchLabels.*", label()),
        (
            "targetPorts",
            json!({
                "minItems": 1,
                "maxItems": 8,
                "x-kubernetes-list-type": "atomic",
            }),
        ),
        (
            "targetPorts",
            validation(
                "self.all(p1, self.exists_one(p2, p1.number==p2.number))",
                "port number must be unique",
            ),
        ),
        ("targetPorts[].number", port()),
        ("appProtocol", json!({"default": "http", "enum": ["http", "kubernetes.io/h2c"]})),
    ]);
    picker
}

/// InferencePool v1alpha2.
pub(super) fn legacy_pool() -> Rules {
    let mut picker = picker("extensionRef.group", "extensionRef.kind");
    picker.extend([
        ("extensionRef.name", name()),
        ("extensionRef.failureMode", failure_mode()),
        (
            "extensionRef.portNumber",
            described("The port of the picker's Service; absent means 9002.", number()),
        ),
        ("", json!({"required": ["extensionRef", "selector", "targetPortNumber"]})),
        ("selector.*", label()),
        ("targetPortNumber", port()),
    ]);
    picker
}

/// InferenceModel.
pub(super) fn model() -> Rules {
    let mut rules = pool_ref(LEGACY_GROUP);
    rules.extend([
        ("modelName", json!({"maxLength": 256})),
        ("modelName", validation("self == oldSelf", "modelName is immutable")),
        ("criticality", json!({"enum": ["Critical", "Standard", "Sheddable"]})),
        ("targetModels", json!({"maxItems": 10})),
        (
            "targetModels",
            validation(
                "self.all(model, has(model.weight)) || self.all(model, !has(model.weight))",
                "Weights should be set for all models, or none of the models.",
            ),
        ),
        ("targetModels[].name", json!({"maxLength": 253})),
        ("targetModels[].weight", weight()),
    ]);
    rules
}

/// InferenceObjective; the older group has integers of any size.
pub(super) fn objective(group: &str) -> Rules {
    let mut rules = pool_ref(GROUP);
    if group == LEGACY_GROUP {
        rules.push(("priority", json!({"format": "int64"})));
    }
    rules
}

/// InferenceModelRewrite.
pub(super) fn rewrite() -> Rules {
    let mut rules = pool_ref(GROUP);
    rules.extend([
        ("", json!({"required": ["poolRef", "rules"]})),
        ("rules[].targets", json!({"minItems": 1})),
        ("rules[].targets[]", json!({"required": ["modelRewrite"]})),
        ("rules[].targets[].weight", weight()),
        ("rules[].matches[]", json!({"required": ["model"]})),
        ("rules[].matches[].model.type", json!({"default": "Exact", "enum": ["Exact"]})),
        ("rules[].matches[].model.value", json!({"minLength": 1})),
    ]);
    rules
}

/// The status of an InferencePool v1, which is the gateways'.
pub(super) fn pool_status() -> Value {
    let controller = json!({
        "type": "string",
        "description": "The gateway controller that wrote this.",
        "minLength": 1,
        "maxLength": 253,
        "pattern": CONTROLLER,
    });
    let mut parent = parent(&conditions());
    parent["properties"]["controllerName"] = controller;
    let mut parents = parents(&parent);
    parents["x-kubernetes-list-type"] = json!("atomic");
    json!({"type": "object", "description": "What gateways say.", "properties": {"parents": parents}})
}

/// The status of an InferencePool v1alpha2.
pub(super) fn legacy_pool_status() -> Value {
    let waiting = json!([waiting("Accepted")]);
    let mut conditions = conditions();
    conditions["default"] = waiting.clone();
    json!({
        "type": "object",
        "description": "What gateways say.",
        "default": {"parent": [
            {"conditions": waiting, "parentRef": {"kind": "Status", "name": "default"}},
        ]},
        "properties": {"parent": parents(&parent(&conditions))},
    })
}

/// The status of an object that is for a pool; `kind` is the type of the condition that it is born with.
pub(super) fn status(kind: &str) -> Value {
    let mut conditions = conditions();
    conditions["default"] = json!([waiting(kind)]);
    json!({
        "type": "object",
        "description": "What the endpoint picker says.",
        "properties": {"conditions": conditions},
    })
}

fn parents(parent: &Value) -> Value {
    json!({"type": "array", "description": "One for each gateway.", "maxItems": 32, "items": parent})
}

fn parent(conditions: &Value) -> Value {
    let mut kind = kind("Gateway");
    let mut group = group("gateway.networking.k8s.io");
    let mut name = name();
    for (field, about) in [
        (&mut kind, "The gateway's kind."),
        (&mut group, "The gateway's group."),
        (&mut name, "The gateway's name."),
    ] {
        field["type"] = json!("string");
        field["description"] = json!(about);
    }
    let namespace = json!({
        "type": "string",
        "description": "The gateway's namespace; absent means the pool's.",
        "minLength": 1,
        "maxLength": 63,
        "pattern": NAMESPACE,
    });
    let reference = json!({
        "type": "object",
        "description": "The gateway.",
        "required": ["name"],
        "properties": {"group": group, "kind": kind, "name": name, "namespace": namespace},
    });
    json!({
        "type": "object",
        "description": "What one gateway says.",
        "required": ["parentRef"],
        "properties": {"conditions": conditions, "parentRef": reference},
    })
}

fn conditions() -> Value {
    json!({
        "type": "array",
        "description": "By type.",
        "maxItems": 8,
        "x-kubernetes-list-map-keys": ["type"],
        "x-kubernetes-list-type": "map",
        "items": {
            "type": "object",
            "description": "One aspect of how it is.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "lastTransitionTime": {
                    "type": "string", "format": "date-time", "description": "When the status changed last.",
                },
                "message": {"type": "string", "maxLength": 32768, "description": "For people."},
                "observedGeneration": {
                    "type": "integer", "format": "int64", "minimum": 0,
                    "description": "The generation that this is about.",
                },
                "reason": {
                    "type": "string", "minLength": 1, "maxLength": 1024, "pattern": REASON,
                    "description": "For programs.",
                },
                "status": {
                    "type": "string", "enum": ["True", "False", "Unknown"],
                    "description": "Whether it is so.",
                },
                "type": {
                    "type": "string", "maxLength": 316, "pattern": CONDITION, "description": "The aspect.",
                },
            },
        },
    })
}

/// The condition of an object that no controller has seen.
fn waiting(kind: &str) -> Value {
    json!({
        "type": kind,
        "status": "Unknown",
        "reason": "Pending",
        "message": "Waiting for controller",
        "lastTransitionTime": "1970-01-01T00:00:00Z",
    })
}

/// The fields of a reference to a picker that gateways read.
fn picker(at_group: &'static str, at_kind: &'static str) -> Rules {
    let text = |about, mut rule: Value| {
        rule["type"] = json!("string");
        described(about, rule)
    };
    vec![
        (at_group, text("Its group; empty is that of Services.", group(""))),
        (at_kind, text("Its kind.", kind("Service"))),
    ]
}

fn pool_ref(default_group: &str) -> Rules {
    vec![
        ("poolRef.group", group(default_group)),
        ("poolRef.kind", kind("InferencePool")),
        ("poolRef.name", name()),
    ]
}

fn group(default: &str) -> Value {
    json!({"default": default, "maxLength": 253, "pattern": SUBDOMAIN})
}

fn kind(default: &str) -> Value {
    json!({"default": default, "minLength": 1, "maxLength": 63, "pattern": KIND})
}

fn name() -> Value {
    json!({"minLength": 1, "maxLength": 253})
}

fn label() -> Value {
    json!({"maxLength": 63, "pattern": LABEL})
}

fn failure_mode() -> Value {
    json!({"default": "FailClose", "enum": ["FailOpen", "FailClose"]})
}

fn port() -> Value {
    json!({"minimum": 1, "maximum": 65535})
}

fn number() -> Value {
    json!({"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535})
}

fn weight() -> Value {
    json!({"minimum": 1, "maximum": 1_000_000})
}

fn described(about: &str, mut rule: Value) -> Value {
    rule["description"] = json!(about);
    rule
}

fn validation(rule: &str, message: &str) -> Value {
    json!({"x-kubernetes-validations": [{"rule": rule, "message": message}]})
}
