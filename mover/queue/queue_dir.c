/* SPDX-License-Identifier: MIT */
/*
 * queue_dir - the directory where detached jobs are written down: one file each, ID.json, written
 * beside and renamed.
 *
 * Only this daemon's user may write there (0700), and only one daemon at a time uses it (a lock).
 * What is read back may still be torn or of another version: such a file is said, renamed to
 * ID.json.bad and left there.
 */
#include "mover/queue/queue_priv.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "mover/base/log.h"

#define LOCK_NAME "lock"
#define SUFFIX ".json"
#define SUFFIX_TEMP ".json.new"
#define SUFFIX_BAD ".json.bad"
#define NAME_MAX_LEN (FM_QUEUE_ID_LEN + sizeof(SUFFIX_TEMP))
#define RENUMBERED_FROM (UINT64_C(1) << 52)	/* nobody has had that many jobs */
#define FILES_MAX (FM_QUEUE_JOBS_MAX + FM_QUEUE_KEPT_MAX)

static void file_name(const char *id, const char *suffix, char out[static NAME_MAX_LEN])
{
	(void)snprintf(out, NAME_MAX_LEN, "%.*s%s", FM_QUEUE_ID_LEN, id, suffix);	/* fits */
}

/* ---- writing ---- */

static int write_all(int fd, const char *text, size_t len)
{
	size_t at = 0;
	ssize_t n;

	while (at < len) {
		n = FM_FAULT("queue.write") ? (errno = ENOSPC, -1) : write(fd, text + at, len - at);
		if (n < 0 && errno != EINTR)
			return -errno;
		at += n > 0 ? (size_t)n : 0;
	}
	if (FM_FAULT("queue.sync"))
		return -EIO;
	return fsync(fd) < 0 ? -errno : 0;
}

