// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Lets tc of iproute2 set and show the options and statistics of the queue discipline cocoa:
 *
 *	tc qdisc replace dev eth0 root cocoa max_guard_interval 500ms learn_initial on
 *	tc -s qdisc show dev eth0
 *	tc -s class show dev eth0
 *
 * tc looks for it as q_cocoa.so in its folder of plugins, or in that which TC_LIB_DIR names.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../include/uapi/knee_pkt_sched.h"
#include "tc_plugin.h"

/* The netlink value of a ratio of one. */
#define ONE		65536
#define MOST_RATIO	(0xffffffffu / ONE)

enum kind { COUNT, BYTES, RATE, TIME, RATIO, SWITCH };

/* In the order in which they are shown. The kernel checks ranges. */
static const struct option {
	const char *name;
	enum kind kind;
	unsigned short attribute;
} OPTIONS[] = {
	{ "limit", COUNT, TCA_COCOA_LIMIT },
	{ "memory_limit", BYTES, TCA_COCOA_MEMORY_LIMIT },
	{ "multiplier", RATIO, TCA_COCOA_MULTIPLIER },
	{ "max_increase", RATIO, TCA_COCOA_MAX_INCREASE },
	{ "max_guard_interval", TIME, TCA_COCOA_MAX_GUARD_INTERVAL },
	{ "max_guard_rtts", RATIO, TCA_COCOA_MAX_GUARD_RTTS },
	{ "base_rtt", TIME, TCA_COCOA_BASE_RTT },
	{ "learn_initial", SWITCH, TCA_COCOA_LEARN_INITIAL },
	{ "flow_limit", COUNT, TCA_COCOA_FLOW_LIMIT },
	{ "quantum", BYTES, TCA_COCOA_QUANTUM },
	{ "initial_quantum", BYTES, TCA_COCOA_INITIAL_QUANTUM },
	{ "refill_delay", TIME, TCA_COCOA_REFILL_DELAY },
	{ "flow_max_rate", RATE, TCA_COCOA_FLOW_MAX_RATE },
	{ "low_rate_threshold", RATE, TCA_COCOA_LOW_RATE_THRESHOLD },
	{ "ce_threshold", TIME, TCA_COCOA_CE_THRESHOLD },
	{ "orphan_mask", COUNT, TCA_COCOA_ORPHAN_MASK },
};

#define OPTION_COUNT	(sizeof(OPTIONS) / sizeof(OPTIONS[0]))

static void explain(void)
{
	static const char *const VALUES[] = {
		[COUNT] = "NUMBER", [BYTES] = "SIZE", [RATE] = "RATE", [TIME] = "TIME", [RATIO] = "RATIO",
		[SWITCH] = "{ on | off }",
	};

	fprintf(stderr, "Usage: ... cocoa");
	for (size_t i = 0; i < OPTION_COUNT; i++)
		fprintf(stderr, "%s[ %s %s ]", i ? "\n                 " : " ", OPTIONS[i].name,
			VALUES[OPTIONS[i].kind]);
	fprintf(stderr, "\n");
}

static const struct option *found(const char *name)
{
	for (size_t i = 0; i < OPTION_COUNT; i++)
		if (!strcmp(name, OPTIONS[i].name))
			return &OPTIONS[i];
	return NULL;
}

/* The bytes of an attribute's value; 0 where the text is none. */
static int parse_value(enum kind kind, const char *text, void *value)
{
	char *end;
	double ratio;

	switch (kind) {
	case COUNT:
		return get_u32(value, text, 0) ? 0 : sizeof(__u32);
	case BYTES:
		return get_size(value, text) ? 0 : sizeof(__u32);
	case RATE:
		return get_rate64(value, text) ? 0 : sizeof(__u64);
	case TIME:
		return get_time(value, text) ? 0 : sizeof(__u32);
	case RATIO:
		ratio = strtod(text, &end);
		/* Not a number either. */
		if (end == text || *end || !(ratio >= 0 && ratio <= MOST_RATIO))
			return 0;
		*(__u32 *)value = ratio * ONE + 0.5;
		return sizeof(__u32);
	case SWITCH:
		*(__u8 *)value = !strcmp(text, "on");
		return *(__u8 *)value || !strcmp(text, "off") ? sizeof(__u8) : 0;
	}
	return 0;
}

