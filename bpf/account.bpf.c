// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The CPU accountant: charges every nanosecond of each core to an account. A core is in a task, or in
 * a softirq on top of it, or in an interrupt on top of that; each change charges the time since the
 * last one, less what the hypervisor has taken of it. Inside the receive softirq each NAPI poll is
 * charged to the interface that was polled, which is what no kernel counter tells. Beside its own
 * figure for tasks it keeps the kernel's, so that user space can compare them.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bounds.h"
#include "intf.h"
#include "kernel.h"

#define MAX_CPUS 512
#define NO_SOFTIRQ ISL_MAX_ACCOUNTS
#define NET_TX_SOFTIRQ 2
/* Longer than what lies between an interrupt, its softirqs and the switch to whom they woke up. */
#define IDLE_GAP_NS 5000

/* Only time inside the window is charged; CLOCK_MONOTONIC; written by user space. */
struct {
	__u64 start_ns;
	__u64 end_ns;
	__u32 demux_account; /* the account whose polls poll_sums is about; 0: none */
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

/* By CPU; only that core writes. */
struct isl_poll_sums poll_sums[MAX_CPUS];

/* A stretch of time that ends now. */
struct stretch {
	__u64 ns;
	__u64 inside_ns; /* as far as it lies in the window */
};

static __always_inline struct isl_cpu_use *use_of(__u32 cpu, __u32 account)
{
	__u32 at = cpu * ISL_MAX_ACCOUNTS + (account & (ISL_MAX_ACCOUNTS - 1));

	return &used[isl_below(at, MAX_CPUS * ISL_MAX_ACCOUNTS)];
}

static __always_inline struct isl_core_state *core_of(__u32 cpu)
{
	return &cores[cpu & (MAX_CPUS - 1)];
}

static __always_inline bool in_window(__u64 now_ns)
{
	return now_ns >= window.start_ns && now_ns < window.end_ns;
}

static __always_inline struct stretch stretch_of(__u64 from_ns, __u64 to_ns)
{
	struct stretch found = { .ns = to_ns > from_ns ? to_ns - from_ns : 0 };

	if (from_ns < window.start_ns)
		from_ns = window.start_ns;
	if (to_ns > window.end_ns)
		to_ns = window.end_ns;
	found.inside_ns = from_ns < to_ns ? to_ns - from_ns : 0;
	return found;
}

/* The window's part of what was counted in a stretch, if it was spread out evenly there. */
static __always_inline __u64 inside(struct stretch stretch, __u64 count)
{
	if (stretch.inside_ns == stretch.ns)
		return count;
	return count * ((stretch.inside_ns << 20) / stretch.ns) >> 20;
}

/* What the hypervisor has taken of this core, as far as the kernel has noticed. */
static __always_inline __u64 stolen_so_far(void)
{
	if (!bpf_core_field_exists(struct sched_entity, cfs_rq) ||
	    !bpf_core_field_exists(struct rq, prev_steal_time_rq))
		return 0;
	return bpf_get_current_task_btf()->se.cfs_rq->rq->prev_steal_time_rq;
}

/* What the kernel has charged a task with, and what it has left out because interrupts had it. */
static __always_inline __u64 runtime_of(struct task_struct *task)
{
	__u64 runtime_ns = task->se.sum_exec_runtime;

	if (bpf_core_field_exists(struct sched_entity, cfs_rq) &&
	    bpf_core_field_exists(struct rq, prev_irq_time))
		runtime_ns += bpf_get_current_task_btf()->se.cfs_rq->rq->prev_irq_time;
	return runtime_ns;
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

/* Takes our own word for the kernel's about an account's time, and says for how long. */
static __always_inline void not_compared(struct isl_core_state *core, __u32 cpu, __u32 account,
					 __u64 from_ns, __u64 to_ns)
{
	__u64 ns = stretch_of(from_ns, to_ns).inside_ns;

	if (account == ISL_IDLE)
		return;
	use_of(cpu, account)->kernel_ns += ns;
	core->uncompared_ns += ns;
}

/*
 * Not every switch reaches the program. A core that is found in another task than it was left in
 * has that one from the last change on: who had the time between is not known, and without a look
 * an idle core would go on as the task that left it until its next switch.
 */
static __noinline void find_task(struct isl_core_state *core, __u32 cpu, __u64 now_ns)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 since_ns = core->since_ns;

	not_compared(core, cpu, core->task_account, core->task_since_ns, since_ns);
	core->task_account = account_of_task(task);
	not_compared(core, cpu, core->task_account, since_ns, now_ns);
	core->task_since_ns = now_ns;
	core->task_pid = task->pid;
	core->task_runtime_ns = runtime_of(task);
}

/*
 * The time since the core's last change, as far as it lies in the window and was the core's own.
 * What was stolen may be noticed late: more than the whole stretch is left for the next ones.
 */
static __always_inline __u64 elapsed(struct isl_core_state *core, __u32 cpu)
{
	__u64 now_ns = bpf_ktime_get_ns(), since_ns = *(volatile __u64 *)&core->since_ns, stolen_ns;
	struct stretch stretch;

	/* An interrupt may come in between, and charge the time until its own end. */
	if (since_ns >= now_ns)
		return 0;
	if (bpf_get_current_task_btf()->pid != core->task_pid)
		find_task(core, cpu, now_ns);
	*(volatile __u64 *)&core->since_ns = now_ns;
	stretch = stretch_of(since_ns, now_ns);
	stolen_ns = stolen_so_far() - core->steal_ns;
	if (stolen_ns > stretch.ns)
		stolen_ns = stretch.ns;
	core->steal_ns += stolen_ns;
	if (core->task_account == ISL_IDLE) {
		if (core->softirq_account != NO_SOFTIRQ || core->interrupts) {
			core->over_idle_ns += stretch.ns;
		} else {
			core->idle_ns += stretch.ns;
			if (stretch.ns > IDLE_GAP_NS)
				core->over_idle_ns = 0;
		}
	}
	if (!stretch.inside_ns)
		return 0;
	core->events++;
	if (!stolen_ns)
		return stretch.inside_ns;
	stolen_ns = inside(stretch, stolen_ns);
	use_of(cpu, ISL_STEAL)->thread_ns += stolen_ns;
	return stretch.inside_ns - stolen_ns;
}

/* Charges that time: to the softirq's account (and what an interrupt cut off it), or to the task's. */
static __always_inline void charge(struct isl_core_state *core, __u32 cpu, __u32 softirq_account)
{
	__u64 ns = elapsed(core, cpu);

	if (core->softirq_account == NO_SOFTIRQ) {
		use_of(cpu, core->task_account)->thread_ns += ns;
		core->poll_ns += ns;
		return;
	}
	ns += core->pending_ns;
	core->pending_ns = 0;
	use_of(cpu, softirq_account)->softirq_ns += ns;
	use_of(cpu, core->task_account)->over_ns += ns;
}

/* Takes the kernel's word for the task that leaves the core, from when it got it until now. */
static __always_inline void compare(struct isl_core_state *core, __u32 cpu,
				    struct task_struct *prev)
{
	struct stretch stretch = stretch_of(core->task_since_ns, core->since_ns);

