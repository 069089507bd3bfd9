/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Writes a generated frame: its length, Ethernet, IP and UDP headers, signature and checksums. */
#ifndef ISOLANE_FRAME_H
#define ISOLANE_FRAME_H

#include <stdbool.h>

#include "bounds.h"
#include "parse.h"

#define ISL_IPV4_HEADERS (sizeof(struct ethhdr) + sizeof(struct iphdr) + sizeof(struct udphdr))
#define ISL_IPV6_HEADERS (sizeof(struct ethhdr) + sizeof(struct ipv6hdr) + sizeof(struct udphdr))

/* What differs from frame to frame beside the stream's own counters. */
struct isl_frame {
	__u64 now_ns;
	__u64 late_ns; /* since it was due, at most 2 ms */
	__u32 stream;  /* its index */
	__u32 bytes;   /* handed to the driver */
	bool in_window;
	__u16 cookie;
};

/* Padding of frames longer than the shortest: the kernel's pages hold their last user's bytes. */
static const __u8 isl_padding[2048];

/* The Internet checksum of a sum of 16-bit words (RFC 1071). */
static __always_inline __u16 isl_fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (__u16)~sum;
}

/* Copies the header in 8-byte words: clang would copy bytes, not knowing the alignment. */
static __always_inline void isl_copy_words(void *to, const void *from, int words)
{
	int i;

#pragma clang loop unroll(full)
	for (i = 0; i < words; i++)
		((volatile __u64 *)to)[i] = ((const __u64 *)from)[i];
}

/* Gives the one's complement sum of what it wrote. */
static __always_inline __u64 isl_write_signature(struct isl_signature *sig,
						 struct isl_stream *stream,
						 const struct isl_frame *frame)
{
	__u32 flow = frame->stream << ISL_FLOW_STREAM_SHIFT | (stream->flow & ISL_FLOW_MASK) |
		     (frame->in_window ? ISL_FLOW_IN_WINDOW : 0);
	__u64 stamp = frame->late_ns << ISL_STAMP_TIME_BITS | (frame->now_ns & ISL_STAMP_TIME_MASK);

	ISL_FIELD(sig, __u64, stamp) = stamp;
	ISL_FIELD(sig, __u32, flow) = flow;
	ISL_FIELD(sig, __u32, seq) = stream->seq;
	ISL_FIELD(sig, __u16, cookie) = frame->cookie;
	return (stamp & 0xffffffff) + (stamp >> 32) + flow + stream->seq + frame->cookie;
}

/*
 * UDP header, or that of an ICMP echo request, which is as long, and the signature behind it. `pseudo`
 * is a sum of what the stream's own does not have: of the pseudo header where there is one.
 */
static __always_inline void isl_write_upper(struct udphdr *udp, struct isl_stream *stream,
					    const struct isl_frame *frame, __u16 bytes,
					    __u64 pseudo)
{
	__u16 sport = bpf_htons(stream->first_sport + stream->sport_at);
	__u64 sum = pseudo + sport;

	if (stream->icmp) {
		/* Type and code, checksum, identifier, number. */
		__u16 type = bpf_htons((stream->ip_version == 4 ? ISL_ECHO_V4 : ISL_ECHO_V6) << 8);
		__u16 number = bpf_htons((__u16)stream->seq);

		*(volatile __u16 *)&udp->source = type;
		*(volatile __u16 *)&udp->len = sport;
		*(volatile __u16 *)&udp->check = number;
		sum += type + number;
		sum += isl_write_signature((void *)(udp + 1), stream, frame);
		*(volatile __u16 *)&udp->dest = isl_fold(sum);
		return;
	}
	__u16 dport = bpf_htons(stream->first_dport + stream->dport_at);

	*(volatile __u16 *)&udp->source = sport;
	*(volatile __u16 *)&udp->dest = dport;
	*(volatile __u16 *)&udp->len = bytes;
	sum += dport + bytes;
	sum += isl_write_signature((void *)(udp + 1), stream, frame);
	*(volatile __u16 *)&udp->check = isl_fold(sum) ?: 0xffff;
}

/* Headers and signature; -1: the frame is too short. */
static __always_inline int isl_write_ipv4(void *data, void *data_end, struct isl_stream *stream,
					  const struct isl_frame *frame)
{
	struct iphdr *ip = data + sizeof(struct ethhdr);
	struct udphdr *udp = (void *)(ip + 1);
	__u16 ip_bytes = bpf_htons(frame->bytes - sizeof(struct ethhdr));
	__u16 udp_bytes = bpf_htons(frame->bytes - sizeof(struct ethhdr) - sizeof(*ip));
	__u32 src_end =
		bpf_htons(((__u16)stream->header[28] << 8 | stream->header[29]) + stream->src_at);

	if (data + ISL_IPV4_HEADERS + sizeof(struct isl_signature) > data_end)
		return -1;
	isl_copy_words(data, stream->header, 6);
	*(volatile __u16 *)&ip->tot_len = ip_bytes;
	*(volatile __u16 *)&ip->check = isl_fold((__u64)stream->ip_sum + ip_bytes + src_end);
	*(volatile __u16 *)((void *)&ip->saddr + 2) = src_end;
	/* ICMP has no pseudo header. */
	isl_write_upper(udp, stream, frame, udp_bytes,
			stream->icmp ? 0 : stream->pseudo_sum + src_end + udp_bytes);
	return 0;
}

static __always_inline int isl_write_ipv6(void *data, void *data_end, struct isl_stream *stream,
					  const struct isl_frame *frame)
{
	struct ipv6hdr *ip = data + sizeof(struct ethhdr);
	struct udphdr *udp = (void *)(ip + 1);
	__u16 udp_bytes = bpf_htons(frame->bytes - sizeof(struct ethhdr) - sizeof(*ip));
	__u32 src_end =
		bpf_htons(((__u16)stream->header[36] << 8 | stream->header[37]) + stream->src_at);

	if (data + ISL_IPV6_HEADERS + sizeof(struct isl_signature) > data_end)
		return -1;
	isl_copy_words(data, stream->header, 8);
	*(volatile __u16 *)&ip->payload_len = udp_bytes;
	*(volatile __u16 *)((void *)&ip->saddr + 14) = src_end;
	isl_write_upper(udp, stream, frame, udp_bytes, stream->pseudo_sum + src_end + udp_bytes);
	return 0;
}

/*
 * Cuts the frame that the kernel handed in, of `given` bytes, to `bytes`, and clears what lies behind
 * the first `written`.
 */
static __always_inline int isl_set_length(struct xdp_md *ctx, __u32 given, __u32 bytes,
					  __u32 written)
{
	__u32 rest;

	if (bytes > given || bytes < written)
		return -1;
	if (bytes < given && bpf_xdp_adjust_tail(ctx, (int)bytes - (int)given))
		return -1;
	if (bytes == written)
		return 0;
	rest = bytes - written;
	if (!isl_has_bounds(&rest, sizeof(isl_padding)))
		return -1;
	return bpf_xdp_store_bytes(ctx, written, (void *)isl_padding, rest);
}

#endif
