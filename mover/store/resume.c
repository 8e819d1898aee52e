/* SPDX-License-Identifier: MIT */
/*
 * resume - a partial file and its journal.
 *
 * Happy path: open the journal; it is of this source and this file: what it says is there. Every
 * second: sync the file, then append what was written before the sync. Failure modes: the journal
 * is of no use, or claims what cannot be: it is emptied and synced, then the file is emptied, never
 * the other way round. Appending fails (a full disk, usually): no more is appended, what was
 * appended before still counts. Syncing the file fails: what was written since the last sync is
 * unknown, and nobody can say where it lies, so nothing is appended any more and the file is not
 * kept.
 */
#include "mover/store/resume.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/block.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/base/show.h"
#include "mover/store/store.h"
#include "mover/store/sync.h"
#include "mover/store/sys.h"

/*
 * Whether the next try can tell that it has the same source. It cannot for a stream, or if the peer
 * does not say what identifies the file.
 */
static bool is_known(const struct fm_identity *id)
{
	return id->size != FM_SIZE_UNKNOWN && (id->ino != 0 || id->ctime_ns != 0);
}

/* ------------------------------------------------------------------------------------ beginning */

/* Opens the journal with a descriptor of its own: the lock must not end with it. */
static int open_journal(struct fm_resume *r, const char **why, struct fm_err *err)
{
	struct fm_journal_opts opts = { .is_synced = r->sync != NULL, .source = r->source };
	struct stat st;
	int ret = fm_sys_fstat(r->fd, &st);
	int fd;

	if (ret < 0)
		return fm_err_sys(err, ret, "look at the partial file");
	opts.ino = st.st_ino;
	(void)snprintf(opts.name, sizeof(opts.name), "%s", r->name);
	fd = FM_FAULT("resume.dup") ? (errno = EMFILE, -1) : fcntl(r->lock, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return fm_err_sys(err, -errno, "open the journal once more");
	ret = fm_journal_open(fd, &opts, &r->journal, why, err);
	if (ret < 0)
		r->journal = NULL;
	return ret;
}

/* Empty the journal for good, then the file. */
static int drop_all(struct fm_resume *r, struct fm_err *err)
{
	int ret = fm_sys_ftruncate(r->lock, 0);

	if (ret == 0 && r->sync)
		ret = fm_sync_data(r->sync, r->lock);
	if (ret == 0)
		ret = fm_sys_ftruncate(r->fd, 0);
	r->has_content = false;
	return ret < 0 ? fm_err_sys(err, ret, "empty the partial file of an earlier try") : 0;
}

/* Why what the journal says of the file cannot be so, or cannot be used; NULL: it can. */
static const char *objection(const struct fm_journal_file *f, const struct fm_identity *source,
			     uint64_t file_size)
{
	if (!f || f->ranges.count == 0)
		return "nothing of it is complete";
	if (f->size != source->size || f->mtime_ns != source->mtime_ns ||
	    f->identity != fm_identity_hash(source))
		return "its journal is of another file";
	for (size_t i = 0; i < f->ranges.count; i++) {
		uint64_t offset = f->ranges.at[i].offset, end = offset + f->ranges.at[i].len;

		if (end > f->size || end > file_size)
			return "it is shorter than its journal says";
		if (!fm_block_is_stretch(offset, end, f->size))
			return "its journal is of no use here";
	}
	for (size_t i = 0; i < f->count; i++)
		if (f->pieces[i].offset % FM_BLOCK)
			return "its journal is of no use here";
	return NULL;
}

static int take(struct fm_resume *r, const struct fm_journal_file *f, struct fm_have *have,
		struct fm_err *err)
{
	const struct fm_range *last = &f->ranges.at[f->ranges.count - 1];
	int ret = fm_have_copy(have, f);

	if (ret < 0)
		return fm_err_set(err, ret, "allocate the list of what is there");
	r->end = last->offset + last->len;
	return 0;
}

/* Begins from the start, because what an earlier try left is of no use, and notes why. */
static int begin_afresh(struct fm_resume *r, const char *why, struct fm_err *err)
{
	const char *again;
	int ret;

	(void)snprintf(r->note, sizeof(r->note),
		       "began afresh: what was there of an earlier try is of no use: %s", why);
	fm_journal_close(r->journal);
	r->journal = NULL;
	ret = drop_all(r, err);
	return ret < 0 ? ret : open_journal(r, &again, err);
}

/* Something is there: goes on with it, or begins afresh if its journal does not fit. */
static int begin_again(struct fm_resume *r, const char *why, struct fm_have *have,
		       struct fm_err *err)
{
	const struct fm_journal_file *f = why ? NULL : fm_journal_find(r->journal, "", 0);
	struct stat st;
	int ret = fm_sys_fstat(r->fd, &st);

	if (ret < 0)
		return fm_err_sys(err, ret, "look at the size of the partial file");
	if (!why)
		why = objection(f, &r->source, (uint64_t)st.st_size);
	return why ? begin_afresh(r, why, err) : take(r, f, have, err);
}

int fm_resume_begin(struct fm_resume *r, const struct fm_identity *source, struct fm_have *have,
		    struct fm_err *err)
{
	const char *why = NULL;
	int ret;

	assert(!r->journal);
	r->source = *source;
	if (r->lock < 0)
		return 0;
	if (!is_known(source))
		return r->has_content ? drop_all(r, err) : 0;
	ret = open_journal(r, &why, err);
	if (ret == 0 && r->has_content)
		ret = begin_again(r, why, have, err);
	return ret;
}

/* -------------------------------------------------------------------------------------- logging */

static void fill_entries(const struct fm_resume *r, const struct fm_written *written, size_t count,
			 struct fm_journal_entry *out)
{
	uint64_t identity = fm_identity_hash(&r->source);

	for (size_t i = 0; i < count; i++)
		out[i] = (struct fm_journal_entry){ .path = "",
						    .size = r->source.size,
						    .mtime_ns = r->source.mtime_ns,
						    .identity = identity,
						    .offset = written[i].offset,
						    .len = written[i].len,
						    .crc = written[i].crc };
}

/*
 * Goes on without a journal that cannot be written: the next try sends more, but this one need not
 * end.
 */
static void give_up(struct fm_resume *r, const char *why)
{
	struct fm_path_shown shown;

	fm_log_warn("%s: its journal cannot be written: %s; should this transfer be interrupted, "
		    "the next try begins earlier",
		    r->name[0] ? fm_path_show(r->name, &shown) : "a caller's file", why);
	fm_journal_close(r->journal);
	r->journal = NULL;
}

static void append(struct fm_resume *r, const struct fm_written *written, size_t count)
{
	struct fm_journal_entry *entries =
		FM_FAULT("resume.alloc") ? NULL : calloc(count, sizeof(*entries));
	struct fm_err err;

	if (!entries)
		return;
	fill_entries(r, written, count, entries);
	if (fm_journal_append(r->journal, entries, count, &err) < 0)
		give_up(r, err.text);
	for (size_t i = 0; r->journal && i < count; i++)
		if (written[i].offset + written[i].len > r->end)
			r->end = written[i].offset + written[i].len;
	free(entries);
}

int fm_resume_log(struct fm_resume *r, const struct fm_written *written, size_t count,
		  struct fm_err *err)
{
	int ret;

	if (!r->journal || count == 0)
		return 0;
	ret = r->sync ? fm_sync_data(r->sync, r->fd) : 0;
	if (ret < 0)
		return fm_err_sys(err, ret, "sync the data");
	append(r, written, count);
	return 0;
}

/* -------------------------------------------------------------------------------------- the end */

bool fm_resume_has_something(const struct fm_resume *r)
{
	struct stat st;

	/* Removed from under us, or by us just before: nobody would find it. */
	return r->lock >= 0 && (r->has_content || r->end > 0) && fstat(r->lock, &st) == 0 &&
	       st.st_size > 0 && st.st_nlink > 0;
}

void fm_resume_end(struct fm_resume *r)
{
	fm_journal_close(r->journal);
	r->journal = NULL;
}
