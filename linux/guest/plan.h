/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * The plan of a run: what the traffic program does, and when. The host writes it as one
 * file of records, times ascending; python/knee/grounds/uml/plan.py mirrors this. Nothing in it
 * is ever given to a shell: names are only written to /proc/sys and to sockets.
 */
#ifndef KNEE_PLAN_H
#define KNEE_PLAN_H

#include <stdint.h>

#define PLAN_MAGIC 0x314e4c5045454e4bULL	/* "KNEEPLN1" */

struct plan_header {
	uint64_t magic;
	uint64_t size;		/* of the whole file */
	uint64_t duration_ns;
	uint64_t interval_ns;	/* of the samples */
	uint64_t progress_ns;	/* between two reports of progress */
	uint64_t phase_ns;	/* offset of time zero from a whole second */
	uint64_t seed[4];	/* seed of the kernel's random numbers */
	uint32_t flows;
	uint32_t links;
	uint32_t namespaces;
	uint32_t reserved;
};

enum plan_kind {
	PLAN_SYSCTL = 1,	/* index: namespace; "path\0value\0", path below /proc/sys */
	PLAN_NETLINK,		/* index: namespace; a message of rtnetlink, acknowledged */
	PLAN_OFFLOADS,		/* index: namespace; a device's name: it sends whole segments one by one */
	PLAN_LINK,		/* index: namespace, struct knee_link */
	PLAN_DELAY,		/* struct knee_delay */
	PLAN_LOSS,		/* struct knee_mark */
	PLAN_START,		/* index: flow, struct plan_flow */
	PLAN_STOP,		/* index: flow */
	PLAN_MARK,		/* struct knee_mark */
	PLAN_COMMON,		/* start or end of the time in which all flows run */
	PLAN_PROGRAM,		/* index: program, struct plan_program and its strings: starts it */
	PLAN_WATCH,		/* struct knee_program */
	PLAN_END,		/* index: program; asks it to end */
	PLAN_KILL,		/* index: program; kills it and everything it started */
	PLAN_ENDPOINT,		/* index: process; struct plan_end: starts an end of an application's flow */
	PLAN_CONNECTIONS,	/* index: flow, watched as a program; struct plan_connections: watches these too */
	PLAN_UNLOAD,		/* a module's name: removes it */
	PLAN_CAPTURE,		/* index: namespace; a device's index, 8 bytes: captures packets of senders there */
};

/* A record; its payload follows, padded to eight bytes. Times before the start are zero, in order. */
struct plan_record {
	uint64_t at_ns;
	uint32_t kind;
	uint32_t index;
	uint32_t size;
	uint32_t setup;		/* before time zero */
};

/* Namespaces are open as these and the following descriptors, which netlink messages name. */
#define PLAN_NAMESPACE_FD	100
/* Index of the guest's first namespace, whose settings hold for the whole kernel. */
#define PLAN_FIRST_NAMESPACE	((uint32_t)-1)
#define PLAN_NOWHERE		((uint32_t)-2)

struct plan_flow {
	uint32_t sender, receiver;	/* namespaces */
	uint32_t source, destination;	/* IPv4, network order */
	uint32_t last_link, phases;
	uint64_t bytes;			/* 0: endless */
	uint64_t send_buffer, receive_buffer;
	uint64_t unsent;		/* TCP_NOTSENT_LOWAT */
	uint64_t window_clamp;		/* 0: none */
	uint32_t paced;
	uint32_t ecn;			/* net.ipv4.tcp_ecn while it connects: 1 classic, 3 accurate; 0: as it is */
	uint32_t ecn_otherwise;		/* and else */
	uint32_t ect1;			/* its packets are ECT(1) */
	uint32_t same_at_receiver;	/* the receiver runs the algorithm too (dctcp) */
	uint32_t reserved;
	char cc[16];
};

/* The connections of an application's flow. */
struct plan_connections {
	uint32_t ect1;			/* their packets are ECT(1) */
	char cc[16];
};

/* A process of a flow that is a program: a flow's sender has an odd number, its receiver the even one before it. */
struct plan_program {
	uint32_t namespace;
	uint32_t uid, gid;		/* user whose files it may read on the host */
	uint32_t words;
	uint32_t processes;		/* and threads that all programs may have together */
	uint32_t reserved;
	uint64_t wait_ns;		/* see programs/wait.c */
	/* Strings, each with its zero: its root folder, its executable in there, its arguments. */
};

/* A process that is one end of an application's flow. */
struct plan_end {
	uint32_t namespace;
	uint32_t flow;
};

/* Records of /programs: this header, then `size` bytes padded to eight. */
struct program_note {
	uint64_t at_ns;
	uint32_t program;
	uint32_t kind;			/* enum program_notes */
	uint32_t value;
	uint32_t size;
};

enum program_notes {
	PROGRAM_SAID = 1,		/* what it wrote, to either output */
	PROGRAM_ENDED,			/* value: as waitpid() has it */
	PROGRAM_WENT_ON,		/* it ended but left a process running, which was killed; its name follows */
	PROGRAM_STRAYED,		/* value: how often it tried to reach other addresses */
	PROGRAM_MUTED,			/* it wrote too much, or (value 1) all did; later output is discarded */
};

#endif
