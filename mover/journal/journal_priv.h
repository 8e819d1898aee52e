/* SPDX-License-Identifier: MIT */
/*
 * journal_priv - a journal as its tests need it: written by a machine of their choice, so that its
 * bytes are known.
 */
#ifndef FM_JOURNAL_PRIV_H
#define FM_JOURNAL_PRIV_H

#include "mover/journal/host.h"
#include "mover/journal/journal.h"

struct fm_journal_env {
	struct fm_journal_host host;
	uint32_t salt;		/* of a journal that is new */
	uint64_t bytes_max;	/* FM_JOURNAL_BYTES_MAX */
};

/* As fm_journal_open(). */
int fm_journal_open_as(int fd, const struct fm_journal_opts *opts, const struct fm_journal_env *env,
		       struct fm_journal **out, const char **why, struct fm_err *err);

/* As fm_journal_peek(). */
int fm_journal_peek_as(int fd, const struct fm_journal_host *host, struct fm_journal_opts *out,
		       uint64_t *bytes_there);

#endif
