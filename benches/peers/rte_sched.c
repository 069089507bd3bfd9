// SPDX-License-Identifier: Apache-2.0
/*
 * Cost of a decision of DPDK's rte_sched with every pipe backlogged throughout: packets are taken
 * out in bursts and put back in. Prints ns per packet.
 *
 *   rte_sched PIPES SECONDS -- EAL OPTIONS
 *
 * An adapter is a pipe with one of its 16 queues in use (best effort), shaped to more than the
 * machine can do, so that rte_sched is never idle and never throttles.
 */
#include <stdio.h>
#include <stdlib.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_sched.h>

#define BURST 32
/* Packets that wait per pipe, and in all, at least: as in crates/benches/benches/decision.rs. */
#define PER_PIPE 8
#define IN_ALL 8192
#define LONGEST 1514
/* Bytes per second; several times what one core schedules, and little enough for its arithmetic. */
#define RATE 100000000000ULL

static void die(const char *what)
{
	fprintf(stderr, "rte_sched: %s: %s\n", what, rte_strerror(rte_errno));
	exit(1);
}

static struct rte_sched_port *make_port(uint32_t pipes, uint16_t queue)
{
	struct rte_sched_subport_profile_params subport_profile = {
		.tb_rate = RATE, .tb_size = RATE, .tc_period = 10,
	};
	struct rte_sched_pipe_params pipe_profile = {
		.tb_rate = RATE, .tb_size = RATE, .tc_period = 10,
		.tc_ov_weight = 1, .wrr_weights = { 1, 1, 1, 1 },
	};
	struct rte_sched_port_params port_params = {
		.name = "bench", .rate = RATE, .mtu = LONGEST + 8, .frame_overhead = 24,
		.n_subports_per_port = 1, .subport_profiles = &subport_profile,
		.n_subport_profiles = 1, .n_max_subport_profiles = 1,
		.n_pipes_per_subport = pipes,
	};
	struct rte_sched_subport_params subport_params = {
		.n_pipes_per_subport_enabled = pipes, .pipe_profiles = &pipe_profile,
		.n_pipe_profiles = 1, .n_max_pipe_profiles = 1,
	};
	struct rte_sched_port *port;
	uint32_t pipe;

	for (int tc = 0; tc < RTE_SCHED_TRAFFIC_CLASSES_PER_PIPE; tc++) {
		subport_profile.tc_rate[tc] = RATE;
		pipe_profile.tc_rate[tc] = RATE;
		subport_params.qsize[tc] = queue;
	}
	port = rte_sched_port_config(&port_params);
	if (!port)
		die("port");
	if (rte_sched_subport_config(port, 0, &subport_params, 0))
		die("subport");
	for (pipe = 0; pipe < pipes; pipe++)
		if (rte_sched_pipe_config(port, 0, pipe, 0))
			die("pipe");
	return port;
}

/* The same number of packets for each pipe, in random order, 64 to 1514 bytes. */
static void fill(struct rte_sched_port *port, struct rte_mempool *pool, uint32_t pipes,
		 uint32_t packets)
{
	uint32_t *order = malloc(packets * sizeof(*order));
	uint32_t i;

	if (!order)
		die("memory");
	for (i = 0; i < packets; i++)
		order[i] = i % pipes;
	for (i = packets - 1; i > 0; i--) {
		uint32_t other = (uint32_t)random() % (i + 1), pipe = order[i];

		order[i] = order[other];
		order[other] = pipe;
	}
	for (i = 0; i < packets; i++) {
		struct rte_mbuf *mbuf = rte_pktmbuf_alloc(pool);

		if (!mbuf)
			die("mbuf");
		mbuf->pkt_len = 64 + (uint32_t)random() % (LONGEST - 63);
		mbuf->data_len = (uint16_t)mbuf->pkt_len;
		rte_sched_port_pkt_write(port, mbuf, 0, order[i],
					 RTE_SCHED_TRAFFIC_CLASS_BE, 0, RTE_COLOR_GREEN);
		if (rte_sched_port_enqueue(port, &mbuf, 1) != 1)
			die("no room in a queue");
	}
	free(order);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	uint32_t pipes = (uint32_t)atoi(argv[1]);
	double seconds = atof(argv[2]);
	uint32_t per_pipe = RTE_MAX(PER_PIPE, IN_ALL / pipes);
	uint32_t packets = pipes * per_pipe;

	if (rte_eal_init(argc - 2, argv + 2) < 0)
		die("EAL");
	struct rte_sched_port *port = make_port(pipes, (uint16_t)RTE_MAX(16, per_pipe * 2));
	struct rte_mempool *pool = rte_pktmbuf_pool_create("mbufs", packets + BURST, 0, 0,
							   RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
	if (!pool)
		die("mbufs");
	fill(port, pool, pipes, packets);

	struct rte_mbuf *burst[BURST];
	uint64_t decisions = 0, empty = 0;
	uint64_t begun = rte_rdtsc(), now = begun, ticks = (uint64_t)(seconds * rte_get_tsc_hz());

	while (now - begun < ticks) {
		for (int i = 0; i < 64; i++) {
			int taken = rte_sched_port_dequeue(port, burst, BURST);

			if (taken == 0)
				empty++;
			else if (rte_sched_port_enqueue(port, burst, taken) != taken)
				die("a packet was lost");
			decisions += taken;
		}
		now = rte_rdtsc();
	}
	printf("%.3f %lu %lu\n", (now - begun) * 1e9 / rte_get_tsc_hz() / decisions, decisions,
	       empty);
	return 0;
}
