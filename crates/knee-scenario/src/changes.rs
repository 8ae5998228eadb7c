//! The tables `[[changes]]`.

use crate::Path;
use crate::error::{Refused, refused};
use crate::fields::{Fields, Read, probability, text, within};
use crate::links::{Link, check_model};
use crate::node::Table;
use crate::paths::{check_delay, find};
use crate::units::{RATE, TIME, limit};
use crate::words::{near, quoted};
use knee_net::spec::{Change, ChangeSpec, LimitSpec};
use serde::Deserialize;

/// A change of a file.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Asked {
    at: u64,
    link: Option<String>,
    flow: Option<String>,
    rate: Option<u64>,
    loss: Option<f64>,
    limit: Option<LimitSpec>,
    rtt: Option<u64>,
}

/// A change of a file.
pub(crate) fn change(given: &Table) -> Result<Asked, Vec<Refused>> {
    let mut fields = Fields::of(given);
    let at = fields.require("at", "a time such as \"30 s\"", |value| TIME.parse(value, true));
    let named = |value: &_| text(value).map(str::to_owned);
    let (link, flow) = (fields.take("link", named), fields.take("flow", named));
    let rate = fields.take("rate", |value| RATE.parse(value, false));
    let loss = fields.take("loss", |value| probability(value, "the link's new loss probability, 0 to 1"));
    let limit = fields.take("limit", limit);
    let rtt = fields.take("rtt", |value| TIME.parse(value, false));
    fields.end(&["at", "link", "flow", "rate", "loss", "limit", "rtt"]);
    if !fields.errors.is_empty() {
        return Err(fields.errors);
    }
    Ok(Asked { at: at.unwrap_or_default(), link, flow, rate, loss, limit, rtt })
}

/// Refuses changes that cannot happen.
pub(crate) fn check(asked: &[Asked], links: &[Link], paths: &[Path], duration: u64) -> Read<()> {
    let each = asked
        .iter()
        .enumerate()
        .map(|(i, change)| check_one(change, links, paths, duration).map_err(|error| within(error, "changes", i)));
    each.collect()
}

fn check_one(change: &Asked, links: &[Link], paths: &[Path], duration: u64) -> Read<()> {
    if change.at > duration {
        let found = format!("{} is after the end at {}", TIME.text(change.at), TIME.text(duration));
        return Err(refused(found, "expected a time before the end").under("at"));
    }
    match (&change.link, &change.flow) {
        (Some(link), None) => of_link(change, link, links),
        (None, Some(flow)) => of_flow(change, flow, links, paths),
        (link, _) => {
            let named = if link.is_some() { "both a link and a flow" } else { "no link and no flow" };
            Err(refused(format!("it names {named}"), "expected one of them"))
        }
    }
}

fn of_link(change: &Asked, name: &str, links: &[Link]) -> Read<()> {
    let no = |found: &str, accepted: &str, key: &str| Err(refused(found, accepted).under(key));
    let Some(link) = links.iter().find(|link| link.name == name) else {
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        return no(&format!("no link is named {}", quoted(name)), &near(name, &names), "link");
    };
    if change.rtt.is_some() {
        return no("a link has no rtt", "rate, loss and limit of a link can change", "rtt");
    }
    if change.rate.is_none() && change.loss.is_none() && change.limit.is_none() {
        return no("nothing changes", "expected rate, loss or limit", "link");
    }
    if change.loss.is_some() && link.has_recorded_loss() {
        let accepted = "only the loss of a link without one can change";
        return no("the link has a recording of losses", accepted, "loss");
    }
    if let Some(rate) = change.rate {
        if link.side.rate.is_none() {
            return no("the link has a trace", "only the rate of a link with a rate can change", "rate");
        }
        if link.side.model != "wire" {
            check_model(&link.side.model, &link.side.model_params, rate).map_err(|error| {
                let found = format!("with model_params.{} as it is, {}", error.name(), error.found);
                refused(found, error.accepted).under("rate")
            })?;
        }
    }
    if change.loss.is_some() && link.loss_model != "random" {
        let found = format!("the link has the loss model {}", link.loss_model);
        return no(&found, "only a link's probability loss can change", "loss");
    }
    Ok(())
}

fn of_flow(change: &Asked, label: &str, links: &[Link], paths: &[Path]) -> Read<()> {
    let Some(i) = find(paths, label) else {
        let labels: Vec<&str> = paths.iter().map(|path| path.label.as_str()).collect();
        return Err(refused(format!("no flow is named {}", quoted(label)), near(label, &labels)).under("flow"));
    };
    let given = [("rate", change.rate.is_some()), ("loss", change.loss.is_some()), ("limit", change.limit.is_some())];
    if let Some((key, _)) = given.into_iter().find(|(_, given)| *given) {
        return Err(refused(format!("a flow has no {key}"), "the rtt of a flow can change").under(key));
    }
    let Some(rtt) = change.rtt else {
        return Err(refused("nothing changes", "expected rtt = \"40 ms\"").under("flow"));
    };
    check_delay(rtt, &paths[i].links, links).map_err(|error| error.under("rtt"))
}

/// The engine's changes, one for each key.
pub(crate) fn specs(asked: &[Asked], links: &[Link], paths: &[Path]) -> Vec<ChangeSpec> {
    let mut made = Vec::new();
    for change in asked {
        let mut add = |what| made.push(ChangeSpec { at: change.at, what });
        if let (Some(flow), Some(rtt)) = (change.flow.as_ref().and_then(|label| find(paths, label)), change.rtt) {
            add(Change::Rtt { flow, rtt });
        }
        let named = change.link.as_ref().and_then(|name| links.iter().position(|link| link.name == *name));
        let Some(link) = named else { continue };
        change.rate.into_iter().for_each(|rate| add(Change::Rate { link, rate }));
        change.loss.into_iter().for_each(|loss| add(Change::Loss { link, loss }));
        change.limit.into_iter().for_each(|limit| add(Change::Limit { link, limit }));
    }
    made
}
