//! The list of models of a server, `/v1/models`: an entry with a parent is an adapter.

use std::time::Duration;

use serde::Deserialize;

use crate::pool::Models;

/// The longest list in bytes: thousands of adapters.
pub(in crate::scrape) const LONGEST_LIST: usize = 1 << 20;

/// Between two readings of a list that is known: adapters are loaded now and then, models hardly ever.
pub(in crate::scrape) const INTERVAL: Duration = Duration::from_secs(30);

#[derive(Deserialize)]
struct List {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
    #[serde(default)]
    parent: Option<String>,
}

/// The models of a list; none when it is no list of models.
pub(in crate::scrape) fn read(list: &[u8]) -> Option<Models> {
    let List { data } = serde_json::from_slice(list).ok()?;
    let of = |adapter: bool| {
        let has_parent = |entry: &&Entry| entry.parent.is_some() == adapter;
        data.iter().filter(has_parent).map(|entry| entry.id.as_str()).collect()
    };
    Some(Models { base: of(false), adapters: of(true) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_with_a_parent_is_an_adapter() {
        let list = br#"{"object":"list","data":[{"id":"llama","parent":null,"max_model_len":9},
            {"id":"sql","parent":"llama"},{"id":"alias","owned_by":"x"}]}"#;
        let models = read(list).unwrap();
        assert_eq!(models.base.iter().collect::<Vec<_>>(), ["llama", "alias"]);
        assert_eq!(models.adapters.iter().collect::<Vec<_>>(), ["sql"]);
    }

    #[test]
    fn an_empty_list_is_a_list_and_other_answers_are_none() {
        assert_eq!(read(br#"{"data":[]}"#), Some(Models::default()));
        for text in ["", "[]", "{}", r#"{"data":[{}]}"#, r#"{"data":[{"id":1}]}"#, "<html>"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
