// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The traffic receiver: counts each stream, finds reordering and duplication by sequence number,
 * adds each frame's one-way delay to a histogram, and drops the frame. Frames that are not of this
 * run go on to the kernel untouched.
 */
#include <stdbool.h>

#include "parse.h"
#include "histogram.h"
#include "series.h"

const volatile struct {
	__u16 cookie;
	__u16 pad0;
	__u32 flow_slots; /* entries of isl_rx_flows */
	__u32 any_cookie; /* 1: take the frames of whatever run arrives */
	__u32 streams;	  /* entries of isl_rx_gaps, and of each bin in isl_rx_series */
} settings;

/* Where the flows of each stream begin in isl_rx_flows; written by user space before the run. */
__u32 flow_base[ISL_MAX_STREAMS];

/* Counters, by stream; this program adds. */
struct isl_rx_stream streams[ISL_MAX_STREAMS];

/* Frames of other runs, and all that no generator sent; this program adds. */
__u64 other_frames;

/* The run that the latest frame was of; this program writes, where it takes any run's frames. */
__u32 seen_cookie;

/*
 * Delays since departure. Key: stream * ISL_HIST_BUCKETS + bucket; value: frames of the window; this
 * program adds.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ISL_MAX_STREAMS *ISL_HIST_BUCKETS);
	__type(key, __u32);
	__type(value, __u64);
	__uint(map_flags, BPF_F_MMAPABLE);
} isl_rx_delays SEC(".maps");

/* The same since the frames were due; those of negative delay are in neither. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ISL_MAX_STREAMS *ISL_HIST_BUCKETS);
	__type(key, __u32);
	__type(value, __u64);
	__uint(map_flags, BPF_F_MMAPABLE);
} isl_rx_due SEC(".maps");

/* Key: flow_base[stream] + flow; size set when loaded; this program writes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct isl_rx_flow);
	__uint(map_flags, BPF_F_MMAPABLE);
} isl_rx_flows SEC(".maps");

/* When bins begin and end; written by user space before the run. */
struct isl_series series;

/*
 * Key: bin * settings.streams + stream; value: arrivals in that bin, by delay; size set when loaded;
 * this program adds. Not atomic: where several cores receive a stream, some frames may be left out.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct isl_rx_bin);
	__uint(map_flags, BPF_F_MMAPABLE);
} isl_rx_series SEC(".maps");

/* Key: stream; value: times between arrivals; size set when loaded; this program adds, as above. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct isl_rx_gaps);
	__uint(map_flags, BPF_F_MMAPABLE);
} isl_rx_gaps SEC(".maps");

#define SEEN_BITS 64

/*
 * A frame late by more than SEEN_BITS numbers counts as reordered: whether it was seen before is
 * no longer known.
 */
static __always_inline void check_order(struct isl_rx_stream *stream, struct isl_rx_flow *flow,
					__u32 seq)
{
	__u32 ahead = seq - flow->max_seq, behind;

	if (!flow->first_seq1) {
		flow->first_seq1 = seq + 1;
		flow->max_seq = seq;
		flow->seen = 1;
		return;
	}
	if (ahead - 1 < 0x7fffffff) {
		flow->seen = ahead < SEEN_BITS ? flow->seen << ahead | 1 : 1;
		flow->max_seq = seq;
		return;
	}
	behind = -ahead;
	if (behind < SEEN_BITS) {
		if (flow->seen & 1ULL << behind) {
			__sync_fetch_and_add(&stream->duplicated, 1);
			return;
		}
		flow->seen |= 1ULL << behind;
	}
	__sync_fetch_and_add(&stream->reordered, 1);
}

/* Time since departure: the difference modulo 2^43 ns, with its sign. */
static __always_inline __s64 delay_since(__u64 stamp, __u64 now_ns)
{
	__u64 since_ns = (now_ns - stamp) & ISL_STAMP_TIME_MASK;

	return (__s64)(since_ns << (64 - ISL_STAMP_TIME_BITS)) >> (64 - ISL_STAMP_TIME_BITS);
}

