/* SPDX-License-Identifier: MIT */
/*
 * journal - opening, trusting, appending. What stands in the file is format's business, what it
 * adds up to table's.
 */
#include "mover/journal/journal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/budget.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/journal/file.h"
#include "mover/journal/format.h"
#include "mover/journal/journal_priv.h"
#include "mover/journal/load.h"
#include "mover/journal/table.h"

#define BLOCK_MAX ((size_t)1 << 20)	/* of records, in one write */

_Static_assert(BLOCK_MAX >= FM_JOURNAL_RECORD_MAX, "the longest record fits");

struct fm_journal {
	int fd;
	struct fm_journal_head head;
	/* the file has none yet, or one that claims too much: write it before anything else */
	bool is_head_due;
	bool is_cut_due;	/* there may be more in the file than len, and it must not count */
	uint64_t len;		/* head and records that count; 0: not even a head */
	uint64_t bytes_max;	/* len's limit */
	struct fm_table table;
};

/* -------------------------------------------------------------------------------------- opening */

/* Why a head's records do not count on this machine, now; NULL: they do. */
static const char *host_objection(const struct fm_journal_head *head,
				  const struct fm_journal_host *host)
{
	if (!fm_journal_host_is_same(head->host.machine, host->machine))
		return "it was written on another machine";
	if (!head->is_synced && !fm_journal_host_is_same(head->host.boot, host->boot))
		return "it was not synced to disk, and the machine has been started again since";
	return NULL;
}

static const char *source_objection(const struct fm_journal_head *head,
				    const struct fm_journal_opts *opts)
{
	const struct fm_identity *a = &head->source, *b = &opts->source;

	if (head->is_tree != opts->is_tree)
		return head->is_tree ? "it is of a directory, and this is a file"
				     : "it is of a file, and this is a directory";
	if (head->ino != opts->ino || strcmp(head->name, opts->name) != 0)
		return "it is of another file";
	if (fm_identity_is_same(a, b))
		return NULL;
	if (a->uid != b->uid && strcmp(a->node, b->node) == 0)
		return "another user left it";
	if (strcmp(a->node, b->node) == 0 && a->dev == b->dev && a->ino == b->ino)
		return "the source has changed since";
	return "it is of another source";
}

/* The records are read, and what is behind the good ones is cut off. */
static int open_trusted(struct fm_journal *j, uint64_t size, const struct fm_journal_opts *opts,
			const struct fm_journal_env *env, struct fm_err *err)
{
	/* nothing of ours is beyond */
	uint64_t end = size < j->bytes_max ? size : j->bytes_max;
	int ret = fm_journal_load_records(j->fd, end, &j->head, &j->table, &j->len);

	if (ret == -ENOMEM)
		return fm_err_set(err, ret, "allocate memory for the journal");
	if (ret < 0)
		return fm_err_sys(err, ret, "read the journal");
	if (j->len < size)
		ret = fm_journal_file_cut(j->fd, j->len);
	if (ret < 0)
		return fm_err_sys(err, ret, "cut the torn end off the journal");
	/* What is appended from now on is not synced: the head must no longer say so, and name this
	 * boot. */
	j->is_head_due = j->head.is_synced && !opts->is_synced;
	if (j->is_head_due) {
		j->head.is_synced = false;
		j->head.host = env->host;
	}
	return 0;
}

/*
 * Begin afresh. What the old journal said must be gone from the disk before anybody writes to the
 * partial file: a power cut could bring it back, and a later try of the old source would believe
 * it.
 */
static int open_new(struct fm_journal *j, uint64_t size, const struct fm_journal_opts *opts,
		    const struct fm_journal_env *env, struct fm_err *err)
{
	int ret = size > 0 ? fm_journal_file_cut(j->fd, 0) : 0;

	if (ret == 0 && size > 0)
		ret = fm_journal_file_sync(j->fd);
	if (ret < 0)
		return fm_err_sys(err, ret, "empty a journal that is of no use");
	j->head = (struct fm_journal_head){.is_tree = opts->is_tree,
					   .is_synced = opts->is_synced,
					   .host = env->host,
					   .salt = env->salt,
					   .source = opts->source,
					   .ino = opts->ino};
	memcpy(j->head.name, opts->name, sizeof(j->head.name));
	j->is_head_due = true;
	return 0;
}

