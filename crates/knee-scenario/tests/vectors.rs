//! Python's reader and this one say the same: mutated links and changes that `scripts/scenario_vectors.py` has written,
//! each with what Python's reader says. `KNEE_VECTORS` names another file of them.

use knee_net::spec::{ChangeSpec, LinkSpec};
use serde_json::Value;

/// A reader's answer: links and changes, or the error without file and place.
fn said(text: &str) -> Result<String, String> {
    let read = knee_scenario::read(text, "scenario");
    read.map(|scenario| shown(&scenario.links, &scenario.changes)).map_err(|error| {
        let key = if error.key.is_empty() { String::new() } else { format!("{}: ", error.key) };
        format!("{key}{}; {}.", error.found, error.accepted)
    })
}

fn shown(links: &[LinkSpec], changes: &[ChangeSpec]) -> String {
    format!("{links:#?}\n{changes:#?}")
}

fn expected(vector: &Value) -> Result<String, String> {
    if let Some(error) = vector["error"].as_str() {
        return Err(error.into());
    }
    let links: Vec<LinkSpec> = serde_json::from_str(&vector["links"].to_string()).expect("links");
    let changes: Vec<ChangeSpec> = serde_json::from_str(&vector["changes"].to_string()).expect("changes");
    Ok(shown(&links, &changes))
}

#[test]
fn both_readers_say_the_same_of_every_vector() {
    let given = std::env::var("KNEE_VECTORS").map(|file| std::fs::read_to_string(file).expect("a file of vectors"));
    let vectors = given.unwrap_or_else(|_| include_str!("vectors.jsonl").to_owned());
    let (mut same, mut accepted, mut different) = (0, 0, Vec::new());
    for line in vectors.lines() {
        let vector: Value = serde_json::from_str(line).expect("JSON");
        let text = vector["text"].as_str().expect("a text");
        let (mine, python) = (said(text), expected(&vector));
        accepted += usize::from(python.is_ok());
        // Recordings are Python's alone, and a refusal of them has a sentence of its own.
        if mine == python {
            same += 1;
        } else {
            different.push(format!("{text}\n--- here: {mine:?}\n--- Python: {python:?}\n"));
        }
    }
    let first: Vec<&String> = different.iter().take(5).collect();
    let count = different.len();
    assert!(different.is_empty(), "{same} same, {count} different, {accepted} accepted by Python:\n{first:#?}");
    assert!(accepted * 10 > same && accepted < same, "{accepted} of {same} were accepted");
}
