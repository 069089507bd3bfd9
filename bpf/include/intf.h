/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What BPF programs and user space share: fixed width, explicit padding, the unit in the name.
 * Rust sees these types through the skeletons that crates/dataplane/build.rs generates.
 */
#ifndef ISOLANE_INTF_H
#define ISOLANE_INTF_H

#include <linux/types.h>

#define ISL_MAX_STREAMS 256
#define ISL_MAX_SIZES 16
#define ISL_MAX_SEGMENTS 64
#define ISL_HEADER_BYTES 64
/* Ethernet's frame check sequence: part of a frame's size, not handed to programs. */
#define ISL_FCS_BYTES 4

/* Log-linear histogram: exact below 64 ns, then 64 buckets an octave (error < 1.6 %), to 2^37 ns. */
#define ISL_HIST_SUB_BITS 6
#define ISL_HIST_BUCKETS 2048

/* In a bin of a time series: 8 of the buckets above in one (error < 6.3 %). */
#define ISL_BIN_MERGE_BITS 3
#define ISL_BIN_BUCKETS 256
/* Times are cut by so many bits before they are multiplied. */
#define ISL_BIN_SHIFT 4

/* The last 18 bytes that a 64-byte frame has left after Ethernet, IPv4, UDP and the checksum. */
struct isl_signature {
	__u64 stamp;  /* departure and lateness, see below; little endian like all here */
	__u32 flow;   /* bits 31..24 stream, bit 23 inside the window, bits 22..0 flow */
	__u32 seq;    /* counts up in each flow */
	__u16 cookie; /* of this run: frames of another run are not ours */
} __attribute__((packed));

/*
 * Bits 42..0 of a stamp: when the frame was written, CLOCK_MONOTONIC of the generator, ns modulo 2.4 h.
 * Bits 63..43: how long before that it was due, ns; at most 2.1 ms, and a later frame is not sent.
 */
#define ISL_STAMP_TIME_BITS 43
#define ISL_STAMP_TIME_MASK ((1ULL << ISL_STAMP_TIME_BITS) - 1)

/* One load or store for a field: clang would go byte by byte, not trusting the alignment. */
#define ISL_FIELD(sig, type, field) \
	(*(volatile type *)((void *)(sig) + __builtin_offsetof(struct isl_signature, field)))

#define ISL_FLOW_STREAM_SHIFT 24
#define ISL_FLOW_IN_WINDOW (1u << 23)
#define ISL_FLOW_MASK ((1u << 23) - 1)

/* In interval_q16_ns: to be worked out from the rates. */
#define ISL_FROM_RATES (~0ULL)

/* Entries of the table of a Poisson process's intervals, as a power of two. */
#define ISL_INTERVAL_BITS 12

/* A stretch of a stream's schedule with a rate that is constant or changes linearly. */
struct isl_segment {
	__u64 end_ns;		   /* since the start of the trial */
	__u64 start_rate_millipps; /* thousandths of a frame a second */
	__u64 end_rate_millipps;
	__u64 start_ns;
	__u64 interval_q16_ns; /* between frames, ns << 16; 0: silent, or ISL_FROM_RATES */
};

/* One stream of frames to one interface: settings first, then what the program writes. */
struct isl_stream {
	__u32 icmp; /* echo requests in place of UDP datagrams; what would be their source port identifies them */
	__u32 flows;
	__u16 first_sport; /* host order */
	__u16 first_dport;
	__u16 sport_count;
	__u16 src_count;
	__u8 ip_version;
	__u8 n_sizes;
	__u16 n_segments;
	__u32 ip_sum; /* one's complement sum of the IPv4 header less length and source's end */
	__u64 pseudo_sum; /* the same for UDP's or ICMPv6's pseudo header, less lengths and source's end */
	__u16 sizes[ISL_MAX_SIZES]; /* bytes handed to the driver, in the order of sending */
	__u8 header[ISL_HEADER_BYTES];
	/* Bursts: how long one lasts and the pause after it, ns << 16; 0: none. Rates are those within. */
	__u64 on_q16_ns;
	__u64 off_q16_ns;
	/* A Poisson process: the last of its random numbers, never 0; 0: intervals are what rates say. */
	__u32 random;
	__u32 pad2;
	struct isl_segment segments[ISL_MAX_SEGMENTS];

