/* SPDX-License-Identifier: MIT */
/*
 * doctor_scene - facts written by hand: machines as users have them, healthy. A test breaks one
 * thing.
 *
 * Numbers are those of the real machines: a DGX Spark's cage is two functions of four lanes of PCIe
 * 5, which both say 200 Gb/s.
 */
#ifndef FM_DOCTOR_SCENE_H
#define FM_DOCTOR_SCENE_H

#include <stdio.h>
#include <string.h>

#include "client/doctor/check.h"
#include "client/doctor/lookup.h"
#include "tests/fm_test.h"

struct scene_port {
	const char *device, *interface, *pci, *cage, *driver;
	unsigned port, card, rate_mbps, mtps, lanes, mtps_max, lanes_max, mtu, rdma_mtu;
};

static struct fm_findings scene_found;

static inline void text(struct fm_fact *fact, const char *t)
{
	fm_fact_text(fact, FM_FACT_TEXT, t);
}

/* Everything was looked for, nothing is there; a healthy machine. */
static inline struct fm_facts *scene_node(const char *name)
{
	struct fm_facts *f = fm_facts_new();
	struct fm_fact *const lists[] = {
		&f->ports_read,	 &f->gids_read,	       &f->interfaces_read, &f->addresses_read,
		&f->routes_read, &f->counters_read,    &f->processes_read,  &f->disks_read,
		&f->fstab_read,	 &f->controllers_read, &f->owners_read,	    &f->stores_read,
		&f->files_read,	 &f->rails_read,       &f->sessions_read
	};

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		fm_fact_number(lists[i], 1);
	text(&f->node.name, name);
	text(&f->node.governor, "performance");
	text(&f->node.governor_driver, "cppc_cpufreq");
	fm_fact_number(&f->node.memory_bytes, 128ull << 30);
	fm_fact_number(&f->node.huge_pages_bytes, 0);
	fm_fact_number(&f->node.io_uring_disabled, 0);
	fm_fact_number(&f->node.network_manager, false);
	fm_fact_number(&f->node.netplan, true);
	fm_fact_number(&f->node.interval_ms, 1000);
	fm_fact_number(&f->node.rules, 0);
	fm_fact_number(&f->node.rp_filter, 2);
	fm_fact_number(&f->node.arp_ignore, 0);
	fm_fact_number(&f->node.arp_announce, 0);
	fm_fact_number(&f->daemon.total_bytes, 512u << 20);
	fm_fact_number(&f->daemon.arena_bytes, 256u << 20);
	fm_fact_number(&f->daemon.volumes, 0);
	text(&f->daemon.io, "io_uring");
	return f;
}

static inline struct fm_facts_interface *scene_interface(struct fm_facts *f, const char *name,
							 unsigned mtu)
{
	struct fm_facts_interface *i = fm_facts_add(f, f->interfaces, &f->interfaces_count);

	fm_fact_text(&i->name, FM_FACT_NAME, name);
	fm_fact_number(&i->mtu, mtu);
	text(&i->state, "up");
	fm_fact_number(&i->has_master, false);
	fm_fact_number(&i->rp_filter, 2);
	fm_fact_number(&i->arp_ignore, 0);
	fm_fact_number(&i->arp_announce, 0);
	fm_fact_number(&i->nm_managed, false);
	return i;
}

static inline struct fm_facts_port *scene_port(struct fm_facts *f, const struct scene_port *s)
{
	struct fm_facts_port *p = fm_facts_add(f, f->ports, &f->ports_count);

	fm_fact_text(&p->device, FM_FACT_NAME, s->device);
	fm_fact_number(&p->port, s->port ? s->port : 1);
	fm_fact_text(&p->interface, FM_FACT_NAME, s->interface);
	fm_fact_text(&p->driver, FM_FACT_NAME, s->driver);
	if (s->pci)
		fm_fact_text(&p->pci, FM_FACT_NAME, s->pci);
	fm_fact_number(&p->card, s->card);
	if (s->cage)
		fm_fact_text(&p->cage, FM_FACT_NAME, s->cage);
	text(&p->state, "ACTIVE");
	text(&p->link_layer, "Ethernet");
	fm_fact_number(&p->rate_mbps, s->rate_mbps);
	if (s->mtps) {
		fm_fact_number(&p->pcie_mtps, s->mtps);
		fm_fact_number(&p->pcie_lanes, s->lanes);
		fm_fact_number(&p->pcie_mtps_max, s->mtps_max);
		fm_fact_number(&p->pcie_lanes_max, s->lanes_max);
		fm_fact_number(&p->aer_fatal, 0);
		fm_fact_number(&p->aer_nonfatal, 0);
	}
	fm_fact_number(&p->rdma_mtu, s->rdma_mtu);
	fm_fact_number(&p->rdma_mtu_max, 4096);
	(void)scene_interface(f, s->interface, s->mtu);
	return p;
}

