// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What congestion controls cost per ACK and queue disciplines per packet in and out, in instructions: the guest's
 * virtual time is counted in them (qemu's -icount shift=0), and so is the time stamp counter that knee_cost reads. A
 * PART is cost/ack, or cost/packet-N with N flows; a step is an algorithm (lola_bpf: LoLa as BPF), its result the
 * instructions. If a module does not load, the step names its file, and the result the reason.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/klog.h>
#include <unistd.h>

#include "guest.h"

#define MEASURES	"/cost/knee_cost.ko"
/* Enough that the median batch is one of flows in steady state. Counts are the same in each run. */
#define BATCHES		100
/* Of the kernel's log. */
#define CLEAR		5
#define READ_ALL	3

static void measure(const char *part, const char *parameters, const char *suffix)
{
	static char log[1 << 16];
	char name[64], all[256];
	double cost;
	int length, why;

	klogctl(CLEAR, NULL, 0);
	snprintf(all, sizeof(all), "batches=%d %s", BATCHES, parameters);
	why = insert_module_with(MEASURES, all);
	/* It has measured, and does not stay. */
	if (why != ECANCELED)
		printf("knee cost/%s measure %s\n", part, strerror(why));
	length = klogctl(READ_ALL, log, sizeof(log) - 1);
	log[length > 0 ? length : 0] = 0;
	for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n")) {
		char *told = strstr(line, "per ");

		if (told && sscanf(told, "per %*s %63[^:]: %lf cycles", name, &cost) == 2)
			printf("knee cost/%s %s%s %.0f\n", part, name, suffix, cost);
	}
	fflush(stdout);
}

static void measure_discipline(const char *name, int flows)
{
	char command[64], part[32], parameters[64];

	snprintf(command, sizeof(command), "qdisc add dev lo root %s", name);
	snprintf(part, sizeof(part), "packet-%d", flows);
	snprintf(parameters, sizeof(parameters), "devices=lo flows=%d", flows);
	if (run_tc(command))
		measure(part, parameters, "");
	else
		printf("knee cost/%s %s refused\n", part, name);
	run_tc("qdisc del dev lo root");
}

/* Congestion controls as BPF, which have the names of the modules: those go first. */
static void measure_bpf(void)
{
	static const char *const NAMES[] = { "lola", "daimd" };
	char command[128], module[32], parameters[32];

	for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
		snprintf(command, sizeof(command), "load " OBJECTS "/%s.o " BPFFS "/%s", NAMES[i], NAMES[i]);
		snprintf(module, sizeof(module), "tcp_%s", NAMES[i]);
		snprintf(parameters, sizeof(parameters), "cc=%s", NAMES[i]);
		remove_module(module);
		if (!load_bpf("cost/ack", command))
			return;
		measure("ack", parameters, "_bpf");
		snprintf(command, sizeof(command), "unload " BPFFS "/%s", NAMES[i]);
		load_bpf("cost/ack", command);
	}
}

void try_costs(void)
{
	/* As the defaults of drivers and distributions have them, but that fq paces nothing here. */
	static const char *const DISCIPLINES[] = { "fq nopacing", "fq_codel", "cake unlimited", "cocoa", "cocoa_bpf" };

	static const char *const OURS[] = { MODULES "/tcp_lola.ko", MODULES "/tcp_daimd.ko", SCHEDULERS "/sch_cocoa.ko" };

	bool has_bpf;

	/* No module was built for this kernel, as knee says. */
	if (access(MEASURES, F_OK))
		return;
	for (size_t i = 0; i < sizeof(OURS) / sizeof(OURS[0]); i++) {
		int why = insert_module(OURS[i]);

		if (why) {
			printf("knee cost/ack %s %s\n", strrchr(OURS[i], '/') + 1, strerror(why));
			return;
		}
	}
	has_bpf = !access(DISCIPLINE, F_OK) && load_bpf("cost/packet-1", "load " DISCIPLINE " " DISCIPLINE_PIN);
	measure("ack", "cc=cubic,bbr,lola,daimd", "");
	if (loads_bpf)
		measure_bpf();
	for (int flows = 1; flows <= 100; flows *= 10)
		for (size_t i = 0; i < sizeof(DISCIPLINES) / sizeof(DISCIPLINES[0]); i++)
			if (has_bpf || strcmp(DISCIPLINES[i], "cocoa_bpf"))
				measure_discipline(DISCIPLINES[i], flows);
	if (has_bpf)
		load_bpf("cost/packet-1", "unload " DISCIPLINE_PIN);
}
