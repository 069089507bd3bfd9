// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The host's side of a policy. isl_demux, on a NIC, finds the router that a frame is for and puts
 * the frame into that router's own queue, or drops it at once when the queue is full: before the
 * host has spent anything on it. isl_egress, on the host's side of a router's interface, says
 * which class of the NIC's queueing discipline the router's frames belong to.
 */
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>

#include "parse.h"
#include "policy.h"

/* Key: destination; value: slot. User space writes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ISL_MAX_QUEUES);
	__type(key, struct isl_route);
	__type(value, __u32);
} isl_routes SEC(".maps");

/* Key: slot; value: the host's side of the router's interface. User space writes. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, ISL_MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} isl_inlets SEC(".maps");

/* Key: index of the host's side of a router's interface; value: port. User space writes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ISL_MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} isl_port_of SEC(".maps");

/* Key: port; value: settings, and counts that isl_egress adds to. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ISL_MAX_PORTS);
	__type(key, __u32);
	__type(value, struct isl_port);
	__uint(map_flags, BPF_F_MMAPABLE);
} isl_ports SEC(".maps");

/* Preamble, gap and frame check sequence: what a frame takes on the wire beyond its bytes here. */
#define WIRE_EXTRA 24
#define WIRE_LEAST 84
#define MILLION 1000000ULL
/* Longest silence that fills a bucket: with it 100 Gbit/s stay within 64 bits. */
/* A queue that has not overflowed for this long may take a burst; some ticks of the clock. */
#define CALM_NS 20000000ULL
#define LONGEST_NS 100000000ULL

/*
 * Takes `cost` tokens, or nothing and says so. Two cores may race: then one refill is lost, never
 * won twice as much as a core's share of a microsecond.
 */
static __always_inline int isl_take(struct isl_bucket *bucket, __u64 cost, __u64 now_ns)
{
	__u64 full = bucket->depth * MILLION, passed_ns = now_ns - bucket->at_ns, tokens;

	if (passed_ns > LONGEST_NS)
		passed_ns = LONGEST_NS;
	tokens = bucket->tokens + passed_ns * bucket->rate / 1000;
	if (tokens > full)
		tokens = full;
	bucket->at_ns = now_ns;
	if (tokens < cost * MILLION) {
		bucket->tokens = tokens;
		return 0;
	}
	bucket->tokens = tokens - cost * MILLION;
	return 1;
}

static __always_inline int isl_within_rate(struct isl_bucket *buckets, __u64 bytes)
{
	__u64 wire = bytes + WIRE_EXTRA, now_ns;

	if (!buckets[ISL_FRAMES].rate && !buckets[ISL_BITS].rate)
		return 1;
	now_ns = bpf_ktime_get_ns();
	if (wire < WIRE_LEAST)
		wire = WIRE_LEAST;
	if (buckets[ISL_FRAMES].rate && !isl_take(&buckets[ISL_FRAMES], 1, now_ns))
		return 0;
	return !buckets[ISL_BITS].rate || isl_take(&buckets[ISL_BITS], wire * 8, now_ns);
}

/* Whether the router has CPU time left; two cores may race, then a refill counts twice at most. */
static __always_inline int isl_has_budget(__u32 number)
{
	struct isl_budget *budget;
	__u64 now_ns, passed_ns, spent_ns;
	__s64 left_ns;

	number--;
	budget = bpf_map_lookup_elem(&isl_budgets, &number);
	if (!budget || !budget->rate_ns)
		return 1;
	now_ns = bpf_ktime_get_ns();
	passed_ns = now_ns - budget->at_ns;
	if (passed_ns > LONGEST_NS)
		passed_ns = LONGEST_NS;
	spent_ns = *(volatile __u64 *)&budget->spent_ns;
	left_ns = budget->left_ns + (__s64)(passed_ns * (budget->rate_ns / 1000) / MILLION) -
		  (__s64)(spent_ns - budget->seen_ns);
	if (left_ns > (__s64)budget->depth_ns)
		left_ns = budget->depth_ns;
	budget->at_ns = now_ns;
	budget->seen_ns = spent_ns;
	budget->left_ns = left_ns;
	return left_ns > 0;
}

/*
 * A router that keeps its share may queue a burst; one that always has too much may not, since
 * what waits there only makes itself late and the caches cold.
 */
static __always_inline int isl_has_room(struct isl_queue *queue)
{
	__u32 waiting = queue->passed - *(volatile __u32 *)&queue->latest;
	__u64 now_ns;

	if (waiting < queue->limit)
		return 1;
	now_ns = bpf_ktime_get_coarse_ns();
	if (waiting < queue->burst && now_ns - queue->overflowed_ns > CALM_NS)
		return 1;
	queue->overflowed_ns = now_ns;
	return 0;
}

