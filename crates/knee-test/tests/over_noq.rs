//! Unmodified noq over a network, in virtual time.

crate::quic::over!(noq, noq_proto::crypto::rustls, "noq:cubic");
