use knee_core::{Priority, Rate};

use super::*;
use crate::spec::Arrivals;
use crate::testing::Ideal;

const RTT: Time = Time::from_millis(20);
/// So fast that bytes take no time that a test of milliseconds sees.
const FAST: Rate = Rate::from_mbps(100_000_000);

#[derive(Clone)]
struct PageSpec {
    size: Size,
    objects: Count,
    params: Params,
}

fn page(objects: u32, connections: u64, tls: Tls) -> PageSpec {
    let params = Params { request: Bytes(300), connections, persistent: true, tls, ..Params::default() };
    PageSpec { size: Size::Fixed(10_000), objects: Count::Fixed(objects), params }
}

fn requests(pages: &Pages, PageSpec { size, objects, params }: PageSpec, number: Option<u64>, seed: u64) -> Requests {
    let params = Params { number: number.unwrap_or(params.number), ..params };
    let content = (size, objects, Priorities::default());
    Requests::new(pages, content, params, Rng::stream(seed, "requests"))
}

fn run(pages: &Pages, spec: PageSpec, number: Option<u64>, stop: Option<Time>) -> Ideal {
    let mut net = Ideal::new(RTT, FAST);
    net.run(&mut requests(pages, spec, number, 9), stop);
    net
}

fn millis(net: &Ideal, what: What) -> Vec<u64> {
    net.of(what).iter().map(|c| libm::round((c.t_s - c.started_s) * 1e3) as u64).collect()
}

const ONE: Pages = Pages::Closed(1_000_000_000, false);

/// Round trips of a page on an empty path: the handshakes, the first object, then the others; where these need new
/// connections, theirs as well, while the first connection goes on.
#[test]
fn a_page_takes_the_round_trips_of_its_handshakes_and_objects() {
    let trips = |spec| millis(&run(&ONE, spec, Some(1), None), What::Page)[0] / RTT.as_millis();
    assert_eq!([Tls::None, Tls::V13, Tls::V12].map(|tls| trips(page(1, 6, tls))), [2, 3, 4]);
    // One connection: connect, then one object after the other.
    assert_eq!(trips(page(7, 1, Tls::None)), 1 + 7);
    // Six: connect, HTML, and an object on the first connection while five connect; the five left come together.
    assert_eq!(trips(page(7, 6, Tls::None)), 1 + 1 + 2);
    // With TLS the first connection has two objects by the time that the others are ready, and three when they have
    // theirs.
    assert_eq!(trips(page(9, 6, Tls::V13)), 2 + 1 + 3);
    assert_eq!(trips(page(4, 6, Tls::V13)), 2 + 1 + 3);
    assert_eq!(trips(page(3, 6, Tls::V13)), 2 + 1 + 2);
}

#[test]
fn every_step_is_on_record() {
    let net = run(&ONE, page(7, 6, Tls::V12), Some(1), None);
    assert_eq!((net.opened(), net.most_open), (6, 6));
    assert_eq!(millis(&net, What::Connect), [20; 6]);
    assert_eq!(millis(&net, What::Tls), [40; 6]);
    assert_eq!(millis(&net, What::Request), [20; 7]);
    assert_eq!(net.of(What::Page)[0].bytes, 70_000);
    assert!(net.of(What::Request).iter().all(|c| c.bytes == 10_000));
    assert!(net.of(What::Tls).iter().all(|c| c.bytes == 4_477));
    // HTTP/1.1: nothing is asked for before the answer to what was.
    for conn in 0..6 {
        let on_it = net.exchanges.iter().filter(|(_, c, _)| c.0 == conn).map(|(at, ..)| at.as_nanos());
        assert!(on_it.collect::<Vec<_>>().windows(2).all(|pair| pair[0] + RTT.as_nanos() <= pair[1]));
    }
}