static __always_inline int isl_find(void *data, void *data_end, struct isl_route *route)
{
	struct ethhdr *eth = data;
	struct isl_vlan *vlan = (void *)(eth + 1);

	if ((void *)(eth + 1) > data_end || (eth->h_dest[0] & 1))
		return 0;
	__builtin_memcpy(route->mac, eth->h_dest, ETH_ALEN);
	route->vlan = 0;
	if (eth->h_proto == bpf_htons(ETH_P_8021Q)) {
		if ((void *)(vlan + 1) > data_end)
			return 0;
		route->vlan = vlan->tci & bpf_htons(0xfff);
		return vlan->proto == bpf_htons(ETH_P_IP) || vlan->proto == bpf_htons(ETH_P_IPV6);
	}
	/* Address resolution goes the usual way: bridges learn from it, and it is no load. */
	return eth->h_proto == bpf_htons(ETH_P_IP) || eth->h_proto == bpf_htons(ETH_P_IPV6);
}

SEC("xdp")
int isl_demux(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct isl_queue *queue;
	struct isl_route route;
	struct isl_tag *tag;
	__u32 *found, slot, number;
	__u64 bytes = data_end - data;

	if (!isl_find(data, data_end, &route))
		return XDP_PASS;
	found = bpf_map_lookup_elem(&isl_routes, &route);
	if (!found)
		return XDP_PASS;
	slot = *found;
	queue = bpf_map_lookup_elem(&isl_queues, &slot);
	if (!queue || !queue->limit)
		return XDP_PASS;
	__sync_fetch_and_add(&queue->offered, 1);
	__sync_fetch_and_add(&queue->offered_bytes, bytes + 4);
	if (!(queue->flags & ISL_QUEUE_UNCOUNTED) && !isl_has_room(queue)) {
		__sync_fetch_and_add(&queue->dropped_queue, 1);
		return XDP_DROP;
	}
	if (!isl_within_rate(queue->ingress, bytes)) {
		__sync_fetch_and_add(&queue->dropped_rate, 1);
		return XDP_DROP;
	}
	if (queue->budget && !isl_has_budget(queue->budget)) {
		__sync_fetch_and_add(&queue->dropped_cpu, 1);
		return XDP_DROP;
	}
	number = __sync_fetch_and_add(&queue->passed, 1) + 1;
	if (!bpf_xdp_adjust_meta(ctx, -(int)sizeof(*tag))) {
		tag = (void *)(long)ctx->data_meta;
		if ((void *)(tag + 1) <= (void *)(long)ctx->data) {
			tag->slot = ISL_TAG_MARK + slot;
			tag->number = number;
		}
	}
	return bpf_redirect_map(&isl_inlets, slot, XDP_PASS);
}

/* Key: port; value: the interface that its frames leave by. User space writes. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, ISL_MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} isl_uplinks SEC(".maps");

SEC("xdp")
int isl_leave(struct xdp_md *ctx)
{
	__u32 index = ctx->ingress_ifindex, *number = bpf_map_lookup_elem(&isl_port_of, &index);
	struct isl_port *port = number ? bpf_map_lookup_elem(&isl_ports, number) : NULL;
	__u64 bytes = (void *)(long)ctx->data_end - (void *)(long)ctx->data;

	if (!port || port->class || !port->uplink)
		return XDP_PASS;
	__sync_fetch_and_add(&port->offered, 1);
	__sync_fetch_and_add(&port->offered_bytes, bytes + 4);
	if (!isl_within_rate(port->egress, bytes)) {
		__sync_fetch_and_add(&port->dropped_rate, 1);
		return XDP_DROP;
	}
	return bpf_redirect_map(&isl_uplinks, *number, XDP_PASS);
}

SEC("tc")
int isl_egress(struct __sk_buff *skb)
{
	__u32 index = skb->ifindex, *number = bpf_map_lookup_elem(&isl_port_of, &index);
	struct isl_port *port = number ? bpf_map_lookup_elem(&isl_ports, number) : NULL;

	if (!port)
		return TC_ACT_UNSPEC;
	__sync_fetch_and_add(&port->offered, 1);
	__sync_fetch_and_add(&port->offered_bytes, skb->len + 4);
	if (!isl_within_rate(port->egress, skb->len)) {
		__sync_fetch_and_add(&port->dropped_rate, 1);
		return TC_ACT_SHOT;
	}
	if (port->class)
		skb->priority = port->class;
	if (!port->uplink)
		return TC_ACT_UNSPEC;
	return bpf_redirect(port->uplink, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