	__u64 next_q16_ns; /* scheduled departure of the next frame, ns << 16 since the start */
	__u64 not_before_ns;
	__u64 on_end_q16_ns; /* when the present burst ends */
	__u32 segment;
	__u32 flow;
	__u32 seq;
	__u32 sport_at;
	__u32 dport_at;
	__u32 src_at;
	__u32 size_at;
	__u32 pad0;
	__u64 sent;
	__u64 sent_window;
	__u64 sent_window_bytes; /* with the 4-byte frame check sequence */
	__u64 missed;		 /* scheduled, but too late, or not before the trial's end */
	__u64 missed_window;
	__u64 late_max_ns; /* of the frames in the window */
};

/* Generator: when a stream may send its next frame. */
struct isl_due {
	__u64 at_q16_ns; /* ns << 16 since the start */
	__u32 stream;
	__u32 pad0;
};

/* Generator: when a trial is; CLOCK_MONOTONIC. */
struct isl_trial {
	__u64 start_ns;
	__u64 window_start_ns; /* this and the rest: since start_ns */
	__u64 window_end_ns;
	__u64 end_ns;
};

/* Generator: how far the trial is. */
struct isl_progress {
	__u64 window_iterations;
	__u64 window_sent;
	__u64 failed;	   /* frames that could not be built: a bug or a wrong length */
	__u64 turn_q16_ns; /* the last stream's that was too late: turns are told apart by it */
	__u32 cursor;	   /* the stream whose missed frames are counted */
	__u32 ending;	   /* counting what was missed */
	__u32 done;
	__u32 batch; /* frames the kernel runs before it flushes; written by user space */
	__u32 in_batch;
	__u32 pending;	/* a frame of this batch waits for its end */
	__u64 clock_ns; /* last reading */
	__u32 behind;	/* the last frame was later than the generator's tolerance */
	__u32 reused;	/* times that the last reading was used again */
	/* Time series: when the present bin ends, since the start (~0: no series), and its entry. */
	__u64 bin_end_ns;
	__u64 bin_ns;
	__u32 bin_at;
	__u32 pad0;
};

/* Receiver, one per stream; written with atomic adds (several queues may receive). */
struct isl_rx_stream {
	__u64 received; /* of these in the window: those in the histogram, and `negative` */
	__u64 negative; /* frames of the window that arrived before they were sent: the clocks differ */
	__u64 received_window_bytes;
	__u64 reordered; /* RFC 4737: arrived with a number below the highest seen in its flow */
	__u64 duplicated;
	__u64 untracked;    /* flows beyond the table: counted, but not checked for order */
	__u64 delay_max_ns; /* since departure */
	__u64 delay_sum_ns;
	__u64 due_max_ns; /* the same since the frame was due */
	__u64 due_sum_ns;
};

/* Receiver, one per flow. */
struct isl_rx_flow {
	__u32 max_seq;
	__u32 first_seq1; /* first number seen, plus 1; 0: none yet */
	__u64 seen;	  /* bit n: max_seq - n has arrived */
};

/* A trial's time series. */
struct isl_series {
	__u64 start_ns; /* CLOCK_MONOTONIC; 0: no series */
	__u64 length_ns;
	__u64 inverse; /* 2^(ISL_BIN_SHIFT + bits) / width of a bin, ns, rounded up */
	__u64 bits;    /* as many as fit: the product for length_ns has up to 64 */
};

/* Receiver: one stream's frames that arrived in one bin, by delay. */
struct isl_rx_bin {
	__u32 frames[ISL_BIN_BUCKETS];
};