/// Incast: all servers are asked at once, and again when the last has answered.
#[test]
fn objects_that_come_together_are_asked_for_together() {
    for connections in [1, 3, 8, 20] {
        let mut spec = page(8, connections, Tls::None);
        spec.params.together = true;
        let net = run(&Pages::Closed(0, false), spec, Some(3), None);
        let pages = net.of(What::Page);
        let rounds = 8_u64.div_ceil(connections);
        assert_eq!(millis(&net, What::Page), [20 + 20 * rounds, 20 * rounds, 20 * rounds]);
        assert_eq!(net.most_open, index(connections.min(8)));
        for (before, after) in pages.iter().zip(&pages[1..]) {
            let asked =
                net.of(What::Request).into_iter().filter(|r| r.started_s.to_bits() == before.t_s.to_bits()).count();
            assert_eq!((asked, after.started_s), (index(connections.min(8)), before.t_s));
        }
    }
}

#[test]
fn the_first_object_comes_alone_and_a_page_has_at_most_its_connections() {
    for connections in 1..=8 {
        let net = run(&ONE, page(40, connections, Tls::None), Some(3), None);
        assert_eq!((net.opened(), net.most_open), (index(connections), index(connections)));
        for p in net.of(What::Page) {
            let requests = net.of(What::Request).into_iter().filter(|r| r.started_s >= p.started_s && r.t_s <= p.t_s);
            let mut requests: Vec<_> = requests.collect();
            requests.sort_by(|a, b| a.started_s.total_cmp(&b.started_s));
            assert_eq!(requests.len(), 40);
            assert!(requests[1..].iter().all(|r| r.started_s >= requests[0].t_s));
        }
    }
}

/// With several streams the page is loaded in as many rounds as its objects need: connect, the first object, then up to
/// `connections * streams` at once; together, without the first.
#[test]
fn a_connection_has_as_many_requests_at_once_as_it_has_streams() {
    for (objects, connections, streams, together) in [
        (1, 1, 5, false),
        (31, 1, 5, false),
        (31, 1, 100, false),
        (31, 1, 100, true),
        (30, 2, 5, true),
        (30, 1, 5, true),
    ] {
        let mut spec = page(objects, connections, Tls::None);
        (spec.params.streams, spec.params.together) = (streams, together);
        let mut net = Ideal::new(RTT, FAST);
        net.streams = true;
        net.run(&mut requests(&ONE, spec, Some(1), 9), None);
        let at_once = connections * streams;
        let rounds =
            if together { u64::from(objects).div_ceil(at_once) } else { 1 + u64::from(objects - 1).div_ceil(at_once) };
        assert_eq!(millis(&net, What::Page), [20 + 20 * rounds], "{objects} {connections} {streams} {together}");
        assert_eq!(net.of(What::Request).len(), objects as usize);
        assert_eq!(net.opened(), index(connections));
        assert!(net.most_running <= index(streams));
        assert!(net.of(What::Request).iter().all(|c| c.bytes == 10_000));
    }
}

/// Objects have the priorities of the list in turn, each page from its beginning.
#[test]
fn objects_have_priorities_in_turn() {
    let priority = |urgency, incremental| Priority { urgency, incremental };
    let list = [priority(1, false), priority(5, true), Priority::default()];
    let params = Params { streams: 3, ..page(1, 1, Tls::None).params };
    let content = (Size::Fixed(10), Count::Fixed(5), Priorities(list.to_vec()));
    let mut net = Ideal::new(RTT, FAST);
    net.streams = true;
    net.run(&mut Requests::new(&ONE, content, Params { number: 2, ..params }, Rng::stream(1, "requests")), None);
    let given: Vec<_> = net.exchanges.iter().map(|(.., exchange)| exchange.priority).collect();
    let page: Vec<_> = (0..5).map(|i| list[i % 3]).collect();
    assert_eq!(given, [page.clone(), page].concat());
    assert_eq!(Priorities::default().of(7), priority(3, false));
}

#[test]
fn connections_stay_or_go_from_page_to_page() {
    let times = |persistent| {
        let mut spec = page(1, 6, Tls::V13);
        spec.params.persistent = persistent;
        let net = run(&ONE, spec, Some(3), None);
        (net.opened(), millis(&net, What::Page))
    };
    assert_eq!(times(true), (1, vec![60, 20, 20]));
    assert_eq!(times(false), (3, vec![60, 60, 60]));
}

