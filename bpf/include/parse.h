/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef ISOLANE_PARSE_H
#define ISOLANE_PARSE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "intf.h"

#define ISL_AF_INET 2
#define ISL_AF_INET6 10

struct isl_vlan {
	__be16 tci;
	__be16 proto;
};

/* Types of ICMP messages: echo requests, which the generator sends, and their replies. */
#define ISL_ECHO_V4 8
#define ISL_ECHO_REPLY_V4 0
#define ISL_ECHO_V6 128
#define ISL_ECHO_REPLY_V6 129

/*
 * Finds the signature behind Ethernet, at most one VLAN tag, IPv4 without options or IPv6 without
 * extension headers, and UDP or an ICMP echo. NULL: not a frame that the generator can have sent, nor
 * an answer to one.
 */
static __always_inline struct isl_signature *isl_find_signature(void *data, void *data_end)
{
	struct ethhdr *eth = data;
	void *at = eth + 1;
	__u8 upper, echo, reply;
	__be16 proto;

	if (at > data_end)
		return NULL;
	proto = eth->h_proto;
	if (proto == bpf_htons(ETH_P_8021Q)) {
		struct isl_vlan *vlan = at;

		at = vlan + 1;
		if (at > data_end)
			return NULL;
		proto = vlan->proto;
	}
	if (proto == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = at;

		at = ip + 1;
		/* The first fragment of a datagram has all headers. */
		if (at > data_end || ip->ihl != 5 || (ip->frag_off & bpf_htons(0x1fff)))
			return NULL;
		upper = ip->protocol == IPPROTO_ICMP ? IPPROTO_ICMPV6 : ip->protocol;
		echo = ISL_ECHO_V4;
		reply = ISL_ECHO_REPLY_V4;
	} else if (proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = at;

		at = ip + 1;
		if (at > data_end)
			return NULL;
		upper = ip->nexthdr;
		echo = ISL_ECHO_V6;
		reply = ISL_ECHO_REPLY_V6;
	} else {
		return NULL;
	}
	/* The header of an echo is as long as UDP's. */
	if (at + sizeof(struct udphdr) + sizeof(struct isl_signature) > data_end)
		return NULL;
	if (upper == IPPROTO_ICMPV6) {
		__u8 type = *(__u8 *)at;

		if (type != echo && type != reply)
			return NULL;
	} else if (upper != IPPROTO_UDP) {
		return NULL;
	}
	return at + sizeof(struct udphdr);
}

/*
 * Finds the destination and the VLAN (0: untagged) of an IP packet. 0: not one for a router's queue.
 * Address resolution is left to the kernel: bridges learn from it, and it is no load.
 */
static __always_inline int isl_find_destination(void *data, void *data_end, __u8 *mac, __be16 *vlan)
{
	struct ethhdr *eth = data;
	struct isl_vlan *tag = (void *)(eth + 1);

	if ((void *)(eth + 1) > data_end || (eth->h_dest[0] & 1))
		return 0;
	__builtin_memcpy(mac, eth->h_dest, ETH_ALEN);
	*vlan = 0;
	if (eth->h_proto == bpf_htons(ETH_P_8021Q)) {
		if ((void *)(tag + 1) > data_end)
			return 0;
		*vlan = tag->tci & bpf_htons(0xfff);
		return tag->proto == bpf_htons(ETH_P_IP) || tag->proto == bpf_htons(ETH_P_IPV6);
	}
	return eth->h_proto == bpf_htons(ETH_P_IP) || eth->h_proto == bpf_htons(ETH_P_IPV6);
}

/* The same for tc, where the kernel has taken the tag off already. */
static __always_inline int isl_skb_destination(struct __sk_buff *skb, __u8 *mac, __be16 *vlan)
{
	if ((skb->protocol != bpf_htons(ETH_P_IP) && skb->protocol != bpf_htons(ETH_P_IPV6)) ||
	    bpf_skb_load_bytes(skb, 0, mac, ETH_ALEN) || (mac[0] & 1))
		return 0;
	*vlan = skb->vlan_present ? bpf_htons(skb->vlan_tci & 0xfff) : 0;
	return 1;
}

/* The destination of any frame that a packet socket sees, and its VLAN, by number (0: untagged). */
static __always_inline int isl_socket_destination(struct __sk_buff *skb, __u8 *mac, __u16 *vlan)
{
	*vlan = skb->vlan_present ? skb->vlan_tci & 0xfff : 0;
	return !bpf_skb_load_bytes_relative(skb, 0, mac, ETH_ALEN, BPF_HDR_START_MAC);
}

