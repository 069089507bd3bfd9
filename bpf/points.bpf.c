// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Capture points: stamps the generator's frames where they come in by an interface or leave by one, and
 * adds up how long each took from one point to the next. All stamps and the frame's departure are of
 * one clock. If asked to, it keeps the beginning of each, for a capture file.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bounds.h"
#include "histogram.h"
#include "kernel.h"
#include "parse.h"

/* Ethernet, IPv6, UDP, the signature. */
#define HEAD_BYTES 80
#define SHIFT 2
/* Frames of a stream after which their entries are used again; a power of two. */
#define FLIGHTS 16384

const volatile struct {
	__u16 cookie;
	__u16 pad0;
	__u32 streams; /* of which isl_parts has entries */
} settings;

/* By stream: its flows, and where its part of isl_flights begins; written by user space before the run. */
struct {
	__u32 flows; /* 0: its frames are not stamped */
	__u32 base;
} stamped[ISL_MAX_STREAMS];

/* Key: interface and direction; value: which of its routers' points it is; written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct isl_point_key);
	__type(value, struct isl_point);
} isl_points SEC(".maps");

/* Key: a stream's base + the frame's number in it; size set when loaded; this program writes. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct isl_flight);
} isl_flights SEC(".maps");

/*
 * Key: stream * ISL_POINTS + point: times since the point before; size set when loaded; this program
 * adds. Not atomic: where several cores send what a router sends, some frames may be left out.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct isl_part);
	__uint(map_flags, BPF_F_MMAPABLE);
} isl_parts SEC(".maps");

/*
 * Value: struct isl_captured; this program writes, user space reads after a trial; size set when loaded.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} isl_captures SEC(".maps");

/* Whether frames are kept, and how many found no slot; user space sets both before a trial. */
struct {
	__u64 left_out;
	__u32 on;
	__u32 pad0;
} capturing;

static __always_inline void add(__u32 stream, __u32 point, __u64 ns)
{
	__u32 key = stream * ISL_POINTS + point, bucket = isl_bucket(ns);
	struct isl_part *part;

	if (stream >= settings.streams)
		return;
	part = bpf_map_lookup_elem(&isl_parts, &key);
	if (!part)
		return;
	barrier_var(bucket); /* clang knows that it is small enough, the verifier does not */
	part->frames[bucket & (ISL_HIST_BUCKETS - 1)]++;
	part->sum_ns += ns;
	if (ns > part->max_ns)
		part->max_ns = ns;
}

/*
 * Adds up the parts of the way that a frame has behind it. Only whole ways count, so that the means of
 * the parts add up.
 */
static __always_inline void add_parts(__u32 stream, const struct isl_flight *flight, __u32 first,
				      __u64 now_ns)
{
	__u64 before_ns = 0, at_ns;

#pragma clang loop unroll(full)
	for (__u32 point = 0; point < ISL_POINT_WHOLE; point++) {
		at_ns = flight->at_ns[point];
		if (!at_ns)
			continue;
		add(stream, point,
		    before_ns ? at_ns - before_ns : (at_ns - flight->stamp) & ISL_STAMP_TIME_MASK);
		before_ns = at_ns;
	}
	add(stream, ISL_POINT_WHOLE, now_ns - flight->at_ns[first]);
}

/*
 * A frame of the window is at a point; one that was not at the first one is left out. Returns whether it is
 * there for the first time: what a full interface refuses is offered to it again.
 */
static __always_inline bool note(const struct isl_point *point, const struct isl_signature *sig,
				 __u64 now_ns)
{
	__u32 word = sig->flow, stream = word >> ISL_FLOW_STREAM_SHIFT;
	__u32 number =
		sig->seq * stamped[stream & (ISL_MAX_STREAMS - 1)].flows + (word & ISL_FLOW_MASK);
	__u32 slot = stamped[stream & (ISL_MAX_STREAMS - 1)].base + (number & (FLIGHTS - 1));
	struct isl_flight *flight = bpf_map_lookup_elem(&isl_flights, &slot);
	__u32 at = point->number, first;

	/* Else clang reads it again after the comparison, and the verifier takes it for another number. */
	barrier_var(at);
	if (!flight || at >= ISL_POINT_WHOLE)
		return false;
	if (point->first) {
		__builtin_memset(flight, 0, sizeof(*flight));
		flight->stamp = sig->stamp;
		flight->word = word;
		flight->first = at;
	} else if (flight->stamp != sig->stamp || flight->word != word) {
		return true;
	} else if (flight->at_ns[at]) {
		return false;
	}
	flight->at_ns[at] = now_ns;
	first = flight->first;
	barrier_var(first);
	if (point->last && first < ISL_POINT_WHOLE)
		add_parts(stream, flight, first, now_ns);
	return true;
}

