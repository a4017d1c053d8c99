//! The server's log of what accounts ask for.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

/// A request that was answered; a watch is one from its first byte on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked {
    /// `list`, `watch`, `patch`, …
    pub verb: String,
    /// `pods`, `leases.coordination.k8s.io`, `….x/status`; empty for what is no object.
    pub resource: String,
    /// The status of the answer.
    pub code: u64,
}

/// What `user` asked for so far, each once.
///
/// # Errors
/// When the file cannot be read.
pub fn asked(log: &Path, user: &str) -> Result<BTreeSet<Asked>> {
    let text = fs::read_to_string(log)?;
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(lines.filter(|line| of(line, "/user/username") == user).map(|line| read(&line)).collect())
}

fn read(line: &Value) -> Asked {
    let mut resource = of(line, "/objectRef/resource").to_owned();
    for (separator, part) in [(".", "apiGroup"), ("/", "subresource")] {
        let part = of(line, &format!("/objectRef/{part}"));
        if !part.is_empty() {
            resource.extend([separator, part]);
        }
    }
    let code = line.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default();
    Asked { verb: of(line, "/verb").to_owned(), resource, code }
}

fn of<'a>(line: &'a Value, path: &str) -> &'a str {
    line.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_of_one_user_are_told_apart_by_verb_resource_and_answer() {
        let line = |user: &str, verb: &str, resource: &str, code: u16| {
            format!(
                r#"{{"user":{{"username":"{user}"}},"verb":"{verb}","objectRef":{resource},"responseStatus":{{"code":{code}}}}}"#
            )
        };
        let pods = r#"{"resource":"pods","name":"a"}"#;
        let status =
            r#"{"resource":"inferenceobjectives","apiGroup":"llm-d.ai","subresource":"status"}"#;
        let lines = [
            line("me", "list", pods, 200),
            line("me", "list", pods, 200),
            line("other", "delete", pods, 200),
            line("me", "patch", status, 403),
            "half a li".to_owned(),
        ];
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, lines.join("\n")).unwrap();
        let seen = asked(file.path(), "me").unwrap();
        let seen: Vec<_> = seen.iter().map(|a| (&*a.verb, &*a.resource, a.code)).collect();
        let expected =
            [("list", "pods", 200), ("patch", "inferenceobjectives.llm-d.ai/status", 403)];
        assert_eq!(seen, expected);
    }
}