/* Takes the VLAN tag off, as the bridge does that the router is behind. */
static __always_inline int isl_untag(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u8 macs[2 * ETH_ALEN];

	if (data + ETH_HLEN + sizeof(struct isl_vlan) > data_end)
		return 0;
	__builtin_memcpy(macs, data, sizeof(macs));
	if (bpf_xdp_adjust_head(ctx, sizeof(struct isl_vlan)))
		return 0;
	data = (void *)(long)ctx->data;
	data_end = (void *)(long)ctx->data_end;
	if (data + sizeof(macs) > data_end)
		return 0;
	__builtin_memcpy(data, macs, sizeof(macs));
	return 1;
}

/* Bytes before the data of a TCP segment or a UDP datagram; 0: neither. */
static __always_inline __u32 isl_header_bytes(struct __sk_buff *skb)
{
	__u32 at = ETH_HLEN, protocol;
	__u8 byte[2];

	if (bpf_skb_load_bytes(skb, at, byte, 1))
		return 0;
	if (byte[0] >> 4 == 6) {
		at += sizeof(struct ipv6hdr);
		if (bpf_skb_load_bytes(skb, ETH_HLEN + 6, &byte[1], 1))
			return 0;
	} else {
		at += (byte[0] & 15) * 4;
		if (bpf_skb_load_bytes(skb, ETH_HLEN + 9, &byte[1], 1))
			return 0;
	}
	protocol = byte[1];
	if (protocol == IPPROTO_UDP)
		return at + sizeof(struct udphdr);
	if (protocol != IPPROTO_TCP || bpf_skb_load_bytes(skb, at + 12, byte, 1))
		return 0;
	return at + (byte[0] >> 4) * 4;
}

/* Fills in what the kernel's routes are asked for; 0: a packet that only the kernel can forward. */
static __always_inline int isl_fib_ipv4(struct iphdr *ip, void *end, struct bpf_fib_lookup *fib)
{
	if ((void *)(ip + 1) > end || ip->ihl != 5 || ip->ttl <= 1)
		return 0;
	fib->family = ISL_AF_INET;
	fib->tos = ip->tos;
	fib->l4_protocol = ip->protocol;
	fib->tot_len = bpf_ntohs(ip->tot_len);
	fib->ipv4_src = ip->saddr;
	fib->ipv4_dst = ip->daddr;
	return 1;
}

static __always_inline int isl_fib_ipv6(struct ipv6hdr *ip, void *end, struct bpf_fib_lookup *fib)
{
	if ((void *)(ip + 1) > end || ip->hop_limit <= 1 || ip->nexthdr == IPPROTO_HOPOPTS)
		return 0;
	fib->family = ISL_AF_INET6;
	fib->flowinfo = *(__be32 *)ip & bpf_htonl(0x0fffffff);
	fib->l4_protocol = ip->nexthdr;
	fib->tot_len = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	__builtin_memcpy(fib->ipv6_src, &ip->saddr, 16);
	__builtin_memcpy(fib->ipv6_dst, &ip->daddr, 16);
	return 1;
}

/* The same for a frame; 4 or 6: the version of IP. */
static __always_inline int isl_parse_fib(void *data, void *end, struct bpf_fib_lookup *fib)
{
	struct ethhdr *eth = data;
	void *ip = eth + 1;

	if (ip > end)
		return 0;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return isl_fib_ipv4(ip, end, fib) ? 4 : 0;
	if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		return isl_fib_ipv6(ip, end, fib) ? 6 : 0;
	return 0;
}

/* What TCP's or UDP's checksum covers, as offsets in the frame. */
struct isl_covered {
	__u32 start;
	__u32 length;
	__u32 check;
	__u32 pseudo; /* sum of the pseudo header */
	__u8 protocol;
};

/* A sum of 16-bit words, one's complement (RFC 1071). */
static __always_inline __u16 isl_fold16(__u64 sum)
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
	covered->pseudo = isl_fold16((__u64)ip->saddr + ip->daddr);
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
	covered->pseudo = isl_fold16(sum);
	return 1;
}

/* Finds what the checksum covers; 0: neither TCP nor UDP, or a fragment, which never lacks its checksum. */
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

#endif
