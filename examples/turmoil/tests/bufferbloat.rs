//! Requests between two hosts of turmoil, beside a download that the simulator sends.

use knee_test::Net;
use knee_turmoil::Path;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use turmoil::net::UdpSocket;

const HOME: &str = r#"
[link]
rate = "10 Mbit/s"
limit = "100 packets"

[[flows]]
label = "requests"
rtt = "30 ms"

[[flows]]
label = "download"
cc = "cubic"
rtt = "30 ms"
start = "1 s"
"#;

/// Round trips of five seconds, one after the other, 20 ms apart at the least; the network too, for its figures.
fn round_trips() -> Result<(Vec<Duration>, Net), Box<dyn Error>> {
    let mut sim = turmoil::Builder::new()
        .tick_duration(Duration::from_micros(500))
        .simulation_duration(Duration::from_secs(10))
        .build();
    sim.host("server", || async {
        let socket = UdpSocket::bind(("0.0.0.0", 5004)).await?;
        let mut bytes = [0; 1472];
        loop {
            let (len, from) = socket.recv_from(&mut bytes).await?;
            socket.send_to(&bytes[..len], from).await?;
        }
    });
    let seen = Arc::new(Mutex::new(Vec::new()));
    let took = seen.clone();
    sim.client("client", async move {
        let socket = UdpSocket::bind(("0.0.0.0", 5004)).await?;
        while turmoil::elapsed() < Duration::from_secs(5) {
            let sent = turmoil::elapsed();
            socket.send_to(&[0; 160], ("server", 5004)).await?;
            // Lost packets are not waited for.
            let mut bytes = [0; 1472];
            let answer = tokio::time::timeout(Duration::from_millis(300), socket.recv_from(&mut bytes));
            if answer.await.is_ok() {
                took.lock().unwrap().push(turmoil::elapsed() - sent);
            }
            tokio::time::sleep(Duration::from_millis(20).saturating_sub(turmoil::elapsed() - sent)).await;
        }
        Ok(())
    });
    let mut net = Net::from_toml(HOME)?;
    net.background("download")?;
    let mut path = Path::new(net, "requests", &sim, "client", "server")?;
    while !sim.step()? {
        path.carry(&sim)?;
    }
    let seen = seen.lock().unwrap().clone();
    Ok((seen, path.net))
}

#[test]
fn requests_wait_behind_a_download() -> Result<(), Box<dyn Error>> {
    let (trips, mut net) = round_trips()?;
    let ms = Duration::from_millis;
    // The path takes 30 ms, and each step half a millisecond; a full queue of 100 packets 121 ms more.
    assert!((ms(30)..ms(33)).contains(&trips[0]), "{:?}", trips[0]);
    let worst = trips.iter().max().unwrap();
    assert!((ms(110)..ms(156)).contains(worst), "{worst:?}");
    assert!(net.flow("download")?.goodput() > 8.5e6);
    assert_eq!(trips, round_trips()?.0, "the same again");
    Ok(())
}