static int cocoa_parse_qopt(const struct qdisc_util *util, int argc, char **argv, struct nlmsghdr *message,
			    const char *device)
{
	struct rtattr *nest = addattr_nest(message, MAX_MSG, TCA_OPTIONS | NLA_F_NESTED);
	bool given[OPTION_COUNT] = {};

	for (; argc > 0; argc -= 2, argv += 2) {
		const struct option *option = found(*argv);
		__u64 value = 0;
		int length;

		if (!option) {
			if (strcmp(*argv, "help"))
				fprintf(stderr, "cocoa has no option \"%s\".\n", *argv);
			explain();
			return -1;
		}
		if (argc == 1)
			incomplete_command();
		if (given[option - OPTIONS])
			duparg(option->name, argv[1]);
		given[option - OPTIONS] = true;
		length = parse_value(option->kind, argv[1], &value);
		if (!length) {
			fprintf(stderr, "%s: \"%s\" is no value of it.\n", option->name, argv[1]);
			explain();
			return -1;
		}
		addattr_l(message, MAX_MSG, option->attribute, &value, length);
	}
	addattr_nest_end(message, nest);
	return 0;
}

/* In the largest unit of which it is a whole number, as tc reads it. */
static void print_rate(FILE *file, const char *name, __u64 bytes)
{
	static const char *const UNITS[] = { "bit", "Kbit", "Mbit", "Gbit" };
	__u64 rate = bytes * 8;
	int unit = 0;

	for (; unit < 3 && rate && rate % 1000 == 0; unit++)
		rate /= 1000;
	fprintf(file, "%s %llu%s ", name, (unsigned long long)rate, UNITS[unit]);
}

/* JSON has base units: bytes, bytes per second and microseconds. */
static void print_value(FILE *file, const struct option *option, const void *data)
{
	__u32 value = *(const __u32 *)data;
	char text[TIME_TEXT];
	__u64 rate;

	switch (option->kind) {
	case COUNT:
	case BYTES:
		if (is_json_context())
			print_color_u64(PRINT_JSON, COLOR_OF_JSON, option->name, NULL, value);
		else
			fprintf(file, "%s %u%s ", option->name, value, option->kind == BYTES ? "b" : "");
		break;
	case RATE:
		memcpy(&rate, data, sizeof(rate));
		if (is_json_context())
			print_color_u64(PRINT_JSON, COLOR_OF_JSON, option->name, NULL, rate);
		else
			print_rate(file, option->name, rate);
		break;
	case TIME:
		if (is_json_context())
			print_color_u64(PRINT_JSON, COLOR_OF_JSON, option->name, NULL, value);
		else
			fprintf(file, "%s %s ", option->name, sprint_time(value, text));
		break;
	case RATIO:
		if (is_json_context())
			print_color_float(PRINT_JSON, COLOR_OF_JSON, option->name, NULL, (double)value / ONE);
		else
			fprintf(file, "%s %.6g ", option->name, (double)value / ONE);
		break;
	case SWITCH:
		if (is_json_context())
			print_color_bool(PRINT_JSON, COLOR_OF_JSON, option->name, NULL, *(const __u8 *)data);
		else
			fprintf(file, "%s %s ", option->name, *(const __u8 *)data ? "on" : "off");
		break;
	}
}

static int cocoa_print_qopt(const struct qdisc_util *util, FILE *file, struct rtattr *options)
{
	struct rtattr *attributes[TCA_COCOA_MAX + 1];

	if (!options)
		return 0;
	parse_rtattr_flags(attributes, TCA_COCOA_MAX, RTA_DATA(options), RTA_PAYLOAD(options), NLA_F_NESTED);
	for (size_t i = 0; i < OPTION_COUNT; i++) {
		const struct rtattr *attribute = attributes[OPTIONS[i].attribute];
		size_t needed = OPTIONS[i].kind == RATE ? sizeof(__u64) : OPTIONS[i].kind == SWITCH ? 1 : sizeof(__u32);

		/* A module of another version may lack it. */
		if (attribute && RTA_PAYLOAD(attribute) >= needed)
			print_value(file, &OPTIONS[i], RTA_DATA(attribute));
	}
	return 0;
}

