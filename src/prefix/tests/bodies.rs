//! What of a request's body tells its prompt from another.

use std::collections::HashSet;

use super::*;
use crate::request::{Api, Scan};

/// The chain of a body, for the model and the salt that it names.
fn chain(api: Api, body: &str) -> Chain {
    let mut hashing = Hashing::new(&Settings::default(), 7);
    let mut scan = Scan::new(Some(api));
    scan.feed(body.as_bytes(), &mut |part| hashing.feed(part));
    let parsed = scan.finish().unwrap_or_else(|error| panic!("{body}: {error}"));
    hashing.end(parsed.model_name(), parsed.cache_salt.as_deref())
}

/// Fields of a body. LONG is text of several blocks.
type Bodies = &'static [&'static str];

const CHAT: Bodies = &[
    r#""messages":[{"role":"user","content":"LONG"}]"#,
    r#""messages":[{"role":"user","content":"another LONG"}]"#,
    r#""messages":[{"role":"system","content":"LONG"}]"#,
    r#""messages":[{"role":"user","content":"LONG"}],"model":"m""#,
    r#""messages":[{"role":"user","content":"LONG"}],"model":"adapter""#,
    r#""messages":[{"role":"user","content":"LONG"}],"cache_salt":"a""#,
    r#""messages":[{"role":"user","content":"LONG"}],"cache_salt":"b""#,
    r#""messages":[{"role":"user","content":"LONG"}],"tools":[{"function":{"name":"f"}}]"#,
    r#""messages":[{"role":"user","content":"LONG"}],"tools":[{"function":{"name":"g"}}]"#,
    r#""messages":[{"role":"user","content":"LONG"}],"functions":[{"name":"g"}]"#,
    r#""messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"a"}},{"type":"text","text":"LONG"}]}]"#,
    r#""messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"b"}},{"type":"text","text":"LONG"}]}]"#,
    r#""messages":[{"role":"user","content":[{"type":"video_url","video_url":{"url":"c"}},{"type":"text","text":"LONG"}]}]"#,
    r#""messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"QUJD"}},{"type":"text","text":"LONG"}]}]"#,
    r#""messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"QUJE"}},{"type":"text","text":"LONG"}]}]"#,
    r#""messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":"LONG"}]"#,
    r#""messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{1}"}}]},{"role":"tool","content":"LONG"}]"#,
];

const MESSAGES: Bodies = &[
    r#""messages":[{"role":"user","content":"LONG"}]"#,
    r#""messages":[{"role":"user","content":"LONG"}],"system":"Be brief.""#,
    r#""messages":[{"role":"user","content":"LONG"}],"system":"Be kind.""#,
    r#""messages":[{"role":"user","content":"LONG"}],"system":[{"type":"text","text":"Be wise."}]"#,
    r#""messages":[{"role":"user","content":"LONG"}],"tools":[{"name":"f","input_schema":{}}]"#,
    r#""messages":[{"role":"user","content":"LONG"}],"tools":[{"name":"f","input_schema":{"a":1}}]"#,
    r#""messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"QUJD"}},{"type":"text","text":"LONG"}]}]"#,
    r#""messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"QUJE"}},{"type":"text","text":"LONG"}]}]"#,
    r#""messages":[{"role":"user","content":[{"type":"tool_result","content":"5"},{"type":"text","text":"LONG"}]}]"#,
    r#""messages":[{"role":"user","content":[{"type":"tool_use","input":{"a":1}},{"type":"text","text":"LONG"}]}]"#,
    r#""messages":[{"role":"user","content":[{"type":"tool_use","input":{"a":2}},{"type":"text","text":"LONG"}]}]"#,
    r#""messages":[{"role":"user","content":"LONG"}],"cache_salt":"a""#,
];

const RESPONSES: Bodies = &[
    r#""input":"LONG""#,
    r#""input":"another LONG""#,
    r#""input":"LONG","instructions":"Be brief.""#,
    r#""input":"LONG","instructions":"Be kind.""#,
    r#""input":"LONG","tools":[{"type":"function","name":"f"}]"#,
    r#""input":"LONG","tools":[{"type":"function","name":"g"}]"#,
    r#""input":[{"role":"user","content":[{"type":"input_image","image_url":"a"},{"type":"input_text","text":"LONG"}]}]"#,
    r#""input":[{"role":"user","content":[{"type":"input_image","image_url":"b"},{"type":"input_text","text":"LONG"}]}]"#,
    r#""input":[{"type":"function_call_output","output":"5"},{"role":"user","content":"LONG"}]"#,
    r#""input":"LONG","cache_salt":"a""#,
];

const COMPLETIONS: Bodies = &[
    r#""prompt":"LONG""#,
    r#""prompt":"another LONG""#,
    r#""prompt":["batch LONG","x"]"#,
    r#""prompt":[IDS]"#,
    r#""prompt":[0,IDS]"#,
    r#""prompt":"LONG","cache_salt":"a""#,
    r#""prompt":"LONG","model":"m""#,
];

#[test]
fn whatever_changes_the_prompt_leaves_none_of_its_blocks_in_common() {
    let ids = (0..200).map(|id| id.to_string()).collect::<Vec<_>>().join(",");
    for (api, bodies) in [
        (Api::ChatCompletions, CHAT),
        (Api::Messages, MESSAGES),
        (Api::Responses, RESPONSES),
        (Api::Completions, COMPLETIONS),
    ] {
        let mut seen = HashSet::new();
        for fields in bodies {
            let fields = fields.replace("LONG", &"long text ".repeat(100)).replace("IDS", &ids);
            let chain = chain(api, &format!("{{{fields}}}"));
            assert!(chain.hashes().len() >= 3, "{fields}");
            assert!(chain.hashes().iter().all(|hash| seen.insert(*hash)), "{api:?} {fields}");
        }
    }
}

// FR-060
#[test]
fn pictures_tell_prompts_apart_whose_text_is_shorter_than_a_block() {
    let mut seen = HashSet::new();
    for n in 1..=100 {
        let picture = format!(
            r#"{{"type":"image_url","image_url":{{"url":"https://img.example/{n}.png"}}}}"#
        );
        let content = format!(r#"[{{"type":"text","text":"describe"}},{picture}]"#);
        let body = format!(r#"{{"messages":[{{"role":"user","content":{content}}}]}}"#);
        let chain = chain(Api::ChatCompletions, &body);
        assert!(!chain.hashes().is_empty());
        assert!(chain.hashes().iter().all(|hash| seen.insert(*hash)), "{n}");
    }
}

// FR-061
#[test]
fn what_is_no_prompt_changes_nothing_and_a_conversation_that_grows_keeps_its_blocks() {
    let long = "long text ".repeat(100);
    let turn = format!(r#"{{"role":"user","content":"{long}"}}"#);
    let body = |turns: &[&str], more: &str| {
        let messages = turns.join(",");
        chain(Api::ChatCompletions, &format!(r#"{{"messages":[{messages}]{more}}}"#))
    };
    let first = body(&[&turn], "");
    for more in [r#","stream":true"#, r#","max_tokens":7,"user":"u""#, r#","temperature":0.5"#] {
        assert_eq!(body(&[&turn], more), first, "{more}");
    }
    let tools = r#","tools":[{"function":{"name":"f"}}]"#;
    for more in ["", tools] {
        let (first, second) = (body(&[&turn], more), body(&[&turn, &turn], more));
        assert!(second.hashes().starts_with(first.hashes()) && second.hashes().len() > 5);
    }
}
