/* SPDX-License-Identifier: MIT */
/*
 * check - from the facts of one or several nodes to findings: pure functions, one subject and one
 * file each.
 *
 * What is unknown is never a finding. What two ends must agree on is looked at when both are in the
 * set.
 */
#ifndef FM_DOCTOR_CHECK_H
#define FM_DOCTOR_CHECK_H

#include "client/doctor/finding.h"

void fm_check_half_port(const struct fm_facts_set *set,
			struct fm_findings *out); /* functions of one cage */
void fm_check_devices(const struct fm_facts_set *set,
		      struct fm_findings *out); /* state, MTU, GIDs, PCIe, NUMA */
void fm_check_counters(const struct fm_facts_set *set,
		       struct fm_findings *out); /* what grew while we looked */
void fm_check_addresses(const struct fm_facts_set *set,
			struct fm_findings *out); /* who owns them, routes, duplicates */
void fm_check_limits(const struct fm_facts_set *set,
		     struct fm_findings *out); /* memory, files, io_uring, governor */
void fm_check_versions(const struct fm_facts_set *set,
		       struct fm_findings *out); /* kernel and ZFS with known faults */
void fm_check_storage(const struct fm_facts_set *set,
		      struct fm_findings *out); /* fstab, NVMe connections, room */
void fm_check_security(const struct fm_facts_set *set,
		       struct fm_findings *out); /* modes of keys and stores */
void fm_check_pairs(const struct fm_facts_set *set,
		    struct fm_findings *out); /* both ends of a cable */
void fm_check_forward(const struct fm_facts_set *set,
		      struct fm_findings *out); /* who passes on for others, and drops it */

/* All of them, in this order. */
void fm_check_all(const struct fm_facts_set *set, struct fm_findings *out);

#endif
