/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef ISOLANE_HISTOGRAM_H
#define ISOLANE_HISTOGRAM_H

#include "intf.h"

/* BPF has no count-leading-zeros instruction here; six compares do. */
static __always_inline __u32 isl_log2(__u64 value)
{
	__u32 bit = 0;

	if (value >> 32) {
		value >>= 32;
		bit += 32;
	}
	if (value >> 16) {
		value >>= 16;
		bit += 16;
	}
	if (value >> 8) {
		value >>= 8;
		bit += 8;
	}
	if (value >> 4) {
		value >>= 4;
		bit += 4;
	}
	if (value >> 2) {
		value >>= 2;
		bit += 2;
	}
	return bit + (__u32)(value >> 1);
}

/* The bucket of a value in ns; crates/histogram/src/lib.rs holds the inverse. */
static __always_inline __u32 isl_bucket(__u64 value_ns)
{
	__u32 bit, bucket;

	if (value_ns < (1u << ISL_HIST_SUB_BITS))
		return (__u32)value_ns;
	bit = isl_log2(value_ns);
	bucket = ((bit - ISL_HIST_SUB_BITS + 1) << ISL_HIST_SUB_BITS) +
		 (__u32)((value_ns >> (bit - ISL_HIST_SUB_BITS)) & ((1u << ISL_HIST_SUB_BITS) - 1));
	return bucket < ISL_HIST_BUCKETS ? bucket : ISL_HIST_BUCKETS - 1;
}

#endif
