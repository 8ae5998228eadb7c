//! Vegas beside a flow that fills the buffer.

use super::at_one_bdp;

#[test]
fn vegas_yields_to_a_flow_that_fills_the_buffer() {
    // Interactions, Table I: cubic 87.73, vegas 1.74 Mbit/s of 100 at 1000 packets; with one bandwidth-delay product of
    // buffer the queue stands well above Vegas' four packets still.
    let output = at_one_bdp(&["cubic", "vegas"], 0.0, 60);
    assert!(output.flows[0].goodput_mbps > 4.0 * output.flows[1].goodput_mbps, "{output:?}");
}
