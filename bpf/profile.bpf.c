// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The CPU profiler: at each tick of a core's clock, where that core is: the call chain in the kernel and
 * in user space, and the thread. In a softirq the thread is whoever was interrupted; which interface was
 * polled is known when the poll has ended, and told then for all samples that came in between.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "intf.h"
#include "kernel.h"

#define MAX_CPUS 512
#define RING_BYTES (8 << 20)

struct sample {
	struct isl_profile_record record;
	__u64 chain[ISL_KERNEL_FRAMES + ISL_USER_FRAMES];
};

/* Read by user space every so often. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RING_BYTES);
} isl_samples SEC(".maps");

/* Too large for a stack. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct sample);
} isl_sample SEC(".maps");

/* By CPU; only that core writes. */
struct isl_profiled_core {
	__u64 lost; /* the ring was full */
	__u64 ns;   /* that the program took */
	__u32 in_softirq;
	__u32 pending; /* samples of this softirq that are not anybody's yet */
} profiled[MAX_CPUS];

/* Which ticks count, by CLOCK_MONOTONIC; an end of 0: all. Written before the window begins. */
struct isl_profile_window {
	__u64 start_ns;
	__u64 end_ns;
	__u32 by_timer; /* ticks are those of the kernel's timer of a perf event */
} profile_window;

extern const void perf_swevent_hrtimer __ksym __weak;

static __always_inline bool ticks_by_timer(void)
{
	return profile_window.by_timer && &perf_swevent_hrtimer;
}

static __always_inline bool counts(__u64 now_ns)
{
	return !profile_window.end_ns ||
	       (now_ns >= profile_window.start_ns && now_ns < profile_window.end_ns);
}

static __always_inline struct isl_profiled_core *this_core(__u32 *cpu)
{
	*cpu = bpf_get_smp_processor_id();
	return &profiled[*cpu & (MAX_CPUS - 1)];
}

/* Bytes of a call chain as a number of its addresses; none where it could not be had. */
static __always_inline __u32 frames(long bytes, __u32 max)
{
	__u32 found = bytes > 0 ? bytes / sizeof(__u64) : 0;

	return found < max ? found : max;
}

static __always_inline void take(void *context, struct isl_profiled_core *core, __u32 cpu,
				 enum isl_profile_kind kind)
{
	__u64 pid_tgid = bpf_get_current_pid_tgid();
	__u32 zero = 0, kernel, user, size;
	struct sample *sample;
	long bytes;

	sample = bpf_map_lookup_elem(&isl_sample, &zero);
	if (!sample)
		return;
	sample->record.kind = kind;
	sample->record.core = cpu;
	sample->record.thread = pid_tgid;
	sample->record.process = pid_tgid >> 32;
	bpf_get_current_comm(sample->record.name, sizeof(sample->record.name));
	bytes = bpf_get_stack(context, sample->chain, ISL_KERNEL_FRAMES * sizeof(__u64), 0);
	kernel = frames(bytes, ISL_KERNEL_FRAMES);
	bytes = bpf_get_stack(context, &sample->chain[kernel], ISL_USER_FRAMES * sizeof(__u64),
			      BPF_F_USER_STACK);
	user = frames(bytes, ISL_USER_FRAMES);
	sample->record.kernel_frames = kernel;
	sample->record.user_frames = user;
	size = sizeof(sample->record) + (kernel + user) * sizeof(__u64);
	if (size > sizeof(*sample))
		size = sizeof(*sample);
	if (bpf_ringbuf_output(&isl_samples, sample, size, BPF_RB_NO_WAKEUP))
		core->lost++;
	else if (core->in_softirq)
		core->pending++;
}

SEC("perf_event")
int isl_tick(struct bpf_perf_event_data *context)
{
	__u64 began_ns = bpf_ktime_get_ns();
	__u32 cpu;
	struct isl_profiled_core *core = this_core(&cpu);

	if (!counts(began_ns))
		return 0;
	/* Idle cores are not always sampled, so that these say nothing; softirqs on them: see below. */
	if (!(__u32)bpf_get_current_pid_tgid() && (!core->in_softirq || ticks_by_timer()))
		return 0;
	take(context, core, cpu, core->in_softirq ? ISL_IN_SOFTIRQ : ISL_IN_THREAD);
	core->ns += bpf_ktime_get_ns() - began_ns;
	return 0;
}

/*
 * The timer ticks while the idle task is current, too, but Linux 6.18 makes no event of it then, as
 * if no softirq ran on top of it: on a core that is not busy, that is nearly all there is.
 */
SEC("tp_btf/hrtimer_expire_entry")
int BPF_PROG(isl_prof_timer, struct hrtimer *timer)
{
	__u64 began_ns;
	__u32 cpu;
	struct isl_profiled_core *core = this_core(&cpu);

	if (!core->in_softirq || !ticks_by_timer() || (__u32)bpf_get_current_pid_tgid() ||
	    (void *)timer->function != (void *)&perf_swevent_hrtimer)
		return 0;
	began_ns = bpf_ktime_get_ns();
	if (!counts(began_ns))
		return 0;
	take(ctx, core, cpu, ISL_BY_TIMER);
	core->ns += bpf_ktime_get_ns() - began_ns;
	return 0;
}

/* Says whose the core's samples in softirqs so far were. */
static __always_inline void tell(struct isl_profiled_core *core, __u32 cpu, __u32 kind,
				 struct isl_nic nic)
{
	struct isl_profile_record record = { .kind = kind, .core = cpu, .nic = nic };

	core->pending = 0;
	if (bpf_ringbuf_output(&isl_samples, &record, sizeof(record), BPF_RB_NO_WAKEUP))
		core->lost++;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(isl_prof_in, unsigned int vector)
{
	__u32 cpu;

	this_core(&cpu)->in_softirq = 1;
	return 0;
}

SEC("tp_btf/napi_poll")
int BPF_PROG(isl_prof_poll, struct napi_struct *napi, int work, int budget)
{
	__u32 cpu;
	struct isl_profiled_core *core = this_core(&cpu);
	struct net_device *dev = napi->dev;
	struct isl_nic nic = {};

	if (!core->pending)
		return 0;
	if (dev) {
		nic.netns_inum = dev->nd_net.net->ns.inum;
		nic.ifindex = dev->ifindex;
	}
	tell(core, cpu, ISL_POLLED, nic);
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(isl_prof_out, unsigned int vector)
{
	__u32 cpu;
	struct isl_profiled_core *core = this_core(&cpu);
	struct isl_nic nobody = {};

	core->in_softirq = 0;
	if (core->pending)
		tell(core, cpu, ISL_NOT_POLLED, nobody);
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
