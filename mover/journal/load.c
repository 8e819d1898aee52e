/* SPDX-License-Identifier: MIT */
/*
 * load - records through a window of one block over the file.
 */
#include "mover/journal/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/fault.h"
#include "mover/journal/file.h"

#define WINDOW_LEN (1u << 20)

_Static_assert(WINDOW_LEN >= FM_JOURNAL_RECORD_MAX, "the longest record fits");

struct window {
	int fd;
	uint64_t at;	/* of the file: where buf begins */
	uint64_t size;	/* of the file */
	size_t have;	/* bytes in buf */
	size_t len;	/* bytes that buf has room for: the longest record, or the whole file */
	uint8_t *buf;
};

int fm_journal_load_head(int fd, uint64_t size, struct fm_journal_head *head)
{
	uint8_t buf[FM_JOURNAL_HEAD_LEN];
	int64_t len =
		fm_journal_file_read(fd, buf, size < sizeof(buf) ? (size_t)size : sizeof(buf), 0);

	return len < 0 ? (int)len : fm_journal_head_get(buf, (size_t)len, head);
}

/* Drop the used bytes and read on. 1: there is something new. 0: the file has no more. */
static int window_move(struct window *w, size_t used)
{
	uint64_t left = w->size - w->at - w->have;
	size_t room;
	int64_t got;

	w->have -= used;
	memmove(w->buf, w->buf + used, w->have);
	w->at += used;
	room = w->len - w->have;
	if (left == 0)
		return 0;
	got = fm_journal_file_read(w->fd, w->buf + w->have, left < room ? (size_t)left : room,
				   w->at + w->have);
	if (got < 0)
		return (int)got;
	w->have += (size_t)got;
	return got > 0;
}

/*
 * Put the records that are whole in the window into the table; *used are their bytes. 0: all of
 * them were good. -EBADMSG: the one behind *used is not, and none after it counts.
 */
static int window_put(const struct window *w, const struct fm_journal_head *head,
		      struct fm_table *t, size_t *used)
{
	struct fm_journal_entry entry;
	int len, ret;

	for (*used = 0;; *used += (size_t)len) {
		len = fm_journal_record_get(w->buf + *used, w->have - *used, head, &entry);
		if (len <= 0)
			return len;
		ret = fm_table_put(t, &entry);
		if (ret < 0)
			return ret == -EINVAL ? -EBADMSG : ret;
	}
}

static int load(struct window *w, const struct fm_journal_head *head, struct fm_table *t)
{
	size_t used = 0;
	int ret;

	while ((ret = window_move(w, used)) > 0) {
		ret = window_put(w, head, t, &used);
		if (ret == -EBADMSG) {
			w->at += used;
			return 0;
		}
		if (ret < 0)
			return ret;
	}
	return ret;
}

int fm_journal_load_records(int fd, uint64_t size, const struct fm_journal_head *head,
			    struct fm_table *t, uint64_t *end)
{
	struct window w = { .fd = fd, .at = FM_JOURNAL_HEAD_LEN, .size = size, .len = WINDOW_LEN };
	int ret;

	*end = w.at;
	if (size <= w.at)
		return 0;
	if (w.len > size - w.at)
		w.len = (size_t)(size - w.at);
	w.buf = FM_FAULT("journal.alloc") ? NULL : malloc(w.len);
	if (!w.buf)
		return -ENOMEM;
	fm_table_begin(t);
	ret = load(&w, head, t);
	if (ret < 0)
		fm_table_rollback(t);
	else
		fm_table_commit(t);
	free(w.buf);
	*end = w.at;
	return ret;
}