/* Receiver: times between arrivals of one stream's frames in the window. */
struct isl_rx_gaps {
	__u64 last_ns; /* latest arrival; 0: none yet */
	__u32 gaps[ISL_HIST_BUCKETS];
};

/* CPU accountant: a receiving interface, named by its namespace and index. */
struct isl_nic {
	__u32 netns_inum;
	__u32 ifindex;
};

/* CPU profiler: what a record tells. */
enum isl_profile_kind {
	ISL_IN_THREAD = 0, /* a sample: a thread, or an interrupt on top of it */
	ISL_IN_SOFTIRQ =
		1,	/* a sample; whose, the core's next record of one of those below tells */
	ISL_POLLED = 2, /* the core's samples in softirqs so far were this interface's */
	ISL_NOT_POLLED = 3, /* they were nobody's: the softirq has ended */
	ISL_BY_TIMER = 4,   /* as ISL_IN_SOFTIRQ; the chain begins in the interrupt that took it */
};

#define ISL_KERNEL_FRAMES 127
#define ISL_USER_FRAMES 64

/* CPU profiler: the head of a record; of a sample, addresses follow: kernel's, then user's, innermost first. */
struct isl_profile_record {
	enum isl_profile_kind kind;
	__u32 core;
	__u32 thread;
	__u32 process;
	struct isl_nic nic;
	__u32 kernel_frames;
	__u32 user_frames;
	char name[16]; /* the thread's */
};

/* CPU accountant: who a stretch of a core's time is charged to. */
enum isl_account {
	ISL_IDLE = 0,
	ISL_PROCESS = 1,
	ISL_KTHREAD = 2,
	ISL_SOFTIRQ = 3,
	ISL_BACKLOG = 4,
	ISL_OTHER_NIC = 5,
	ISL_INTERRUPT = 6,
	ISL_NET_TX = 7, /* sending that a qdisc has put off: HTB's classes */
	ISL_STEAL = 8,	/* taken by the hypervisor, as its clock says */
	ISL_FIRST_OWN = 10,
	ISL_MAX_ACCOUNTS = 128,
};

/* CPU accountant: what one account used of one core in the window. */
struct isl_cpu_use {
	__u64 softirq_ns;
	__u64 thread_ns;
	__u64 over_ns;	 /* softirqs and interrupts on top of the account's threads */
	__u64 kernel_ns; /* what the kernel itself says of these threads, over_ns included */
	__u64 polls;
	__u64 frames;
};

/* CPU accountant: what a core is doing. */
struct isl_core_state {
	__u64 since_ns;
	__u64 steal_ns;	  /* the kernel's figure, as far as charged */
	__u64 pending_ns; /* of the softirq, before an interrupt, for whoever is then polled */
	__u64 task_since_ns;
	__u64 task_runtime_ns; /* the kernel's figure for the task at task_since_ns */
	__u64 events;	       /* program runs in the window */
	__u64 poll_ns;	       /* of a NAPI thread, since its last poll */
	__u64 idle_ns;	       /* since loading, window or not */
	__u32 redirected;      /* frames that XDP has redirected since the last poll */
	__u32 task_account;
	__u32 softirq_account; /* ISL_MAX_ACCOUNTS: not in a softirq */
	__u32 interrupts;      /* depth */
	__u32 task_pid;
	__u32 pad0;
	__u64 uncompared_ns; /* in the window, of tasks of which the kernel's figure is not known */
	__u64 over_idle_ns;  /* of interrupts and softirqs, since the core last idled for a while */
	__u64 early_ns; /* in the window: what the kernel may have charged tasks with that woke up */
};

/*
 * CPU accountant: sums over the polls of the demultiplexer's NIC on a core, for a regression of their
 * time on the frames that they passed on and those that they dropped.
 */
struct isl_poll_sums {
	__u64 polls;
	__u64 ns;
	__u64 ns_ns;
	__u64 passed;
	__u64 dropped;
	__u64 passed_passed;
	__u64 passed_dropped;
	__u64 dropped_dropped;
	__u64 passed_ns;
	__u64 dropped_ns;
};

