/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A stream's schedule: when its next frame is due, and which of its flows that frame is of. */
#ifndef ISOLANE_SCHEDULE_H
#define ISOLANE_SCHEDULE_H

#include <stdbool.h>

#include "histogram.h"
#include "intf.h"

#define ISL_MAX_RAMP_MILLIPPS 16000000000ULL

/* Newton's method from a power of two, at most a factor of 1.5 off: five steps are exact to 1e-12. */
static __noinline __u64 isl_square_root(__u64 value)
{
	__u64 root = 1ULL << ((isl_log2(value) + 1) / 2 & 63);
	int i;

#pragma clang loop unroll(full)
	for (i = 0; i < 5; i++)
		root = (root + value / root) / 2 ?: 1;
	return root;
}

/*
 * On a ramp the next frame is due when the area under the rate has grown by one: r dt + a dt^2 / 2 = 1,
 * hence dt = 2 / (r + sqrt(r^2 + 2 a)). Rates in 1/256 of a frame a second, at most 16 million frames.
 * 0: the rate falls to zero before there is another frame.
 */
static __always_inline __u64 isl_ramp_interval(struct isl_segment *segment, __u64 at_ns)
{
	__u64 length_us = (segment->end_ns - segment->start_ns) / 1000 ?: 1;
	__u64 into_us = (at_ns - segment->start_ns) / 1000;
	bool up = segment->end_rate_millipps >= segment->start_rate_millipps;
	__u64 change = up ? segment->end_rate_millipps - segment->start_rate_millipps :
			    segment->start_rate_millipps - segment->end_rate_millipps;
	__u64 moved = change * into_us / length_us;
	__u64 rate_millipps = up ? segment->start_rate_millipps + moved :
				   segment->start_rate_millipps - moved;
	__u64 rate_q8_pps, square, twice_a = (2ULL << 16) * 1000 * change / length_us;

	if (rate_millipps > ISL_MAX_RAMP_MILLIPPS)
		rate_millipps = ISL_MAX_RAMP_MILLIPPS;
	rate_q8_pps = rate_millipps * 256 / 1000;
	square = rate_q8_pps * rate_q8_pps;
	if (!up && square < twice_a)
		return 0;
	square = up ? square + twice_a : square - twice_a;
	return (512000000000ULL << 16) / (rate_q8_pps + isl_square_root(square) ?: 1);
}

/* How long after a frame that is due at `at_ns` the next one is due, ns << 16; 0: no more. */
static __always_inline __u64 isl_interval_at(struct isl_stream *stream, __u64 at_ns)
{
	struct isl_segment *segment;

	segment = &stream->segments[stream->segment & (ISL_MAX_SEGMENTS - 1)];
	if (at_ns >= segment->end_ns) {
		if (stream->segment + 1 >= stream->n_segments)
			return 0;
		stream->segment++;
		segment = &stream->segments[stream->segment & (ISL_MAX_SEGMENTS - 1)];
	}
	if (segment->interval_q16_ns != ISL_FROM_RATES)
		return segment->interval_q16_ns;
	return isl_ramp_interval(segment, at_ns);
}

/*
 * Intervals of a Poisson process of mean 1, << 16: the quantiles of the exponential distribution, each as
 * likely as the others. User space writes before the program is loaded.
 */
const volatile __u32 poisson_intervals[1 << ISL_INTERVAL_BITS];

/* The next interval of a Poisson process (its random numbers: xorshift, Marsaglia 2003). */
static __always_inline __u64 isl_poisson_interval(struct isl_stream *stream, __u64 mean_q16_ns)
{
	__u32 random = stream->random;

	random ^= random << 13;
	random ^= random >> 17;
	random ^= random << 5;
	stream->random = random;
	return (mean_q16_ns >> 8) * poisson_intervals[random >> (32 - ISL_INTERVAL_BITS)] >> 8;
}

/* What the present burst has no time left for comes in the next ones. */
static __always_inline void isl_skip_pauses(struct isl_stream *stream)
{
	__u64 over = stream->next_q16_ns - stream->on_end_q16_ns;
	__u64 bursts = over / (stream->on_q16_ns ?: 1) + 1;

	stream->next_q16_ns += bursts * stream->off_q16_ns;
	stream->on_end_q16_ns += bursts * (stream->on_q16_ns + stream->off_q16_ns);
}

