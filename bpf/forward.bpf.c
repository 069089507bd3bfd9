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

/* Key: redirect key; value: entry of the egress devmap. User space writes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ISL_MAX_PORTS);
	__type(key, struct isl_redirect_key);
	__type(value, __u32);
} isl_redirects SEC(".maps");

/* Egress devmap. Key: number; value: interface that frames leave by, whatever its namespace. User space writes. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, ISL_MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} isl_egress_dev SEC(".maps");

/* RFC 1624: one less in the upper byte of a 16-bit word. */
static __always_inline void decrement_ttl(struct iphdr *ip)
{
	__u32 check = ip->check;

	check += bpf_htons(0x0100);
	ip->check = check + (check >= 0xffff);
	ip->ttl--;
}

static __always_inline int forward(struct xdp_md *ctx, struct isl_queue *queue, __u32 slot)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct bpf_fib_lookup fib = {};
	struct isl_redirect_key key = { .slot = slot };
	__u32 *number;
	int version = isl_parse_fib(data, end, &fib);

	if (!version)
		return XDP_PASS;
	fib.ifindex = ctx->ingress_ifindex;
	if (bpf_fib_lookup(ctx, &fib, sizeof(fib), 0) != BPF_FIB_LKUP_RET_SUCCESS)
		return XDP_PASS;
	key.ifindex = fib.ifindex;
	number = bpf_map_lookup_elem(&isl_redirects, &key);
	if (!number)
		return XDP_PASS;
	if (version == 4)
		decrement_ttl((void *)(eth + 1));
	else
		((struct ipv6hdr *)(eth + 1))->hop_limit--;
	__builtin_memcpy(eth->h_dest, fib.dmac, ETH_ALEN);
	__builtin_memcpy(eth->h_source, fib.smac, ETH_ALEN);
	queue->forwarded++;
	queue->forwarded_bytes += bpf_xdp_get_buff_len(ctx) + ISL_FCS_BYTES;
	return bpf_redirect_map(&isl_egress_dev, *number, XDP_DROP);
}

/* Adds what the polling thread has run for since the last frame to its router's budget. */
static __always_inline void charge_budget(struct isl_queue *queue)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 ran_ns = task->se.sum_exec_runtime, more_ns = ran_ns - queue->thread_ran_ns;
	__u32 number = queue->budget - 1, thread = task->pid;
	struct isl_budget *budget = bpf_map_lookup_elem(&isl_budgets, &number);

	if (budget && queue->thread == thread && more_ns)
		__sync_fetch_and_add(&budget->spent_ns, more_ns);
	if (budget && budget->weight && task->se.parent) {
		budget->group_ns = task->se.parent->sum_exec_runtime;
		budget->served++;
	}
	queue->thread = thread;
	queue->thread_ran_ns = ran_ns;
}

SEC("xdp.frags")
int isl_router_rx(struct xdp_md *ctx)
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
	*(volatile __u32 *)&queue->dequeued = tag->number;
	queue->served++;
	if (queue->budget)
		charge_budget(queue);
	else
		/* What it runs for without a cap is not charged by a later one. */
		queue->thread = 0;
	/* Frames that differ in their metadata are not merged by GRO. */
	bpf_xdp_adjust_meta(ctx, sizeof(*tag));
	return queue->forward_xdp ? forward(ctx, queue, slot) : XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