static int write_file(int dir, const char *id, const char *text, struct fm_err *err)
{
	char temp[NAME_MAX_LEN], name[NAME_MAX_LEN];
	int fd, ret;

	file_name(id, SUFFIX_TEMP, temp);
	file_name(id, SUFFIX, name);
	fd = openat(dir, temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fm_err_making(err, -errno, dir, "write down job %s in node.state_directory",
				     id);
	ret = write_all(fd, text, strlen(text));
	if (close(fd) < 0 && ret == 0)
		ret = -errno;
	if (ret == 0 && renameat(dir, temp, dir, name) < 0)
		ret = -errno;
	if (ret == 0 && fsync(dir) < 0)
		ret = -errno;
	if (ret < 0) {
		/* the first error counts; the next start removes it */
		(void)unlinkat(dir, temp, 0);
		return fm_err_making(err, ret, dir, "write down job %s in node.state_directory",
				     id);
	}
	return 0;
}

static int remove_file(int dir, const char *id)
{
	char name[NAME_MAX_LEN];
	int ret;

	file_name(id, SUFFIX, name);
	ret = unlinkat(dir, name, 0) < 0 && errno != ENOENT ? -errno : 0;
	(void)fsync(dir);	/* one that comes back is found to be done */
	return ret;
}

/* A full disk would say it of each job. */
static void say_left(struct fm_queue_job *j)
{
	if (j->remove_ret < 0)
		fm_log_job(&j->queue->lines, fm_loop_now(j->queue->c.loop), FM_LOG_WARN, j->id,
			   "it %s, but its file cannot be removed: %s",
			   fm_queue_has_ended(j) ? "has ended" : "is to end",
			   fm_err_name(j->remove_ret));
	j->remove_ret = 0;
}

/*
 * Writes the job to its file. If its end cannot be written, the file is removed instead: the job
 * must not begin again with the next daemon.
 */
static void save_run(struct fm_work *work)
{
	struct fm_queue_job *j = fm_container_of(work, struct fm_queue_job, save);

	fm_err_clear(&j->save_err);
	j->save_ret = j->save_text ? write_file(j->queue->dir, j->id, j->save_text, &j->save_err)
				   : fm_err_set(&j->save_err, -ENOMEM,
						"write down job %s: no memory", j->id);
	if (j->save_ret < 0 && j->is_end_saved)
		j->remove_ret = remove_file(j->queue->dir, j->id);
}

static void forget_run(struct fm_work *work)
{
	struct fm_queue_job *j = fm_container_of(work, struct fm_queue_job, save);

	if (j->queue->dir >= 0)
		j->remove_ret = remove_file(j->queue->dir, j->id);
}

static void forget_done(struct fm_work *work)
{
	struct fm_queue_job *j = fm_container_of(work, struct fm_queue_job, save);

	say_left(j);
	j->is_saving = false;
	fm_queue_job_drop(j);
}

static void forget_now(struct fm_queue_job *j)
{
	j->is_saving = true;
	j->save.run = forget_run;
	j->save.done = forget_done;
	fm_queue_work(j->queue, NULL, &j->save);
}

static void first_save_done(struct fm_queue_job *j)
{
	char text[FM_ERR_TEXT_MAX + 80];

	if (fm_queue_has_ended(j))	/* it came too late, and its file goes again */
		return;
	j->save_late_ns = 0;
	if (j->save_ret < 0) {
		(void)snprintf(text, sizeof(text),
			       "%s, so it would be lost: leave out --detach, or make room",
			       j->save_err.text);
		fm_queue_fail(j, j->save_ret, text);
	} else if (j->end_code) {
		(void)snprintf(text, sizeof(text), "%s", j->why ? j->why : "cancelled");
		fm_queue_fail(j, j->end_code, text);
	} else {
		fm_queue_accepted(j);
	}
}

/* What was saved says that the job is to end, or no file says any more that it is to go on. */
static void say_cancelled(struct fm_queue_job *j)
{
	struct fm_err why = { .code = 0 };

	if (j->save_ret < 0 && j->remove_ret < 0)
		(void)fm_err_set(&why, j->save_ret,
				 "%s, nor its file be removed: it ends, and begins again if fmoved "
				 "is ended first",
				 j->save_err.text);
	fm_queue_cancels_said(j, why.code ? &why : NULL);
}

static void save_done(struct fm_work *work)
{
	struct fm_queue_job *j = fm_container_of(work, struct fm_queue_job, save);
	bool is_again = j->is_dirty;

	free(j->save_text);
	j->save_text = NULL;
	if (j->is_end_saved && !fm_queue_has_ended(j))
		say_cancelled(j);
	say_left(j);
	j->is_saving = j->is_dirty = false;
	if (j->is_forgotten)
		forget_now(j);
	else if (!j->is_accepted)
		first_save_done(j);
	else if (is_again)
		fm_queue_save(j);
	else if (j->save_ret < 0)
		fm_log_job(&j->queue->lines, fm_loop_now(j->queue->c.loop), FM_LOG_WARN, j->id,
			   "%s; the next start does not know of it", j->save_err.text);
	if (j->is_end_unsaved && !j->is_saving)
		fm_queue_end_saved(j);
	if (j->is_noting && !j->is_saving)
		fm_queue_noted(j);
}

bool fm_queue_is_ending(const struct fm_queue_job *j)
{
	return j->end_code && j->o.is_detached && j->is_accepted && !j->is_abandoned;
}

/* It is not accepted: its file goes when the directory answers. */
static void first_save_late(struct fm_queue_job *j)
{
	char text[FM_ERR_TEXT_MAX];

	(void)snprintf(text, sizeof(text),
		       "%s%snode.state_directory has not answered for %u s, so job %s is not "
		       "accepted (it may begin all the same if fmoved is ended first)",
		       j->end_code && j->why ? j->why : "", j->end_code && j->why ? "; " : "",
		       (unsigned)(FM_QUEUE_SAVE_NS / FM_NS_PER_S), j->id);
	fm_queue_fail(j, j->end_code ? j->end_code : -ETIMEDOUT, text);
}

void fm_queue_save_late(struct fm_queue_job *j)
{
	struct fm_err why;

	if (!j->is_accepted && !fm_queue_has_ended(j)) {
		first_save_late(j);
		return;
	}
	if (!j->is_end_unsaved && fm_list_is_empty(&j->cancels))
		return;
	(void)fm_err_set(&why, -ETIMEDOUT,
			 "node.state_directory has not answered for %u s, so this end of job %s is "
			 "not written down: it may begin again if fmoved is ended first",
			 (unsigned)(FM_QUEUE_SAVE_NS / FM_NS_PER_S), j->id);
	fm_log_job(&j->queue->lines, fm_loop_now(j->queue->c.loop), FM_LOG_WARN, j->id, "%s",
		   why.text);
	fm_queue_cancels_said(j, &why);
	if (!j->is_end_unsaved)
		return;
	if (j->result && !j->result->note[0])	/* cut if it is too long */
		(void)snprintf(j->result->note, sizeof(j->result->note), "%.*s",
			       (int)sizeof(j->result->note) - 1, why.text);
	fm_queue_end_saved(j);
}

static char *encode(const struct fm_queue_job *j)
{
	char *text = FM_FAULT("queue.encode") ? NULL : malloc(FM_QUEUE_FILE_BYTES_MAX), *fitting;
	int len = text ? fm_queue_encode(j, text, FM_QUEUE_FILE_BYTES_MAX) : -ENOMEM;

	if (len < 0) {
		free(text);
		return NULL;
	}
	fitting = realloc(text, (size_t)len + 1);
	return fitting ? fitting : text;
}

void fm_queue_save(struct fm_queue_job *j)
{
	if (j->queue->dir < 0 || j->is_forgotten)
		return;
	if (j->is_saving) {
		j->is_dirty = true;
		return;
	}
	j->is_saving = true;
	fm_queue_deadline_note(j);
	j->save_text = encode(j);
	j->is_end_saved = fm_queue_has_ended(j) || fm_queue_is_ending(j);
	j->save.run = save_run;
	j->save.done = save_done;
	fm_queue_work(j->queue, NULL, &j->save);
}

void fm_queue_forget(struct fm_queue_job *j)
{
	assert(fm_queue_has_ended(j) && !j->is_forgotten);
	fm_queue_set_forgotten(j);	/* at once: its file takes its time */
	if (!j->is_saving)
		forget_now(j);
}

/* ---- reading ---- */

/*
 * Reads a job's file into *out, which the caller frees. -EBADMSG: the file is not one of ours.
 * Other errors: it cannot be read.
 */
static int read_file(int dir, const char *name, char **out, size_t *len, struct fm_err *err)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;
	ssize_t n;
	int ret = 0;

	if (fd < 0)
		return errno == ELOOP ? fm_err_set(err, -EBADMSG, "it is a link")
				      : fm_err_sys(err, -errno, "open");
	if (fstat(fd, &st) < 0)
		ret = fm_err_sys(err, -errno, "look at it");
	else if (!S_ISREG(st.st_mode) || st.st_size <= 0 ||
		 st.st_size > (off_t)FM_QUEUE_FILE_BYTES_MAX)
		ret = fm_err_set(err, -EBADMSG, "its size of %lld bytes is none that a job has",
				 (long long)st.st_size);
	*out = ret == 0 ? malloc((size_t)st.st_size + 1) : NULL;
	if (ret == 0 && !*out)
		ret = fm_err_set(err, -ENOMEM, "no memory");
	if (ret == 0) {
		n = read(fd, *out, (size_t)st.st_size);
		if (n != (ssize_t)st.st_size)
			ret = fm_err_sys(err, n < 0 ? -errno : -EIO, "read");
		*len = (size_t)st.st_size;
		(*out)[*len] = '\0';
	}
	if (ret < 0)
		free(*out);
	(void)close(fd);	/* only read */
	return ret;
}

