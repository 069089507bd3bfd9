/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef ISOLANE_PARSE_H
#define ISOLANE_PARSE_H

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "intf.h"

struct isl_vlan {
	__be16 tci;
	__be16 proto;
};

/*
 * Finds the signature behind Ethernet, at most one VLAN tag, IPv4 without options or IPv6 without
 * extension headers, and UDP. NULL: not a frame that the generator can have sent.
 */
static __always_inline struct isl_signature *isl_find_signature(void *data, void *data_end)
{
	struct ethhdr *eth = data;
	void *at = eth + 1;
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
		if (at > data_end || ip->ihl != 5 || ip->protocol != IPPROTO_UDP ||
		    (ip->frag_off & bpf_htons(0x3fff)))
			return NULL;
	} else if (proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = at;

		at = ip + 1;
		if (at > data_end || ip->nexthdr != IPPROTO_UDP)
			return NULL;
	} else {
		return NULL;
	}
	at += sizeof(struct udphdr);
	if (at + sizeof(struct isl_signature) > data_end)
		return NULL;
	return at;
}

#endif