static int open_file(struct fm_journal *j, const struct fm_journal_opts *opts,
		     const struct fm_journal_env *env, const char **why, struct fm_err *err)
{
	uint64_t size = 0;
	int ret = fm_journal_file_size(j->fd, &size);

	if (ret == -EINVAL)
		return fm_err_set(err, ret, "the journal is not a regular file");
	if (ret == 0 && size > 0)
		ret = fm_journal_load_head(j->fd, size, &j->head);
	if (ret == -EBADMSG)
		*why = "its head is damaged";
	else if (ret == -EPROTONOSUPPORT)
		*why = "it was written by another version of fmove";
	else if (ret < 0)
		return fm_err_sys(err, ret, "read the journal");
	if (size > 0 && !*why)
		*why = host_objection(&j->head, &env->host);
	if (size > 0 && !*why)
		*why = source_objection(&j->head, opts);
	if (size > 0 && !*why)
		return open_trusted(j, size, opts, env, err);
	return open_new(j, size, opts, env, err);
}

int fm_journal_open_as(int fd, const struct fm_journal_opts *opts, const struct fm_journal_env *env,
		       struct fm_journal **out, const char **why, struct fm_err *err)
{
	struct fm_journal *j = FM_FAULT("journal.alloc") ? NULL : calloc(1, sizeof(*j));
	int ret;

	assert(strnlen(opts->source.node, sizeof(opts->source.node)) <= FM_JOURNAL_NODE_MAX);
	assert(strnlen(opts->name, sizeof(opts->name)) <= FM_JOURNAL_NAME_MAX);
	*out = NULL;
	*why = NULL;
	if (!j) {
		close(fd);
		return fm_err_set(err, -ENOMEM, "allocate memory for the journal");
	}
	j->fd = fd;
	j->bytes_max = env->bytes_max;
	fm_table_init(&j->table);
	ret = open_file(j, opts, env, why, err);
	if (ret < 0) {
		fm_journal_close(j);
		return ret;
	}
	*out = j;
	return 0;
}

int fm_journal_open(int fd, const struct fm_journal_opts *opts, struct fm_journal **out,
		    const char **why, struct fm_err *err)
{
	struct fm_journal_env env = { .bytes_max = FM_JOURNAL_BYTES_MAX };
	int ret = fm_journal_host_here(&env.host);

	*out = NULL;
	if (ret < 0) {
		close(fd);
		return fm_err_sys(err, ret, "find out which machine this is, for the journal");
	}
	fm_random_real.fill(fm_random_real.ctx, &env.salt, sizeof(env.salt));
	return fm_journal_open_as(fd, opts, &env, out, why, err);
}

void fm_journal_close(struct fm_journal *j)
{
	if (!j)
		return;
	fm_table_free(&j->table);
	close(j->fd);
	free(j);
}

/* --------------------------------------------------------------------------------------- asking */

bool fm_journal_is_empty(const struct fm_journal *j)
{
	return j->len <= FM_JOURNAL_HEAD_LEN;
}

const struct fm_journal_file *fm_journal_find(struct fm_journal *j, const char *path,
					      size_t path_len)
{
	return fm_table_find(&j->table, path, path_len);
}

int fm_journal_peek_as(int fd, const struct fm_journal_host *host, struct fm_journal_opts *out,
		       uint64_t *bytes_there)
{
	struct fm_journal_head head;
	struct fm_table table;
	uint64_t size, end;
	int ret = fm_journal_file_size(fd, &size);

	if (ret == 0)
		ret = fm_journal_load_head(fd, size, &head);
	if (ret < 0)
		return ret == -EPROTONOSUPPORT ? -EBADMSG : ret;
	fm_table_init(&table);
	if (size > FM_JOURNAL_BYTES_MAX)
		size = FM_JOURNAL_BYTES_MAX;
	if (!host_objection(&head, host))
		ret = fm_journal_load_records(fd, size, &head, &table, &end);
	*out = (struct fm_journal_opts){.is_tree = head.is_tree,
					.is_synced = head.is_synced,
					.source = head.source,
					.ino = head.ino};
	memcpy(out->name, head.name, sizeof(out->name));
	*bytes_there = table.bytes;
	fm_table_free(&table);
	return ret;
}

int fm_journal_peek(int fd, struct fm_journal_opts *out, uint64_t *bytes_there)
{
	struct fm_journal_host host;
	int ret = fm_journal_host_here(&host);

	return ret < 0 ? ret : fm_journal_peek_as(fd, &host, out, bytes_there);
}

bool fm_journal_is_blank(int fd)
{
	uint8_t head[FM_JOURNAL_HEAD_LEN];
	int64_t len = fm_journal_file_read(fd, head, sizeof(head), 0);

	for (int64_t i = 0; i < len; i++)
		if (head[i] != 0)
			return false;
	return len >= 0;
}

/* ------------------------------------------------------------------------------------ appending */

/* Records on their way to the file. */
struct block {
	uint8_t *buf;
	size_t cap;
	size_t len;
	uint64_t at;		/* where in the file it goes */
	bool is_begun;		/* something was written */
};

