/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The few kernel fields that programs read; libbpf relocates them to the running kernel's. */
#ifndef ISOLANE_KERNEL_H
#define ISOLANE_KERNEL_H

#include <linux/types.h>

#define PF_KTHREAD 0x00200000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* How much of a core its tasks have had lately: half of it in the last 32 ms. */
struct sched_avg {
	unsigned long util_avg; /* of 1,024 */
};

struct cfs_rq {
	struct sched_avg avg;
	struct rq *rq;
};

/* A core's run queue, and what the kernel has taken off the time of its tasks. */
struct rq {
	__u64 prev_irq_time;
	__u64 prev_steal_time_rq;
	struct cfs_rq cfs;
};

struct sched_entity {
	__u64 sum_exec_runtime;
	struct sched_entity *parent;
	struct cfs_rq *cfs_rq;
};

struct task_struct {
	int pid;
	unsigned int flags;
	struct sched_entity se;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
};

struct sk_buff {
	struct net_device *dev;
	unsigned int len;
	unsigned int data_len; /* of which not between head and end */
	unsigned char *head;
	unsigned char *data;
	__u16 mac_header; /* offset from head */
};

struct hrtimer {
	int (*function)(struct hrtimer *);
};

struct napi_struct {
	struct net_device *dev;
};

#pragma clang attribute pop

#endif
