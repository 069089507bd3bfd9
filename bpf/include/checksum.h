/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Checksums that a sender has left to its device. Frames between the ends of a veth stay in memory,
 * so the kernel leaves TCP's and UDP's checksum out and notes that beside the frame. A redirection
 * by XDP loses the note, and whoever gets the frame drops it.
 */
#ifndef ISOLANE_CHECKSUM_H
#define ISOLANE_CHECKSUM_H

#include "parse.h"

#include <linux/tcp.h>

/* Kernels before 6.13 add up no more at a time. */
#define ISL_CHUNK 512
/* Enough for the longest IP packet. */
#define ISL_CHUNKS 128

struct isl_chunk {
	__u8 bytes[ISL_CHUNK + 4];
};

/* Key: 0; value: room for a part of a frame; only isl_complete uses it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct isl_chunk);
} isl_chunks SEC(".maps");

/* What TCP's or UDP's checksum covers, as offsets in the frame. */
struct isl_covered {
	__u32 start;
	__u32 length;
	__u32 check;
	__u32 pseudo; /* sum of the pseudo header */
	__u8 protocol;
};

static __always_inline __u16 isl_fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

static __always_inline int isl_covered_v4(struct iphdr *ip, void *end, struct isl_covered *covered)
{
	if ((void *)(ip + 1) > end || ip->ihl < 5 || (ip->frag_off & bpf_htons(0x3fff)))
		return 0;
	covered->start += ip->ihl * 4;
	covered->length = bpf_ntohs(ip->tot_len) - ip->ihl * 4;
	covered->protocol = ip->protocol;
	covered->pseudo = isl_fold((__u64)ip->saddr + ip->daddr);
	return 1;
}

static __always_inline int isl_covered_v6(struct ipv6hdr *ip, void *end,
					  struct isl_covered *covered)
{
	__u32 *words = (void *)&ip->saddr;
	__u64 sum = 0;

	if ((void *)(ip + 1) > end)
		return 0;
	for (int i = 0; i < 8; i++)
		sum += words[i];
	covered->start += sizeof(*ip);
	covered->length = bpf_ntohs(ip->payload_len);
	covered->protocol = ip->nexthdr;
	covered->pseudo = isl_fold(sum);
	return 1;
}

/* Finds them; 0: neither TCP nor UDP, or a fragment, which never lacks its checksum. */
static __always_inline int isl_find_covered(void *data, void *end, struct isl_covered *covered)
{
	struct ethhdr *eth = data;
	struct isl_vlan *vlan = (void *)(eth + 1);
	__be16 proto;

	if ((void *)(vlan + 1) > end)
		return 0;
	proto = eth->h_proto;
	covered->start = sizeof(*eth);
	if (proto == bpf_htons(ETH_P_8021Q)) {
		proto = vlan->proto;
		covered->start += sizeof(*vlan);
	}
	if (proto == bpf_htons(ETH_P_IP)) {
		if (!isl_covered_v4(data + covered->start, end, covered))
			return 0;
	} else if (proto != bpf_htons(ETH_P_IPV6) ||
		   !isl_covered_v6(data + covered->start, end, covered)) {
		return 0;
	}
	if (covered->protocol != IPPROTO_TCP && covered->protocol != IPPROTO_UDP)
		return 0;
	covered->check = covered->start;
	covered->check += covered->protocol == IPPROTO_TCP ?
				  __builtin_offsetof(struct tcphdr, check) :
				  __builtin_offsetof(struct udphdr, check);
	covered->pseudo += bpf_htons(covered->protocol) + bpf_htons(covered->length);
	return 1;
}

static __always_inline int isl_sum(struct xdp_md *ctx, struct isl_covered *covered, __u64 *sum)
{
	__u32 zero = 0, at = covered->start, left = covered->length, length;
	struct isl_chunk *chunk = bpf_map_lookup_elem(&isl_chunks, &zero);
	__s64 part = 0;

	if (!chunk)
		return 0;
	for (int i = 0; i < ISL_CHUNKS && left; i++) {
		length = left < ISL_CHUNK ? left : ISL_CHUNK;
		barrier_var(length);
		if (!length || length > ISL_CHUNK)
			return 0;
		if (bpf_xdp_load_bytes(ctx, at, chunk->bytes, length))
			return 0;
		__builtin_memset(chunk->bytes + length, 0, 4);
		part = bpf_csum_diff(NULL, 0, (void *)chunk->bytes, (length + 3) & ~3, part);
		if (part < 0)
			return 0;
		at += length;
		left -= length;
	}
	*sum = part;
	return !left;
}

/*
 * Adds the checksum if the sender has left it out: then the sum of the pseudo header stands in its
 * place. A whole checksum has that value once in 65,536 frames, and is then written again.
 */
static __always_inline void isl_complete(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct isl_covered covered = {};
	__u16 check;
	__u64 sum;

	if (!isl_find_covered(data, end, &covered))
		return;
	if (bpf_xdp_load_bytes(ctx, covered.check, &check, sizeof(check)))
		return;
	if (check != isl_fold(covered.pseudo) || !isl_sum(ctx, &covered, &sum))
		return;
	check = ~isl_fold(sum);
	if (!check && covered.protocol == IPPROTO_UDP)
		check = 0xffff;
	bpf_xdp_store_bytes(ctx, covered.check, &check, sizeof(check));
}

#endif
