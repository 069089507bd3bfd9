// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The host's side of a policy. isl_demux (on a NIC whose driver does not run XDP: isl_demux_tc) finds
 * the router that a frame is for and puts the frame into that router's own queue, or drops it at once
 * when the queue is full: before the host has spent anything on it. isl_egress_xdp and isl_egress_tc,
 * on the host's side of a router's interface, send the router's frames to their NIC, in their class.
 */
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>

#include "parse.h"
#include "policy.h"
#include "checksum.h"
#include "share.h"

/* Forwarding table. Key: MAC address and VLAN; value: slot. User space writes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ISL_MAX_QUEUES);
	__type(key, struct isl_fdb_key);
	__type(value, __u32);
} isl_fdb SEC(".maps");

/* Ingress devmap. Key: slot; value: the host's side of the router's interface. User space writes. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, ISL_MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} isl_ingress_dev SEC(".maps");

/* The same for tc's programs, which may not share a devmap with XDP's. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ISL_MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} isl_ingress_tc SEC(".maps");

/* Key: index of the host's side of a router's interface; value: port. User space writes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ISL_MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} isl_port_of SEC(".maps");

/* Key: port; value: settings, and counts that isl_egress_xdp and isl_egress_tc add to. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, ISL_MAX_PORTS);
	__type(key, __u32);
	__type(value, struct isl_port);
	__uint(map_flags, BPF_F_MMAPABLE);
} isl_ports SEC(".maps");

/* Preamble, gap and frame check sequence: what a frame takes on the wire beyond its bytes here. */
#define WIRE_OVERHEAD_BYTES 24
#define MIN_WIRE_BYTES 84
#define MILLION 1000000ULL
/* A full queue that nobody serves is probed again after this long. */
#define PROBE_MS 100
/* Silences up to this need no division: with it 1 Tbit/s stays within 64 bits. */
#define MAX_REFILL_NS 10000000ULL
/* IPv4 hosts take so much in any case, and so do links: no need to check the MTU. */
#define ALWAYS_FITS_BYTES (ETH_HLEN + 576)

/* What a bucket holds after a time, in millionths of a token; `full` when it is full. */
static __always_inline __u64 refilled(struct isl_bucket *bucket, __u64 full, __u64 passed_ns)
{
	__u64 tokens = bucket->tokens, rate = bucket->rate, passed_us = passed_ns / 1000;

	if (tokens >= full)
		return full;
	if (passed_ns <= MAX_REFILL_NS)
		tokens += passed_ns * rate / 1000;
	else if (passed_us < (full - tokens) / rate)
		/* Slow, or deep: what fills the rest is more than has passed, so nothing overflows. */
		tokens += passed_us * rate;
	else
		tokens = full;
	return tokens < full ? tokens : full;
}

/*
 * Takes `cost` tokens, or nothing and says so. What costs more than the bucket holds (a jumbo
 * frame, segments that travel as one) takes a full one, and the rest before the next refill. Two
 * cores may race: then one refill is lost, never won twice as much as a core's share of a
 * microsecond.
 */
static __always_inline int take_tokens(struct isl_bucket *bucket, __u64 cost, __u64 now_ns)
{
	__u64 full = bucket->depth * MILLION, refilled_ns = bucket->refilled_ns, passed_ns = 0,
	      tokens;

	cost *= MILLION;
	if (now_ns > refilled_ns)
		passed_ns = now_ns - refilled_ns;
	tokens = refilled(bucket, full, passed_ns);
	if (now_ns > refilled_ns)
		bucket->refilled_ns = now_ns;
	if (tokens < cost && tokens < full) {
		bucket->tokens = tokens;
		return 0;
	}
	if (tokens < cost) {
		bucket->refilled_ns = now_ns + (cost - tokens) * 1000 / bucket->rate;
		tokens = cost;
	}
	bucket->tokens = tokens - cost;
	return 1;
}

