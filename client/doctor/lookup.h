/* SPDX-License-Identifier: MIT */
/*
 * lookup - what checks ask of facts: interfaces by name, addresses as numbers, the functions of one
 * port. Pure functions.
 */
#ifndef FM_DOCTOR_LOOKUP_H
#define FM_DOCTOR_LOOKUP_H

#include "mover/facts/facts.h"
#include "mover/base/network.h"

/* RoCEv2 with its preamble and gap, of a packet of the RDMA MTU. */
#define FM_ROCE_OVERHEAD 82.0
#define FM_PCIE_HEADER 24.0 /* bytes of each packet that are no payload */
#define FM_RDMA_MTU_FULL 4096u
#define FM_MTU_FULL 4200u /* of an interface, so that its RDMA MTU is full */
#define FM_MTU_JUMBO 9000u

/* false: not known, or a prefix longer than the address. bits may be NULL: all of them. */
bool fm_net_of(const struct fm_fact *address, const struct fm_fact *bits, struct fm_network *out);

/* "10.0.0.0/30" of an address within; both are known. Returns out. */
const char *fm_net_text(const struct fm_fact *address, const struct fm_fact *bits,
			char out[static FM_NETWORK_TEXT_MAX]);

/* Whether the address is in the network of the other. */
bool fm_net_has(const struct fm_network *net, const struct fm_network *address);
/* network and prefix */
bool fm_net_is_same(const struct fm_network *a, const struct fm_network *b);
bool fm_net_is_equal(const struct fm_network *a, const struct fm_network *b); /* address */

/* Whether it is the GID of that address: IPv4 ones are mapped. */
bool fm_gid_is_of(const struct fm_facts_gid *g, const struct fm_network *address);

/* An interface's facts, or NULL. */
const struct fm_facts_interface *fm_interface_of(const struct fm_facts *f,
						 const struct fm_fact *name);

/* The RDMA port of an interface, or NULL. */
const struct fm_facts_port *fm_port_of(const struct fm_facts *f, const struct fm_fact *interface);

/*
 * The next address of an interface after `after` (NULL: the first), or NULL. An address that was
 * left out of anonymous facts counts as one.
 */
const struct fm_facts_address *fm_address_next(const struct fm_facts *f,
					       const struct fm_fact *interface,
					       const struct fm_facts_address *after);

/*
 * Whether it has one, link-local ones counted or not; one of an interface that is not known may be
 * its own.
 */
bool fm_has_address(const struct fm_facts *f, const struct fm_fact *interface,
		    bool is_link_local_enough);

/* The first IPv4 address of an interface, or NULL. */
const struct fm_facts_address *fm_ipv4_of(const struct fm_facts *f,
					  const struct fm_fact *interface);

/* Two functions that share one cage of one card: the same cable behind two PCIe links. */
bool fm_is_sibling(const struct fm_facts_port *a, const struct fm_facts_port *b);

bool fm_is_active(const struct fm_facts_port *p);

/* Megabits a second of a PCIe link before the headers of its packets; 0: not known. */
double fm_pcie_raw_mbps(const struct fm_fact *mtps, const struct fm_fact *lanes);

/*
 * Of a port's link as it is, or as the device could have it; without the headers, if the size of
 * packets is known. 0: not known.
 */
double fm_pcie_mbps(const struct fm_facts_port *p, bool is_max);

/* The share of a wire that is payload. */
double fm_roce_share(double rdma_mtu);

#endif
