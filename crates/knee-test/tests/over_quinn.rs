//! Unmodified quinn over a network, in virtual time, and the lab that it runs in.

crate::quic::over!(quinn, knee_quinn::proto::crypto::rustls, "quinn:cubic");

#[tokio::test]
async fn a_clock_that_runs_is_refused() {
    let error = Net::from_toml(PATH).expect("a network").lab().expect_err("it is refused").to_string();
    assert!(error.contains("start_paused"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn timers_of_tokio_and_packets_share_a_clock() {
    let lab = Net::from_toml(PATH).expect("a network").lab().expect("a paused clock");
    let times = lab.run(async {
        tokio::time::sleep(Duration::from_millis(7)).await;
        let before = lab.now();
        lab.net().send(before, Port::near(0), &[0; 1_000], knee_test::Ecn::NotEct).expect("it is sent");
        tokio::time::sleep(Duration::from_millis(3)).await;
        (before, lab.now())
    });
    let (before, after) = times.await.expect("a run");
    assert_eq!(before, Time::from_millis(7));
    assert!((Time::from_millis(10)..=Time::from_millis(12)).contains(&after), "{after}");
    // The packet came out at its time, and not at that of a timer.
    assert_eq!(lab.net().link("bottleneck").expect("a link").bytes(), 1_042);
}

#[tokio::test(start_paused = true)]
async fn a_program_that_waits_for_nothing_is_told_so() {
    let lab = Net::from_toml(PATH).expect("a network").lab().expect("a paused clock");
    let error = lab.run(std::future::pending::<()>()).await.expect_err("it stalls").to_string();
    assert!(error.starts_with("the program waits since 0 s, and for a day nothing is due"), "{error}");
}
