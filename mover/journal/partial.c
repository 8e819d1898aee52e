/* SPDX-License-Identifier: MIT */
/*
 * partial - the two files of an unfinished transfer.
 *
 * Happy path: open or make the journal, lock it, see that it still has its name (whoever held the
 * lock may have removed it), then open or make the file: that is ours alone from here on. Failure
 * modes: locked: wait a little, since the transfer before may be just ending. Not ours: -EPERM, the
 * caller takes a random name. The journal is ours and the file is unfit (made for another owner,
 * say, by a try that a crash ended late): the file is removed and made anew. So is one that the
 * journal does not speak of: a crash between the exchange of a new version for an old one and the
 * end of the old one leaves that one under the partial name.
 */
#include "mover/journal/partial.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/fault.h"
#include "mover/journal/load.h"
#include "mover/journal/siphash.h"

#define WAIT_STEP_MS 20
#define GONE_TRIES_MAX 64	/* somebody removes the journal each time we have opened it */

static const char *const endings[] = {
	[FM_PARTIAL_FILE] = ".part",
	[FM_PARTIAL_JOURNAL] = ".journal",
};
#define KIND_COUNT (sizeof(endings) / sizeof(endings[0]))

/* ---------------------------------------------------------------------------------------- names */

void fm_partial_name(uint64_t hash, enum fm_partial_kind kind, char out[FM_PARTIAL_NAME_MAX + 1])
{
	int len = snprintf(out, FM_PARTIAL_NAME_MAX + 1, FM_PARTIAL_PREFIX "%016llx%s",
			   (unsigned long long)hash, endings[kind]);

	assert(len > 0 && len <= FM_PARTIAL_NAME_MAX);
	(void)len;
}

enum fm_partial_kind fm_partial_parse(const char *name, uint64_t *hash)
{
	const char *hex = name + sizeof(FM_PARTIAL_PREFIX) - 1;
	unsigned long long value;

	if (strncmp(name, FM_PARTIAL_PREFIX, sizeof(FM_PARTIAL_PREFIX) - 1) != 0 ||
	    strspn(hex, "0123456789abcdef") != 16 || sscanf(hex, "%16llx", &value) != 1)
		return FM_PARTIAL_NONE;
	for (size_t kind = FM_PARTIAL_FILE; kind < KIND_COUNT; kind++) {
		if (strcmp(hex + 16, endings[kind]) != 0)
			continue;
		if (hash)
			*hash = value;
		return (enum fm_partial_kind)kind;
	}
	return FM_PARTIAL_NONE;
}

uint64_t fm_partial_hash(const char *name)
{
	/* The key is known to all: it only keeps these hashes apart from other programs'. */
	static const struct fm_sip key = {.low = UINT64_C(0x74726170),
					  .high = UINT64_C(0x65766f6d66)};

	return fm_siphash(&key, name, strlen(name)).low;
}

/* ------------------------------------------------------------------------------------ the files */

int fm_partial_lock(int fd)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int ret;

	if (FM_FAULT("partial.lock"))
		return -ENOLCK;
	ret = fcntl(fd, F_OFD_SETLK, &lock) < 0 ? -errno : 0;
	return ret == -EACCES ? -EAGAIN : ret;	/* fcntl(2) allows both */
}

int fm_partial_is_busy(int dir, const char *name)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = FM_FAULT("partial.look")
			 ? (errno = EMFILE, -1)
			 : openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int ret;

	if (fd < 0)	/* a link or a socket is none of ours */
		return errno == ENOENT || errno == ELOOP || errno == ENXIO ? 0 : -errno;
	ret = FM_FAULT("partial.asklock") || fcntl(fd, F_OFD_GETLK, &lock) < 0
		      ? -ENOLCK
		      : lock.l_type != F_UNLCK;
	close(fd);
	return ret;
}

/*
 * Open or make one of ours, as flags say. O_NONBLOCK: opening a named pipe must not wait for its
 * other end. -EPERM: what is there is not ours. *st->st_nlink may be 0: removed meanwhile.
 */