static void set_aside(struct fm_queue *q, const char *id, const char *why)
{
	char name[NAME_MAX_LEN], bad[NAME_MAX_LEN];

	file_name(id, SUFFIX, name);
	file_name(id, SUFFIX_BAD, bad);
	fm_log_job(NULL, 0, FM_LOG_WARN, id,
		   "%s/%s is no job that can be read: %s; it is set aside as %s", q->c.directory,
		   name, why, bad);
	if (renameat(q->dir, name, q->dir, bad) < 0)
		fm_log_job(NULL, 0, FM_LOG_WARN, id, "%s/%s: cannot be renamed: %s",
			   q->c.directory, name, fm_err_name(errno));
}

/* It was told to end, and the daemon was ended first. */
static void revive_ended(struct fm_queue_job *j)
{
	j->state = j->end_code == -ECANCELED ? FM_QUEUE_CANCELLED : FM_QUEUE_FAILED;
	j->ended_ms = fm_queue_now_ms();
	j->is_abandoned = false;
	if (j->code != j->end_code)
		fm_queue_set_why(j, j->end_code, j->end_code == -ECANCELED
							 ? "cancelled"
							 : fm_err_name(j->end_code));
	fm_queue_save(j);
}

/* What a job is after a restart. */
static void revive(struct fm_queue_job *j)
{
	struct fm_queue *q = j->queue;

	j->is_accepted = j->is_told = true;
	j->has_gone_far = j->is_sent;
	if (!fm_queue_has_ended(j) && j->end_code)
		revive_ended(j);
	else if (!fm_queue_has_ended(j))
		j->state = j->o.end == FM_QUEUE_STORE ? FM_QUEUE_QUEUED : FM_QUEUE_PAUSED;
	if (j->state == FM_QUEUE_PAUSED && j->o.is_attended && !j->is_abandoned) {
		j->is_abandoned = true;		/* its command went when the daemon did */
		j->ended_ms = fm_queue_now_ms();
	}
	fm_queue_keep(j);
	if (!fm_queue_has_ended(j))
		fm_queue_deadline_restore(j);
	if (j->seq >= q->next_seq)
		q->next_seq = j->seq + 1;
	fm_queue_job_add(j);
	if (j->state == FM_QUEUE_QUEUED)
		fm_queue_enqueue(j);
}