static __always_inline int within_rate(struct isl_bucket *buckets, __u64 frames, __u64 bytes)
{
	__u64 wire = bytes + frames * WIRE_OVERHEAD_BYTES, now_ns;

	if (!buckets[ISL_FRAMES].rate && !buckets[ISL_BITS].rate)
		return 1;
	now_ns = bpf_ktime_get_ns();
	if (wire < MIN_WIRE_BYTES)
		wire = MIN_WIRE_BYTES;
	if (buckets[ISL_FRAMES].rate && !take_tokens(&buckets[ISL_FRAMES], frames, now_ns))
		return 0;
	return !buckets[ISL_BITS].rate || take_tokens(&buckets[ISL_BITS], wire * 8, now_ns);
}

/* Whether the router has CPU time left; two cores may race, then a refill counts twice at most. */
static __always_inline int has_budget(__u32 number)
{
	struct isl_budget *budget;
	__u64 now_ns, passed_ns, spent_ns;
	__s64 left_ns;

	number--;
	budget = bpf_map_lookup_elem(&isl_budgets, &number);
	if (!budget || !budget->rate_ns)
		return 1;
	now_ns = bpf_ktime_get_ns();
	passed_ns = now_ns - budget->refilled_ns;
	if (passed_ns > MAX_REFILL_NS)
		passed_ns = MAX_REFILL_NS;
	spent_ns = *(volatile __u64 *)&budget->spent_ns;
	left_ns = budget->left_ns + (__s64)(passed_ns * (budget->rate_ns / 1000) / MILLION) -
		  (__s64)(spent_ns - budget->charged_ns);
	if (left_ns > (__s64)budget->depth_ns)
		left_ns = budget->depth_ns;
	budget->refilled_ns = now_ns;
	budget->charged_ns = spent_ns;
	budget->left_ns = left_ns;
	return left_ns > 0;
}

/*
 * Whether to let a frame into a full queue that nobody has served for a while. The kernel may have
 * lost what waited (an interface that went down): nobody tells, until another frame gets through.
 */
static __always_inline int probe_full_queue(struct isl_queue *queue, __u32 dequeued, __u64 now_ns)
{
	__u32 now_ms = now_ns / MILLION;

	if (queue->full_at == dequeued + 1 && now_ms - queue->probed_ms < PROBE_MS)
		return 0;
	queue->probed_ms = now_ms;
	if (queue->full_at == dequeued + 1)
		return 1;
	queue->full_at = dequeued + 1;
	return 0;
}

/*
 * A router that keeps its share may queue a burst; one that always has too much may not, since
 * what waits there only makes itself late and the caches cold.
 */
static __always_inline int within_limit(struct isl_queue *queue, int presses)
{
	__u32 dequeued = *(volatile __u32 *)&queue->dequeued, waiting = queue->enqueued - dequeued;

	if (waiting < queue->limit || (waiting < queue->burst_limit && !presses)) {
		if (queue->pressure)
			queue->pressure--;
		return 1;
	}
	return probe_full_queue(queue, dequeued, bpf_ktime_get_coarse_ns());
}

/* Whether an interface takes a frame of so many bytes; the kernel would drop it and tell nobody. */
static __always_inline int fits(void *ctx, __u32 ifindex, __u32 bytes)
{
	__u32 packet = bytes - ETH_HLEN;

	return bytes <= ALWAYS_FITS_BYTES ||
	       bpf_check_mtu(ctx, ifindex, &packet, 0, 0) != BPF_MTU_CHK_RET_FRAG_NEEDED;
}

