// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The traffic generator. Driven by BPF_PROG_TEST_RUN with live frames: each iteration looks at the
 * stream whose next frame is due first; if it is due it writes the frame and redirects it, otherwise
 * it drops the empty frame, which costs some tens of ns. That is what paces each frame.
 */
#include <stdbool.h>

#include "due_heap.h"
#include "frame.h"
#include "schedule.h"

/* Scheduled but unsent frames counted in one iteration after the end. */
#define COUNT_MISSED 64
/* Looks at the clock before an iteration that found nothing due ends: some 2 us. */
#define SPINS 64
#define NOTHING_DUE (~0U)
/* Steps in which an iteration skips frames that are too late: a step for each segment, or frame of a ramp. */
#define SKIPS 4
/*
 * Reading the clock is a tenth of a frame's cost. A generator that is later than this anyway reads it
 * for every fourth frame; time stamps are then up to 1 us old, less than a frame waits for its batch.
 */
#define LATE_NS 20000
#define CLOCK_USES 4
/*
 * A stream that fell behind catches up at twice its rate, with bursts of this many frames at most: a
 * stall of the generator must not become an overload of the router. (The virtual clock of GCRA.)
 */
#define BURST_FRAMES 64
const volatile struct {
	__u32 n_streams;
	__u16 frame_bytes; /* length of the frames that the kernel hands in */
	__u16 cookie;
	/*
	 * Frames leave in the order of their schedule, whatever their stream: those that became due
	 * while the kernel sent a batch, too. A stream that has sent a frame and is still later than
	 * this is put behind all that are as late: where the generator cannot send all, streams take
	 * turns, slow ones get what they ask for and fast ones the rest.
	 */
	__u64 turns_ns;
	__u64 max_late_ns; /* a frame that is later never leaves; at most 2 ms */
} settings;

/* Written by user space before the run. */
struct isl_trial trial;

/* One entry per stream, settings by user space, counters by this program. */
struct isl_stream streams[ISL_MAX_STREAMS];

/* One entry per stream, a heap by time; user space fills it in order, this program moves entries. */
struct isl_due due_heap[ISL_MAX_STREAMS];

/* Written by this program. */
struct isl_progress progress;

/*
 * Departure error (actual minus scheduled) of the frames in the window, one histogram after the other by
 * stream; one run writes.
 */
__u64 lateness[ISL_MAX_STREAMS * ISL_HIST_BUCKETS];

/* Key: stream; value: the interface that its frames leave by; written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, ISL_MAX_STREAMS);
	__type(key, __u32);
	__type(value, __u32);
} isl_tx_devmap SEC(".maps");

/*
 * Key: bin * settings.n_streams + stream; value: frames that the stream had sent when the bin ended;
 * size set when loaded; this program writes. What one bin has is the difference of two.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
	__uint(map_flags, BPF_F_MMAPABLE);
} isl_tx_series SEC(".maps");

/* bpf_loop: writes down what one stream has sent. */
static long note_sent(__u32 round, void *unused)
{
	__u32 key = progress.bin_at++;
	__u64 *sent = bpf_map_lookup_elem(&isl_tx_series, &key);

	if (!sent)
		return 1;
	*sent = streams[key % (settings.n_streams ?: 1) & (ISL_MAX_STREAMS - 1)].sent;
	return 0;
}

/* Ends the present bin of the time series, and those that passed while nothing was sent. */
static __noinline int end_bins(__u64 now_ns)
{
	__u32 bins = (now_ns - progress.bin_end_ns) / (progress.bin_ns ?: 1) + 1;

	bpf_loop(bins * settings.n_streams, note_sent, NULL, 0);
	progress.bin_end_ns += bins * progress.bin_ns;
	return 0;
}

/* bpf_loop: counts frames that were due but could not leave before the end; 1: no more. */
static long count_missed(__u32 round, void *unused)
{
	__u32 index = progress.cursor & (ISL_MAX_STREAMS - 1);
	struct isl_stream *stream = &streams[index];

	if (stream->next_q16_ns >> 16 < trial.end_ns) {
		isl_miss(stream, trial.end_ns, &trial);
		return 0;
	}
	progress.cursor = index + 1;
	if (index + 1 < settings.n_streams)
		return 0;
	progress.done = 1;
	return 1;
}

