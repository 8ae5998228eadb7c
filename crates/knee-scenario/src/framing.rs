//! The framing of links: keywords of tc-cake(8), and what a reverse direction shares with its link.

use crate::error::refused;
use crate::fields::Read;
use crate::node::{Node, Table, Value};
use crate::units::{BYTES, is_space};
use crate::words::{near, quoted, shown};

pub(crate) const LINK_LAYERS: &[&str] = &["ethernet", "atm", "ptm"];
/// The meaning of each keyword of tc-cake(8): bytes on top of an IP packet, its link layer, the least bytes.
const KEYWORDS: &[(&str, u64, &str, u64)] = &[
    ("raw", 14, "ethernet", 0),
    ("conservative", 48, "atm", 0),
    ("ethernet", 38, "ethernet", 84),
    ("docsis", 18, "ethernet", 64),
    ("ipoa-vcmux", 8, "atm", 0),
    ("ipoa-llcsnap", 16, "atm", 0),
    ("bridged-vcmux", 24, "atm", 0),
    ("bridged-llcsnap", 32, "atm", 0),
    ("pppoa-vcmux", 10, "atm", 0),
    ("pppoa-llc", 14, "atm", 0),
    ("pppoe-vcmux", 32, "atm", 0),
    ("pppoe-llcsnap", 40, "atm", 0),
    ("pppoe-ptm", 30, "ptm", 0),
    ("bridged-ptm", 22, "ptm", 0),
];
const VLAN: &str = "ether-vlan";
const VLAN_BYTES: u64 = 4;

fn made_text(value: &str, span: &std::ops::Range<usize>) -> Node {
    Node { value: Value::Text(value.into()), span: span.clone() }
}

/// The keys of a table with a keyword as `overhead`, which is replaced by its meaning.
pub(crate) fn spelled_out(given: &Table) -> Read<Table> {
    let mut table = given.clone();
    let Some(node) = given.get("overhead") else { return Ok(table) };
    let Some(text) = node.text() else { return Ok(table) };
    let words: Vec<&str> = text.split(is_space).filter(|word| !word.is_empty()).collect();
    if words.first().is_none_or(|word| word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c))) {
        return Ok(table);
    }
    let keyword = |word: &str| KEYWORDS.iter().find(|entry| entry.0 == word);
    let known: Vec<&str> = KEYWORDS.iter().map(|entry| entry.0).chain([VLAN]).collect();
    if let Some(word) = words.iter().find(|word| !known.contains(word)) {
        let found = format!("{} is neither a size nor a keyword of tc-cake", quoted(word));
        return Err(refused(found, near(word, &known)).under("overhead"));
    }
    let bases: Vec<_> = words.iter().filter_map(|word| keyword(word)).collect();
    let &[&(base, overhead, linklayer, mpu)] = bases.as_slice() else {
        let found = format!("{} names {} kinds of lines", quoted(text), bases.len());
        let accepted = format!("expected one, such as \"pppoe-ptm\", and perhaps \"pppoe-ptm {VLAN}\"");
        return Err(refused(found, accepted).under("overhead"));
    };
    for (key, implied) in [("linklayer", linklayer.to_owned()), ("mpu", BYTES.text(mpu))] {
        if let Some(other) = given.get(key).filter(|node| node.text() != Some(&implied)) {
            let found = format!("{} contradicts {}, which has {}", shown(&other.value), quoted(base), quoted(&implied));
            let size = quoted(&BYTES.text(overhead));
            let accepted = format!("leave it out, or write the bytes of overhead as a size, such as {size}");
            return Err(refused(found, accepted).under(key));
        }
        table.put(key, made_text(&implied, &node.span));
    }
    let vlans = u64::try_from(words.len()).unwrap_or(1) - 1;
    table.put("overhead", made_text(&BYTES.text(overhead + VLAN_BYTES * vlans), &node.span));
    Ok(table)
}

/// The keys of a link, spelled out; its reverse direction has what it leaves out of the link's framing and model.
pub(crate) fn share_with_reverse(given: &Table) -> Read<Table> {
    let mut link = spelled_out(given)?;
    let Some((node, own)) = link.get("reverse").and_then(|node| Some((node.clone(), node.table()?.clone()))) else {
        return Ok(link);
    };
    let mut reverse = spelled_out(&own).map_err(|error| error.under("reverse"))?;
    for key in ["overhead", "linklayer", "mpu"] {
        if let Some(node) = link.get(key) {
            reverse.put_default(key, node);
        }
    }
    let same = match (reverse.get("model"), link.get("model")) {
        (Some(reverse), Some(link)) => reverse.text().is_some() && reverse.text() == link.text(),
        (Some(one), None) | (None, Some(one)) => one.text() == Some("wire"),
        (None, None) => true,
    };
    if let Some(node) = link.get("model_params").filter(|_| same) {
        reverse.put_default("model_params", node);
    }
    link.put("reverse", Node { value: Value::Table(reverse), span: node.span });
    Ok(link)
}

/// Bytes that an IP packet of `size` bytes takes on a line with this overhead, link layer and `mpu`.
pub(crate) fn line_bytes((overhead, linklayer, mpu): (u64, &str, u64), size: u64) -> u64 {
    let taken = (size + overhead).max(mpu);
    match linklayer {
        "atm" => taken.div_ceil(48) * 53,
        "ptm" => taken + taken.div_ceil(64),
        _ => taken,
    }
}
