/* SPDX-License-Identifier: MIT */
/*
 * mend - lines that configure an interface, for what manages the network of that node: netplan,
 * NetworkManager, or nothing known.
 */
#ifndef FM_DOCTOR_MEND_H
#define FM_DOCTOR_MEND_H

#include "client/doctor/finding.h"

struct fm_mend {
	const char *interface; /* an FM_FACT_NAME */
	const char *address;   /* "10.0.1.1/30"; NULL: IPv6 link-local is enough */
	unsigned mtu;	       /* 0: as it is */
};

/* Give it that address, and no other IPv4 one. */
void fm_mend_address(const struct fm_facts *node, const struct fm_mend *mend, struct fm_finding *f);

/* Its MTU only, with what it has. */
void fm_mend_mtu(const struct fm_facts *node, const struct fm_mend *mend, struct fm_finding *f);

/*
 * An IPv4 address for the second function of a port, in a network that no address of the set is in:
 * that of the first with another third byte. Both ends come to the same network, if theirs agreed
 * before. false: there is none.
 */
bool fm_mend_next_network(const struct fm_facts_set *set, const struct fm_facts_address *first,
			  char out[static 24]);

#endif