enum width { U64, U32, S32 };

/* A field of the statistics; those that `begins` a line of text. */
struct field {
	const char *name;
	enum width width;
	size_t offset;
	bool begins;
};

#define COUNTER(field)	{ #field, U64, offsetof(struct tc_cocoa_xstats, qdisc.field), false }
#define NUMBER(field)	{ #field, U32, offsetof(struct tc_cocoa_xstats, qdisc.field), false }
#define LINE(field, width) { #field, width, offsetof(struct tc_cocoa_xstats, qdisc.field), true }

static const struct field FIELDS[] = {
	LINE(flows, U32), NUMBER(inactive_flows), NUMBER(throttled_flows), NUMBER(memory),
	LINE(buffer_min, U32), NUMBER(buffer_mean), NUMBER(buffer_max), NUMBER(learned_buffer),
	LINE(enlargements, U64), COUNTER(reductions), COUNTER(guard_intervals), COUNTER(intervals),
	LINE(longest_interval, U32), NUMBER(guard_interval), COUNTER(throttled), COUNTER(gc_flows),
	LINE(limit_drops, U64), COUNTER(flow_drops), COUNTER(trim_drops), COUNTER(ce_marks), COUNTER(allocation_errors),
};

#define OF_FLOW(field, width, begins) { #field, width, offsetof(struct tc_cocoa_xstats, flow.field), begins }

static const struct field FLOW_FIELDS[] = {
	OF_FLOW(buffer, U32, true), OF_FLOW(longest_interval, U32, false), OF_FLOW(guard_left, S32, false),
	OF_FLOW(credit, S32, false), OF_FLOW(idle, U32, false), OF_FLOW(enlarged, U32, false),
};

static void print_field(FILE *file, const struct field *field, const char *stats, bool first)
{
	__u64 counter = 0;
	__s32 number;

	if (!is_json_context())
		fputs(field->begins ? first ? "  " : "\n  " : " ", file);
	if (field->width == S32) {
		memcpy(&number, stats + field->offset, sizeof(number));
		if (is_json_context())
			print_color_s64(PRINT_JSON, COLOR_OF_JSON, field->name, NULL, number);
		else
			fprintf(file, "%s %d", field->name, number);
		return;
	}
	/* Both kinds are little or big endian as the machine is, so a part is copied into its own type. */
	if (field->width == U64) {
		memcpy(&counter, stats + field->offset, sizeof(__u64));
	} else {
		__u32 narrow;

		memcpy(&narrow, stats + field->offset, sizeof(narrow));
		counter = narrow;
	}
	if (is_json_context())
		print_color_u64(PRINT_JSON, COLOR_OF_JSON, field->name, NULL, counter);
	else
		fprintf(file, "%s %llu", field->name, (unsigned long long)counter);
}

static int cocoa_print_xstats(const struct qdisc_util *util, FILE *file, struct rtattr *xstats)
{
	/* A module of another version may have fewer fields, which are 0 then. */
	struct tc_cocoa_xstats stats = {};
	const struct field *fields = FIELDS;
	size_t length, count = sizeof(FIELDS) / sizeof(FIELDS[0]);

	if (!xstats)
		return 0;
	length = RTA_PAYLOAD(xstats);
	memcpy(&stats, RTA_DATA(xstats), length < sizeof(stats) ? length : sizeof(stats));
	if (stats.type == TCA_COCOA_XSTATS_CLASS) {
		fields = FLOW_FIELDS;
		count = sizeof(FLOW_FIELDS) / sizeof(FLOW_FIELDS[0]);
	}
	for (size_t i = 0; i < count; i++)
		print_field(file, &fields[i], (const char *)&stats, !i);
	return 0;
}

struct qdisc_util cocoa_qdisc_util = {
	.id		= "cocoa",
	.parse_qopt	= cocoa_parse_qopt,
	.print_qopt	= cocoa_print_qopt,
	.print_xstats	= cocoa_print_xstats,
};
