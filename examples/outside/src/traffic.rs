//! A kind of traffic: ping-pong. A message is sent when the one before is acknowledged, over one connection that stays.

use knee_core::{Bytes, Time, params};
use knee_traffic::{Application, Completion, Conn, Entry, Exchange, Make, Net, What};

pub static ENTRY: Entry = Entry {
    name: "ping_pong",
    about: "messages over one connection, each sent when the one before is acknowledged",
    source: "this example",
    params: Settings::DECLARED,
    tables: &[],
    required: &["message"],
    pulls: false,
    echoes: false,
    sockets: true,
    independent: |_| false,
    check: |_| Ok(()),
    load: |_| None,
    make: Make::Application(|given, _| {
        Box::new(PingPong { settings: (&given.params).into(), conn: None, sent: Time::ZERO })
    }),
};

params! {
    /// The parameters.
    struct Settings {
        /// the payload of a message
        message: Bytes = Bytes(10_000), in Bytes(1)..=Bytes(1_000_000_000), from "an example";
    }
}

#[derive(Clone)]
struct PingPong {
    settings: Settings,
    /// None before the flow starts and once it has stopped.
    conn: Option<Conn>,
    /// When the message under way was handed over.
    sent: Time,
}

impl PingPong {
    fn send(&mut self, net: &mut dyn Net) {
        if let Some(conn) = self.conn {
            self.sent = net.now();
            net.exchange(conn, Exchange::of(self.settings.message.0));
        }
    }
}

impl Application for PingPong {
    fn start(&mut self, net: &mut dyn Net) {
        self.conn = Some(net.open());
    }

    fn on_connected(&mut self, _: Conn, net: &mut dyn Net) {
        self.send(net);
    }

    fn on_complete(&mut self, conn: Conn, _: u64, net: &mut dyn Net) {
        net.record(Completion::new(What::Transfer, self.sent, net.now(), self.settings.message.0, f64::NAN));
        if self.conn.is_some() { self.send(net) } else { net.close(conn) }
    }

    fn on_wake(&mut self, _: &mut dyn Net) {}

    fn stop(&mut self, _: &mut dyn Net) {
        self.conn = None;
    }
}
