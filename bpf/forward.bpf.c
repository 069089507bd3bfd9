// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The router's side of a policy, on its receiving interface. It notes that a frame has left the
 * queue, so that isl_demux knows what waits there; then the kernel forwards the frame, or, where
 * the policy says so, this program does, by the router's own routes and neighbours. Whatever is
 * unusual goes to the kernel: that is where ICMP, fragments, local delivery and learning are.
 */
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>

#include "parse.h"
#include "policy.h"
#include "kernel.h"

#define AF_INET 2
#define AF_INET6 10

/* Where a router's frames leave: the queue that they came by and the interface that routes say. */
struct isl_way {
	__u32 slot;
	__u32 ifindex; /* in the router's namespace */
};

/* Key: way; value: entry of isl_outlets. User space writes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ISL_MAX_PORTS);
	__type(key, struct isl_way);
	__type(value, __u32);
} isl_ways SEC(".maps");

/* Value: interface that frames leave by, whatever its namespace. User space writes. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, ISL_MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} isl_outlets SEC(".maps");

/* RFC 1624: one less in the upper byte of a 16-bit word. */
static __always_inline void isl_less_ttl(struct iphdr *ip)
{
	__u32 check = ip->check;

	check += bpf_htons(0x0100);
	ip->check = check + (check >= 0xffff);
	ip->ttl--;
}

static __always_inline int isl_v4(struct iphdr *ip, void *end, struct bpf_fib_lookup *fib)
{
	if ((void *)(ip + 1) > end || ip->ihl != 5 || ip->ttl <= 1)
		return 0;
	fib->family = AF_INET;
	fib->tos = ip->tos;
	fib->l4_protocol = ip->protocol;
	fib->tot_len = bpf_ntohs(ip->tot_len);
	fib->ipv4_src = ip->saddr;
	fib->ipv4_dst = ip->daddr;
	return 1;
}

static __always_inline int isl_v6(struct ipv6hdr *ip, void *end, struct bpf_fib_lookup *fib)
{
	if ((void *)(ip + 1) > end || ip->hop_limit <= 1 || ip->nexthdr == IPPROTO_HOPOPTS)
		return 0;
	fib->family = AF_INET6;
	fib->flowinfo = *(__be32 *)ip & bpf_htonl(0x0fffffff);
	fib->l4_protocol = ip->nexthdr;
	fib->tot_len = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	__builtin_memcpy(fib->ipv6_src, &ip->saddr, 16);
	__builtin_memcpy(fib->ipv6_dst, &ip->daddr, 16);
	return 1;
}

static __always_inline int isl_forward(struct xdp_md *ctx, struct isl_queue *queue, __u32 slot)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct iphdr *ip = (void *)(eth + 1);
	struct bpf_fib_lookup fib = {};
	struct isl_way way = { .slot = slot };
	__u32 *outlet;
	int v4;

	if ((void *)(eth + 1) > end)
		return XDP_PASS;
	v4 = eth->h_proto == bpf_htons(ETH_P_IP);
	if (v4 ? !isl_v4(ip, end, &fib) :
		 eth->h_proto != bpf_htons(ETH_P_IPV6) || !isl_v6((void *)ip, end, &fib))
		return XDP_PASS;
	fib.ifindex = ctx->ingress_ifindex;
	if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return XDP_PASS;
	way.ifindex = fib.ifindex;
	outlet = bpf_map_lookup_elem(&isl_ways, &way);
	if (!outlet)
		return XDP_PASS;
	if (v4)
		isl_less_ttl(ip);
	else
		((struct ipv6hdr *)ip)->hop_limit--;
	__builtin_memcpy(eth->h_dest, fib.dmac, ETH_ALEN);
	__builtin_memcpy(eth->h_source, fib.smac, ETH_ALEN);
	queue->forwarded++;
	return bpf_redirect_map(&isl_outlets, *outlet, XDP_DROP);
}

/* Adds what the polling thread has run for since the last frame to its router's account. */
static __always_inline void isl_spend(struct isl_queue *queue)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 ran_ns = task->se.sum_exec_runtime, more_ns = ran_ns - queue->ran_ns;
	__u32 number = queue->budget - 1, thread = task->pid;
	struct isl_budget *budget = bpf_map_lookup_elem(&isl_budgets, &number);

	if (budget && queue->thread == thread && more_ns)
		__sync_fetch_and_add(&budget->spent_ns, more_ns);
	queue->thread = thread;
	queue->ran_ns = ran_ns;
}

SEC("xdp.frags")
int isl_serve(struct xdp_md *ctx)
{
	struct isl_tag *tag = (void *)(long)ctx->data_meta;
	struct isl_queue *queue;
	__u32 slot;

	if ((void *)(tag + 1) > (void *)(long)ctx->data)
		return XDP_PASS;
	slot = tag->slot - ISL_TAG_MARK;
	queue = bpf_map_lookup_elem(&isl_queues, &slot);
	if (!queue)
		return XDP_PASS;
	*(volatile __u32 *)&queue->latest = tag->number;
	queue->served++;
	if (queue->budget)
		isl_spend(queue);
	/* Frames that differ in what stands before them are not merged by GRO. */
	bpf_xdp_adjust_meta(ctx, sizeof(*tag));
	return queue->flags & ISL_QUEUE_XDP ? isl_forward(ctx, queue, slot) : XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