/* Capture points, in the order of a frame's way. A router need not have all of them. */
enum isl_point_number {
	ISL_POINT_NIC_IN = 0,
	ISL_POINT_PORT_IN = 1, /* a bridge sends to the router */
	ISL_POINT_ROUTER_IN = 2,
	ISL_POINT_ROUTER_OUT = 3,
	ISL_POINT_PORT_OUT = 4, /* the host has it from the router */
	ISL_POINT_NIC_OUT = 5,
	ISL_POINT_WHOLE = 6, /* no point: from the first to the last */
	ISL_POINTS = 7,
};

/* Capture points: an interface, and whether frames leave by it. */
struct isl_point_key {
	__u32 netns_inum;
	__u32 ifindex;
	__u32 sending;
};

/* Capture points: what is stamped at an interface. */
struct isl_point {
	enum isl_point_number number;
	__u32 first; /* times are since the frame's departure */
	__u32 last;
	__u32 interface; /* its number in a capture file */
};

/* Capture points: a frame under way. */
struct isl_flight {
	__u64 stamp; /* as in its signature: no frame of another trial has the same */
	__u32 word;  /* the same */
	__u32 first; /* the first of its points */
	__u64 at_ns[ISL_POINT_WHOLE]; /* by point, CLOCK_MONOTONIC; 0: it was not there */
};

#define ISL_CAPTURED_BYTES 128

/* Capture points: a frame at one of them, for a capture file. */
struct isl_captured {
	__u64 at_ns; /* CLOCK_MONOTONIC */
	__u32 interface;
	__u32 bytes; /* of the whole frame, without the frame check sequence */
	__u32 kept;  /* of them in `head` */
	__u32 pad0;
	__u8 head[ISL_CAPTURED_BYTES];
};

/* Capture points: how long frames took to one of them. */
struct isl_part {
	__u64 sum_ns;
	__u64 max_ns;
	__u64 frames[ISL_HIST_BUCKETS];
};

_Static_assert(sizeof(struct isl_signature) == 18, "fits a 64-byte frame");
_Static_assert(sizeof(struct isl_segment) == 40, "no hidden padding");
_Static_assert(sizeof(struct isl_stream) == 152 + 40 * ISL_MAX_SEGMENTS + 104, "no hidden padding");
_Static_assert(sizeof(struct isl_trial) == 32, "no hidden padding");
_Static_assert(sizeof(struct isl_due) == 16, "no hidden padding");
_Static_assert(sizeof(struct isl_progress) == 96, "no hidden padding");
_Static_assert(sizeof(struct isl_rx_stream) == 80, "no hidden padding");
_Static_assert(sizeof(struct isl_rx_flow) == 16, "no hidden padding");
_Static_assert(sizeof(struct isl_series) == 32, "no hidden padding");
_Static_assert(sizeof(struct isl_rx_bin) == 1024, "no hidden padding");
_Static_assert(sizeof(struct isl_rx_gaps) == 8200, "no hidden padding");
_Static_assert(sizeof(struct isl_nic) == 8, "no hidden padding");
_Static_assert(sizeof(struct isl_profile_record) == 48, "no hidden padding");
_Static_assert(sizeof(struct isl_cpu_use) == 48, "no hidden padding");
_Static_assert(sizeof(struct isl_core_state) == 112, "no hidden padding");
_Static_assert(sizeof(struct isl_poll_sums) == 80, "no hidden padding");
_Static_assert(sizeof(struct isl_point_key) == 12, "no hidden padding");
_Static_assert(sizeof(struct isl_point) == 16, "no hidden padding");
_Static_assert(sizeof(struct isl_captured) == 152, "no hidden padding");
_Static_assert(sizeof(struct isl_flight) == 64, "no hidden padding");
_Static_assert(sizeof(struct isl_part) == 16400, "no hidden padding");

#endif
