package bufferbloat

import (
	"testing"
	"time"
)

const home = `
[link]
rate = "10 Mbit/s"
limit = "1000 packets"

[[flows]]
label = "call"
rtt = "30 ms"

[[flows]]
label = "download"
cc = "cubic"
rtt = "30 ms"
start = "1 s"
`

// A call sends a packet every 20 ms, and a download fills the queue behind which these wait.
func TestACallWaitsBehindADownload(t *testing.T) {
	net, err := Read(home)
	if err != nil {
		t.Fatal(err)
	}
	defer net.Close()
	if err := net.Background("download"); err != nil {
		t.Fatal(err)
	}
	var before, behind time.Duration
	for now := time.Duration(0); now < 10*time.Second; now += 20 * time.Millisecond {
		if err := net.Send(now, 0, make([]byte, 160)); err != nil {
			t.Fatal(err)
		}
		came, err := net.Poll(now)
		if err != nil {
			t.Fatal(err)
		}
		for _, packet := range came {
			if packet.Sent < time.Second {
				before = max(before, packet.Queued)
			} else {
				behind = max(behind, packet.Queued)
			}
		}
	}
	if before != 0 || behind < 300*time.Millisecond {
		t.Errorf("packets waited %v before the download and %v behind it", before, behind)
	}
}

func TestErrorsAreTold(t *testing.T) {
	const said = `the text:2:8: link.rate: "10 Mbps/s" `
	if _, err := Read("[link]\nrate = \"10 Mbps/s\"\n"); err == nil || err.Error()[:len(said)] != said {
		t.Error(err)
	}
	net, err := Read(home)
	if err != nil {
		t.Fatal(err)
	}
	defer net.Close()
	if err := net.Send(0, 7, nil); err == nil {
		t.Error("there is no port 7")
	}
	if _, isDue := net.Next(); isDue {
		t.Error("nothing was sent")
	}
}