/* With the GID of that type, and the route that the kernel makes. */
static inline void scene_address(struct fm_facts *f, const char *interface, const char *address,
				 unsigned bits, const char *type)
{
	struct fm_facts_address *a = fm_facts_add(f, f->addresses, &f->addresses_count);
	struct fm_facts_route *r = fm_facts_add(f, f->routes, &f->routes_count);
	struct fm_facts_gid *g = fm_facts_add(f, f->gids, &f->gids_count);
	char network[FM_NETWORK_TEXT_MAX], gid[64];
	const struct fm_facts_port *p;

	fm_fact_text(&a->interface, FM_FACT_NAME, interface);
	fm_fact_text(&a->address, FM_FACT_ADDRESS, address);
	fm_fact_number(&a->bits, bits);
	fm_fact_number(&a->link_local, strncmp(address, "fe80:", 5) == 0);
	fm_fact_number(&a->no_prefix_route, false);
	fm_fact_number(&a->duplicate, false);
	fm_net_text(&a->address, &a->bits, network);
	*strchr(network, '/') = '\0';
	fm_fact_text(&r->destination, FM_FACT_ADDRESS, network);
	fm_fact_number(&r->bits, bits);
	fm_fact_text(&r->interface, FM_FACT_NAME, interface);
	fm_fact_number(&r->table, 254);
	fm_fact_number(&r->metric, 0);
	p = fm_port_of(f, &a->interface);
	if (!p) {
		f->gids_count--;
		return;
	}
	(void)snprintf(gid, sizeof(gid), "%s%s", strchr(address, ':') ? "" : "::ffff:", address);
	fm_fact_text(&g->device, FM_FACT_NAME, p->device.text);
	fm_fact_number(&g->port, p->port.n);
	fm_fact_number(&g->index, f->gids_count);
	fm_fact_text(&g->gid, FM_FACT_ADDRESS, gid);
	text(&g->type, type);
	fm_fact_text(&g->interface, FM_FACT_NAME, interface);
}

/* ---- machines ---- */

static const struct scene_port spark_ports[4] = {
	{ "rocep1s0f0", "enp1s0f0np0", "0000:01:00.0", "p0", "mlx5_core", 1, 0, 200000, 32000, 4,
	  32000, 4, 9000, 4096 },
	{ "roceP2p1s0f0", "enP2p1s0f0np0", "0002:01:00.0", "p0", "mlx5_core", 1, 0, 200000, 32000,
	  4, 32000, 4, 9000, 4096 },
	{ "rocep1s0f1", "enp1s0f1np1", "0000:01:00.1", "p1", "mlx5_core", 1, 0, 200000, 32000, 4,
	  32000, 4, 9000, 4096 },
	{ "roceP2p1s0f1", "enP2p1s0f1np1", "0002:01:00.1", "p1", "mlx5_core", 1, 0, 200000, 32000,
	  4, 32000, 4, 9000, 4096 },
};

/* Without addresses; the second cage has no cable, if it is not said. */
static inline struct fm_facts *scene_spark(const char *name, bool has_two_cables)
{
	struct fm_facts *f = scene_node(name);

	for (unsigned i = 0; i < 4; i++)
		text(&scene_port(f, &spark_ports[i])->state,
		     i < 2 || has_two_cables ? "ACTIVE" : "DOWN");
	return f;
}

/* Host 1 or 2 of 10.0.N.0/30, N being 0 and 128 for the two functions of a cage. */
static inline void scene_cable(struct fm_facts *f, unsigned cage, unsigned net, unsigned host)
{
	char address[32];

	for (unsigned i = 0; i < 2; i++) {
		(void)snprintf(address, sizeof(address), "10.0.%u.%u", net + 128 * i, host);
		scene_address(f, spark_ports[2 * cage + i].interface, address, 30, "RoCE v2");
	}
}

static inline void scene_spark_pair(struct fm_facts *nodes[2])
{
	for (unsigned i = 0; i < 2; i++) {
		nodes[i] = scene_spark(i == 0 ? "n1" : "n2", false);
		scene_cable(nodes[i], 0, 0, 1 + i);
	}
}

/*
 * Each node has a cable to the next: n1-n2 is network 0, n2-n3 1, ..., the last back to the first.
 */
static inline void scene_spark_ring(struct fm_facts *nodes[], unsigned count)
{
	static const char *const names[] = { "n1", "n2", "n3", "n4" };

	for (unsigned i = 0; i < count; i++) {
		nodes[i] = scene_spark(names[i], true);
		scene_cable(nodes[i], 0, i, 1);
		scene_cable(nodes[i], 1, (i + count - 1) % count, 2);
	}
}

