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
#include "checksum.h"

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

/* The same for tc's programs, which may not share a devmap with XDP's. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ISL_MAX_QUEUES);
	__type(key, __u32);
	__type(value, __u32);
} isl_inlets_tc SEC(".maps");

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
/* A queue that has not overflowed for this long may take a burst; some ticks of the clock. */
#define CALM_NS 20000000ULL
/* A full queue that nobody serves is tried again after this long. */
#define TRY_MS 100
/* Longest silence that fills a bucket: with it 100 Gbit/s stay within 64 bits. */
#define LONGEST_NS 100000000ULL
/* IPv4 hosts take so much in any case, and so do links: nobody looks whether it fits. */
#define FITS_BYTES (ETH_HLEN + 576)

/*
 * Takes `cost` tokens, or nothing and says so. What costs more than the bucket holds (a jumbo
 * frame, segments that travel as one) takes a full one, and the rest before the next refill. Two
 * cores may race: then one refill is lost, never won twice as much as a core's share of a
 * microsecond.
 */
static __always_inline int isl_take(struct isl_bucket *bucket, __u64 cost, __u64 now_ns)
{
	__u64 full = bucket->depth * MILLION, at_ns = bucket->at_ns, passed_ns = 0, tokens;

	cost *= MILLION;
	if (now_ns > at_ns)
		passed_ns = now_ns - at_ns;
	if (passed_ns > LONGEST_NS)
		passed_ns = LONGEST_NS;
	tokens = bucket->tokens + passed_ns * bucket->rate / 1000;
	if (tokens > full)
		tokens = full;
	if (now_ns > at_ns)
		bucket->at_ns = now_ns;
	if (tokens < cost && tokens < full) {
		bucket->tokens = tokens;
		return 0;
	}
	if (tokens < cost) {
		bucket->at_ns = now_ns + (cost - tokens) * 1000 / bucket->rate;
		tokens = cost;
	}
	bucket->tokens = tokens - cost;
	return 1;
}