/* Counts frames for a queue; whether they may go in. */
static __always_inline int admit(struct isl_queue *queue, __u32 slot, __u32 ifindex, __u64 frames,
				 __u64 bytes)
{
	__u32 zero = 0, index = queue->budget - 1, presses;
	struct isl_budget *budget = NULL;
	struct isl_core *core = NULL;

	__sync_fetch_and_add(&queue->offered, frames);
	__sync_fetch_and_add(&queue->offered_bytes, bytes + ISL_FCS_BYTES * frames);
	if (queue->budget)
		budget = bpf_map_lookup_elem(&isl_budgets, &index);
	if (budget && budget->weight)
		core = bpf_map_lookup_elem(&isl_cores, &zero);
	if (core)
		isl_charge(budget, core, &core->pollers[ifindex % ISL_POLLERS]);
	presses = isl_presses(core, queue);
	if (core && !isl_within_share(core, budget, queue, slot, presses)) {
		isl_refuse_frame(core, budget, queue);
		__sync_fetch_and_add(&queue->dropped_share, frames);
		return 0;
	}
	if (!queue->uncounted && !within_limit(queue, presses)) {
		isl_refuse_frame(core, budget, queue);
		__sync_fetch_and_add(&queue->dropped_queue, frames);
		return 0;
	}
	if (!within_rate(queue->ingress, frames, bytes)) {
		__sync_fetch_and_add(&queue->dropped_rate, frames);
		return 0;
	}
	if (queue->budget && !has_budget(queue->budget)) {
		__sync_fetch_and_add(&queue->dropped_cpu, frames);
		return 0;
	}
	return 1;
}

/*
 * Gives a frame its number in the queue. Some drivers have no place for one (netvsc, ena): nobody
 * would count that such a frame has left the queue, so it is no part of it.
 */
static __always_inline void number_frame(struct xdp_md *ctx, struct isl_queue *queue, __u32 slot)
{
	struct isl_tag *tag;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*tag))) {
		__sync_fetch_and_add(&queue->untagged, 1);
		return;
	}
	tag = (void *)(long)ctx->data_meta;
	if ((void *)(tag + 1) <= (void *)(long)ctx->data) {
		tag->slot = ISL_TAG_MARK + slot;
		tag->number = __sync_fetch_and_add(&queue->enqueued, 1) + 1;
	}
}

SEC("xdp.frags")
int isl_demux(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u32 *found, *ifindex, slot, first = data_end - data, bytes = bpf_xdp_get_buff_len(ctx);
	struct isl_queue *queue;
	struct isl_fdb_key key;
	int verdict;

	if (!isl_find_destination(data, data_end, key.mac, &key.vlan))
		return XDP_PASS;
	found = bpf_map_lookup_elem(&isl_fdb, &key);
	slot = found ? *found : 0;
	queue = found ? bpf_map_lookup_elem(&isl_queues, &slot) : NULL;
	if (!queue || !queue->limit) {
		isl_count_other(ctx->ingress_ifindex);
		return XDP_PASS;
	}
	if (!admit(queue, slot, ctx->ingress_ifindex, 1, bytes))
		return XDP_DROP;
	/* A tap takes no frame in several parts from XDP; the host's bridge puts it together. */
	if (queue->uncounted && bytes > first)
		return XDP_PASS;
	ifindex = bpf_map_lookup_elem(&isl_ingress_dev, &slot);
	if (ifindex && !fits(ctx, *ifindex, key.vlan ? bytes - sizeof(struct isl_vlan) : bytes)) {
		__sync_fetch_and_add(&queue->dropped_size, 1);
		return XDP_DROP;
	}
	verdict = bpf_redirect_map(&isl_ingress_dev, slot, XDP_PASS);
	if (verdict != XDP_REDIRECT)
		return verdict;
	if (key.vlan && !isl_untag(ctx))
		return XDP_DROP;
	isl_add_checksum(ctx);
	number_frame(ctx, queue, slot);
	return verdict;
}

/* Key: port; value: the interface that its frames leave by. User space writes. */
struct {
	__uint(type, BPF_MAP_TYPE_DEVMAP);
	__uint(max_entries, ISL_MAX_PORTS);
	__type(key, __u32);
	__type(value, __u32);
} isl_uplinks SEC(".maps");

