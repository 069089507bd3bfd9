// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The CPU accountant: charges every nanosecond of each core to an account. A core is in a task, or in
 * a softirq on top of it, or in the timer interrupt on top of that; each change charges the time since
 * the last one. Inside the receive softirq each NAPI poll is charged to the interface that was polled,
 * which is what no kernel counter tells.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "intf.h"
#include "kernel.h"

#define MAX_CPUS 512
#define NO_SOFTIRQ ISL_MAX_ACCOUNTS

/* Only time inside the window is charged; CLOCK_MONOTONIC; written by user space. */
struct {
	__u64 start_ns;
	__u64 end_ns;
} window;

/* Key: receiving interface; value: its account; written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct isl_nic);
	__type(value, enum isl_account);
} isl_nic_account SEC(".maps");

/* Key: thread id; value: its account; written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, enum isl_account);
} isl_tid_account SEC(".maps");

/* By CPU: what the core is doing; only that core writes. */
struct isl_core_state cores[MAX_CPUS];

/* By CPU and account; only that core writes. */
struct isl_cpu_use used[MAX_CPUS * ISL_MAX_ACCOUNTS];

static __always_inline struct isl_cpu_use *use_of(__u32 cpu, __u32 account)
{
	return &used[(cpu & (MAX_CPUS - 1)) * ISL_MAX_ACCOUNTS + (account & (ISL_MAX_ACCOUNTS - 1))];
}

static __always_inline bool in_window(__u64 now_ns)
{
	return now_ns >= window.start_ns && now_ns < window.end_ns;
}

/* The time since the core's last change, as far as it lies in the window. */
static __always_inline __u64 elapsed(struct isl_core_state *core)
{
	__u64 now_ns = bpf_ktime_get_ns();
	__u64 from_ns = core->since_ns > window.start_ns ? core->since_ns : window.start_ns;
	__u64 to_ns = now_ns < window.end_ns ? now_ns : window.end_ns;

	core->since_ns = now_ns;
	return from_ns < to_ns ? to_ns - from_ns : 0;
}

/* Charges that time: to the softirq's account (and what an interrupt cut off it), or to the task's. */
static __always_inline void charge(struct isl_core_state *core, __u32 cpu, __u32 softirq_account)
{
	__u64 ns = elapsed(core);

	if (core->softirq_account == NO_SOFTIRQ) {
		use_of(cpu, core->task_account)->thread_ns += ns;
		return;
	}
	use_of(cpu, softirq_account)->softirq_ns += ns + core->pending_ns;
	core->pending_ns = 0;
}

static __always_inline __u32 account_of_task(struct task_struct *task)
{
	__u32 pid = task->pid, *own;

	if (!pid)
		return ISL_IDLE;
	own = bpf_map_lookup_elem(&isl_tid_account, &pid);
	if (own)
		return *own;
	return task->flags & PF_KTHREAD ? ISL_KTHREAD : ISL_PROCESS;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(isl_task_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct isl_core_state *core = &cores[cpu & (MAX_CPUS - 1)];

	/* The first switch after loading tells what ran before it. */
	if (!core->since_ns) {
		core->since_ns = bpf_ktime_get_ns();
		core->softirq_account = NO_SOFTIRQ;
	}
	core->task_account = account_of_task(prev);
	charge(core, cpu, ISL_SOFTIRQ);
	core->task_account = account_of_task(next);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(isl_softirq_in, unsigned int vector)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct isl_core_state *core = &cores[cpu & (MAX_CPUS - 1)];

	if (!core->since_ns)
		return 0;
	charge(core, cpu, ISL_SOFTIRQ);
	core->softirq_account = ISL_SOFTIRQ;
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(isl_softirq_out, unsigned int vector)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct isl_core_state *core = &cores[cpu & (MAX_CPUS - 1)];

	if (!core->since_ns)
		return 0;
	charge(core, cpu, ISL_SOFTIRQ);
	core->softirq_account = NO_SOFTIRQ;
	return 0;
}

/* After each poll: the time since the last change in this softirq was this interface's. */
SEC("tp_btf/napi_poll")
int BPF_PROG(isl_napi_poll, struct napi_struct *napi, int work, int budget)
{
	__u32 cpu = bpf_get_smp_processor_id(), account = ISL_BACKLOG, *own;
	struct isl_core_state *core = &cores[cpu & (MAX_CPUS - 1)];
	struct net_device *dev = napi->dev;
	struct isl_cpu_use *use;

	if (!core->since_ns)
		return 0;
	if (dev) {
		struct isl_nic nic = {
			.netns_inum = dev->nd_net.net->ns.inum,
			.ifindex = dev->ifindex,
		};

		own = bpf_map_lookup_elem(&isl_nic_account, &nic);
		account = own ? *own : ISL_OTHER_NIC;
	}
	/* A threaded NAPI's time is its thread's. */
	if (core->softirq_account != NO_SOFTIRQ)
		charge(core, cpu, account);
	if (in_window(bpf_ktime_get_ns())) {
		use = use_of(cpu, account);
		use->polls++;
		use->frames += work > 0 ? work : 0;
	}
	return 0;
}

/*
 * The timer interrupt imitates a NIC's: its time must not pass for idle. One in the middle of a poll
 * must not take that poll's time from the interface, which is known only when the poll has ended.
 */
SEC("?tp_btf/local_timer_entry")
int BPF_PROG(isl_timer_in, int vector)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct isl_core_state *core = &cores[cpu & (MAX_CPUS - 1)];

	if (!core->since_ns)
		return 0;
	if (core->softirq_account == NO_SOFTIRQ)
		charge(core, cpu, ISL_SOFTIRQ);
	else
		core->pending_ns += elapsed(core);
	core->in_interrupt = 1;
	return 0;
}

SEC("?tp_btf/local_timer_exit")
int BPF_PROG(isl_timer_out, int vector)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct isl_core_state *core = &cores[cpu & (MAX_CPUS - 1)];

	if (!core->since_ns || !core->in_interrupt)
		return 0;
	use_of(cpu, ISL_INTERRUPT)->softirq_ns += elapsed(core);
	core->in_interrupt = 0;
	return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
