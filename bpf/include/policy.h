/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the programs that enforce a policy share with each other and with user space. A router has
 * one queue for each of its receiving interfaces; a queue has a number, its slot.
 */
#ifndef ISOLANE_POLICY_H
#define ISOLANE_POLICY_H

#include <linux/types.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#define ISL_MAX_QUEUES 2048
#define ISL_MAX_PORTS 2048
#define ISL_MAX_BUDGETS 1024

/* Where frames for a MAC address and VLAN go. */
struct isl_route {
	__u8 mac[6];
	__be16 vlan; /* tag control information & 0xfff; 0: untagged */
};

/* A token bucket that limits frames or bits; refilled by who takes from it. */
struct isl_bucket {
	__u64 rate;   /* tokens a second: frames, or bits on the wire; 0: no limit */
	__u64 depth;  /* most tokens at a time */
	__u64 tokens; /* millionths of a token */
	__u64 at_ns;
};

enum isl_bucket_kind {
	ISL_FRAMES = 0,
	ISL_BITS = 1,
	ISL_BUCKETS = 2
};

/* Settings are written by user space, counts by the named program alone. */
struct isl_queue {
	__u32 limit; /* frames that may wait while it overflows; 0: the queue is not in use */
	__u32 flags;
	__u32 budget; /* of the router's CPU time: its number, plus 1; 0: none */
	__u32 burst;  /* frames that may wait when it has not overflowed lately */
	/* isl_demux, when the queue is full */
	__u32 seen; /* `latest`, plus 1, when it was full before */
	__u32 pad0[11];
	struct isl_bucket ingress[ISL_BUCKETS];
	/* isl_demux */
	__u64 offered;
	__u64 offered_bytes; /* with the 4-byte frame check sequence */
	__u64 dropped_queue; /* the queue was full */
	__u64 dropped_rate;  /* above rate_max */
	__u32 passed;	     /* number of the latest frame that went into the queue */
	__u32 tried_ms;	     /* when `seen` changed or a frame was let into the full queue */
	__u64 dropped_cpu;   /* above cpu_max */
	__u64 overflowed_ns; /* when it last overflowed, by the coarse clock */
	__u64 dropped_size;  /* longer than the router's interface takes */
	/* isl_serve */
	__u64 served;
	__u64 forwarded; /* by XDP */
	__u32 latest;	 /* number of the latest frame that left the queue */
	__u32 thread;	 /* that took it */
	__u64 ran_ns;	 /* what that thread had run for by then */
	__u64 pad4[4];
};

/*
 * CPU time of one router: the kernel throttles a group of threads only on their way to user space,
 * which kernel threads never take. So frames are let in only as long as there is budget; what the
 * router's threads really ran for is taken off.
 */
struct isl_budget {
	__u64 rate_ns; /* CPU time a second, ns; 0: no cap */
	__u64 depth_ns;
	/* isl_demux */
	__s64 left_ns;
	__u64 at_ns;
	__u64 seen_ns; /* of `spent_ns`: already taken off */
	/* isl_serve */
	__u64 pad0[3];
	__u64 spent_ns;
	__u64 pad1[7];
};

#define ISL_QUEUE_XDP 1u
/* Nobody counts what leaves the queue (a tap's): only the kernel's own limit holds. */
#define ISL_QUEUE_UNCOUNTED 2u

/* Written before a frame by isl_demux, taken off by isl_serve. */
struct isl_tag {
	__u32 slot; /* ISL_TAG_MARK + slot */
	__u32 number;
};

#define ISL_TAG_MARK 0x15a00000u

/* What happens to frames that a router sends by one interface; user space numbers these ports. */
struct isl_port {
	__u32 uplink; /* interface to send to; 0: let the host's bridge or routes decide */
	__u32 class;  /* of the uplink's queueing discipline; 0: none */
	struct isl_bucket egress[ISL_BUCKETS];
	/* isl_egress */
	__u64 offered;
	__u64 offered_bytes;
	__u64 dropped_rate;
	__u64 dropped_size; /* longer than the uplink takes */
	__u64 pad0[3];
};

_Static_assert(sizeof(struct isl_route) == 8, "no hidden padding");
_Static_assert(sizeof(struct isl_queue) == 256, "four cache lines");
_Static_assert(sizeof(struct isl_budget) == 128, "two cache lines");
_Static_assert(sizeof(struct isl_port) == 128, "two cache lines");

/* Key: slot; value: settings and counts. Shared by all programs of a policy. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ISL_MAX_QUEUES);
	__type(key, __u32);
	__type(value, struct isl_queue);
	__uint(map_flags, BPF_F_MMAPABLE);
} isl_queues SEC(".maps");

/* Key: number of a router; value: its budget of CPU time. Shared like the queues. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ISL_MAX_BUDGETS);
	__type(key, __u32);
	__type(value, struct isl_budget);
	__uint(map_flags, BPF_F_MMAPABLE);
} isl_budgets SEC(".maps");

#endif
