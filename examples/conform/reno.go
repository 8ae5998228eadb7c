// NewReno for `knee conform newreno -- ./reno`: a line of JSON for each event, and one back. `go build reno.go`
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
)

type event struct {
	T           int64      `json:"t"`
	MSS         float64    `json:"mss"`
	InitialCwnd float64    `json:"initial_cwnd"`
	Acked       [][3]int64 `json:"acked"`
	Lost        [][3]int64 `json:"lost"`
	ECN         [][3]int64 `json:"ecn"`
	AppLimited  bool       `json:"app_limited"`
	Persistent  bool       `json:"persistent"`
}

func main() {
	lines := bufio.NewReader(os.Stdin)
	var mss, cwnd, ssthresh float64
	recovery := int64(-1)
	halved := func() float64 { return math.Max(math.Floor(math.Floor(cwnd)/2), 2*mss) }
	for first := true; ; first = false {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			os.Exit(1)
		}
		more := ""
		if first {
			mss, cwnd = e.MSS, e.InitialCwnd
			more = `,"shows":["cwnd","ssthresh"],"takes":["sent","acked","lost","ecn"]`
		}
		for _, packet := range e.Acked {
			if packet[1] <= recovery || e.AppLimited {
				continue
			}
			if ssthresh == 0 || cwnd < ssthresh {
				cwnd += float64(packet[2])
			} else {
				cwnd += mss * float64(packet[2]) / cwnd
			}
		}
		if e.Persistent {
			ssthresh, cwnd, recovery = halved(), 2*mss, -1
		} else {
			for _, packet := range append(e.Lost, e.ECN...) {
				if packet[1] > recovery {
					recovery = e.T
					ssthresh = halved()
					cwnd = ssthresh
				}
			}
		}
		threshold := "null"
		if ssthresh > 0 {
			threshold = fmt.Sprintf("%.0f", ssthresh)
		}
		fmt.Printf("{\"cwnd\":%.0f,\"ssthresh\":%s%s}\n", cwnd, threshold, more)
	}
}
