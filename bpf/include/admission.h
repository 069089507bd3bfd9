/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a network back-end and the programs on its uplink tell each other. */
#ifndef ISOLANE_ADMISSION_H
#define ISOLANE_ADMISSION_H

#include <linux/if_ether.h>
#include <linux/types.h>

#define ISL_ADMIT_ALL 0
#define ISL_ADMIT_OTHERS 1
#define ISL_ADMIT_FIRST 2

#define ISL_MAX_SOCKETS 64
/* What a frame may have at most to be handed over without a packet: memory of 2 KiB, 256 bytes in front. */
#define ISL_SOCKET_BYTES 1792

struct isl_lan_address {
	__u16 vlan; /* 0: none */
	__u8 mac[ETH_ALEN];
};

/* Each side writes a cache line of its own. `Entry` of crates/netback is the same. */
struct isl_admission {
	__u64 let_in;  /* frames that the back-end is to take; programs add */
	__u64 refused; /* programs add */
	__u64 line0[6];
	__u64 taken;  /* the back-end writes */
	__u32 window; /* frames that may wait; the back-end writes */
	__u32 pad;
	__u64 line1[6];
};

#endif