#[test]
fn a_closed_loop_thinks_after_each_page() {
    let net = run(&ONE, page(1, 1, Tls::None), Some(3), None);
    let starts: Vec<u64> = net.of(What::Page).iter().map(|c| libm::round(c.started_s * 1e3) as u64).collect();
    assert_eq!(starts, [0, 1_040, 2_060]);
    // The mean of 400 exponential times of mean 1 s has a standard error of 50 ms.
    let net = run(&Pages::Closed(1_000_000_000, true), page(1, 1, Tls::None), Some(401), None);
    let last = net.of(What::Page)[400].started_s;
    assert!((last - 400.0 * 1.02 - 0.02).abs() < 400.0 * 5.0 * 0.05, "{last}");
}

#[test]
fn users_of_an_open_loop_do_not_wait_for_each_other() {
    let open = Pages::Open(Arrivals::Periodic(100.0));
    let mut spec = page(1, 4, Tls::None);
    spec.params.service = Time::from_secs(1);
    let net = run(&open, spec, Some(50), None);
    assert_eq!((net.opened(), net.most_open), (50, 50));
    assert_eq!(millis(&net, What::Page), [1_040; 50]);
    // The next users find connections, as many as may wait idle.
    let arrivals = Arrivals::Times([0u64, 0, 0, 0, 0, 0, 2_000_000_000].to_vec());
    let net = run(&Pages::Open(arrivals), page(1, 4, Tls::None), None, None);
    assert_eq!((net.opened(), millis(&net, What::Page)), (6, vec![40, 40, 40, 40, 40, 40, 20]));
}

#[test]
fn a_stop_lets_pages_finish_and_brings_no_more() {
    for open in [ONE, Pages::Open(Arrivals::Periodic(40.0))] {
        let net = run(&open, page(20, 2, Tls::V13), None, Some(Time::from_millis(45)));
        // At 0, and with the open loop at 25 ms.
        let pages = if open == ONE { 1 } else { 2 };
        assert_eq!((net.of(What::Page).len(), net.of(What::Request).len()), (pages, 20 * pages));
    }
    assert_eq!(run(&ONE, page(1, 1, Tls::None), Some(0), None).opened(), 0);
    // While the user thinks.
    assert_eq!(run(&ONE, page(1, 1, Tls::None), None, Some(Time::from_millis(500))).of(What::Page).len(), 1);
}

#[test]
#[cfg_attr(miri, ignore = "draws too often for Miri")]
fn geometric_counts_have_their_mean_and_shape() {
    let mut rng = Rng::stream(2, "counts");
    let drawn: Vec<u32> = (0..100_000).map(|_| Count::Geometric(8.0).draw(&mut rng)).collect();
    let mean = drawn.iter().map(|n| f64::from(*n)).sum::<f64>() / 1e5;
    // The variance is (1 - p) / p^2 = 56.
    assert!((mean - 8.0).abs() < 5.0 * libm::sqrt(56.0 / 1e5), "{mean}");
    let ones = drawn.iter().filter(|n| **n == 1).count();
    assert!(ones.abs_diff(12_500) < 523, "five standard deviations of a binomial with p = 1/8: {ones}");
    assert!((0..100).all(|_| Count::Geometric(1.0).draw(&mut rng) == 1 && Count::Fixed(5).draw(&mut rng) == 5));
}

#[test]
fn pages_of_an_open_loop_do_not_depend_on_the_path() {
    let spec =
        PageSpec { size: Size::Pareto(500.0, 1.2, 100_000), objects: Count::Geometric(5.0), ..page(1, 3, Tls::None) };
    let pages = |rate| {
        let mut net = Ideal::new(RTT, rate);
        let open = Pages::Open(Arrivals::Poisson(20.0));
        net.run(&mut requests(&open, spec.clone(), Some(50), 4), None);
        let mut pages: Vec<_> = net.of(What::Page).iter().map(|c| (c.started_s.to_bits(), c.bytes)).collect();
        pages.sort_unstable();
        pages
    };
    assert_eq!(pages(FAST), pages(Rate::from_mbps(1)));
}
