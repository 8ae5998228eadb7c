//! One end of a connection of a stack with quinn's interface: quinn itself, and its forks.
//!
//! The types of two stacks are not the same, although they have the same names and methods. So the code is a macro,
//! which a module of each stack expands. The module says how its stack differs, in functions of `Differs`.

/// Defines `End`, a [`Connection`](crate::Connection) of the stack `$proto`.
///
/// The module has, beside the macro, `Plain` (its cryptography without encryption) and a type `Differs` with the
/// functions `client_tls`, `server_tls`, `endpoint`, `number_ids`, `set_log`, `receive`, `transmit`, `write`, `window`,
/// `pacing_rate` and `stats`.
#[macro_export]
macro_rules! end {
    ($proto:ident) => {
        use $proto::congestion::ControllerFactory;
        use $proto::{
            AckFrequencyConfig, ClientConfig, Connection as Machine, ConnectionHandle, ConnectionId,
            ConnectionIdGenerator, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, MtuDiscoveryConfig, SendStream,
            ServerConfig, StreamEvent, StreamId, TransportConfig, ValidationTokenConfig, VarInt, crypto,
        };

        /// One end of a connection.
        pub struct End {
            endpoint: Endpoint,
            machine: Option<(ConnectionHandle, Machine)>,
            /// The stream that it writes, and the one that it reads.
            sends: Option<StreamId>,
            reads: Option<StreamId>,
            arrived: $crate::connection::Arrived,
            /// Buffer for a datagram.
            scratch: Vec<u8>,
            /// Datagrams that are not the connection's own: answers of the endpoint.
            answers: Vec<$crate::Datagram>,
        }

        impl End {
            /// The end that connects, whose controller `factory` makes.
            pub fn connect(
                factory: std::sync::Arc<dyn ControllerFactory + Send + Sync>,
                settings: &$crate::Settings,
                now: knee_core::Time,
            ) -> Self {
                let mut endpoint = Differs::endpoint(Self::config(settings), None);
                let crypto: std::sync::Arc<dyn crypto::ClientConfig> =
                    if settings.tls { Differs::client_tls() } else { std::sync::Arc::new(Plain) };
                let mut config = ClientConfig::new(crypto);
                let mut transport = Self::transport(settings);
                transport.congestion_controller_factory(factory);
                config.transport_config(std::sync::Arc::new(transport));
                let initial = CountedIds::new(settings.seed, "initial").generate_cid();
                config.initial_dst_cid_provider(std::sync::Arc::new(move || initial));
                let (at, remote) = ($crate::connection::instant(now), $crate::connection::REMOTE);
                let machine = endpoint
                    .connect(at, config, remote, $crate::tls::NAME)
                    .expect("the name and address of the other end are valid");
                Self::new(endpoint, Some(machine))
            }

            /// The end that waits for a connection. `factory` makes its controller if it sends more than ACKs.
            pub fn listen(
                factory: std::sync::Arc<dyn ControllerFactory + Send + Sync>,
                settings: &$crate::Settings,
            ) -> Self {
                let crypto: std::sync::Arc<dyn crypto::ServerConfig> =
                    if settings.tls { Differs::server_tls() } else { std::sync::Arc::new(Plain) };
                let mut config = ServerConfig::new(crypto, std::sync::Arc::new(Plain));
                let mut transport = Self::transport(settings);
                if settings.answers {
                    transport.congestion_controller_factory(factory);
                }
                config.transport_config(std::sync::Arc::new(transport));
                let mut tokens = ValidationTokenConfig::default();
                tokens.sent(0);
                config.validation_token_config(tokens);
                Self::new(Differs::endpoint(Self::config(settings), Some(std::sync::Arc::new(config))), None)
            }

            fn new(endpoint: Endpoint, machine: Option<(ConnectionHandle, Machine)>) -> Self {
                let (scratch, answers) = (Vec::with_capacity(2048), Vec::new());
                let arrived = $crate::connection::Arrived::default();
                Self { endpoint, machine, sends: None, reads: None, arrived, scratch, answers }
            }

            fn config(settings: &$crate::Settings) -> std::sync::Arc<EndpointConfig> {
                let mut config = EndpointConfig::new(std::sync::Arc::new(Plain));
                config.rng_seed(Some($crate::connection::endpoint_seed(settings.seed)));
                Differs::number_ids(&mut config, settings.seed);
                std::sync::Arc::new(config)
            }

            fn transport(settings: &$crate::Settings) -> TransportConfig {
                let integer = |value| VarInt::from_u64(value).unwrap_or(VarInt::MAX);
                let mut config = TransportConfig::default();
                config.receive_window(integer(settings.receive_window)).send_window($crate::LEAST_BUFFER);
                config.stream_receive_window(integer(settings.stream_receive_window)).max_idle_timeout(None);
                let [least, initial, most] = settings.mtu;
                config.min_mtu(least).initial_mtu(initial);
                config.mtu_discovery_config((initial < most).then(|| {
                    let mut discovery = MtuDiscoveryConfig::default();
                    if most != 1452 {
                        // Else the search may end a little below.
                        discovery.upper_bound(most).minimum_change(1);
                    }
                    discovery
                }));
                if settings.acks != $crate::AckFrequency::default() {
                    let $crate::AckFrequency { max_delay, threshold } = settings.acks;
                    let mut acks = AckFrequencyConfig::default();
                    acks.max_ack_delay(Some(std::time::Duration::from_nanos(max_delay.as_nanos())));
                    acks.ack_eliciting_threshold(integer(threshold));
                    config.ack_frequency_config(Some(acks));
                }
                Differs::set_log(&mut config, settings);
                config
            }

            /// Reads and forgets what came: how many bytes.
            fn read(&mut self) -> u64 {
                let (Some((_, machine)), Some(id)) = (&mut self.machine, self.reads) else { return 0 };
                let mut stream = machine.recv_stream(id);
                let Ok(mut chunks) = stream.read(false) else { return 0 };
                let mut bytes = 0;
                while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                    bytes += chunk.bytes.len() as u64;
                    self.arrived.note(chunk.offset, chunk.bytes.len() as u64);
                }
                // The result says that the window is to be announced: the stack does so when it next transmits.
                let _ = chunks.finalize();
                bytes
            }
        }

        impl $crate::connection::Connection for End {
            fn receive(&mut self, now: knee_core::Time, datagram: $crate::Datagram) {
                let at = $crate::connection::instant(now);
                let mut answer = Vec::new();
                match Differs::receive(&mut self.endpoint, at, datagram, &mut answer) {
                    Some(DatagramEvent::ConnectionEvent(_, event)) => {
                        if let Some((_, machine)) = &mut self.machine {
                            machine.handle_event(event);
                        }
                    }
                    Some(DatagramEvent::NewConnection(incoming)) if self.machine.is_none() => {
                        if let Ok(accepted) = self.endpoint.accept(incoming, at, &mut answer, None) {
                            self.machine = Some(accepted);
                        }
                    }
                    Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
                    Some(DatagramEvent::Response(transmit)) => {
                        self.answers.push($crate::Datagram { bytes: answer[..transmit.size].into(), ecn: None });
                    }
                    None => {}
                }
            }

            fn transmit(&mut self, now: knee_core::Time) -> Option<$crate::Datagram> {
                if let Some(answer) = self.answers.pop() {
                    return Some(answer);
                }
                let (_, machine) = self.machine.as_mut()?;
                self.scratch.clear();
                let (size, ecn) = Differs::transmit(machine, $crate::connection::instant(now), &mut self.scratch)?;
                Some($crate::Datagram { bytes: self.scratch[..size].into(), ecn })
            }

            fn deadline(&mut self) -> Option<knee_core::Time> {
                self.machine.as_mut()?.1.poll_timeout().map($crate::connection::time)
            }

            fn fire(&mut self, now: knee_core::Time) {
                if let Some((_, machine)) = &mut self.machine {
                    machine.handle_timeout($crate::connection::instant(now));
                }
            }

            fn take_updates(&mut self) -> $crate::connection::Updates {
                let mut updates = $crate::connection::Updates::default();
                let Some((handle, machine)) = &mut self.machine else { return updates };
                while let Some(event) = machine.poll_endpoint_events() {
                    if let Some(event) = self.endpoint.handle_event(*handle, event) {
                        machine.handle_event(event);
                    }
                }
                while let Some(event) = machine.poll() {
                    match event {
                        Event::Connected => updates.connected = true,
                        Event::ConnectionLost { reason } => updates.ended = Some($crate::Ended(reason.to_string())),
                        Event::Stream(StreamEvent::Opened { dir }) => self.reads = machine.streams().accept(dir),
                        Event::Stream(StreamEvent::Writable { .. }) => updates.writable = true,
                        Event::Stream(StreamEvent::Finished { .. }) => updates.finished = true,
                        _ => {}
                    }
                }
                updates.received = self.read();
                updates.in_order = self.arrived.in_order();
                updates
            }

            fn write(&mut self, data: $crate::Bytes, buffer: u64) -> Option<usize> {
                let (_, machine) = self.machine.as_mut()?;
                let whole = data.len() as u64;
                machine.set_send_window(buffer);
                let id = self.sends.or_else(|| machine.streams().open(Dir::Uni))?;
                self.sends = Some(id);
                let written = Differs::write(machine.send_stream(id), data);
                if written.is_none() {
                    // The stream is writable again once all of `data` fits.
                    machine.set_send_window((buffer + 1).saturating_sub(whole));
                }
                written
            }

            fn finish(&mut self) {
                if let (Some((_, machine)), Some(id)) = (&mut self.machine, self.sends) {
                    // Nobody stops the stream, and it is finished once.
                    let _ = machine.send_stream(id).finish();
                }
            }

            fn reset(&mut self) {
                if let (Some((_, machine)), Some(id)) = (&mut self.machine, self.sends) {
                    // It may be finished.
                    let _ = machine.send_stream(id).reset(VarInt::from_u32(0));
                }
            }

            fn window(&self) -> u64 {
                self.machine.as_ref().map_or(0, |(_, machine)| Differs::window(machine))
            }

            fn pacing_rate(&self) -> Option<u64> {
                Differs::pacing_rate(&self.machine.as_ref()?.1)
            }

            fn stats(&mut self) -> Option<$crate::connection::Stats> {
                Differs::stats(&mut self.machine.as_mut()?.1)
            }
        }

        /// Connection identifiers from a random stream of our own.
        struct CountedIds(knee_core::Rng);

        impl CountedIds {
            fn new(seed: u64, name: &str) -> Self {
                Self(knee_core::Rng::stream(seed, &format!("quic/{name}-ids")))
            }
        }

        impl ConnectionIdGenerator for CountedIds {
            fn generate_cid(&mut self) -> ConnectionId {
                ConnectionId::new(&self.0.next_u64().to_le_bytes())
            }

            fn cid_len(&self) -> usize {
                $crate::connection::CID_BYTES
            }

            fn cid_lifetime(&self) -> Option<std::time::Duration> {
                None
            }
        }
    };
}