static __always_inline int isl_within_rate(struct isl_bucket *buckets, __u64 frames, __u64 bytes)
{
	__u64 wire = bytes + frames * WIRE_EXTRA, now_ns;

	if (!buckets[ISL_FRAMES].rate && !buckets[ISL_BITS].rate)
		return 1;
	now_ns = bpf_ktime_get_ns();
	if (wire < WIRE_LEAST)
		wire = WIRE_LEAST;
	if (buckets[ISL_FRAMES].rate && !isl_take(&buckets[ISL_FRAMES], frames, now_ns))
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
 * Whether to let a frame into a full queue that nobody has served for a while. The kernel may have
 * lost what waited (an interface that went down): nobody tells, until another frame gets through.
 */
static __always_inline int isl_try(struct isl_queue *queue, __u32 latest, __u64 now_ns)
{
	__u32 now_ms = now_ns / MILLION;

	if (queue->seen == latest + 1 && now_ms - queue->tried_ms < TRY_MS)
		return 0;
	queue->tried_ms = now_ms;
	if (queue->seen == latest + 1)
		return 1;
	queue->seen = latest + 1;
	return 0;
}

/*
 * A router that keeps its share may queue a burst; one that always has too much may not, since
 * what waits there only makes itself late and the caches cold.
 */
static __always_inline int isl_has_room(struct isl_queue *queue)
{
	__u32 latest = *(volatile __u32 *)&queue->latest, waiting = queue->passed - latest;
	__u64 now_ns;

	if (waiting < queue->limit)
		return 1;
	now_ns = bpf_ktime_get_coarse_ns();
	if (waiting < queue->burst && now_ns - queue->overflowed_ns > CALM_NS)
		return 1;
	queue->overflowed_ns = now_ns;
	return isl_try(queue, latest, now_ns);
}

/* Whether an interface takes a frame of so many bytes; the kernel would drop it and tell nobody. */
static __always_inline int isl_fits(void *ctx, __u32 ifindex, __u32 bytes)
{
	__u32 packet = bytes - ETH_HLEN;

	return bytes <= FITS_BYTES ||
	       bpf_check_mtu(ctx, ifindex, &packet, 0, 0) != BPF_MTU_CHK_RET_FRAG_NEEDED;
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

/* Counts frames for a queue; whether they may go in. */
static __always_inline int isl_admit(struct isl_queue *queue, __u64 frames, __u64 bytes)
{
	__sync_fetch_and_add(&queue->offered, frames);
	__sync_fetch_and_add(&queue->offered_bytes, bytes + 4 * frames);
	if (!(queue->flags & ISL_QUEUE_UNCOUNTED) && !isl_has_room(queue)) {
		__sync_fetch_and_add(&queue->dropped_queue, frames);
		return 0;
	}
	if (!isl_within_rate(queue->ingress, frames, bytes)) {
		__sync_fetch_and_add(&queue->dropped_rate, frames);
		return 0;
	}
	if (queue->budget && !isl_has_budget(queue->budget)) {
		__sync_fetch_and_add(&queue->dropped_cpu, frames);
		return 0;
	}
	return 1;
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

static __always_inline void isl_number(struct xdp_md *ctx, struct isl_queue *queue, __u32 slot)
{
	__u32 number = __sync_fetch_and_add(&queue->passed, 1) + 1;
	struct isl_tag *tag;

	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(*tag)))
		return;
	tag = (void *)(long)ctx->data_meta;
	if ((void *)(tag + 1) <= (void *)(long)ctx->data) {
		tag->slot = ISL_TAG_MARK + slot;
		tag->number = number;
	}
}

SEC("xdp.frags")
int isl_demux(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	__u32 *found, *inlet, slot, first = data_end - data, bytes = bpf_xdp_get_buff_len(ctx);
	struct isl_queue *queue;
	struct isl_route route;
	int verdict;

	if (!isl_find(data, data_end, &route))
		return XDP_PASS;
	found = bpf_map_lookup_elem(&isl_routes, &route);
	if (!found)
		return XDP_PASS;
	slot = *found;
	queue = bpf_map_lookup_elem(&isl_queues, &slot);
	if (!queue || !queue->limit)
		return XDP_PASS;
	if (!isl_admit(queue, 1, bytes))
		return XDP_DROP;
	/* A tap takes no frame in several parts from XDP; the host's bridge puts it together. */
	if ((queue->flags & ISL_QUEUE_UNCOUNTED) && bytes > first)
		return XDP_PASS;
	inlet = bpf_map_lookup_elem(&isl_inlets, &slot);
	if (inlet && !isl_fits(ctx, *inlet, route.vlan ? bytes - sizeof(struct isl_vlan) : bytes)) {
		__sync_fetch_and_add(&queue->dropped_size, 1);
		return XDP_DROP;
	}
	verdict = bpf_redirect_map(&isl_inlets, slot, XDP_PASS);
	if (verdict != XDP_REDIRECT)
		return verdict;
	if (route.vlan && !isl_untag(ctx))
		return XDP_DROP;
	isl_complete(ctx);
	isl_number(ctx, queue, slot);
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
int isl_leave(struct xdp_md *ctx)
{
	__u32 index = ctx->ingress_ifindex, *number = bpf_map_lookup_elem(&isl_port_of, &index);
	struct isl_port *port = number ? bpf_map_lookup_elem(&isl_ports, number) : NULL;
	__u32 bytes = bpf_xdp_get_buff_len(ctx);
	int verdict;

	if (!port || port->class || !port->uplink)
		return XDP_PASS;
	__sync_fetch_and_add(&port->offered, 1);
	__sync_fetch_and_add(&port->offered_bytes, bytes + 4);
	if (!isl_within_rate(port->egress, 1, bytes)) {
		__sync_fetch_and_add(&port->dropped_rate, 1);
		return XDP_DROP;
	}
	if (!isl_fits(ctx, port->uplink, bytes)) {
		__sync_fetch_and_add(&port->dropped_size, 1);
		return XDP_DROP;
	}
	verdict = bpf_redirect_map(&isl_uplinks, *number, XDP_PASS);
	if (verdict == XDP_REDIRECT)
		isl_complete(ctx);
	return verdict;
}

/* Bytes before the data of a TCP segment or a UDP datagram; 0: neither. */
static __always_inline __u32 isl_headers(struct __sk_buff *skb)
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

/* Frames that the uplink will make of it: what TCP's offloads have put together. */
static __always_inline __u32 isl_frames(struct __sk_buff *skb, __u32 headers)
{
	__u32 size = skb->gso_size;

	if (!size || !headers || skb->len <= headers)
		return 1;
	return (skb->len - headers + size - 1) / size;
}

SEC("tc")
int isl_egress(struct __sk_buff *skb)
{
	__u32 index = skb->ifindex, *number = bpf_map_lookup_elem(&isl_port_of, &index);
	struct isl_port *port = number ? bpf_map_lookup_elem(&isl_ports, number) : NULL;
	__u32 headers = skb->gso_size ? isl_headers(skb) : 0, frames, mtu = 0;
	__u64 bytes;

	if (!port)
		return TC_ACT_UNSPEC;
	frames = isl_frames(skb, headers);
	bytes = skb->len + (__u64)(frames - 1) * headers;
	__sync_fetch_and_add(&port->offered, frames);
	__sync_fetch_and_add(&port->offered_bytes, bytes + 4 * frames);
	if (!isl_within_rate(port->egress, frames, bytes)) {
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
	__u32 headers = skb->gso_size ? isl_headers(skb) : 0, frames = isl_frames(skb, headers);
	struct isl_queue *queue;
	struct isl_route route;
	__u32 *found, *inlet, slot, mtu = 0;

	if ((skb->protocol != bpf_htons(ETH_P_IP) && skb->protocol != bpf_htons(ETH_P_IPV6)) ||
	    bpf_skb_load_bytes(skb, 0, route.mac, ETH_ALEN) || (route.mac[0] & 1))
		return TC_ACT_UNSPEC;
	route.vlan = skb->vlan_present ? bpf_htons(skb->vlan_tci & 0xfff) : 0;
	found = bpf_map_lookup_elem(&isl_routes, &route);
	if (!found)
		return TC_ACT_UNSPEC;
	slot = *found;
	queue = bpf_map_lookup_elem(&isl_queues, &slot);
	inlet = bpf_map_lookup_elem(&isl_inlets_tc, &slot);
	if (!queue || !queue->limit || !inlet)
		return TC_ACT_UNSPEC;
	if (!isl_admit(queue, frames, skb->len + (__u64)(frames - 1) * headers))
		return TC_ACT_SHOT;
	if (bpf_check_mtu(skb, *inlet, &mtu, 0, BPF_MTU_CHK_SEGS) > 0) {
		__sync_fetch_and_add(&queue->dropped_size, frames);
		return TC_ACT_SHOT;
	}
	if (skb->vlan_present && bpf_skb_vlan_pop(skb))
		return TC_ACT_SHOT;
	return bpf_redirect(*inlet, 0);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
