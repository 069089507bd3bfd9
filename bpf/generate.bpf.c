// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The traffic generator. Driven by BPF_PROG_TEST_RUN with live frames: each iteration looks for a
 * stream whose next frame is due; if there is one it writes the frame and redirects it, otherwise
 * it drops the empty frame, which costs some tens of ns. That is what paces each frame.
 */
#include <stdbool.h>

#include "parse.h"
#include "histogram.h"

/* Streams looked at in one iteration; more would make the idle iteration slow. */
#define SCAN 4
/* Scheduled but unsent frames counted in one iteration after the end. */
#define COUNT_MISSED 64
/* Looks at the clock before an iteration that found nothing due ends: some 2 us. */
#define SPINS 64
#define NOTHING_DUE (~0U)
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
/*
 * Frames leave in the order of their schedule, whatever their stream: those that became due while the
 * kernel sent a batch, too. Who is later than this takes turns instead: where the generator cannot
 * send all, slow streams get what they ask for and fast ones the rest.
 */
#define TURNS_NS 1000000
#define COMPUTE (~0ULL)
#define MAX_RAMP_MPPS 16000000000ULL
#define IPV4_HEADERS (sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr))
#define IPV6_HEADERS (sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + sizeof(struct udphdr))
#define FCS 4

const volatile struct {
	__u32 n_streams;
	__u16 frame_bytes; /* length of the frames that the kernel hands in */
	__u16 cookie;
} settings;

/* Written by user space before the run. */
struct {
	__u64 start_ns;	       /* CLOCK_MONOTONIC */
	__u64 window_start_ns; /* this and the rest: since start_ns */
	__u64 window_end_ns;
	__u64 end_ns;
} trial;

/* One entry per stream, settings by user space, counters by this program. */
struct isl_stream streams[ISL_MAX_STREAMS];

/* Written by this program. */
struct {
	__u64 iterations;
	__u64 window_iterations;
	__u64 window_sent;
	__u64 failed; /* frames that could not be built: a bug or a wrong length */
	__u64 lateness_max_ns;
	__u32 cursor;
	__u32 ending; /* counting what was missed */
	__u32 done;
	__u32 batch; /* frames the kernel runs before it flushes; written by user space */
	__u32 in_batch;
	__u32 pending;	/* a frame of this batch waits for its end */
	__u64 clock_ns; /* last reading */
	__u32 behind;	/* the last frame was late by more than LATE_NS */
	__u32 reused;
} progress;

/* Departure error (actual minus scheduled) of the frames in the window; one run writes. */
__u64 lateness[ISL_HIST_BUCKETS];

/* Key: stream; value: the interface that its frames leave by; written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, ISL_MAX_STREAMS);
	__type(key, __u32);
	__type(value, __u32);
} wires SEC(".maps");

/* Padding of frames longer than the shortest: the kernel's pages hold their last user's bytes. */
static const __u8 padding[2048];

/* Newton's method from a power of two, at most a factor of 1.5 off: five steps are exact to 1e-12. */
static __noinline __u64 square_root(__u64 value)
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
static __always_inline __u64 ramp_interval(struct isl_segment *segment, __u64 at_ns)
{
	__u64 length_us = (segment->end_ns - segment->start_ns) / 1000 ?: 1;
	__u64 into_us = (at_ns - segment->start_ns) / 1000;
	bool up = segment->rate1_mpps >= segment->rate0_mpps;
	__u64 change = up ? segment->rate1_mpps - segment->rate0_mpps :
			    segment->rate0_mpps - segment->rate1_mpps;
	__u64 moved = change * into_us / length_us;
	__u64 rate = up ? segment->rate0_mpps + moved : segment->rate0_mpps - moved;
	__u64 square, twice_a = (2ULL << 16) * 1000 * change / length_us;

	if (rate > MAX_RAMP_MPPS)
		rate = MAX_RAMP_MPPS;
	rate = rate * 256 / 1000;
	square = rate * rate;
	if (!up && square < twice_a)
		return 0;
	square = up ? square + twice_a : square - twice_a;
	return (512000000000ULL << 16) / (rate + square_root(square) ?: 1);
}

