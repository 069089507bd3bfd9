/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Who causes work pays for it: a router that has had more of the core than its weight gives it, the
 * work of the NIC's thread for its frames included, has to wait while another has frames waiting. The
 * CPU scheduler does not know of that work, and would share out what is left of the core.
 */
#ifndef ISOLANE_SHARE_H
#define ISOLANE_SHARE_H

#include <bpf/bpf_core_read.h>

#include "policy.h"
#include "kernel.h"

/* Frames between two looks at the clock, and at what the NIC's thread has run for. */
#define ISL_CLOCK_FRAMES 16
#define ISL_COST_FRAMES 512
/* What a frame can cost the NIC's thread: more is a pause, or another thread's. */
#define ISL_MIN_FRAME_NS 20
#define ISL_MAX_FRAME_NS 20000
/* An eighth of what a router has had is forgotten each ms; after so many all of it. */
#define ISL_AGE_BITS 3
#define ISL_AGE_MS 8
/* A router that did not show for so long has no frames waiting any more. */
#define ISL_BEHIND_NS 1000000ULL
/* A router has frames waiting if so many do; one that always has too much if any does (isl_has_waiting). */
#define ISL_WAITING_FRAMES 16
/* A core that was idle so lately has time left. */
#define ISL_SHORT_NS 1000000ULL
/* A queue that nothing was taken from for so long stands: its router is down, or has been stopped. */
#define ISL_STANDS_MS 5
#define ISL_USUAL_WEIGHT 100

/* What a core that tells frames apart knows. One entry for each core. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct isl_core);
} isl_cores SEC(".maps");

/* Works out anew what a frame costs the thread that polls a NIC. */
static __always_inline void isl_learn_cost(struct isl_poller *poller)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 ran_ns = task->se.sum_exec_runtime;
	__u64 each_ns = (ran_ns - poller->ran_ns) / poller->frames;

	if (poller->thread == task->pid && each_ns >= ISL_MIN_FRAME_NS &&
	    each_ns <= ISL_MAX_FRAME_NS)
		poller->frame_ns = poller->frame_ns ? (poller->frame_ns * 3 + each_ns) / 4 :
						      each_ns;
	poller->thread = task->pid;
	poller->ran_ns = ran_ns;
	poller->frames = 0;
}

/* Looks at the clock, and at whether the core has been idle since it did so last. */
static __always_inline void isl_look_around(struct isl_core *core)
{
	__u64 idle_clock = 0;

	core->now_ns = bpf_ktime_get_ns();
	if (bpf_core_field_exists(struct sched_entity, cfs_rq) &&
	    bpf_core_field_exists(struct rq, clock_idle))
		idle_clock = bpf_get_current_task_btf()->se.cfs_rq->rq->clock_idle;
	if (idle_clock == core->idle_clock)
		return;
	core->idle_clock = idle_clock;
	core->idled_ns = core->now_ns;
}

/* Counts a frame that is no router's: nobody pays for it. */
static __always_inline void isl_count_other(__u32 ifindex)
{
	__u32 zero = 0;
	struct isl_core *core = bpf_map_lookup_elem(&isl_cores, &zero);

	if (core)
		core->pollers[ifindex % ISL_POLLERS].frames++;
}

/* Works out what a router has had of the core lately, as if it had the usual weight. */
static __always_inline void isl_look_at(struct isl_budget *budget, __u64 now_ns)
{
	__u64 total_ns = budget->nic_ns + *(volatile __u64 *)&budget->group_ns, lately_ns;
	__u32 now_ms = now_ns / 1000000, passed_ms = now_ms - budget->aged_ms;

	/* A cgroup that was made anew begins anew. */
	if (total_ns < budget->aged_ns)
		budget->aged_ns = total_ns;
	lately_ns = total_ns - budget->aged_ns;
	if (passed_ms) {
		budget->aged_ms = now_ms;
		budget->aged_ns += passed_ms < ISL_AGE_MS ? lately_ns * passed_ms >> ISL_AGE_BITS :
							    lately_ns;
		lately_ns = total_ns - budget->aged_ns;
	}
	budget->looked_ns = now_ns;
	budget->had_ns = lately_ns * ISL_USUAL_WEIGHT / budget->weight;
}

/* Whether a router with so many frames waiting takes any from its queue: one that stands has no part. */
static __always_inline int isl_is_served(struct isl_queue *queue, __u32 dequeued, __u32 now_ms)
{
	if (queue->moved_at != dequeued) {
		queue->moved_at = dequeued;
		queue->moved_ms = now_ms;
	}
	return now_ms - queue->moved_ms < ISL_STANDS_MS;
}

/* Charges a frame to its router. What that has had is as new as the time that the core knows. */
static __always_inline void isl_charge(struct isl_budget *budget, struct isl_core *core,
				       struct isl_poller *poller)
{
	if (core->frames % ISL_CLOCK_FRAMES == 0)
		isl_look_around(core);
	core->frames++;
	if (++poller->frames >= ISL_COST_FRAMES)
		isl_learn_cost(poller);
	if (core->now_ns - core->behind_ns > ISL_BEHIND_NS)
		core->behind = 0;
	budget->nic_ns += poller->frame_ns;
	if (budget->looked_ns != core->now_ns)
		isl_look_at(budget, core->now_ns);
}

/*
 * Whether a router has frames waiting for the core. One that always has too much does not where the
 * core has time left: what one poll of the NIC has brought waits for a moment on any core. Two routers
 * would be refused half of their frames for that, and seem to have too much as long as they are.
 */
static __always_inline int isl_has_waiting(struct isl_core *core, __u32 waiting, int presses)
{
	if (!presses)
		return waiting >= ISL_WAITING_FRAMES;
	return waiting && core->now_ns - core->idled_ns >= ISL_SHORT_NS;
}

/*
 * Whether a frame may go on to its router's queue. Only a router that always has too much is refused
 * any, and only while one that has had less of the core has frames waiting.
 */
static __always_inline int isl_within_share(struct isl_queue *queue, __u32 slot, __u32 ifindex)
{
	__u32 dequeued = *(volatile __u32 *)&queue->dequeued, number = queue->budget, zero = 0;
	__u32 index = number - 1, presses = queue->pressure >= ISL_HIGH_PRESSURE;
	struct isl_budget *budget = bpf_map_lookup_elem(&isl_budgets, &index);
	struct isl_core *core = bpf_map_lookup_elem(&isl_cores, &zero);

	if (!budget || !budget->weight || !core)
		return 1;
	isl_charge(budget, core, &core->pollers[ifindex % ISL_POLLERS]);
	if (!isl_is_served(queue, dequeued, core->now_ns / 1000000) ||
	    !isl_has_waiting(core, queue->enqueued - dequeued, presses)) {
		if (core->behind == number && core->behind_slot == slot)
			core->behind = 0;
	} else if (!core->behind || core->behind == number || budget->had_ns < core->behind_had) {
		core->behind = number;
		core->behind_slot = slot;
		core->behind_had = budget->had_ns;
		core->behind_ns = core->now_ns;
	}
	if (!presses || !core->behind || core->behind == number ||
	    budget->had_ns <= core->behind_had)
		return 1;
	isl_press(queue);
	return 0;
}

#endif