static void load_one(struct fm_queue *q, const char *name)
{
	struct fm_queue_job *j = NULL;
	char id[FM_QUEUE_ID_LEN + 1], *text = NULL;
	struct fm_err err = { 0 };
	size_t len = 0;
	int ret;

	memcpy(id, name, FM_QUEUE_ID_LEN);
	id[FM_QUEUE_ID_LEN] = '\0';
	ret = read_file(q->dir, name, &text, &len, &err);
	if (ret == 0) {
		ret = fm_queue_decode(q, id, text, len, &j, &err);
		free(text);
	}
	if (ret == 0)
		revive(j);
	else if (ret == -EBADMSG || ret == -EINVAL)
		set_aside(q, id, err.text);
	else
		fm_log_job(NULL, 0, FM_LOG_WARN, id, "%s/%s: %s; this job is not gone on with",
			   q->c.directory, name, err.text);
}

static bool is_id_with(const char *name, const char *suffix)
{
	return strspn(name, "abcdefghijklmnopqrstuvwxyz234567") == FM_QUEUE_ID_LEN &&
	       strcmp(name + FM_QUEUE_ID_LEN, suffix) == 0;
}

static int load_all(struct fm_queue *q, struct fm_err *err)
{
	int fd = fcntl(q->dir, F_DUPFD_CLOEXEC, 0);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	unsigned count = 0;

	if (!dir) {
		if (fd >= 0)
			(void)close(fd);	/* unused */
		return fm_err_sys(err, -errno, "read %s", q->c.directory);
	}
	while ((entry = readdir(dir))) {
		if (is_id_with(entry->d_name, SUFFIX_TEMP))
			/* half written, never accepted */
			(void)unlinkat(q->dir, entry->d_name, 0);
		else if (is_id_with(entry->d_name, SUFFIX) && count++ < FILES_MAX)
			load_one(q, entry->d_name);
	}
	if (count > FILES_MAX)
		fm_log_warn("%s holds more than %u jobs; those beyond are left alone",
			    q->c.directory, FILES_MAX);
	(void)closedir(dir);	/* only read */
	return 0;
}

/* A number near the last one comes from a file that was damaged, and those of later jobs would be
 * beyond what can be read: all begin anew, in their order. */
static void renumber(struct fm_queue *q)
{
	q->next_seq = 1;
	fm_list_each(at, next, &q->jobs) {
		struct fm_queue_job *j = fm_container_of(at, struct fm_queue_job, at);

		j->seq = q->next_seq++;
		fm_queue_save(j);
	}
}

/* ---- the directory ---- */

static int open_dir(struct fm_queue *q, struct fm_err *err)
{
	const char *path = q->c.directory;
	struct stat st;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return fm_err_sys(err, -errno, "make the directory %s (node.state_directory)",
				  path);
	q->dir = FM_FAULT("queue.dir")
			 ? (errno = EMFILE, -1)
			 : open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (q->dir < 0 || fstat(q->dir, &st) < 0)
		return fm_err_sys(err, -errno, "open %s (node.state_directory)", path);
	if (st.st_uid != geteuid())
		return fm_err_set(
			err, -EPERM,
			"%s (node.state_directory) belongs to uid %u, not to this daemon's user",
			path, (unsigned)st.st_uid);
	if ((st.st_mode & 0777) != 0700 && fchmod(q->dir, 0700) < 0)
		return fm_err_sys(err, -errno, "%s: set its mode", path);
	q->lock = openat(q->dir, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (q->lock < 0)
		return fm_err_sys(err, -errno, "%s/%s", path, LOCK_NAME);
	if (flock(q->lock, LOCK_EX | LOCK_NB) < 0)
		return fm_err_set(
			err, -EBUSY,
			"%s is used by another fmoved; each needs its own node.state_directory",
			path);
	return 0;
}

void fm_queue_dir_open(struct fm_queue *q)
{
	int ret;

	if (!q->c.directory) {
		(void)fm_err_set(&q->no_dir, -EOPNOTSUPP,
				 "it has no directory for them (node.state_directory)");
		return;
	}
	ret = open_dir(q, &q->no_dir);
	if (ret == 0)
		ret = load_all(q, &q->no_dir);
	if (ret == 0 && q->next_seq > RENUMBERED_FROM)
		renumber(q);
	if (ret == 0)
		return;
	fm_log_warn("%s; detached jobs are refused", q->no_dir.text);
	fm_queue_dir_close(q);
}

void fm_queue_dir_close(struct fm_queue *q)
{
	if (q->lock >= 0)
		(void)close(q->lock);	/* which unlocks it */
	if (q->dir >= 0)
		(void)close(q->dir);	/* every file was synced */
	q->lock = q->dir = -1;
}
