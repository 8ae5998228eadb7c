// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * knee_probe: measures the flows and queues of a run from within the kernel, each RTT
 * sample and each packet's time in a queue. Its only user is the traffic program, which is
 * also the guest's init; it makes calls on /dev/knee one at a time.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "probe.h"

/* Room for events between two reads. */
#define EVENTS	(1U << 16)

struct probe probe;

static int set_up(const struct knee_setup *told)
{
	if (probe.flows || told->flows > KNEE_MAX_FLOWS || !told->links || told->links > 1024)
		return -EINVAL;
	probe.flows = vzalloc(array_size(max(told->flows, 1U), sizeof(*probe.flows)));
	probe.links = vzalloc(array_size(told->links, sizeof(*probe.links)));
	probe.programs = vzalloc(array_size(max(told->flows, 1U), sizeof(*probe.programs)));
	if (!probe.flows || !probe.links || !probe.programs)
		return -ENOMEM;
	probe.flow_count = told->flows;
	probe.link_count = told->links;
	probe.seed = told->seed;
	/* A row of each flow and link at each sample, cocoa's events of each flow. */
	return probe_rows_init(EVENTS + 8 * (told->flows + told->links));
}

static int mark(const struct knee_mark *told)
{
	u32 index = told->index & ~KNEE_IS_LINK;

	if (told->index & KNEE_IS_LINK) {
		if (index >= probe.link_count)
			return -EINVAL;
		probe_row_link(told->kind, index);
	} else {
		if (index >= probe.flow_count)
			return -EINVAL;
		probe_row_flow(told->kind, index);
	}
	return 0;
}

/* All rows of an interval have the same time, its end. */
static int sample(u64 at_ns)
{
	u32 i;

	probe.sample_ns = at_ns;
	for (i = 0; i < probe.flow_count; i++)
		probe_row_flow(KNEE_ROW_SAMPLE, i);
	for (i = 0; i < probe.link_count; i++)
		probe_row_link(KNEE_ROW_SAMPLE, i);
	return 0;
}

static int set_delay(const struct knee_delay *told)
{
	if (told->flow >= probe.flow_count)
		return -EINVAL;
	probe.flows[told->flow].delay_ns = told->ns;
	probe.flows[told->flow].receiver = (__force __be32)told->receiver;
	return 0;
}

static int set_loss(const struct knee_mark *told)
{
	if (told->index >= probe.link_count)
		return -EINVAL;
	probe.links[told->index].loss = told->kind;
	return 0;
}

static long knee_ioctl(struct file *file, unsigned int command, unsigned long argument)
{
	union {
		struct knee_setup setup;
		struct knee_flow flow;
		struct knee_link link;
		struct knee_mark mark;
		struct knee_delay delay;
		struct knee_program program;
		u64 number;
	} told;

	if (_IOC_SIZE(command) > sizeof(told))
		return -EINVAL;
	if (copy_from_user(&told, (void __user *)argument, _IOC_SIZE(command)))
		return -EFAULT;
	switch (command) {
	case KNEE_SETUP:
		return set_up(&told.setup);
	case KNEE_FLOW:
		return probe_socket_watch(&told.flow);
	case KNEE_LINK:
		return probe_queue_watch(&told.link);
	case KNEE_MARK:
		return mark(&told.mark);
	case KNEE_SAMPLE:
		return sample(told.number);
	case KNEE_LOSS:
		return set_loss(&told.mark);
	case KNEE_DELAY:
		return set_delay(&told.delay);
	case KNEE_FINISH:
		return probe_rows_finish();
	case KNEE_PROGRAM:
		return probe_program_watch(&told.program);
	case KNEE_CONNECTIONS:
		return probe_connections_watch(&told.flow);
	case KNEE_CAPTURE:
		return probe_capture(told.number);
	case KNEE_EPOCH:
		probe.epoch_ns = told.number;
		return 0;
	}
	return -ENOTTY;
}

static ssize_t knee_read(struct file *file, char __user *to, size_t size, loff_t *at)
{
	return probe_rows_read(to, size);
}

static const struct file_operations knee_files = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = knee_ioctl,
	.read = knee_read,
};

static struct miscdevice knee_device = {
	.minor = 200,	/* free in the guest, which has no other device */
	.name = "knee",
	.fops = &knee_files,
};

static int __init probe_init(void)
{
	int err = probe_delay_init();

	if (err)
		return err;
	err = probe_wire_init();
	if (err)
		goto out_delay;
	err = misc_register(&knee_device);
	if (!err)
		return 0;
	probe_wire_exit();
out_delay:
	probe_delay_exit();
	return err;
}

static void __exit probe_exit(void)
{
	misc_deregister(&knee_device);
	probe_capture_exit();
	probe_sockets_exit();
	probe_connections_exit();
	probe_queues_exit();
	probe_wire_exit();
	probe_delay_exit();
	probe_rows_exit();
	vfree(probe.flows);
	vfree(probe.links);
	vfree(probe.programs);
}

module_init(probe_init);
module_exit(probe_exit);
MODULE_DESCRIPTION("Measures the flows and queues of a knee run");
MODULE_LICENSE("Dual BSD/GPL");
