//! TCP of smoltcp over a network, in virtual time.

use knee_test::{Net, Port, Wire, Wires};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

const PATH: &str = "
    [link]
    rate = \"10 Mbit/s\"
    limit = \"100 packets\"

    [[flows]]
    rtt = \"40 ms\"
";
const BYTES: usize = 2_000_000;

/// A host at an end, with a socket of TCP.
struct Host {
    wire: Wire,
    interface: Interface,
    sockets: SocketSet<'static>,
    tcp: SocketHandle,
}

impl Host {
    fn new(wires: &Wires, port: Port) -> Self {
        let mut wire = wires.wire(port).expect("an end");
        let mut interface = Interface::new(Config::new(HardwareAddress::Ip), &mut wire, Instant::ZERO);
        let own = IpAddress::Ipv4(*Net::address(port).ip());
        interface.update_ip_addrs(|addresses| addresses.push(IpCidr::new(own, 0)).expect("room for an address"));
        let buffer = || tcp::SocketBuffer::new(vec![0; 1 << 16]);
        let mut sockets = SocketSet::new(Vec::new());
        let tcp = sockets.add(tcp::Socket::new(buffer(), buffer()));
        Self { wire, interface, sockets, tcp }
    }

    fn socket(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.tcp)
    }

    fn poll(&mut self, now: Instant) -> Option<Instant> {
        self.interface.poll(now, &mut self.wire, &mut self.sockets);
        self.interface.poll_at(now, &self.sockets)
    }
}

/// Sends two megabytes; gives how long it took and what came.
fn transfer() -> (Instant, u64, usize) {
    let net = Net::from_toml(PATH).expect("a network");
    let wires = net.wires();
    let [mut client, mut server] = [Port::near(0), Port::far(0)].map(|port| Host::new(&wires, port));
    let far = Net::address(Port::far(0));
    server.socket().listen(far.port()).expect("it listens");
    let Host { interface, sockets, tcp, .. } = &mut client;
    let socket = sockets.get_mut::<tcp::Socket<'_>>(*tcp);
    socket.connect(interface.context(), (IpAddress::Ipv4(*far.ip()), far.port()), 50_000).expect("it connects");

    let (mut now, mut sent, mut came) = (Instant::ZERO, 0, 0);
    while came < BYTES {
        let socket = client.socket();
        while sent < BYTES && socket.can_send() {
            let rest = [7; 4_096];
            sent += socket.send_slice(&rest[..rest.len().min(BYTES - sent)]).expect("it sends");
        }
        while server.socket().can_recv() {
            came += server.socket().recv(|bytes| (bytes.len(), bytes.len())).expect("it receives");
        }
        let timers = [client.poll(now), server.poll(now)];
        let due = timers.into_iter().flatten().chain(wires.next().expect("a network without a fault")).min();
        now = due.expect("a transfer that goes on").max(now);
    }
    let bytes = wires.net().link("bottleneck").expect("a link").bytes();
    (now, bytes, wires.net().drops().len())
}

#[test]
fn a_transfer_takes_as_long_as_its_window_asks_for_and_the_same_each_time() {
    let (first, second) = (transfer(), transfer());
    assert_eq!(first, second);
    let (end, bytes, drops) = first;
    assert_eq!(drops, 0);
    assert!(bytes > 2_000_000, "{bytes}");
    // A window of 64 KiB, and smoltcp has no congestion control: 65,536 bytes in 40 ms and a packet's time.
    let expected = BYTES as f64 / 65_536.0 * 0.0525;
    let found = end.total_micros() as f64 / 1e6;
    assert!((expected * 0.7..expected * 1.3).contains(&found), "{found} s; a window per round trip takes {expected}");
}
