// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What refusing a frame can cost on a driver at best: XDP programs that drop whatever comes. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

SEC("xdp.frags")
int drop_all(struct xdp_md *ctx)
{
	return XDP_DROP;
}

/* The least that one can do who tells frames apart: it reads whom each is for. */
SEC("xdp.frags")
int drop_known(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;

	if ((void *)(eth + 1) > (void *)(long)ctx->data_end)
		return XDP_PASS;
	return eth->h_dest[0] & 1 ? XDP_PASS : XDP_DROP;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