/* A frame's Ethernet header, and how many bytes lie behind each other from there on. */
struct linear {
	const void *start;
	__u32 bytes;
};

static __always_inline struct linear linear_of(const struct sk_buff *skb, bool sending)
{
	__u32 bytes = skb->len - skb->data_len;

	/* On its way in, data begins behind that header; on its way out, with it. */
	if (sending)
		return (struct linear){ skb->data, bytes };
	return (struct linear){ skb->head + skb->mac_header, bytes + ETH_HLEN };
}

/* Reads a frame as far as it is linear and there is space; returns how much that is, 0: nothing. */
static __always_inline __u32 read_at_most(void *to, __u32 space, struct linear linear)
{
	__u32 bytes = linear.bytes < space ? linear.bytes : space;

	if (!isl_has_bounds(&bytes, space) || bpf_probe_read_kernel(to, bytes, linear.start))
		return 0;
	return bytes;
}

/* Keeps the beginning of a frame, as far as it is linear. */
static __always_inline void keep(const struct sk_buff *skb, struct linear linear,
				 const struct isl_point *point, __u64 now_ns)
{
	struct isl_captured *to = bpf_ringbuf_reserve(&isl_captures, sizeof(*to), 0);

	if (!to) {
		__sync_fetch_and_add(&capturing.left_out, 1);
		return;
	}
	to->at_ns = now_ns;
	to->interface = point->interface;
	to->bytes = linear.bytes + skb->data_len;
	to->kept = read_at_most(to->head, ISL_CAPTURED_BYTES, linear);
	to->pad0 = 0;
	bpf_ringbuf_submit(to, BPF_RB_NO_WAKEUP);
}

static __always_inline bool find(struct linear linear, struct isl_signature *found)
{
	/* So far into it the signature behind either version of IP lies at a multiple of 4. */
	__u8 buffer[SHIFT + HEAD_BYTES] __attribute__((aligned(8)));
	__u8 *head = buffer + SHIFT;
	__u32 *words;

	/* What lies behind a short one may be of a frame that is gone. */
	if (linear.bytes < HEAD_BYTES)
		__builtin_memset(buffer, 0, sizeof(buffer));
	if (!read_at_most(head, HEAD_BYTES, linear))
		return false;
	words = (__u32 *)isl_find_signature(head, head + HEAD_BYTES);
	if (!words)
		return false;
	found->stamp = words[0] | (__u64)words[1] << 32;
	found->flow = words[2];
	found->seq = words[3];
	return *(__u16 *)(words + 4) == settings.cookie && found->flow & ISL_FLOW_IN_WINDOW &&
	       stamped[found->flow >> ISL_FLOW_STREAM_SHIFT & (ISL_MAX_STREAMS - 1)].flows;
}

static __always_inline int at_interface(struct sk_buff *skb, struct net_device *dev, bool sending)
{
	struct isl_point_key key = {
		.netns_inum = dev->nd_net.net->ns.inum,
		.ifindex = dev->ifindex,
		.sending = sending,
	};
	struct isl_point *point = bpf_map_lookup_elem(&isl_points, &key);
	struct isl_signature sig;
	struct linear linear;
	__u64 now_ns;

	if (!point)
		return 0;
	linear = linear_of(skb, sending);
	if (!find(linear, &sig))
		return 0;
	now_ns = bpf_ktime_get_ns();
	if (note(point, &sig, now_ns) && capturing.on)
		keep(skb, linear, point, now_ns);
	return 0;
}

SEC("tp_btf/netif_receive_skb")
int BPF_PROG(isl_point_in, struct sk_buff *skb)
{
	return at_interface(skb, skb->dev, false);
}

SEC("tp_btf/net_dev_start_xmit")
int BPF_PROG(isl_point_out, struct sk_buff *skb, struct net_device *dev)
{
	return at_interface(skb, dev, true);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
