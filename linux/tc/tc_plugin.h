/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What tc of iproute2 and its plugins have in common. iproute2 installs no header of it: these are the parts of
 * its tc_util.h, utils.h, libnetlink.h and json_print.h that a queue discipline needs, as tc exports them.
 */
#ifndef KNEE_TC_PLUGIN_H
#define KNEE_TC_PLUGIN_H

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdio.h>

/* Which tc looks up as NAME_qdisc_util in q_NAME.so. */
struct qdisc_util {
	struct qdisc_util *next;
	const char *id;
	int (*parse_qopt)(const struct qdisc_util *util, int argc, char **argv, struct nlmsghdr *message,
			  const char *device);
	int (*print_qopt)(const struct qdisc_util *util, FILE *file, struct rtattr *options);
	int (*print_xstats)(const struct qdisc_util *util, FILE *file, struct rtattr *xstats);
	int (*parse_copt)(const struct qdisc_util *util, int argc, char **argv, struct nlmsghdr *message,
			  const char *device);
	int (*print_copt)(const struct qdisc_util *util, FILE *file, struct rtattr *options);
	bool (*has_block)(const struct qdisc_util *util, struct rtattr *options, bool *has);
};

/* Prints as part of JSON (tc -j). What colours are numbered as differs between versions, and JSON has none. */
enum output_type { PRINT_JSON = 2 };
enum color_attr { COLOR_OF_JSON };

/* The greatest message that tc makes. */
#define MAX_MSG	16384

int addattr_l(struct nlmsghdr *message, int space, int type, const void *data, int length);
struct rtattr *addattr_nest(struct nlmsghdr *message, int space, int type);
int addattr_nest_end(struct nlmsghdr *message, struct rtattr *nest);
int parse_rtattr_flags(struct rtattr *found[], int most, struct rtattr *attributes, int length, unsigned short flags);

/* Text to a value: bytes, bytes per second, microseconds. 0, or -1 where it is none. */
int get_u32(__u32 *value, const char *text, int base);
int get_size(unsigned int *value, const char *text);
int get_rate64(__u64 *value, const char *text);
int get_time(unsigned int *value, const char *text);

/* What is wrong with the command line; they do not return. */
void incomplete_command(void) __attribute__((noreturn));
void invarg(const char *said, const char *word) __attribute__((noreturn));
void duparg(const char *key, const char *word) __attribute__((noreturn));

bool is_json_context(void);
int print_color_u64(enum output_type type, enum color_attr color, const char *key, const char *format, __u64 value);
int print_color_s64(enum output_type type, enum color_attr color, const char *key, const char *format, __s64 value);
int print_color_float(enum output_type type, enum color_attr color, const char *key, const char *format, double value);
int print_color_bool(enum output_type type, enum color_attr color, const char *key, const char *format, bool value);

/* Microseconds as text, which `text` has TIME_TEXT bytes for. */
#define TIME_TEXT	64
char *sprint_time(__u32 time, char *text);

#endif