static int open_own(int dir, const char *name, int flags, struct stat *st)
{
	int fd = FM_FAULT("partial.open")
			 ? (errno = EMFILE, -1)
			 : openat(dir, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags,
				  0600);
	int ret;

	if (fd < 0)
		return -errno;
	ret = FM_FAULT("partial.fstat") ? -EIO : fstat(fd, st) < 0 ? -errno : 0;
	if (ret == 0 && (!S_ISREG(st->st_mode) || st->st_uid != geteuid() || st->st_nlink > 1))
		ret = -EPERM;
	if (ret == 0)
		return fd;
	close(fd);
	return ret;
}

static bool is_named(int dir, const char *name, const struct stat *st)
{
	struct stat now;

	return fstatat(dir, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_ino == st->st_ino &&
	       now.st_dev == st->st_dev;
}

static void sleep_ms(unsigned ms)
{
	const struct timespec step = { .tv_nsec = (long)ms * 1000000 };

	(void)nanosleep(&step, NULL);	/* a signal only makes it shorter */
}

/* The journal, locked, and under its name: fd, and what it is in *st. */
static int open_journal(int dir, const char *name, unsigned wait_ms, struct stat *st)
{
	unsigned waited_ms = 0, gone = 0;
	int fd, ret;

	for (;;) {
		fd = open_own(dir, name, O_CREAT, st);
		if (fd < 0)
			return fd;
		ret = fm_partial_lock(fd);
		if (ret == 0 && is_named(dir, name, st)) {
			/* its size, now that nobody else writes */
			ret = fstat(fd, st) < 0 ? -errno : 0;
			if (ret == 0)
				return fd;
		}
		close(fd);
		if (ret == 0 && gone++ < GONE_TRIES_MAX)
			continue;
		if (ret != -EAGAIN || waited_ms >= wait_ms)
			return ret == 0 ? -EAGAIN : ret;
		sleep_ms(WAIT_STEP_MS);
		waited_ms += WAIT_STEP_MS;
	}
}

/*
 * Whether what an earlier try left can be used: its final mode, which a try that ended late may
 * have given it, is taken back, and it is locked, to say that it is in use. A file that somebody
 * else has locked was moved here.
 */
static int take_old(int fd, const struct stat *st)
{
	if ((st->st_mode & 07777) != 0600 && fchmod(fd, 0600) < 0)
		return -EPERM;
	return fm_partial_lock(fd) == -EAGAIN ? -EPERM : 0;
}

static int open_old(int dir, const char *name, struct stat *st)
{
	int fd = open_own(dir, name, 0, st);
	int ret = fd < 0 ? fd : take_old(fd, st);

	if (ret >= 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return ret;
}

static int make_new(int dir, const char *name)
{
	struct stat st;
	int fd = open_own(dir, name, O_CREAT | O_EXCL, &st);

	if (fd >= 0)
		/* without locks it is only its age that protects it from being swept */
		(void)fm_partial_lock(fd);
	return fd;
}

/* The file, under the journal's lock. What cannot be used in its place is removed. *is_old: it was
 * there. */
static int open_file(int dir, const char *name, struct stat *st, bool *is_old)
{
	int fd = open_old(dir, name, st);

	*is_old = fd >= 0;
	if (fd == -EPERM || fd == -EACCES || fd == -ELOOP || fd == -ENXIO)
		fd = unlinkat(dir, name, 0) < 0 ? fd : -ENOENT;
	return fd == -ENOENT ? make_new(dir, name) : fd;
}

static int empty(int fd)
{
	if (FM_FAULT("partial.empty"))
		return -EIO;
	return ftruncate(fd, 0) < 0 ? -errno : 0;
}

/*
 * Nothing else tells that the file is the one that a transfer to this name wrote: another could be
 * moved here. 1, 0, or why nobody can say.
 */
static int is_vouched_for(int journal, const struct stat *file)
{
	struct fm_journal_head head;
	struct stat st;
	int ret = fstat(journal, &st) < 0
			  ? -errno
			  : fm_journal_load_head(journal, (uint64_t)st.st_size, &head);

	if (ret == -EBADMSG || ret == -EPROTONOSUPPORT)
		return 0;
	return ret < 0 ? ret : head.ino == file->st_ino;
}

bool fm_partial_has_something(int journal, const struct stat *file)
{
	struct fm_journal_head head;
	struct stat st;

	if (fstat(journal, &st) < 0)
		return true;
	if (st.st_size == 0 || file->st_size == 0)
		return false;
	/* Whether a damaged one, or another version's, says anything is for who opens it. */
	return fm_journal_load_head(journal, (uint64_t)st.st_size, &head) < 0 ||
	       head.ino == file->st_ino;
}

/*
 * Another file under the name. What is there is neither emptied nor written to: it may be a version
 * that was replaced, and somebody reads it; or one that was moved here, and will be another's when
 * this transfer ends.
 */
static int make_anew(struct fm_partial *p)
{
	int ret = FM_FAULT("partial.unlink") ? -EIO : unlinkat(p->dir, p->name, 0) < 0 ? -errno : 0;

	close(p->fd);
	p->fd = ret < 0 ? ret : make_new(p->dir, p->name);
	return p->fd < 0 ? p->fd : 0;
}

/*
 * One without the other is of no use. The emptied journal goes to the disk before anything new goes
 * into the file: what it said must not come back with a power cut.
 */
static int settle(struct fm_partial *p, const struct stat *file, bool is_old, uint64_t journal_size)
{
	int is_usable = is_old ? is_vouched_for(p->journal, file) : 0, ret = 0;

	if (is_usable < 0)
		return is_usable;	/* both stay as they are */
	p->has_content = is_old && fm_partial_has_something(p->journal, file);
	if (!p->has_content && journal_size > 0) {
		ret = empty(p->journal);
		if (ret == 0 && fdatasync(p->journal) < 0)
			ret = -errno;
	}
	if (ret == 0 && is_old && !is_usable)
		ret = make_anew(p);
	return ret;
}

int fm_partial_open(int dir, const char *name, unsigned wait_ms, struct fm_partial *out)
{
	struct fm_partial p = { .dir = dir, .fd = -1, .journal = -1 };
	uint64_t hash = fm_partial_hash(name);
	struct stat journal, file = { 0 };
	bool is_old;
	int ret;

	fm_partial_name(hash, FM_PARTIAL_FILE, p.name);
	fm_partial_name(hash, FM_PARTIAL_JOURNAL, p.journal_name);
	p.journal = open_journal(dir, p.journal_name, wait_ms, &journal);
	if (p.journal < 0)
		return p.journal;
	p.fd = open_file(dir, p.name, &file, &is_old);
	ret = p.fd < 0 ? p.fd : settle(&p, &file, is_old, (uint64_t)journal.st_size);
	if (ret == 0) {
		*out = p;
		return 0;
	}
	if (journal.st_size == 0)
		(void)fm_partial_remove(&p);	/* the first error counts */
	fm_partial_close(&p);
	return ret;
}

int fm_partial_open_random(int dir, uint64_t random, struct fm_partial *out)
{
	*out = (struct fm_partial){ .dir = dir, .fd = -1, .journal = -1 };
	fm_partial_name(random, FM_PARTIAL_FILE, out->name);
	if (FM_FAULT("partial.create"))
		return -ENOSPC;
	out->fd = openat(dir, out->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (out->fd < 0)
		return -errno;
	/* without locks it is only its age that protects it from being swept */
	(void)fm_partial_lock(out->fd);
	return 0;
}

bool fm_partial_is_journaled(const struct fm_partial *p)
{
	struct stat st;

	return p->journal >= 0 && fstat(p->journal, &st) == 0 && st.st_size > 0 && st.st_nlink > 0;
}

int fm_partial_remove(const struct fm_partial *p)
{
	int ret = unlinkat(p->dir, p->name, 0) < 0 && errno != ENOENT ? -errno : 0;

	/* Last: who finds none takes the other name for free. Left alone it does no harm. */
	if (p->journal_name[0])
		(void)unlinkat(p->dir, p->journal_name, 0);
	return ret;
}

void fm_partial_close(struct fm_partial *p)
{
	if (p->fd >= 0)
		close(p->fd);
	if (p->journal >= 0)
		close(p->journal);
	p->fd = -1;
	p->journal = -1;
}
