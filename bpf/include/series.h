/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Time series of a trial: which bin a time is in. */
#ifndef ISOLANE_SERIES_H
#define ISOLANE_SERIES_H

#include "intf.h"

/*
 * The bin of a time since the series' start: a product in place of a division. The inverse is rounded
 * up, so a bin may begin early: by less than 1 us if it has 10 ms, by less than 1/500 if it is wider.
 */
static __always_inline __u32 isl_bin(const struct isl_series *series, __u64 since_ns)
{
	return (since_ns >> ISL_BIN_SHIFT) * series->inverse >> (series->bits & 63);
}

#endif
