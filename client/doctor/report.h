/* SPDX-License-Identifier: MIT */
/*
 * report - findings, ceilings and what is unknown, for people or as JSON. On standard output, which
 * lets nothing through that a terminal obeys (cmd.h); fm_stdout_end() looks for errors.
 */
#ifndef FM_DOCTOR_REPORT_H
#define FM_DOCTOR_REPORT_H

#include "client/doctor/ceiling.h"
#include "client/doctor/finding.h"
#include "client/doctor/nodes.h"

struct fm_report {
	const struct fm_facts_set *set;
	const struct fm_nodes *nodes;	/* whom it is of, and who is missing */
	const struct fm_findings *findings;
	const struct fm_ceiling *ceilings;
	size_t ceiling_count;
	int exit;
};

void fm_report_print(const struct fm_report *report);

/* -EMSGSIZE, -ENOMEM. */
int fm_report_print_json(const struct fm_report *report);

#endif
