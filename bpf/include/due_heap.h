/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A binary heap of streams by when they may send next: the first is at the top. */
#ifndef ISOLANE_DUE_HEAP_H
#define ISOLANE_DUE_HEAP_H

#include "intf.h"

/* Levels below the top of a heap of ISL_MAX_STREAMS. */
#define ISL_HEAP_LEVELS 8
_Static_assert(1 << ISL_HEAP_LEVELS >= ISL_MAX_STREAMS, "the heap is deep enough");

/*
 * Gives the stream at the top another time and lets it sink to its place. 8 levels for 256 streams, 3
 * for 8, none for a single one.
 */
static __always_inline void isl_move_top(struct isl_due *heap, __u32 count, __u64 at_q16_ns)
{
	struct isl_due moved = { .at_q16_ns = at_q16_ns, .stream = heap[0].stream };
	__u32 hole = 0, child;
	int level;

	for (level = 0; level < ISL_HEAP_LEVELS; level++) {
		child = 2 * hole + 1;
		if (child >= count)
			break;
		child &= ISL_MAX_STREAMS - 1;
		if (child + 1 < count &&
		    heap[(child + 1) & (ISL_MAX_STREAMS - 1)].at_q16_ns < heap[child].at_q16_ns)
			child = (child + 1) & (ISL_MAX_STREAMS - 1);
		if (heap[child].at_q16_ns >= at_q16_ns)
			break;
		heap[hole & (ISL_MAX_STREAMS - 1)] = heap[child];
		hole = child;
	}
	heap[hole & (ISL_MAX_STREAMS - 1)] = moved;
}

#endif