/* Moves the schedule on by one frame; silent stretches are skipped, the end is end_ns. */
static __always_inline void isl_advance(struct isl_stream *stream)
{
	__u64 at_ns = stream->next_q16_ns >> 16;
	__u64 interval = isl_interval_at(stream, at_ns);

	if (interval) {
		if (stream->random)
			interval = isl_poisson_interval(stream, interval);
		stream->next_q16_ns += interval;
		if (stream->on_q16_ns && stream->next_q16_ns >= stream->on_end_q16_ns)
			isl_skip_pauses(stream);
		return;
	}
	/* A silent segment (or nothing left): go on where the next one begins. */
	if (stream->segment + 1 < stream->n_segments)
		stream->next_q16_ns =
			stream->segments[stream->segment & (ISL_MAX_SEGMENTS - 1)].end_ns << 16;
	else
		stream->next_q16_ns = ~0ULL;
}

/* Whether the intervals between frames differ although the rate does not. */
static __always_inline bool isl_has_timing(const struct isl_stream *stream)
{
	return stream->random || stream->on_q16_ns;
}

/* Of a stream with such a timing, which has one segment: between frames in the mean, or in a burst, ns. */
static __always_inline __u64 isl_mean_interval(const struct isl_stream *stream)
{
	return stream->segments[0].interval_q16_ns >> 16;
}

/* Round robin over the flows: ports first, then sources; a full round is one sequence number. */
static __always_inline void isl_next_flow(struct isl_stream *stream)
{
	if (++stream->src_at >= stream->src_count)
		stream->src_at = 0;
	if (++stream->sport_at >= stream->sport_count) {
		stream->sport_at = 0;
		stream->dport_at++;
	}
	if (++stream->flow >= stream->flows) {
		stream->flow = 0;
		stream->src_at = 0;
		stream->sport_at = 0;
		stream->dport_at = 0;
		stream->seq++;
	}
}

/*
 * How many frames, from one due at `due_ns` to the last due before `limit_ns`, are of the same segment
 * and the same side of the window.
 */
static __always_inline __u64 isl_count_alike(struct isl_stream *stream, __u64 due_ns,
					     __u64 limit_ns, const struct isl_trial *trial)
{
	struct isl_segment *segment = &stream->segments[stream->segment & (ISL_MAX_SEGMENTS - 1)];
	__u64 interval = segment->interval_q16_ns;

	if (due_ns >= segment->end_ns || !interval || interval == ISL_FROM_RATES || stream->random)
		return 1;
	if (stream->on_q16_ns) {
		if (stream->on_end_q16_ns >> 16 <= due_ns)
			return 1;
		if (stream->on_end_q16_ns >> 16 < limit_ns)
			limit_ns = stream->on_end_q16_ns >> 16;
	}
	if (segment->end_ns < limit_ns)
		limit_ns = segment->end_ns;
	if (due_ns < trial->window_start_ns && trial->window_start_ns < limit_ns)
		limit_ns = trial->window_start_ns;
	if (due_ns < trial->window_end_ns && trial->window_end_ns < limit_ns)
		limit_ns = trial->window_end_ns;
	return ((limit_ns << 16) - stream->next_q16_ns + interval - 1) / interval;
}

/* Counts the next frame and those like it that are due before `limit_ns` as missed; they never leave. */
static __always_inline void isl_miss(struct isl_stream *stream, __u64 limit_ns,
				     const struct isl_trial *trial)
{
	__u64 due_ns = stream->next_q16_ns >> 16;
	__u64 count = isl_count_alike(stream, due_ns, limit_ns, trial);

	stream->missed += count;
	if (due_ns >= trial->window_start_ns && due_ns < trial->window_end_ns)
		stream->missed_window += count;
	if (count > 1)
		stream->next_q16_ns +=
			(count - 1) *
			stream->segments[stream->segment & (ISL_MAX_SEGMENTS - 1)].interval_q16_ns;
	isl_advance(stream);
}

#endif
