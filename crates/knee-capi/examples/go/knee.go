// Package bufferbloat has knee's simulated network in Go, by cgo, and a test that uses it.
package bufferbloat

/*
#cgo CFLAGS: -I${SRCDIR}/../../include
#cgo LDFLAGS: -lknee -lm -ldl -lpthread
#include <stdlib.h>
#include <knee.h>
*/
import "C"

import (
	"errors"
	"time"
	"unsafe"
)

// Net is a network. Times are its own, from 0.
type Net struct{ net *C.struct_knee_net }

// Read opens the network of a scenario file's text.
func Read(toml string) (*Net, error) {
	text, said := C.CString(toml), (*C.char)(C.calloc(1000, 1))
	defer C.free(unsafe.Pointer(text))
	defer C.free(unsafe.Pointer(said))
	net := C.knee_net_read(text, said, 1000)
	if net == nil {
		return nil, errors.New(C.GoString(said))
	}
	return &Net{net}, nil
}

// Close ends the network.
func (n *Net) Close() { C.knee_net_free(n.net) }

func (n *Net) told(code C.int) error {
	if code < 0 {
		return errors.New(C.GoString(C.knee_net_error(n.net)))
	}
	return nil
}

// Background lets the simulator send what the file says of a flow.
func (n *Net) Background(flow string) error {
	name := C.CString(flow)
	defer C.free(unsafe.Pointer(name))
	return n.told(C.knee_net_background(n.net, name))
}

// Send puts a datagram in at a port: 2*i at the near end of path i, 2*i+1 at the far one.
func (n *Net) Send(now time.Duration, port int, payload []byte) error {
	bytes := (*C.uint8_t)(unsafe.Pointer(unsafe.SliceData(payload)))
	return n.told(C.knee_net_send(n.net, C.uint64_t(now), C.uint32_t(port), bytes, C.size_t(len(payload)), 0))
}

// Next says when something happens inside next; false if nothing does.
func (n *Net) Next() (time.Duration, bool) {
	next := C.knee_net_next(n.net)
	return time.Duration(next), next != C.UINT64_MAX
}

// Packet is one that has come out.
type Packet struct {
	At, Sent, Queued time.Duration
	Port             int
	Bytes            []byte
}

// Poll lets time pass, and gives what has come out.
func (n *Net) Poll(now time.Duration) ([]Packet, error) {
	var came []Packet
	for {
		var p C.struct_knee_packet
		got := C.knee_net_poll(n.net, C.uint64_t(now), &p)
		if got <= 0 {
			return came, n.told(got)
		}
		bytes := C.GoBytes(unsafe.Pointer(p.bytes), C.int(p.len))
		at, sent, queued := time.Duration(p.at), time.Duration(p.sent), time.Duration(p.queued)
		came = append(came, Packet{at, sent, queued, int(p.port), bytes})
	}
}
