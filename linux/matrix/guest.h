/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the parts of the guest's init share; guest.c says what the init does. */
#ifndef KNEE_MATRIX_GUEST_H
#define KNEE_MATRIX_GUEST_H

#include <stdbool.h>
#include <stddef.h>

/* The modules of congestion controls; the folder is empty where the guest's kernel came without headers. */
#define MODULES		"/modules"
/* cocoa, and the queue disciplines and classifiers that it is tried with. */
#define SCHEDULERS	"/schedulers"
#define LOADER		"/knee-bpf"
/* Congestion controls as BPF. */
#define OBJECTS		"/objects"
#define BPFFS		"/sys/fs/bpf"
/* cocoa as BPF. */
#define DISCIPLINE	"/disciplines/cocoa.o"
#define DISCIPLINE_PIN	BPFFS "/cocoa"
#define TRANSFER	(4 << 20)

/* Whether the kernel has taken a congestion control as BPF. */
extern bool loads_bpf;

bool connected(const char *name, int ends[2]);
bool sent(int ends[2], size_t bytes, void (*look)(void));
bool is_available(const char *name);
int select_as_user(const char *name);
/* The steps "user" and "transfer" of an algorithm that is there. */
void try_selected(const char *part, const char *name);
/* Calls `try` with the name, less the suffix, of each file in a folder. */
void each_file(const char *folder, const char *suffix, void (*try)(const char *name));

/* 0 or an errno. */
int insert_module(const char *path);
int insert_module_with(const char *path, const char *parameters);
int remove_module(const char *name);
void try_module(const char *name);
void try_cocoa(void);
/* Whether a command of tc succeeded. */
bool run_tc(const char *command);
void try_costs(void);
void write_file(const char *path, const char *text);
/* Runs a program with words of a command and keeps the beginning of what it writes; NULL: that goes to the console. */
bool run(const char *program, const char *command, char *text, size_t size);
/* Runs knee-bpf; what it writes to standard error follows on the console, a line "knee PART said ..." each. */
bool load_bpf(const char *part, const char *command);
void try_bpf_qdisc(void);

#endif
