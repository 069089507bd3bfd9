// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What a network back-end's uplink lets in, and for whom: as much as the router has buffers for, and no
 * more than is still free in the uplink's ring. isl_admit decides, on the back-end's socket, before
 * the kernel copies a frame. isl_refuse does so before the kernel makes a packet of it, where a driver runs
 * it, and hands what is let in to the back-end there and then if that has a socket for it; what passes is
 * decided on by isl_admit all the same.
 */
#include <stdbool.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_helpers.h>

#include "admission.h"
#include "parse.h"
#include "checksum.h"

/* Key: address in a LAN; value: entry of isl_entries. User space writes. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1);
	__type(key, struct isl_lan_address);
	__type(value, __u32);
} isl_addresses SEC(".maps");

/*
 * Entry ISL_ADMIT_ALL is of the whole ring, and refuses what is for nobody here; ISL_ADMIT_OTHERS is of
 * frames for several ports, those from ISL_ADMIT_FIRST on are of ports. Size set when loaded.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct isl_admission);
	__uint(map_flags, BPF_F_MMAPABLE);
} isl_entries SEC(".maps");

/* Key: receive queue; value: AF_XDP socket that takes its frames. User space writes. */
struct {
	__uint(type, BPF_MAP_TYPE_XSKMAP);
	__uint(max_entries, ISL_MAX_SOCKETS);
	__type(key, __u32);
	__type(value, __u32);
} isl_sockets SEC(".maps");

static __always_inline struct isl_admission *entry(__u32 number)
{
	return bpf_map_lookup_elem(&isl_entries, &number);
}

/* The entry of the port with that address in its LAN. */
static __always_inline struct isl_admission *owner(struct isl_lan_address *to)
{
	__u32 *number = bpf_map_lookup_elem(&isl_addresses, to);

	return number ? entry(*number) : NULL;
}

/* What was let in and has not been taken yet; less than nothing after the back-end has set it right. */
static __always_inline __s64 waiting(struct isl_admission *of)
{
	return *(volatile __u64 *)&of->let_in - *(volatile __u64 *)&of->taken;
}

static __always_inline bool has_space(struct isl_admission *all, struct isl_admission *of)
{
	__s64 mine = waiting(of);

	return mine < *(volatile __u32 *)&of->window && mine < all->window - waiting(all);
}

static __always_inline void let_in(struct isl_admission *all, struct isl_admission *of)
{
	__sync_fetch_and_add(&of->let_in, 1);
	__sync_fetch_and_add(&all->let_in, 1);
}

SEC("socket")
int isl_admit(struct __sk_buff *skb)
{
	struct isl_admission *all = entry(ISL_ADMIT_ALL), *of = NULL;
	struct isl_lan_address to = {};

	if (!all || !isl_socket_destination(skb, to.mac, &to.vlan))
		return 0;
	if (to.mac[0] & 1) {
		of = entry(ISL_ADMIT_OTHERS);
	} else {
		of = owner(&to);
		if (!of && to.vlan) {
			to.vlan = 0;
			of = owner(&to);
		}
	}
	if (!of) {
		__sync_fetch_and_add(&all->refused, 1);
		return 0;
	}
	if (!has_space(all, of)) {
		__sync_fetch_and_add(&of->refused, 1);
		return 0;
	}
	let_in(all, of);
	return -1;
}

/* Only where no port has a VLAN: some NICs take tags off before this program sees a frame. */
SEC("xdp.frags")
int isl_refuse(struct xdp_md *ctx)
{
	struct ethhdr *eth = (void *)(long)ctx->data;
	struct isl_admission *all = entry(ISL_ADMIT_ALL), *of;
	struct isl_lan_address to = {};
	__u32 queue = ctx->rx_queue_index;

	if (!all || (void *)(eth + 1) > (void *)(long)ctx->data_end)
		return XDP_PASS;
	__builtin_memcpy(to.mac, eth->h_dest, sizeof(to.mac));
	of = owner(&to);
	if (!of)
		return XDP_PASS;
	if (!has_space(all, of)) {
		__sync_fetch_and_add(&of->refused, 1);
		return XDP_DROP;
	}
	if (bpf_xdp_get_buff_len(ctx) > ISL_SOCKET_BYTES ||
	    !bpf_map_lookup_elem(&isl_sockets, &queue))
		return XDP_PASS;
	isl_add_checksum(ctx);
	let_in(all, of);
	return bpf_redirect_map(&isl_sockets, queue, XDP_PASS);
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
