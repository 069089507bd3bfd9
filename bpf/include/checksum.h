/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Checksums that a sender has left to its device. Frames between the ends of a veth stay in memory,
 * so the kernel leaves TCP's and UDP's checksum out and notes that beside the frame. A redirection
 * by XDP loses the note, and whoever gets the frame drops it.
 */
#ifndef ISOLANE_CHECKSUM_H
#define ISOLANE_CHECKSUM_H

#include "parse.h"

/* Kernels before 6.13 add up no more at a time. */
#define ISL_CHUNK 512
/* Enough for the longest IP packet. */
#define ISL_CHUNKS 128

struct isl_chunk {
	__u8 bytes[ISL_CHUNK + 4];
};

/* Key: 0; value: a buffer for a part of a frame; only isl_add_checksum uses it. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct isl_chunk);
} isl_chunks SEC(".maps");

static __always_inline int isl_sum_covered(struct xdp_md *ctx, struct isl_covered *covered,
					   __u64 *sum)
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
 * Adds the checksum if the sender has left it out: then the sum of the pseudo header is in its
 * field. A whole checksum has that value once in 65,536 frames, and is then written again.
 */
static __always_inline void isl_add_checksum(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct isl_covered covered = {};
	__u16 check;
	__u64 sum;

	if (!isl_find_covered(data, end, &covered))
		return;
	if (bpf_xdp_load_bytes(ctx, covered.check, &check, sizeof(check)))
		return;
	if (check != isl_fold16(covered.pseudo) || !isl_sum_covered(ctx, &covered, &sum))
		return;
	check = ~isl_fold16(sum);
	if (!check && covered.protocol == IPPROTO_UDP)
		check = 0xffff;
	bpf_xdp_store_bytes(ctx, covered.check, &check, sizeof(check));
}

#endif
