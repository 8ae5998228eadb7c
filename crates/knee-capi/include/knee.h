/* knee's simulated network for programs in C. Written by cbindgen from src/lib.rs. */

#ifndef KNEE_H
#define KNEE_H

#include <stddef.h>
#include <stdint.h>

// A simulated network. One thread at a time uses it.
typedef struct knee_net knee_net;

// A packet that has come out.
typedef struct knee_packet {
  // When it came out, ns.
  uint64_t at;
  // When it was sent, ns.
  uint64_t sent;
  // How long it waited in queues, ns.
  uint64_t queued;
  // The bytes as they were sent; valid up to the next call for this network.
  const uint8_t *bytes;
  // How many bytes that are.
  size_t len;
  // Where it came out: 2 * i at the near end of path i, from which data would come, 2 * i + 1 at the far one.
  uint32_t port;
  // The two bits of its ECN field: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
  uint8_t ecn;
  // Its codepoint (DSCP), 0 to 63.
  uint8_t dscp;
} knee_packet;

// Figures of a link, from the start to the latest time told.
typedef struct knee_link {
  // Mean time that packets waited in the queue, ns; 0 where none has left.
  uint64_t queueing_mean;
  // The 95th percentile, ns.
  uint64_t queueing_p95;
  // The 99th percentile, ns.
  uint64_t queueing_p99;
  // The longest, ns.
  uint64_t queueing_max;
  // Packets dropped.
  uint64_t drops;
  // Packets marked CE.
  uint64_t marks;
  // Bytes that have left, with the link's overhead.
  uint64_t bytes;
  // Bits carried over those that it could have carried, 0 to 1.
  double utilization;
} knee_link;

// Figures of a flow that the simulator sends, from its start to the latest time told.
typedef struct knee_flow {
  // Payload that its receiver has, bytes, each counted once.
  uint64_t delivered;
  // Mean of that, bit/s.
  double goodput;
  // Data packets sent.
  uint64_t sent;
  // Packets that its sender deems lost.
  uint64_t lost;
} knee_flow;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Opens the network of a scenario file. Returns NULL if it says what cannot be, with a text in `error`, which has room
// for `size` bytes.
//
// # Safety
// `file` ends with a zero byte; `error` is NULL or has `size` bytes.
struct knee_net *knee_net_open(const char *file,
                               char *error,
                               size_t size);

// Opens the network of a scenario file's text, as knee_net_open does.
//
// # Safety
// `toml` ends with a zero byte; `error` is NULL or has `size` bytes.
struct knee_net *knee_net_read(const char *toml, char *error, size_t size);

// Lets the simulator send what the file says of a flow; its path has no ports for the program then. Before anything is
// sent. Returns 0, or -1 with a text in knee_net_error.
//
// # Safety
// `net` is of knee_net_open or knee_net_read; `flow` ends with a zero byte.
int knee_net_background(struct knee_net *net,
                        const char *flow);

// Sends a UDP payload of up to 1472 bytes from one end of a path to the other. `ecn` are the two bits of the header.
// Returns 0, or -1 with a text in knee_net_error.
//
// # Safety
// `net` is of knee_net_open or knee_net_read; `bytes` has `len` bytes.
int knee_net_send(struct knee_net *net,
                  uint64_t now,
                  uint32_t port,
                  const uint8_t *bytes,
                  size_t len,
                  uint8_t ecn);

// Returns when something happens next, ns; UINT64_MAX: nothing does until something is sent.
//
// # Safety
// `net` is of knee_net_open or knee_net_read.
uint64_t knee_net_next(const struct knee_net *net);

// Lets time pass up to `now`, and gives a packet that has come out; call it until it gives none. Returns 1 with a
// packet, 0 without, or -1 with a text in knee_net_error.
//
// # Safety
// `net` is of knee_net_open or knee_net_read; `packet` can be written.
int knee_net_poll(struct knee_net *net,
                  uint64_t now,
                  struct knee_packet *packet);

// Writes the figures of a link; that of `[link]` is `bottleneck`. Returns 0, or -1 with a text in knee_net_error.
//
// # Safety
// `net` is of knee_net_open or knee_net_read; `name` ends with a zero byte; `figures` can be written.
int knee_net_link(struct knee_net *net,
                  const char *name,
                  struct knee_link *figures);

// Writes the figures of a flow that the simulator sends. Returns 0, or -1 with a text in knee_net_error.
//
// # Safety
// `net` is of knee_net_open or knee_net_read; `name` ends with a zero byte; `figures` can be written.
int knee_net_flow(struct knee_net *net,
                  const char *name,
                  struct knee_flow *figures);

// Writes the packets so far as pcapng. Returns 0, or -1 with a text in knee_net_error.
//
// # Safety
// `net` is of knee_net_open or knee_net_read; `file` ends with a zero byte.
int knee_net_write_pcap(struct knee_net *net, const char *file);

// Returns the text of the last error, valid up to the next call for this network; empty if there was none.
//
// # Safety
// `net` is of knee_net_open or knee_net_read.
const char *knee_net_error(const struct knee_net *net);

// Ends the network; NULL is no error.
//
// # Safety
// `net` is NULL, or of knee_net_open or knee_net_read and not used again.
void knee_net_free(struct knee_net *net);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* KNEE_H */
