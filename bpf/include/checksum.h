/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Checksums that a sender has left to its device. Frames between the ends of a veth stay in memory,
 * so the kernel leaves TCP's and UDP's checksum out and notes that beside the frame. A redirection
 * by XDP loses the note, and whoever gets the frame drops it.
 */
#ifndef ISOLANE_CHECKSUM_H
#define ISOLANE_CHECKSUM_H

#include "bounds.h"
#include "parse.h"

/* Kernels before 6.13 add up no more at a time. */
#define ISL_CHUNK 512
/* More than the headers of a frame can have in front of it, a power of two. */
#define ISL_HEADERS 128
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

/* What is left to add up, and the sum so far; negative: it failed. */
struct isl_sum {
	struct xdp_md *ctx;
	__u32 at, left;
	__s64 sum;
};

/* Adds up the next part of a frame; 1: no further ones. */
static long isl_sum_chunk(__u32 index, struct isl_sum *sum)
{
	__u32 zero = 0, length = sum->left < ISL_CHUNK ? sum->left : ISL_CHUNK;
	struct isl_chunk *chunk = bpf_map_lookup_elem(&isl_chunks, &zero);

	if (!chunk || !isl_has_bounds(&length, ISL_CHUNK) ||
	    bpf_xdp_load_bytes(sum->ctx, sum->at, chunk->bytes, length)) {
		sum->sum = -1;
		return 1;
	}
	__builtin_memset(chunk->bytes + length, 0, 4);
	sum->sum = bpf_csum_diff(NULL, 0, (void *)chunk->bytes, (length + 3) & ~3, sum->sum);
	sum->at += length;
	sum->left -= length;
	return sum->sum < 0 || !sum->left;
}

/*
 * A loop by a helper: were it unrolled, the verifier would follow each length through all of its
 * turns, 700,000 instructions of the million that it allows.
 */
static __always_inline int isl_sum_covered(struct xdp_md *ctx, struct isl_covered *covered,
					   __u64 *sum)
{
	struct isl_sum all = { .ctx = ctx, .at = covered->start, .left = covered->length };

	if (!all.left || bpf_loop(ISL_CHUNKS, isl_sum_chunk, &all, 0) < 0 || all.sum < 0)
		return 0;
	*sum = all.sum;
	return !all.left;
}

/* Reads the checksum of a frame, from a later part of it if need be; 0: that was possible. */
static __always_inline long isl_read_check(struct xdp_md *ctx, struct isl_covered *covered,
					   __u16 *check)
{
	__u16 *field = (void *)(long)ctx->data + isl_below(covered->check, ISL_HEADERS);

	if ((void *)(field + 1) > (void *)(long)ctx->data_end)
		return bpf_xdp_load_bytes(ctx, covered->check, check, sizeof(*check));
	*check = *field;
	return 0;
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
	if (isl_read_check(ctx, &covered, &check))
		return;
	if (check != isl_fold16(covered.pseudo) || !isl_sum_covered(ctx, &covered, &sum))
		return;
	check = ~isl_fold16(sum);
	if (!check && covered.protocol == IPPROTO_UDP)
		check = 0xffff;
	bpf_xdp_store_bytes(ctx, covered.check, &check, sizeof(check));
}

#endif
