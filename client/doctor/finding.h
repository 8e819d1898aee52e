/* SPDX-License-Identifier: MIT */
/*
 * finding - what a check has to say: an id, what was read, what it means and costs, the lines that
 * mend it.
 *
 * A text is made of whole lines: one that finds no room is left out, since half a command is
 * another one. Nothing is allocated for a finding. Any thread; a list is its owner's.
 */
#ifndef FM_DOCTOR_FINDING_H
#define FM_DOCTOR_FINDING_H

#include <stdbool.h>
#include <stddef.h>

#include "mover/facts/facts.h"

#define FM_FINDINGS_MAX 256u
#define FM_FINDING_TEXT_MAX 2048u
#define FM_FACTS_NODES_MAX 32u

enum fm_severity {
	FM_NOTE,    /* good to know; nothing of fmove's suffers */
	FM_WARNING, /* it works, and costs */
	FM_ERROR    /* it does not work, or data or secrets are at risk */
};

/* Nodes that are looked at together, the first being this one or the first file. */
struct fm_facts_set {
	const struct fm_facts *at[FM_FACTS_NODES_MAX];
	size_t count;
};

struct fm_finding {
	const char *id;
	enum fm_severity severity;
	const struct fm_facts *node;
	char read[FM_FINDING_TEXT_MAX], means[FM_FINDING_TEXT_MAX],
		mend[FM_FINDING_TEXT_MAX]; /* lines, without the last line end */
};

struct fm_findings {
	struct fm_finding at[FM_FINDINGS_MAX];
	size_t count;
	size_t left_out;
};

/* id is a constant. NULL, and counted: no room. */
struct fm_finding *fm_finding_add(struct fm_findings *list, const char *id,
				  enum fm_severity severity, const struct fm_facts *node);

/* Take back the one that was added last: there is nothing to say. NULL is allowed. */
void fm_finding_drop(struct fm_findings *list, const struct fm_finding *f);

/* Each adds one line. A finding that is NULL is passed over. */
void fm_finding_read(struct fm_finding *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void fm_finding_means(struct fm_finding *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void fm_finding_mend(struct fm_finding *f, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* "note", "warning", "error" */
const char *fm_severity_name(enum fm_severity severity);

#endif