static __always_inline void note_delay(struct isl_rx_stream *stream, __u32 index, __s64 delay_ns,
				       __u64 stamp)
{
	__u64 due_ns = (__u64)delay_ns + (stamp >> ISL_STAMP_TIME_BITS);
	__u64 *bucket;
	__u32 key;

	if (delay_ns < 0) {
		__sync_fetch_and_add(&stream->negative, 1);
		return;
	}
	key = index * ISL_HIST_BUCKETS + isl_bucket(delay_ns);
	bucket = bpf_map_lookup_elem(&isl_rx_delays, &key);
	if (bucket)
		__sync_fetch_and_add(bucket, 1);
	key = index * ISL_HIST_BUCKETS + isl_bucket(due_ns);
	bucket = bpf_map_lookup_elem(&isl_rx_due, &key);
	if (bucket)
		__sync_fetch_and_add(bucket, 1);
	__sync_fetch_and_add(&stream->delay_sum_ns, delay_ns);
	__sync_fetch_and_add(&stream->due_sum_ns, due_ns);
	/* Two queues may race here; the higher of two maxima in the same instant may be lost. */
	if (delay_ns > stream->delay_max_ns)
		stream->delay_max_ns = delay_ns;
	if (due_ns > stream->due_max_ns)
		stream->due_max_ns = due_ns;
}

/*
 * Adds an arrival to its bin, and the time since the stream's last one to its histogram. A negative
 * delay counts as none here, so that the bin has every arrival; a trial with such has no valid delays.
 */
static __always_inline void note_arrival(__u32 index, __u64 now_ns, __s64 delay_ns, bool in_window)
{
	__u64 since_ns = now_ns - series.start_ns;
	struct isl_rx_gaps *gaps;
	struct isl_rx_bin *bin;
	__u32 key, bucket;

	/* A time before the start is a very large difference. */
	if (since_ns >= series.length_ns || index >= settings.streams)
		return;
	key = isl_bin(&series, since_ns) * settings.streams + index;
	bucket = isl_bucket(delay_ns > 0 ? delay_ns : 0) >> ISL_BIN_MERGE_BITS;
	bin = bpf_map_lookup_elem(&isl_rx_series, &key);
	if (bin)
		bin->frames[bucket & (ISL_BIN_BUCKETS - 1)]++;
	gaps = bpf_map_lookup_elem(&isl_rx_gaps, &index);
	if (!gaps)
		return;
	if (in_window && gaps->last_ns)
		gaps->gaps[isl_bucket(now_ns - gaps->last_ns) & (ISL_HIST_BUCKETS - 1)]++;
	gaps->last_ns = now_ns;
}

SEC("xdp")
int isl_receive(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct isl_signature *sig = isl_find_signature(data, data_end);
	struct isl_rx_stream *stream;
	struct isl_rx_flow *flow;
	__u32 word, index, slot;
	__u64 now_ns, stamp;
	__s64 delay_ns;

	if (!sig || (ISL_FIELD(sig, __u16, cookie) != settings.cookie && !settings.any_cookie)) {
		__sync_fetch_and_add(&other_frames, 1);
		return XDP_PASS;
	}
	if (settings.any_cookie)
		seen_cookie = ISL_FIELD(sig, __u16, cookie);
	now_ns = bpf_ktime_get_ns();
	stamp = ISL_FIELD(sig, __u64, stamp);
	delay_ns = delay_since(stamp, now_ns);
	word = ISL_FIELD(sig, __u32, flow);
	index = word >> ISL_FLOW_STREAM_SHIFT & (ISL_MAX_STREAMS - 1);
	stream = &streams[index];
	__sync_fetch_and_add(&stream->received, 1);
	if (word & ISL_FLOW_IN_WINDOW) {
		__sync_fetch_and_add(&stream->received_window_bytes,
				     data_end - data + ISL_FCS_BYTES);
		note_delay(stream, index, delay_ns, stamp);
	}
	note_arrival(index, now_ns, delay_ns, word & ISL_FLOW_IN_WINDOW);
	slot = flow_base[index] + (word & ISL_FLOW_MASK);
	flow = slot < settings.flow_slots ? bpf_map_lookup_elem(&isl_rx_flows, &slot) : NULL;
	if (flow)
		check_order(stream, flow, ISL_FIELD(sig, __u32, seq));
	else
		__sync_fetch_and_add(&stream->untracked, 1);
	return XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
