/* SPDX-License-Identifier: MIT */
/*
 * load - a journal file read into a table, as far as it can be trusted.
 */
#ifndef FM_JOURNAL_LOAD_H
#define FM_JOURNAL_LOAD_H

#include "mover/journal/format.h"
#include "mover/journal/table.h"

/* What the head says; 0, or -EBADMSG, -EPROTONOSUPPORT, or an error of reading. */
int fm_journal_load_head(int fd, uint64_t size, struct fm_journal_head *head);

/*
 * The records behind the head, up to size or the first that is not good, go into the table. *end is
 * where the good ones end. 0; -ENOMEM; an error of reading. After an error the table is to be
 * freed.
 */
int fm_journal_load_records(int fd, uint64_t size, const struct fm_journal_head *head,
			    struct fm_table *t, uint64_t *end);

#endif