struct search {
	__u64 clock_ns;
	__u64 now_ns;
	__u32 index; /* NOTHING_DUE or the stream */
	__u32 reuse; /* the clock's last reading will do */
};

/* bpf_loop: looks whether the next frame in the schedule is due; 1: it is, or the trial is over. */
static long find_due(__u32 round, void *context)
{
	struct search *search = context;

	search->clock_ns = search->reuse ? progress.clock_ns : bpf_ktime_get_ns();
	progress.clock_ns = search->clock_ns;
	if (search->clock_ns < trial.start_ns)
		return 0;
	search->now_ns = search->clock_ns - trial.start_ns;
	if (search->now_ns >= trial.end_ns)
		return 1;
	if (due_heap[0].at_q16_ns >> 16 > search->now_ns)
		return 0;
	search->index = due_heap[0].stream;
	return 1;
}

/* Puts the stream that was first where its next frame belongs. */
static __always_inline void put_back(const struct isl_stream *stream, __u64 now_ns)
{
	__u64 at_q16_ns = stream->next_q16_ns, late_q16_ns;

	if (now_ns > settings.turns_ns) {
		late_q16_ns = (now_ns - settings.turns_ns) << 16;
		if (at_q16_ns <= late_q16_ns) {
			/* The clock's last reading may be in use again. */
			if (late_q16_ns <= progress.turn_q16_ns)
				late_q16_ns = progress.turn_q16_ns + 1;
			progress.turn_q16_ns = late_q16_ns;
			at_q16_ns = late_q16_ns;
		}
	}
	/* What it may send already keeps its turn. */
	if (stream->not_before_ns > now_ns && at_q16_ns < stream->not_before_ns << 16)
		at_q16_ns = stream->not_before_ns << 16;
	isl_move_top(due_heap, settings.n_streams, at_q16_ns);
}

struct skip {
	__u64 oldest_ns;
	__u32 index;
};

/* bpf_loop: gives up frames of one segment, or one of a ramp, that are too late; 1: none are. */
static long skip_some(__u32 round, void *context)
{
	struct skip *skip = context;
	struct isl_stream *stream = &streams[skip->index & (ISL_MAX_STREAMS - 1)];

	if (stream->next_q16_ns >> 16 >= skip->oldest_ns)
		return 1;
	isl_miss(stream, skip->oldest_ns, &trial);
	return 0;
}

/*
 * Gives up the stream's frames that are later than `max_late_ns`. So what leaves at a time differs from
 * what is due by so much at most, and rates in due time are those on the wire. False: the next frame is
 * not due yet, or too late as well, and the next iteration goes on.
 */
static __always_inline bool skip_late(struct isl_stream *stream, __u32 index, __u64 now_ns)
{
	struct isl_segment *segment = &stream->segments[stream->segment & (ISL_MAX_SEGMENTS - 1)];
	struct skip skip = { .index = index, .oldest_ns = now_ns - settings.max_late_ns };
	__u64 due_ns = stream->next_q16_ns >> 16, interval = segment->interval_q16_ns;
	__u64 next_ns = (stream->next_q16_ns + interval) >> 16;

	/* The usual case of a generator that is short: one frame is too late, the next is not. */
	if (interval && interval != ISL_FROM_RATES && !isl_has_timing(stream) &&
	    next_ns >= skip.oldest_ns && next_ns < segment->end_ns) {
		stream->missed++;
		stream->missed_window += due_ns >= trial.window_start_ns &&
					 due_ns < trial.window_end_ns;
		stream->next_q16_ns += interval;
		return next_ns <= now_ns;
	}
	bpf_loop(SKIPS, skip_some, &skip, 0);
	due_ns = stream->next_q16_ns >> 16;
	return due_ns >= skip.oldest_ns && due_ns <= now_ns;
}

