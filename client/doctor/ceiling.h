/* SPDX-License-Identifier: MIT */
/*
 * ceiling - what each port can carry at most by the facts, and which part of the way is the least.
 * Pure functions.
 *
 * Hardware's word only: what a disk or a processor really does is measured, not read. A part that
 * the facts say nothing of is not counted, and said to be unknown.
 */
#ifndef FM_DOCTOR_CEILING_H
#define FM_DOCTOR_CEILING_H

#include "client/doctor/finding.h"

#define FM_CEILINGS_MAX 256u

struct fm_ceiling {
	const struct fm_facts *node;
	const struct fm_facts_port *port;   /* the first function of the cage */
	unsigned functions, functions_used; /* of it; used: they have an address */
	double port_mbps;		    /* payload; 0 here and below: not known */
	double pcie_mbps;		    /* of the functions that are used, together */
	double disk_mbps;		    /* PCIe of the slowest disk with a store */
	double least_mbps;
	const char *least; /* "port", "PCIe", "disk"; NULL: nothing is known */
};

/* Of each cage with a link that is up; a list in the order of the facts. How many. */
size_t fm_ceilings(const struct fm_facts_set *set, struct fm_ceiling out[static FM_CEILINGS_MAX]);

#endif
