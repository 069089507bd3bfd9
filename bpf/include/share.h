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
/* Frames from which what one costs can be told. */
#define ISL_COST_SERVED 16
/* Of a ns, in what a frame takes: that grows by one each ms. */
#define ISL_FRAME_PARTS 16
/* A router that did not show for so long has no frames waiting any more. */
#define ISL_BEHIND_NS 1000000ULL
/* A router has frames waiting if so many do; one that always has too much if any does. */
#define ISL_WAITING_FRAMES 16
/*
 * The kernel's average of what a core has done forgets 22 of 1,024 each ms; after a while all. What it is an
 * average of adds up to this time, of which `util_avg` is so many of 1,024.
 */
#define ISL_LOAD_LOST 22
#define ISL_LOAD_MS 46
#define ISL_LOAD_UNIT_NS (1000000 * ISL_LOAD_MS / 1024)
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

/* Looks at the clock, at how much the core has been idle lately, and ages what was refused. */
static __always_inline void isl_look_around(struct isl_core *core)
{
	__u32 now_ms, passed_ms;
	__u64 busy = 1024;

	core->now_ns = bpf_ktime_get_ns();
	now_ms = core->now_ns / 1000000;
	passed_ms = now_ms - core->aged_ms;
	if (!passed_ms)
		return;
	core->aged_ms = now_ms;
	core->refused_ns -= passed_ms < ISL_LOAD_MS ?
				    core->refused_ns * passed_ms * ISL_LOAD_LOST / 1024 :
				    core->refused_ns;
	if (bpf_core_field_exists(struct cfs_rq, avg))
		busy = bpf_get_current_task_btf()->se.cfs_rq->rq->cfs.avg.util_avg;
	core->idle_ns = busy < 1024 ? (1024 - busy) * ISL_LOAD_UNIT_NS : 0;
}

/* Counts a frame that is no router's: nobody pays for it. */
static __always_inline void isl_count_other(__u32 ifindex)
{
	__u32 zero = 0;
	struct isl_core *core = bpf_map_lookup_elem(&isl_cores, &zero);

	if (core)
		core->pollers[ifindex % ISL_POLLERS].frames++;
}

/*
 * Learns what one frame more takes of a router's own time: the least that one took lately. They are dearer
 * where few come at a time, as they do while most are refused, and those would have come with others.
 */
static __always_inline void isl_learn_frame(struct isl_budget *budget, __u32 parts)
{
	if (budget->frame_parts && parts > budget->frame_parts)
		budget->frame_parts++;
	else
		budget->frame_parts = parts;
}

/* What of so much is forgotten after so many ms. */
static __always_inline __u64 isl_forgotten(__u64 lately, __u32 passed_ms)
{
	return passed_ms < ISL_AGE_MS ? lately * passed_ms >> ISL_AGE_BITS : lately;
}

/* Works out what a router has had of the core lately, as if it had the usual weight. */
static __always_inline void isl_look_at(struct isl_budget *budget, __u64 now_ns)
{
	__u64 group_ns = *(volatile __u64 *)&budget->group_ns, lately_ns;
	__u32 now_ms = now_ns / 1000000, passed_ms = now_ms - budget->aged_ms, served;

	/* A cgroup that was made anew begins anew. */
	if (group_ns < budget->aged_group_ns)
		budget->aged_group_ns = group_ns;
	lately_ns = group_ns - budget->aged_group_ns;
	if (passed_ms) {
		served = *(volatile __u32 *)&budget->served - budget->aged_served;
		if (served >= ISL_COST_SERVED)
			isl_learn_frame(budget, lately_ns * ISL_FRAME_PARTS / served);
		budget->aged_ms = now_ms;
		budget->aged_served += isl_forgotten(served, passed_ms);
		budget->aged_group_ns += isl_forgotten(lately_ns, passed_ms);
		budget->aged_nic_ns +=
			isl_forgotten(budget->nic_ns - budget->aged_nic_ns, passed_ms);
		lately_ns = group_ns - budget->aged_group_ns;
	}
	budget->looked_ns = now_ns;
	budget->had_ns = (lately_ns + budget->nic_ns - budget->aged_nic_ns) * ISL_USUAL_WEIGHT /
			 budget->weight;
}

/*
 * Whether a router always has too much. None has where the core was idle for longer than all frames that
 * were refused would have taken: what one poll of the NIC has brought waits for a moment on any core, and
 * who is refused frames for that would seem to have too much for as long as he is.
 */
static __always_inline int isl_presses(struct isl_core *core, struct isl_queue *queue)
{
	return queue->pressure >= ISL_HIGH_PRESSURE && (!core || core->refused_ns >= core->idle_ns);
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
 * Whether a frame may go on to its router's queue. Only a router that always has too much is refused
 * any, and only while one that has had less of the core has frames waiting.
 */
static __always_inline int isl_within_share(struct isl_core *core, struct isl_budget *budget,
					    struct isl_queue *queue, __u32 slot, int presses)
{
	__u32 dequeued = *(volatile __u32 *)&queue->dequeued, number = queue->budget;

	if (!isl_is_served(queue, dequeued, core->now_ns / 1000000) ||
	    queue->enqueued - dequeued < (presses ? 1 : ISL_WAITING_FRAMES)) {
		if (core->behind == number && core->behind_slot == slot)
			core->behind = 0;
	} else if (!core->behind || core->behind == number || budget->had_ns < core->behind_had) {
		core->behind = number;
		core->behind_slot = slot;
		core->behind_had = budget->had_ns;
		core->behind_ns = core->now_ns;
	}
	return !presses || !core->behind || core->behind == number ||
	       budget->had_ns <= core->behind_had;
}

/* Notes a frame that its router is refused, on a core where it pays for its work or (NULL) another. */
static __always_inline void isl_refuse_frame(struct isl_core *core, struct isl_budget *budget,
					     struct isl_queue *queue)
{
	if (queue->pressure < ISL_MAX_PRESSURE)
		queue->pressure += ISL_REFUSED_PRESSURE;
	if (core)
		core->refused_ns += budget->frame_parts ? budget->frame_parts / ISL_FRAME_PARTS :
							  ISL_MAX_FRAME_NS;
}

#endif