/* How long after a frame that is due at `at_ns` the next one is due, ns << 16; 0: no more. */
static __always_inline __u64 interval_at(struct isl_stream *stream, __u64 at_ns)
{
	struct isl_segment *segment;

	segment = &stream->segments[stream->segment & (ISL_MAX_SEGMENTS - 1)];
	if (at_ns >= segment->end_ns) {
		if (stream->segment + 1 >= stream->n_segments)
			return 0;
		stream->segment++;
		segment = &stream->segments[stream->segment & (ISL_MAX_SEGMENTS - 1)];
	}
	if (segment->interval_q16 != COMPUTE)
		return segment->interval_q16;
	return ramp_interval(segment, at_ns);
}

/* Moves the schedule on by one frame; silent stretches are skipped, the end is end_ns. */
static __always_inline void advance(struct isl_stream *stream)
{
	__u64 at_ns = stream->next_q16 >> 16;
	__u64 interval = interval_at(stream, at_ns);

	if (interval) {
		stream->next_q16 += interval;
		return;
	}
	/* A silent segment (or nothing left): go on where the next one begins. */
	if (stream->segment + 1 < stream->n_segments)
		stream->next_q16 = stream->segments[stream->segment & (ISL_MAX_SEGMENTS - 1)].end_ns
				   << 16;
	else
		stream->next_q16 = ~0ULL;
}

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)~sum;
}

/* Round robin over the flows: ports first, then sources; a full round is one sequence number. */
static __always_inline void next_flow(struct isl_stream *stream)
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

/* Copies the header in 8-byte words: clang would copy bytes, not knowing the alignment. */
static __always_inline void copy_words(void *to, const void *from, int words)
{
	int i;

#pragma clang loop unroll(full)
	for (i = 0; i < words; i++)
		((volatile __u64 *)to)[i] = ((const __u64 *)from)[i];
}

static __always_inline __u64 write_signature(struct isl_signature *sig, struct isl_stream *stream,
					     __u32 index, __u64 now_ns, bool in_window)
{
	__u32 flow = index << ISL_FLOW_STREAM_SHIFT | (stream->flow & ISL_FLOW_MASK) |
		     (in_window ? ISL_FLOW_IN_WINDOW : 0);

	ISL_FIELD(sig, __u64, tx_time_ns) = now_ns;
	ISL_FIELD(sig, __u32, flow) = flow;
	ISL_FIELD(sig, __u32, seq) = stream->seq;
	ISL_FIELD(sig, __u16, cookie) = settings.cookie;
	return (now_ns & 0xffffffff) + (now_ns >> 32) + flow + stream->seq + settings.cookie;
}

static __always_inline int write_ipv4(void *data, void *data_end, struct isl_stream *stream,
				      __u32 index, __u64 now_ns, bool in_window, __u32 bytes)
{
	struct iphdr *ip = data + sizeof(struct ethhdr);
	struct udphdr *udp = (void *)(ip + 1);
	__u16 ip_bytes = bpf_htons(bytes - sizeof(struct ethhdr));
	__u16 udp_bytes = bpf_htons(bytes - sizeof(struct ethhdr) - sizeof(*ip));
	__u32 src_end =
		bpf_htons(((__u16)stream->header[28] << 8 | stream->header[29]) + stream->src_at);
	__u16 sport = bpf_htons(stream->first_sport + stream->sport_at);
	__u16 dport = bpf_htons(stream->first_dport + stream->dport_at);
	__u64 sum;

	if (data + IPV4_HEADERS + sizeof(struct isl_signature) > data_end)
		return -1;
	copy_words(data, stream->header, 6);
	*(volatile __u16 *)&ip->tot_len = ip_bytes;
	*(volatile __u16 *)&ip->check = fold((__u64)stream->ip_sum + ip_bytes + src_end);
	*(volatile __u16 *)((void *)&ip->saddr + 2) = src_end;
	*(volatile __u16 *)&udp->source = sport;
	*(volatile __u16 *)&udp->dest = dport;
	*(volatile __u16 *)&udp->len = udp_bytes;
	sum = stream->udp_sum + src_end + sport + dport + 2 * (__u32)udp_bytes;
	sum += write_signature((void *)(udp + 1), stream, index, now_ns, in_window);
	*(volatile __u16 *)&udp->check = fold(sum) ?: 0xffff;
	return 0;
}

