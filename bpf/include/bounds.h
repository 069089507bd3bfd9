/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Bounds in words that the verifiers of older kernels understand (tried with Linux 6.1). Those know no
 * bounds of an index that clang puts together with an `or`, and do not learn from a comparison that a
 * length is not 0.
 */
#ifndef ISL_BOUNDS_H
#define ISL_BOUNDS_H

#include <stdbool.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

/* An index into an array whose length is a power of two. */
static __always_inline __u32 isl_below(__u32 at, __u32 length)
{
	barrier_var(at);
	return at & (length - 1);
}

/* Whether a length is 1 to `max`; if so, it is known to be from then on. */
static __always_inline bool isl_has_bounds(__u32 *length, __u32 max)
{
	__u32 last = *length - 1;

	barrier_var(last);
	if (last >= max)
		return false;
	*length = last + 1;
	return true;
}

#endif