SEC("xdp.frags")
int isl_egress_xdp(struct xdp_md *ctx)
{
	__u32 index = ctx->ingress_ifindex, *number = bpf_map_lookup_elem(&isl_port_of, &index);
	struct isl_port *port = number ? bpf_map_lookup_elem(&isl_ports, number) : NULL;
	__u32 bytes = bpf_xdp_get_buff_len(ctx);
	int verdict;

	if (!port || port->class || !port->uplink)
		return XDP_PASS;
	__sync_fetch_and_add(&port->offered, 1);
	__sync_fetch_and_add(&port->offered_bytes, bytes + ISL_FCS_BYTES);
	if (!within_rate(port->egress, 1, bytes)) {
		__sync_fetch_and_add(&port->dropped_rate, 1);
		return XDP_DROP;
	}
	if (!fits(ctx, port->uplink, bytes)) {
		__sync_fetch_and_add(&port->dropped_size, 1);
		return XDP_DROP;
	}
	verdict = bpf_redirect_map(&isl_uplinks, *number, XDP_PASS);
	if (verdict == XDP_REDIRECT)
		isl_add_checksum(ctx);
	return verdict;
}

/* Frames that the uplink will make of it: what TCP's offloads have put together. */
static __always_inline __u32 wire_frames(struct __sk_buff *skb, __u32 headers)
{
	__u32 size = skb->gso_size;

	if (!size || !headers || skb->len <= headers)
		return 1;
	return (skb->len - headers + size - 1) / size;
}

SEC("tc")
int isl_egress_tc(struct __sk_buff *skb)
{
	__u32 index = skb->ifindex, *number = bpf_map_lookup_elem(&isl_port_of, &index);
	struct isl_port *port = number ? bpf_map_lookup_elem(&isl_ports, number) : NULL;
	__u32 headers = skb->gso_size ? isl_header_bytes(skb) : 0, frames, mtu = 0;
	__u64 bytes;

	if (!port)
		return TC_ACT_UNSPEC;
	frames = wire_frames(skb, headers);
	bytes = skb->len + (__u64)(frames - 1) * headers;
	__sync_fetch_and_add(&port->offered, frames);
	__sync_fetch_and_add(&port->offered_bytes, bytes + ISL_FCS_BYTES * frames);
	if (!within_rate(port->egress, frames, bytes)) {
		__sync_fetch_and_add(&port->dropped_rate, frames);
		return TC_ACT_SHOT;
	}
	if (port->class)
		skb->priority = port->class;
	if (!port->uplink)
		return TC_ACT_UNSPEC;
	if (bpf_check_mtu(skb, port->uplink, &mtu, 0, BPF_MTU_CHK_SEGS) > 0) {
		__sync_fetch_and_add(&port->dropped_size, frames);
		return TC_ACT_SHOT;
	}
	return bpf_redirect(port->uplink, 0);
}

/*
 * The demultiplexer of a NIC whose driver does not run XDP. The frame keeps all that the kernel
 * has noted about it (segments that travel as one, checksums and VLAN tags that are elsewhere), but
 * not a number, so nobody counts what leaves the queue.
 */
SEC("tc")
int isl_demux_tc(struct __sk_buff *skb)
{
	__u32 headers = skb->gso_size ? isl_header_bytes(skb) : 0,
	      frames = wire_frames(skb, headers);
	struct isl_queue *queue;
	struct isl_fdb_key key;
	__u32 *found, *ifindex, slot, mtu = 0;

	if (!isl_skb_destination(skb, key.mac, &key.vlan))
		return TC_ACT_UNSPEC;
	found = bpf_map_lookup_elem(&isl_fdb, &key);
	if (!found)
		return TC_ACT_UNSPEC;
	slot = *found;
	queue = bpf_map_lookup_elem(&isl_queues, &slot);
	ifindex = bpf_map_lookup_elem(&isl_ingress_tc, &slot);
	if (!queue || !queue->limit || !ifindex)
		return TC_ACT_UNSPEC;
	if (!admit(queue, slot, skb->ifindex, frames, skb->len + (__u64)(frames - 1) * headers))
		return TC_ACT_SHOT;
	if (bpf_check_mtu(skb, *ifindex, &mtu, 0, BPF_MTU_CHK_SEGS) > 0) {
		__sync_fetch_and_add(&queue->dropped_size, frames);
		return TC_ACT_SHOT;
	}
	if (skb->vlan_present && bpf_skb_vlan_pop(skb))
		return TC_ACT_SHOT;
	return bpf_redirect(*ifindex, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