	if (core->task_account == ISL_IDLE || !stretch.inside_ns)
		return;
	use_of(cpu, core->task_account)->kernel_ns +=
		inside(stretch, runtime_of(prev) - core->task_runtime_ns);
}

/*
 * The kernel charges a task that wakes up on an idle core from that moment on: wakeup_preempt() in
 * kernel/sched/core.c keeps the run queue's clock for the switch that follows. Where the one who woke
 * it is an interrupt or a softirq, the rest of that is the task's for the kernel, too, and not for us.
 */
static __always_inline void woke_up(struct isl_core_state *core, __u64 over_idle_ns)
{
	if (core->task_account != ISL_IDLE && in_window(core->since_ns))
		core->early_ns += over_idle_ns;
	core->over_idle_ns = 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(isl_task_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct isl_core_state *core = core_of(cpu);
	__u64 over_idle_ns = core->task_account == ISL_IDLE ? core->over_idle_ns : 0;

	/* The first switch after loading tells what ran before it. */
	if (!core->since_ns) {
		core->since_ns = bpf_ktime_get_ns();
		core->steal_ns = stolen_so_far();
		core->softirq_account = NO_SOFTIRQ;
	}
	core->interrupts = 0; /* of one, the end was not listened to yet */
	if (core->task_pid == prev->pid)
		core->task_account = account_of_task(prev);
	charge(core, cpu, ISL_SOFTIRQ);
	compare(core, cpu, prev);
	core->task_account = account_of_task(next);
	core->task_since_ns = core->since_ns;
	core->task_pid = next->pid;
	core->task_runtime_ns = runtime_of(next);
	core->poll_ns = 0;
	woke_up(core, over_idle_ns);
	return 0;
}

SEC("tp_btf/softirq_entry")
int BPF_PROG(isl_softirq_in, unsigned int vector)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct isl_core_state *core = core_of(cpu);

	if (!core->since_ns)
		return 0;
	charge(core, cpu, ISL_SOFTIRQ);
	core->softirq_account = vector == NET_TX_SOFTIRQ ? ISL_NET_TX : ISL_SOFTIRQ;
	return 0;
}

SEC("tp_btf/softirq_exit")
int BPF_PROG(isl_softirq_out, unsigned int vector)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct isl_core_state *core = core_of(cpu);

	if (!core->since_ns)
		return 0;
	charge(core, cpu, core->softirq_account);
	core->softirq_account = NO_SOFTIRQ;
	return 0;
}

