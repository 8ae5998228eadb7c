//! Calls of applications, and the actions that they ask for.

use super::{Action, Apps, Around, Connection};
use crate::simulation::hosts::{At, End, Outbox, StreamMessage};
use knee_core::Time;
use knee_core::convert::index_u32;
use knee_traffic::{Application, Completion, Conn, Exchange, Net};
use slab::Slab;
use std::collections::VecDeque;

/// Collects the requests of an application during a call.
struct Calls<'a> {
    now: Time,
    flow: u32,
    connections: &'a mut Slab<Connection>,
    opened: &'a mut u64,
    wake_at: &'a mut Time,
    actions: &'a mut VecDeque<(u32, Action)>,
    completions: &'a mut Vec<Completion>,
}

impl Net for Calls<'_> {
    fn now(&self) -> Time {
        self.now
    }

    fn open(&mut self) -> Conn {
        let number = *self.opened;
        *self.opened += 1;
        let conn = Conn(index_u32(self.connections.insert(Connection::new(number))));
        self.actions.push_back((self.flow, Action::Open(conn)));
        conn
    }

    fn exchange(&mut self, conn: Conn, exchange: Exchange) -> u64 {
        let connection = &mut self.connections[conn.0 as usize];
        let number = connection.started;
        connection.started += 1;
        self.actions.push_back((self.flow, Action::Send(conn, number, exchange)));
        number
    }

    fn close(&mut self, conn: Conn) {
        self.actions.push_back((self.flow, Action::Close(conn)));
    }

    fn wake(&mut self, at: Time) {
        *self.wake_at = at;
        self.actions.push_back((self.flow, Action::WakeAt(at)));
    }

    fn record(&mut self, completion: Completion) {
        self.completions.push(Completion { flow: self.flow, ..completion });
    }
}

impl Apps {
    /// Calls the application of a flow.
    fn call<O>(
        &mut self,
        flow: u32,
        around: &mut Around<'_, O>,
        what: impl FnOnce(&mut dyn Application, &mut dyn Net),
    ) {
        let Self { applications, actions, .. } = self;
        let Some(Some(running)) = applications.get_mut(flow as usize) else { return };
        let Some(mut application) = running.application.take() else { return };
        what(
            application.as_mut(),
            &mut Calls {
                now: around.now,
                flow,
                connections: &mut running.connections,
                opened: &mut running.opened,
                wake_at: &mut running.wake_at,
                actions,
                completions: around.completions,
            },
        );
        running.application = Some(application);
    }

    /// A path is taken for a connection, which connects. Gives the half and the end that does.
    pub(super) fn connect(
        &mut self,
        flow: u32,
        conn: Conn,
        around: &mut Around<'_, impl Outbox>,
    ) -> Option<(u32, End)> {
        let half = self.add_half(flow, conn, true, around);
        let connection = self.connection(flow, conn)?;
        connection.away = half;
        // QUIC's answers come on the same path.
        connection.back = around.hosts.is_quic(half).then_some(half);
        let path = &around.network.flow_paths[half as usize];
        let at = &At { now: around.now, path, order: around.order };
        Some((half, around.hosts.connect(half, at, around.out)))
    }

    /// Does what is to be done for an application. Gives the half and the end of it that has something to send, or has
    /// been opened.
    pub(in crate::simulation) fn carry_out(
        &mut self,
        flow: u32,
        action: Action,
        around: &mut Around<'_, impl Outbox>,
    ) -> Option<(u32, End)> {
        match action {
            Action::Start => self.call(flow, around, |application, net| application.start(net)),
            Action::Stop => self.call(flow, around, |application, net| application.stop(net)),
            Action::Wake => {
                let running = self.running_mut(flow)?;
                if running.wake_at <= around.now {
                    running.wake_at = Time::MAX;
                    self.call(flow, around, |application, net| application.on_wake(net));
                }
            }
            Action::Connected(conn) => self.call(flow, around, |application, net| application.on_connected(conn, net)),
            Action::ShookHands(since) => {
                self.call(flow, around, |application, net| application.on_handshake(since, net));
            }
            Action::Complete(conn, number) => {
                self.call(flow, around, |application, net| application.on_complete(conn, number, net));
            }
            Action::Open(conn) => {
                let (half, end) = self.connect(flow, conn, around)?;
                // With 0-RTT it may send at once.
                if around.hosts.is_quic(half) {
                    self.note_progress(half, end, around.now, around.hosts);
                }
                return Some((half, end));
            }
            Action::Send(conn, number, exchange) => {
                let half = self.connection(flow, conn)?.away;
                if half < u32::MAX && around.hosts.is_over(half) {
                    self.act_first(flow, Action::Send(conn, number, exchange));
                    return self.reopen(flow, conn, around);
                }
                if self.has_streams(flow) {
                    let connection = self.connection(flow, conn)?;
                    let stream = connection.streams.len() as u64;
                    connection.streams.push(number);
                    connection.running.insert(number, exchange);
                    let message = StreamMessage { stream, bytes: exchange.up, priority: exchange.priority };
                    return Some((half, Self::write_stream(half, true, message, around)));
                }
                let (message, end) = self.write(half, (true, exchange.up), around);
                let connection = self.connection(flow, conn)?;
                connection.sent.push_back((message, exchange));
                if connection.back == Some(half) {
                    connection.running.insert(number, exchange);
                }
                self.await_next(half);
                return Some((half, end));
            }
            Action::Reopen(conn) => return self.reopen(flow, conn, around),
            Action::Answer(conn) => return self.answer(flow, conn, around),
            Action::Close(conn) => return self.close(flow, conn, around),
            Action::WakeAt(_) | Action::Prepare(..) => {}
        }
        None
    }
}