static __always_inline int write_ipv6(void *data, void *data_end, struct isl_stream *stream,
				      __u32 index, __u64 now_ns, bool in_window, __u32 bytes)
{
	struct ipv6hdr *ip = data + sizeof(struct ethhdr);
	struct udphdr *udp = (void *)(ip + 1);
	__u16 udp_bytes = bpf_htons(bytes - sizeof(struct ethhdr) - sizeof(*ip));
	__u32 src_end =
		bpf_htons(((__u16)stream->header[36] << 8 | stream->header[37]) + stream->src_at);
	__u16 sport = bpf_htons(stream->first_sport + stream->sport_at);
	__u16 dport = bpf_htons(stream->first_dport + stream->dport_at);
	__u64 sum;

	if (data + IPV6_HEADERS + sizeof(struct isl_signature) > data_end)
		return -1;
	copy_words(data, stream->header, 8);
	*(volatile __u16 *)&ip->payload_len = udp_bytes;
	*(volatile __u16 *)((void *)&ip->saddr + 14) = src_end;
	*(volatile __u16 *)&udp->source = sport;
	*(volatile __u16 *)&udp->dest = dport;
	*(volatile __u16 *)&udp->len = udp_bytes;
	sum = stream->udp_sum + src_end + sport + dport + 2 * (__u32)udp_bytes;
	sum += write_signature((void *)(udp + 1), stream, index, now_ns, in_window);
	*(volatile __u16 *)&udp->check = fold(sum) ?: 0xffff;
	return 0;
}

/* Gives the frame its length and clears what lies behind the signature. */
static __always_inline int set_length(struct xdp_md *ctx, __u32 bytes, __u32 written)
{
	__u32 rest;

	if (bytes > settings.frame_bytes || bytes < written)
		return -1;
	if (bytes < settings.frame_bytes &&
	    bpf_xdp_adjust_tail(ctx, (int)bytes - settings.frame_bytes))
		return -1;
	rest = bytes - written;
	if (rest == 0)
		return 0;
	if (rest >= sizeof(padding))
		return -1;
	return bpf_xdp_store_bytes(ctx, written, (void *)padding, rest);
}

/* How many frames, from one due at `due_ns`, are of the same segment and the same side of the window. */
static __always_inline __u64 count_alike(struct isl_stream *stream, __u64 due_ns)
{
	struct isl_segment *segment = &stream->segments[stream->segment & (ISL_MAX_SEGMENTS - 1)];
	__u64 limit_ns = trial.end_ns, interval = segment->interval_q16;

	if (due_ns >= segment->end_ns || !interval || interval == COMPUTE)
		return 1;
	if (segment->end_ns < limit_ns)
		limit_ns = segment->end_ns;
	if (due_ns < trial.window_start_ns && trial.window_start_ns < limit_ns)
		limit_ns = trial.window_start_ns;
	if (due_ns < trial.window_end_ns && trial.window_end_ns < limit_ns)
		limit_ns = trial.window_end_ns;
	return ((limit_ns << 16) - stream->next_q16 + interval - 1) / interval;
}