/* Two ports of one PCIe function, RoCE v1. */
static inline struct fm_facts *scene_connectx3(const char *name, unsigned host)
{
	static const struct scene_port ports[2] = {
		{ "mlx4_0", "enp3s0", "0000:03:00.0", NULL, "mlx4_core", 1, 0, 40000, 8000, 8, 8000,
		  8, 9000, 4096 },
		{ "mlx4_0", "enp3s0d1", "0000:03:00.0", NULL, "mlx4_core", 2, 0, 40000, 8000, 8,
		  8000, 8, 9000, 4096 },
	};
	struct fm_facts *f = scene_node(name);
	char address[32];

	for (unsigned i = 0; i < 2; i++) {
		(void)scene_port(f, &ports[i]);
		(void)snprintf(address, sizeof(address), "10.3.%u.%u", i, host);
		scene_address(f, ports[i].interface, address, 24, "IB/RoCE v1");
	}
	return f;
}

/* One port of 100 Gb/s in a /24 of a switch, and a LAN beside it. */
static inline struct fm_facts *scene_v100(const char *name, unsigned host)
{
	static const struct scene_port port = {
		"mlx5_0", "ens1f0np0", "0000:3b:00.0", "p0", "mlx5_core", 1,   0, 100000,
		8000,	  16,	       8000,	       16,   9000,	  4096
	};
	struct fm_facts *f = scene_node(name);
	char address[32];

	(void)scene_port(f, &port);
	(void)scene_interface(f, "eno1", 1500);
	(void)snprintf(address, sizeof(address), "10.4.0.%u", host);
	scene_address(f, "ens1f0np0", address, 24, "RoCE v2");
	(void)snprintf(address, sizeof(address), "192.168.1.%u", host);
	scene_address(f, "eno1", address, 24, "");
	return f;
}

/* Soft-RoCE over a virtual interface with an MTU of 1500, as the lab has it. */
static inline struct fm_facts *scene_rxe(const char *name, unsigned host)
{
	static const struct scene_port port = { "rxe0", "eth1", NULL, NULL, "virtio_net",
						1,	0,	2500, 0,    0,
						0,	0,	1500, 1024 };
	struct fm_facts *f = scene_node(name);
	char address[32];

	(void)scene_port(f, &port);
	(void)snprintf(address, sizeof(address), "10.9.0.%u", host);
	scene_address(f, "eth1", address, 24, "RoCE v2");
	return f;
}

/* ---- looking at them ---- */

static inline void scene_check(void (*check)(const struct fm_facts_set *set,
					     struct fm_findings *out),
			       struct fm_facts *const nodes[], unsigned count)
{
	struct fm_facts_set set = { .count = count };

	for (unsigned i = 0; i < count; i++)
		set.at[i] = nodes[i];
	memset(&scene_found, 0, sizeof(scene_found));
	check(&set, &scene_found);
}

static inline void scene_free(struct fm_facts *const nodes[], unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		fm_facts_free(nodes[i]);
}

/* The one of that id, or NULL. What else there is is printed, for who reads a failure. */
static inline const struct fm_finding *scene_finding(const char *id)
{
	for (size_t i = 0; i < scene_found.count; i++)
		if (strcmp(scene_found.at[i].id, id) == 0)
			return &scene_found.at[i];
	for (size_t i = 0; i < scene_found.count; i++)
		printf("found %s: %s\n", scene_found.at[i].id, scene_found.at[i].read);
	return NULL;
}

/* Just that one, as severe, saying this of what was read and of what mends it. */
static inline bool scene_is_only(const char *id, enum fm_severity severity, const char *read,
				 const char *mend)
{
	const struct fm_finding *f = scene_finding(id);
	bool is = f && scene_found.count == 1 && f->severity == severity && strstr(f->read, read) &&
		  strstr(f->mend, mend) && f->means[0];

	if (f && !is)
		for (size_t i = 0; i < scene_found.count; i++)
			printf("%s\n%s\n%s\n%s\n", scene_found.at[i].id, scene_found.at[i].read,
			       scene_found.at[i].means, scene_found.at[i].mend);
	return is;
}

#define SCENES 6u
#define SCENE_NODES_MAX 4u

/* Every machine above; how many nodes it has. */
static inline unsigned scene_all(unsigned which, struct fm_facts *nodes[static SCENE_NODES_MAX])
{
	switch (which) {
	case 0:
		scene_spark_pair(nodes);
		return 2;
	case 1:
		scene_spark_ring(nodes, 3);
		return 3;
	case 2:
		scene_spark_ring(nodes, 4);
		return 4;
	case 3:
		nodes[0] = scene_connectx3("n1", 1);
		nodes[1] = scene_connectx3("n2", 2);
		return 2;
	case 4:
		nodes[0] = scene_v100("n1", 1);
		nodes[1] = scene_v100("n2", 2);
		return 2;
	default:
		nodes[0] = scene_rxe("n1", 1);
		nodes[1] = scene_rxe("n2", 2);
		return 2;
	}
}

#endif