/* Room for all the records, or for as many as are written at once. */
static int block_init(struct block *b, const struct fm_journal *j,
		      const struct fm_journal_entry *entries, size_t count)
{
	*b = (struct block){ .at = j->len ? j->len : FM_JOURNAL_HEAD_LEN };
	for (size_t i = 0; i < count && b->cap < BLOCK_MAX; i++)
		b->cap += fm_journal_record_len(entries[i].path_len);
	if (b->cap > BLOCK_MAX)
		b->cap = BLOCK_MAX;
	b->buf = FM_FAULT("journal.alloc") ? NULL : malloc(b->cap);
	return b->buf ? 0 : -ENOMEM;
}

static int write_head(struct fm_journal *j)
{
	uint8_t buf[FM_JOURNAL_HEAD_LEN];

	fm_journal_head_put(&j->head, buf);
	return fm_journal_file_write(j->fd, buf, sizeof(buf), 0);
}

/* Write what is in the block; before the first one, the head if it is due. */
static int block_write(struct fm_journal *j, struct block *b)
{
	bool is_head_due = j->is_head_due && !b->is_begun;
	int ret = 0;

	if (b->len == 0)
		return 0;
	b->is_begun = true;
	if (is_head_due)
		ret = write_head(j);
	/* One that claimed too much must be gone from the disk before there is a record behind it
	 * that it does not hold for. */
	if (ret == 0 && is_head_due && j->len > 0)
		ret = fm_journal_file_sync(j->fd);
	if (ret == 0)
		ret = fm_journal_file_write(j->fd, b->buf, b->len, b->at);
	b->at += b->len;
	b->len = 0;
	return ret;
}

/* One entry into the table, and into the block if it says something new. */
static int block_put(struct fm_journal *j, struct block *b, const struct fm_journal_entry *entry,
		     struct fm_err *err)
{
	size_t len = fm_journal_record_len(entry->path_len);
	int ret = fm_table_put(&j->table, entry);

	if (ret == -EINVAL)
		return fm_err_set(
			err, ret, "the journal has a part of the %llu bytes at %llu already",
			(unsigned long long)entry->len, (unsigned long long)entry->offset);
	if (ret < 0)
		return fm_err_set(err, ret, "allocate memory for the journal");
	if (ret != FM_TABLE_CHANGED)
		return 0;
	if (b->at + b->len + len > j->bytes_max)
		return fm_err_set(err, -EFBIG, "the journal is full");
	ret = b->len + len > b->cap ? block_write(j, b) : 0;
	if (ret < 0)
		return fm_err_sys(err, ret, "write to the journal");
	fm_journal_record_put(entry, j->head.salt, b->buf + b->len);
	b->len += len;
	return 0;
}

static int append(struct fm_journal *j, struct block *b, const struct fm_journal_entry *entries,
		  size_t count, struct fm_err *err)
{
	int ret = 0;

	for (size_t i = 0; ret == 0 && i < count; i++)
		ret = block_put(j, b, &entries[i], err);
	if (ret < 0)
		return ret;
	ret = block_write(j, b);
	if (ret < 0)
		return fm_err_sys(err, ret, "write to the journal");
	if (b->is_begun && j->head.is_synced)
		ret = fm_journal_file_sync(j->fd);
	return ret < 0 ? fm_err_sys(err, ret, "sync the journal") : 0;
}

/* What a failed append may have left behind j->len goes. Until that succeeds, nothing can be
 * appended. */
static int cut_back(struct fm_journal *j)
{
	int ret = fm_journal_file_cut(j->fd, j->len);

	j->is_cut_due = ret < 0;
	return ret;
}

static int append_begin(struct fm_journal *j, const struct fm_journal_entry *entries, size_t count,
			struct fm_err *err)
{
	for (size_t i = 0; i < count; i++)
		if (!fm_journal_entry_is_good(&entries[i], j->head.is_tree))
			return fm_err_set(err, -EINVAL, "entry %zu is none that a journal can have",
					  i);
	if (j->is_cut_due && cut_back(j) < 0)
		return fm_err_set(err, -EIO, "cut back the journal after writing to it failed");
	return 0;
}

int fm_journal_append(struct fm_journal *j, const struct fm_journal_entry *entries, size_t count,
		      struct fm_err *err)
{
	struct block b;
	int ret = append_begin(j, entries, count, err);

	if (ret < 0 || count == 0)
		return ret;
	if (block_init(&b, j, entries, count) < 0)
		return fm_err_set(err, -ENOMEM, "allocate memory for the journal");
	fm_table_begin(&j->table);
	ret = append(j, &b, entries, count, err);
	if (ret < 0)
		fm_table_rollback(&j->table);
	else
		fm_table_commit(&j->table);
	if (ret < 0 && b.is_begun)
		(void)cut_back(j);	/* if it fails, the next append tries again */
	if (ret == 0 && b.is_begun) {
		j->len = b.at;
		j->is_head_due = false;
	}
	free(b.buf);
	return ret;
}
