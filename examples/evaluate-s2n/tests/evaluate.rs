//! s2n-quic's CUBIC and BBRv2, beside the deployed algorithms.

use evaluate_s2n::S2n;
use knee_evaluate::{Evaluation, window};
use s2n_quic_core::recovery::CubicCongestionController;
use s2n_quic_core::recovery::bbr::BbrCongestionController;

fn cubic() -> Evaluation {
    window(|mtu| S2n::new(CubicCongestionController::new(mtu, Default::default()), mtu)).named("s2n-quic's CUBIC")
}

fn bbr() -> Evaluation {
    window(|mtu| S2n::new(BbrCongestionController::new(mtu, Default::default()), mtu)).named("s2n-quic's BBRv2")
}

#[test]
fn three_criteria() {
    for evaluation in [cubic(), bbr()] {
        let report = evaluation.only("wired").only("tail-drop").only("beside-deployed").run().unwrap();
        println!("{report}\n");
        assert_eq!(report.with(knee_evaluate::Verdict::DoesNotRun).count(), 0, "{report}");
    }
}

#[test]
#[ignore = "takes minutes"]
fn all_criteria() {
    for evaluation in [cubic(), bbr()] {
        println!("{}\n", evaluation.run().unwrap());
    }
}