/* Counts a frame that leaves now and moves its stream's schedule on. */
static __always_inline void count_sent(struct isl_stream *stream, __u64 now_ns,
				       const struct isl_frame *frame)
{
	__u64 late_ns = frame->late_ns, interval, tolerance_ns;

	progress.behind = late_ns > LATE_NS;
	stream->sent++;
	if (frame->in_window) {
		stream->sent_window++;
		stream->sent_window_bytes += frame->bytes + ISL_FCS_BYTES;
		progress.window_sent++;
		lateness[isl_below(frame->stream * ISL_HIST_BUCKETS + isl_bucket(late_ns),
				   ISL_MAX_STREAMS * ISL_HIST_BUCKETS)]++;
		if (late_ns > stream->late_max_ns)
			stream->late_max_ns = late_ns;
	}
	isl_next_flow(stream);
	if (++stream->size_at >= stream->n_sizes)
		stream->size_at = 0;
	interval = stream->next_q16_ns;
	isl_advance(stream);
	interval = isl_has_timing(stream) ? isl_mean_interval(stream) :
					    (stream->next_q16_ns - interval) >> 16;
	tolerance_ns = interval / 2 * BURST_FRAMES;
	if (stream->not_before_ns + tolerance_ns < now_ns)
		stream->not_before_ns = now_ns - tolerance_ns;
	stream->not_before_ns += interval / 2;
}

/*
 * Waits for a frame to be due. Frames already written leave at the end of the kernel's batch, so
 * after one of them nothing may wait until the next batch begins.
 */
static __always_inline void wait_for_due(struct search *search)
{
	if (progress.in_batch++ >= progress.batch) {
		progress.in_batch = 1;
		progress.pending = 0;
	}
	search->reuse = progress.behind && ++progress.reused % CLOCK_USES;
	find_due(0, search);
	search->reuse = 0;
	if (search->index == NOTHING_DUE && !progress.pending)
		bpf_loop(SPINS, find_due, search, 0);
	if (search->index != NOTHING_DUE)
		progress.pending = 1;
}

static __always_inline int write_frame(struct xdp_md *ctx, struct isl_stream *stream,
				       const struct isl_frame *frame)
{
	bool ipv4 = stream->ip_version == 4;
	__u32 written = (ipv4 ? ISL_IPV4_HEADERS : ISL_IPV6_HEADERS) + sizeof(struct isl_signature);

	if (isl_set_length(ctx, settings.frame_bytes, frame->bytes, written))
		return -1;
	if (ipv4)
		return isl_write_ipv4((void *)(long)ctx->data, (void *)(long)ctx->data_end, stream,
				      frame);
	return isl_write_ipv6((void *)(long)ctx->data, (void *)(long)ctx->data_end, stream, frame);
}

SEC("xdp")
int isl_generate(struct xdp_md *ctx)
{
	struct search search = { .index = NOTHING_DUE };
	struct isl_stream *stream;
	struct isl_frame frame;
	__u64 due_ns;

	if (progress.done)
		return XDP_DROP;
	wait_for_due(&search);
	if (search.now_ns >= progress.bin_end_ns)
		end_bins(search.now_ns);
	if (search.now_ns >= trial.end_ns) {
		if (!progress.ending) {
			progress.ending = 1;
			progress.cursor = 0;
		}
		bpf_loop(COUNT_MISSED, count_missed, NULL, 0);
		return XDP_DROP;
	}
	progress.window_iterations += search.now_ns >= trial.window_start_ns &&
				      search.now_ns < trial.window_end_ns;
	if (search.index == NOTHING_DUE)
		return XDP_DROP;
	stream = &streams[search.index & (ISL_MAX_STREAMS - 1)];
	due_ns = stream->next_q16_ns >> 16;
	if (search.now_ns > due_ns + settings.max_late_ns) {
		if (!skip_late(stream, search.index, search.now_ns)) {
			put_back(stream, search.now_ns);
			return XDP_DROP;
		}
		due_ns = stream->next_q16_ns >> 16;
	}
	frame.in_window = due_ns >= trial.window_start_ns && due_ns < trial.window_end_ns;
	frame.now_ns = search.clock_ns;
	frame.late_ns = search.now_ns - due_ns;
	frame.stream = search.index;
	frame.bytes = stream->sizes[stream->size_at & (ISL_MAX_SIZES - 1)];
	frame.cookie = settings.cookie;
	if (write_frame(ctx, stream, &frame)) {
		progress.failed++;
		isl_move_top(due_heap, settings.n_streams, search.now_ns << 16);
		return XDP_DROP;
	}
	count_sent(stream, search.now_ns, &frame);
	put_back(stream, search.now_ns);
	return bpf_redirect_map(&isl_tx_devmap, search.index, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