/* bpf_loop: counts frames that were due but could not leave before the end; 1: no more. */
static long count_missed(__u32 round, void *unused)
{
	__u32 index = progress.cursor & (ISL_MAX_STREAMS - 1);
	struct isl_stream *stream = &streams[index];
	__u64 due_ns = stream->next_q16 >> 16, count;

	if (due_ns < trial.end_ns) {
		count = count_alike(stream, due_ns);
		stream->missed += count;
		if (due_ns >= trial.window_start_ns && due_ns < trial.window_end_ns)
			stream->missed_window += count;
		if (count > 1)
			stream->next_q16 +=
				(count - 1) *
				stream->segments[stream->segment & (ISL_MAX_SEGMENTS - 1)]
					.interval_q16;
		advance(stream);
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

/* bpf_loop: looks for the stream whose next frame was due first; 1: found, or the end. */
static long find_due(__u32 round, void *context)
{
	struct search *search = context;
	__u32 index = progress.cursor;
	__u64 first_q16 = ~0ULL, floor_q16 = 0;
	int i;

	search->clock_ns = search->reuse ? progress.clock_ns : bpf_ktime_get_ns();
	progress.clock_ns = search->clock_ns;
	if (search->clock_ns < trial.start_ns)
		return 0;
	search->now_ns = search->clock_ns - trial.start_ns;
	if (search->now_ns >= trial.end_ns)
		return 1;
	if (search->now_ns > TURNS_NS)
		floor_q16 = (search->now_ns - TURNS_NS) << 16;
	for (i = 0; i < SCAN && i < settings.n_streams; i++) {
		struct isl_stream *stream;
		__u64 due_q16;

		if (index >= settings.n_streams)
			index = 0;
		stream = &streams[index & (ISL_MAX_STREAMS - 1)];
		due_q16 = stream->next_q16 < floor_q16 ? floor_q16 : stream->next_q16;
		if (due_q16 < first_q16 && due_q16 >> 16 <= search->now_ns &&
		    stream->not_before_ns <= search->now_ns) {
			first_q16 = due_q16;
			search->index = index;
		}
		index++;
	}
	progress.cursor = search->index == NOTHING_DUE ? index : search->index + 1;
	return search->index != NOTHING_DUE;
}

/* Books a frame that leaves now and moves its stream's schedule on. */
static __always_inline void book(struct isl_stream *stream, __u64 now_ns, __u64 due_ns,
				 bool in_window, __u32 bytes)
{
	__u64 late_ns = now_ns - due_ns, interval, tolerance_ns;

	progress.behind = late_ns > LATE_NS;
	stream->sent++;
	if (in_window) {
		stream->sent_window++;
		stream->sent_window_bytes += bytes + FCS;
		progress.window_sent++;
		lateness[isl_bucket(late_ns) & (ISL_HIST_BUCKETS - 1)]++;
		if (late_ns > progress.lateness_max_ns)
			progress.lateness_max_ns = late_ns;
	}
	next_flow(stream);
	if (++stream->size_at >= stream->n_sizes)
		stream->size_at = 0;
	interval = stream->next_q16;
	advance(stream);
	interval = (stream->next_q16 - interval) >> 16;
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

SEC("xdp")
int isl_generate(struct xdp_md *ctx)
{
	struct search search = { .index = NOTHING_DUE };
	struct isl_stream *stream;
	bool in_window;
	__u32 bytes, written;
	__u64 due_ns;
	int err;

	if (progress.done)
		return XDP_DROP;
	wait_for_due(&search);
	if (search.now_ns >= trial.end_ns) {
		if (!progress.ending) {
			progress.ending = 1;
			progress.cursor = 0;
		}
		bpf_loop(COUNT_MISSED, count_missed, NULL, 0);
		return XDP_DROP;
	}
	in_window = search.now_ns >= trial.window_start_ns && search.now_ns < trial.window_end_ns;
	progress.window_iterations += in_window;
	if (search.index == NOTHING_DUE)
		return XDP_DROP;
	stream = &streams[search.index & (ISL_MAX_STREAMS - 1)];
	due_ns = stream->next_q16 >> 16;
	in_window = due_ns >= trial.window_start_ns && due_ns < trial.window_end_ns;
	bytes = stream->sizes[stream->size_at & (ISL_MAX_SIZES - 1)];
	written = (stream->ip_version == 4 ? IPV4_HEADERS : IPV6_HEADERS) +
		  sizeof(struct isl_signature);
	if (set_length(ctx, bytes, written))
		goto failed;
	if (stream->ip_version == 4)
		err = write_ipv4((void *)(long)ctx->data, (void *)(long)ctx->data_end, stream,
				 search.index, search.clock_ns, in_window, bytes);
	else
		err = write_ipv6((void *)(long)ctx->data, (void *)(long)ctx->data_end, stream,
				 search.index, search.clock_ns, in_window, bytes);
	if (err)
		goto failed;
	book(stream, search.now_ns, due_ns, in_window, bytes);
	return bpf_redirect_map(&wires, search.index, 0);
failed:
	progress.failed++;
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
