//! C's structures as Rust sees them, with the name that each has in C. The build reads this list, a line for each
//! structure and field, and asks C where it puts them; a test compares.

opaque! {
    Filter = knee_filter: 6;
    Lola = knee_lola: 13;
    Daimd = knee_daimd: 11;
    Noise = knee_noise: 74;
    Reverse = knee_reverse: 5;
    LolaWild = knee_lola_wild: 138;
}

mirrors! {
    LolaParams = knee_lola_params {
        q_low: u32,
        q_target: u32,
        t_sync: u32,
        t_measure: u32,
        gamma: u32,
        phi: u32,
        c: u32,
        min_rtt_resets: u32,
        min_rtt_close: u32,
        beta: u32,
        fast_convergence: u32,
        filter_slow_start: u32,
    }
    LolaAck = knee_lola_ack {
        now: u64,
        acked: u32,
        mss: u32,
        limited: bool,
        cwnd: u32,
        ssthresh: u32,
        count: u32,
    }
    LolaWildParams = knee_lola_wild_params {
        q_low: u32,
        q_target: u32,
        t_sync: u32,
        t_measure: u32,
        gamma: u32,
        phi: u32,
        adapt: u32,
        routes: u32,
        compete: u32,
        one_way: u32,
    }
    WildSample = knee_wild_sample {
        now: u64,
        rtt: u32,
        delivered: u32,
        tsval: u32,
        stamped: bool,
    }
    WildAck = knee_wild_ack {
        now: u64,
        acked: u32,
        mss: u32,
        limited: bool,
        reduced: bool,
        cwnd: u32,
        ssthresh: u32,
        count: u32,
    }
    DaimdParams = knee_daimd_params {
        tau0: u32,
        w0: u32,
        increase: u32,
        scale_increase: u32,
        adaptive_backoff: u32,
        delta: u32,
        beta_max: u32,
        beta: u32,
        loss_backoff: u32,
        gamma: u32,
        backoff_threshold: u32,
        decay: u32,
        hold: u32,
        delta0_mode: u32,
        delta0_factor: u32,
        delta0: u32,
        slow_start: u32,
        fixed_backoffs: u32,
        rtt_min_initial: u32,
    }
    DaimdAck = knee_daimd_ack {
        now: u64,
        acked: u32,
        snd_nxt: u32,
        limited: bool,
        cwnd: u32,
        ssthresh: u32,
    }
    Cocoa = knee_cocoa {
        buffer: u32,
        least: u32,
        sent: u64,
        idle_since: u64,
        idle: u64,
        start: u64,
        longest: u64,
        guard_end: u64,
        sojourn: u64,
        standing: u32,
        enlarged: bool,
    }
    CocoaParams = knee_cocoa_params {
        multiplier: u32,
        max_increase: u32,
        max_guard: u64,
        max_guard_rtts: u32,
        base_rtt: u64,
        initial_buffer: u32,
        learn_initial: bool,
    }
    CocoaLearned = knee_cocoa_learned {
        buffer: u64,
    }
    Bbr3 = bbr3 {
        state: u8,
        acks: u8,
        idle_restart: bool,
        round_start: bool,
        round: u32,
        round_end: u32,
        max_bw: [u32; 2],
        marked: bool,
        mark_from: u32,
        mark_until: u32,
        extra_acked: [[u32; 2]; 3],
        interval_start: u64,
        interval_delivered: u32,
        inflight_longterm: u32,
        inflight_shortterm: u32,
        bw_shortterm: u32,
        bw_latest: u32,
        inflight_latest: u32,
        loss_round_end: u32,
        loss_round_start: bool,
        loss_in_round: bool,
        ranges_in_round: u32,
        lost_seen: u32,
        full_reached: bool,
        full_now: bool,
        full_rounds: u8,
        full_bw: u32,
        probe_samples: bool,
        prev_too_high: bool,
        prev_precautionary: bool,
        drain_round: u32,
        rounds_since_probe: u32,
        cycle_start: u64,
        wait: u32,
        up_rounds: u32,
        up_acked: u32,
        acked_per_step: u32,
        min_rtt: u32,
        recent_rtt: u32,
        min_rtt_stamp: u64,
        recent_rtt_stamp: u64,
        rtt_expired: bool,
        probe_rtt_round_done: bool,
        probe_rtt_done: u64,
        prior_cwnd: u32,
        origin: u8,
        repairing: bool,
        undo_bw_shortterm: u32,
        undo_inflight_shortterm: u32,
        undo_inflight_longterm: u32,
        initial_cwnd: u32,
        mss: u32,
        rate: u64,
        newest: u32,
        found: u32,
        departures: [[u32; 5]; 256],
    }
    Bbr3View = view {
        now: u64,
        cwnd: u32,
        in_flight: u32,
        delivered: u32,
        lost: u32,
        snd_nxt: u32,
        ca_state: u8,
        app_limited: bool,
        cwnd_limited: bool,
    }
    Bbr3Sample = sample {
        valid: bool,
        app_limited: bool,
        bw: u32,
        delivered: u32,
        acked: u32,
        prior_delivered: u32,
        tx_in_flight: u32,
        lost: u32,
        rtt: u32,
    }
}
