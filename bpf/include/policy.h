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

/* Forwarding table: whose frames these are. */
struct isl_fdb_key {
	__u8 mac[6];
	__be16 vlan; /* tag control information & 0xfff; 0: untagged */
};

/* Where a router's frames leave: the queue that they came by and the interface that routes say. */
struct isl_redirect_key {
	__u32 slot;
	__u32 ifindex; /* in the router's namespace */
};

/* A token bucket that limits frames or bits; refilled by who takes from it. */
struct isl_bucket {
	__u64 rate;   /* tokens a second: frames, or bits on the wire; 0: no limit */
	__u64 depth;  /* most tokens at a time */
	__u64 tokens; /* millionths of a token */
	__u64 refilled_ns;
};

enum isl_bucket_kind {
	ISL_FRAMES = 0,
	ISL_BITS = 1,
	ISL_BUCKETS = 2
};

/* Settings are written by user space, counts by the named program alone. */
struct isl_queue {
	__u32 limit;	  /* frames that may wait at high pressure; 0: the queue is not in use */
	__u8 forward_xdp; /* isl_router_rx forwards what needs nothing of the kernel */
	__u8 uncounted; /* nobody counts what leaves (a tap's): only the kernel's own limit holds */
	__u16 pad0;
	__u32 budget;	   /* of the router's CPU time: its number, plus 1; 0: none */
	__u32 burst_limit; /* frames that may wait otherwise */
	/* isl_demux, when the queue is full */
	__u32 full_at;	     /* `dequeued`, plus 1, when it was full before; 0: never */
	__u32 moved_at;	     /* `dequeued` when it was last seen to have changed */
	__u64 dropped_share; /* the router had had its share, and another had frames waiting */
	__u32 moved_ms;	     /* when that was */
	__u32 pad1[7];
	struct isl_bucket ingress[ISL_BUCKETS];
	/* isl_demux */
	__u64 offered;
	__u64 offered_bytes; /* with the 4-byte frame check sequence */
	__u64 dropped_queue; /* the queue was full */
	__u64 dropped_rate;  /* above rate_max */
	__u32 enqueued;	     /* number of the latest frame that went into the queue */
	__u32 probed_ms;     /* when `full_at` changed or a frame was let into the full queue */
	__u64 dropped_cpu;   /* above cpu_max */
	__u32 pressure; /* grows with each frame that it refuses, falls with each that it takes */
	__u32 untagged; /* frames that the NIC's driver had no place for a number of; wraps */
	__u64 dropped_size; /* longer than the router's interface takes */
	/* isl_router_rx */
	__u64 served;
	__u64 forwarded;       /* by XDP */
	__u32 dequeued;	       /* number of the latest frame that left the queue */
	__u32 thread;	       /* that took it */
	__u64 thread_ran_ns;   /* what that thread had run for by then */
	__u64 forwarded_bytes; /* of `forwarded`, with the frame check sequence */
	__u64 pad3[3];
};

/*
 * A queue that refuses more than one frame for eight that it takes is one that always has too much. Some
 * ms of refusals, as after a pause of the machine, do not make it one for long.
 */
#define ISL_REFUSED_PRESSURE 8
#define ISL_HIGH_PRESSURE 1024
#define ISL_MAX_PRESSURE 2048

/*
 * CPU time of one router: the kernel throttles a group of threads only on their way to user space,
 * which kernel threads never take. So frames are let in only as long as there is budget; what the
 * router's threads really ran for is taken off. What telling its frames apart costs the NIC's thread
 * is nobody's to the kernel; where both share a core, that is added to what the router has had of it.
 */
struct isl_budget {
	__u64 rate_ns; /* CPU time a second, ns; 0: no cap */
	__u64 depth_ns;
	/* isl_demux */
	__s64 left_ns;
	__u64 refilled_ns;
	__u64 charged_ns; /* of `spent_ns`: already taken off */
	__u32 weight;	  /* user space: of the router on the NIC's core; 0: it keeps to no share */
	__u32 aged_ms;	  /* when the values `aged_` were worked out */
	__u64 nic_ns;	  /* what its frames have cost the NIC's thread */
	__u64 aged_nic_ns; /* of `nic_ns`: too long ago to count */
	/* isl_router_rx */
	__u64 spent_ns;
	__u64 group_ns; /* what the router's cgroup, its programs included, has run for on this core */
	__u32 served; /* frames that it has taken */
	__u32 pad2;
	/* isl_demux */
	__u64 had_ns; /* of the core, by weight; worked out at `looked_ns` */
	__u64 looked_ns;
	__u64 aged_group_ns; /* of `group_ns` */
	__u32 aged_served;   /* of `served` */
	__u32 frame_parts;   /* what the router's cgroup took for one, ns * ISL_FRAME_PARTS */
	__u64 pad1;
};

/* A thread that polls a NIC. isl_demux */
struct isl_poller {
	__u64 ran_ns; /* what it had run for when `frame_ns` was worked out */
	__u64 frame_ns;
	__u32 thread;
	__u32 frames; /* that it has seen since then */
};

#define ISL_POLLERS 4

/* A core that tells frames apart. isl_demux */
struct isl_core {
	__u64 now_ns;	   /* every so many frames */
	__u64 behind_had;  /* what the router below had had, by weight */
	__u64 behind_ns;   /* when that was */
	__u32 behind;	   /* budget of the router with frames waiting that has had least, plus 1 */
	__u32 behind_slot; /* of the queue that they wait in */
	__u32 frames;
	__u32 aged_ms;	  /* when `refused_ns` was worked out */
	__u64 refused_ns; /* what frames that were refused lately would have taken */
	__u64 idle_ns;	  /* what the core lately had nothing to do for */
	struct isl_poller pollers[ISL_POLLERS]; /* by the NIC's interface number */
};

/* Written before a frame by isl_demux, taken off by isl_router_rx. */
struct isl_tag {
	__u32 slot; /* ISL_TAG_MARK + slot */
	__u32 number;
};

#define ISL_TAG_MARK 0x15a00000u

/* What happens to frames that a router sends by one interface; user space numbers these ports. */
struct isl_port {
	__u32 uplink; /* interface to send to; 0: let the host's bridge or routes decide */
	__u32 class;  /* of the uplink's qdisc; 0: none */
	struct isl_bucket egress[ISL_BUCKETS];
	/* isl_egress_xdp, isl_egress_tc */
	__u64 offered;
	__u64 offered_bytes;
	__u64 dropped_rate;
	__u64 dropped_size; /* longer than the uplink takes */
	__u64 pad0[3];
};

_Static_assert(sizeof(struct isl_fdb_key) == 8, "no hidden padding");
_Static_assert(sizeof(struct isl_redirect_key) == 8, "no hidden padding");
_Static_assert(sizeof(struct isl_bucket) == 32, "no hidden padding");
_Static_assert(sizeof(struct isl_queue) == 256, "four cache lines");
_Static_assert(sizeof(struct isl_budget) == 128, "two cache lines");
_Static_assert(sizeof(struct isl_poller) == 24, "no hidden padding");
_Static_assert(sizeof(struct isl_core) == 56 + 24 * ISL_POLLERS, "no hidden padding");
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