/* A poll of the demultiplexer: how long it took, and for how many frames of each kind. */
static __always_inline void add_poll(struct isl_core_state *core, __u32 cpu, __u64 frames)
{
	struct isl_poll_sums *sums = &poll_sums[cpu & (MAX_CPUS - 1)];
	__u64 passed = core->redirected < frames ? core->redirected : frames;
	__u64 dropped = frames - passed, ns = core->poll_ns;

	sums->polls++;
	sums->ns += ns;
	sums->ns_ns += ns * ns;
	sums->passed += passed;
	sums->dropped += dropped;
	sums->passed_passed += passed * passed;
	sums->passed_dropped += passed * dropped;
	sums->dropped_dropped += dropped * dropped;
	sums->passed_ns += passed * ns;
	sums->dropped_ns += dropped * ns;
}

/* After each poll: the time since the last change in this softirq was this interface's. */
SEC("tp_btf/napi_poll")
int BPF_PROG(isl_napi_poll, struct napi_struct *napi, int work, int budget)
{
	__u32 cpu = bpf_get_smp_processor_id(), account = ISL_BACKLOG, *own;
	struct isl_core_state *core = core_of(cpu);
	struct net_device *dev = napi->dev;
	__u64 frames = work > 0 ? work : 0;
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
	charge(core, cpu, account);
	if (in_window(core->since_ns)) {
		use = use_of(cpu, account);
		use->polls++;
		use->frames += frames;
		if (account == window.demux_account && core->softirq_account == NO_SOFTIRQ)
			add_poll(core, cpu, frames);
	}
	core->poll_ns = 0;
	core->redirected = 0;
	return 0;
}

/* Frames that a demultiplexer has passed on; the rest of a poll's frames were dropped. */
SEC("?tp_btf/xdp_devmap_xmit")
int BPF_PROG(isl_redirected, const struct net_device *from, const struct net_device *to, int sent,
	     int drops, int error)
{
	core_of(bpf_get_smp_processor_id())->redirected += sent + drops;
	return 0;
}

/*
 * An interrupt's time must not pass for idle, and one in the middle of a poll must not take that
 * poll's time from the interface, which is known only when the poll has ended.
 */
static __always_inline int interrupt_in(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct isl_core_state *core = core_of(cpu);

	if (!core->since_ns)
		return 0;
	if (!core->interrupts && core->softirq_account == NO_SOFTIRQ)
		charge(core, cpu, ISL_SOFTIRQ);
	else if (!core->interrupts)
		core->pending_ns += elapsed(core, cpu);
	core->interrupts++;
	return 0;
}

static __always_inline int interrupt_out(void)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct isl_core_state *core = core_of(cpu);
	__u64 ns;

	if (!core->since_ns || !core->interrupts)
		return 0;
	if (core->interrupts > 1) {
		core->interrupts--;
		return 0;
	}
	ns = elapsed(core, cpu);
	core->interrupts = 0;
	use_of(cpu, ISL_INTERRUPT)->softirq_ns += ns;
	use_of(cpu, core->task_account)->over_ns += ns;
	return 0;
}

/* Devices'; all others are x86's. */
SEC("?tp_btf/irq_handler_entry")
int BPF_PROG(isl_dev_in)
{
	return interrupt_in();
}

SEC("?tp_btf/irq_handler_exit")
int BPF_PROG(isl_dev_out)
{
	return interrupt_out();
}

SEC("?tp_btf/local_timer_entry")
int BPF_PROG(isl_timer_in)
{
	return interrupt_in();
}

SEC("?tp_btf/local_timer_exit")
int BPF_PROG(isl_timer_out)
{
	return interrupt_out();
}

SEC("?tp_btf/reschedule_entry")
int BPF_PROG(isl_resched_in)
{
	return interrupt_in();
}

SEC("?tp_btf/reschedule_exit")
int BPF_PROG(isl_resched_out)
{
	return interrupt_out();
}

SEC("?tp_btf/call_function_entry")
int BPF_PROG(isl_call_in)
{
	return interrupt_in();
}

SEC("?tp_btf/call_function_exit")
int BPF_PROG(isl_call_out)
{
	return interrupt_out();
}

SEC("?tp_btf/call_function_single_entry")
int BPF_PROG(isl_call1_in)
{
	return interrupt_in();
}

SEC("?tp_btf/call_function_single_exit")
int BPF_PROG(isl_call1_out)
{
	return interrupt_out();
}

SEC("?tp_btf/irq_work_entry")
int BPF_PROG(isl_work_in)
{
	return interrupt_in();
}

SEC("?tp_btf/irq_work_exit")
int BPF_PROG(isl_work_out)
{
	return interrupt_out();
}

SEC("?tp_btf/x86_platform_ipi_entry")
int BPF_PROG(isl_ipi_in)
{
	return interrupt_in();
}

SEC("?tp_btf/x86_platform_ipi_exit")
int BPF_PROG(isl_ipi_out)
{
	return interrupt_out();
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
