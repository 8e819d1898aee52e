/* SPDX-License-Identifier: MIT */
/* mapped - see mapped.h. */
#include "mover/store/mapped.h"

#include <errno.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/store/sys.h"

#define WINDOWS 8		/* lanes are never far apart */

struct window {
	uint64_t number;	/* in the file, from 0 */
	bool is_taken;
	unsigned users;
	uint64_t written;	/* bytes, of those that it was made for */
	pthread_mutex_t making;
	/* below: whoever makes it; for its users when it is ready */
	bool is_ready;
	char *at;		/* NULL: not mapped */
};

struct fm_mapped {
	int fd;
	uint64_t size, window_bytes;
	atomic_bool is_refused;		/* by the kernel: pwrite(2) from here on */
	_Atomic uint64_t written;
	pthread_mutex_t lock;		/* of what each window says above `making` */
	struct window window[WINDOWS];
};

static atomic_uint lane_count;

void fm_mapped_set_lanes(unsigned lanes)
{
	atomic_store(&lane_count, lanes);
}

bool fm_mapped_pays(void)
{
	return atomic_load(&lane_count) >= FM_MAPPED_LANES_MIN;
}

struct fm_mapped *fm_mapped_new(int fd, uint64_t size, uint64_t window)
{
	struct fm_mapped *m;
	struct statfs fs;

	if (fm_sys_fstatfs(fd, &fs) < 0 || (unsigned long)fs.f_type != TMPFS_MAGIC)
		return NULL;
	m = fm_sys_alloc(sizeof(*m));
	if (!m)
		return NULL;
	m->fd = fd;
	m->size = size;
	m->window_bytes = window;
	pthread_mutex_init(&m->lock, NULL);
	for (unsigned i = 0; i < WINDOWS; i++)
		pthread_mutex_init(&m->window[i].making, NULL);
	return m;
}

static void unmap(const struct fm_mapped *m, char *at)
{
	if (at)
		(void)munmap(at, m->window_bytes);
}

void fm_mapped_free(struct fm_mapped *m)
{
	if (!m)
		return;
	fm_log_debug("%llu of %llu bytes of a file in memory were written through mappings",
		     (unsigned long long)atomic_load(&m->written), (unsigned long long)m->size);
	for (unsigned i = 0; i < WINDOWS; i++) {
		unmap(m, m->window[i].at);
		pthread_mutex_destroy(&m->window[i].making);
	}
	pthread_mutex_destroy(&m->lock);
	free(m);
}

/* ---- windows ---- */

/* How many bytes of the file are in it. */
static uint64_t length_of(const struct fm_mapped *m, uint64_t number)
{
	uint64_t left = m->size - number * m->window_bytes;

	return left < m->window_bytes ? left : m->window_bytes;
}

/* The one with that number, else the place of one that nobody uses, the first of the file. */
static struct window *find(struct fm_mapped *m, uint64_t number)
{
	struct window *best = NULL;

	for (unsigned i = 0; i < WINDOWS; i++) {
		struct window *w = &m->window[i];

		if (w->is_taken && w->number == number)
			return w;
		if (w->users > 0)
			continue;
		if (!best || (best->is_taken && (!w->is_taken || w->number < best->number)))
			best = w;
	}
	return best;
}

/* NULL: all others are in use. */
static struct window *enter(struct fm_mapped *m, uint64_t number)
{
	struct window *w;

	pthread_mutex_lock(&m->lock);
	w = find(m, number);
	if (w && !(w->is_taken && w->number == number)) {
		w->is_taken = true;
		w->is_ready = false;
		w->number = number;
		w->written = 0;
	}
	if (w)
		w->users++;
	pthread_mutex_unlock(&m->lock);
	return w;
}

static void leave(struct fm_mapped *m, struct window *w, uint64_t written)
{
	char *at = NULL;

	pthread_mutex_lock(&m->lock);
	w->users--;
	w->written += written;
	if (w->users == 0 && w->written >= length_of(m, w->number)) {
		at = w->at;
		w->at = NULL;
		w->is_taken = false;
	}
	pthread_mutex_unlock(&m->lock);
	unmap(m, at);
}

/* Sets its room aside and maps it. -EAGAIN: that cannot be done here. */
static int map(struct fm_mapped *m, struct window *w)
{
	uint64_t from = w->number * m->window_bytes;
	int ret = fm_sys_fallocate(m->fd, from, length_of(m, w->number));
	void *at;

	if (ret == -ENOSPC || ret == -EDQUOT || ret == -EFBIG)
		return ret;
	if (ret < 0)
		return -EAGAIN;
	at = FM_FAULT("store.map") ? MAP_FAILED
				   : mmap(NULL, m->window_bytes, PROT_READ | PROT_WRITE,
					  MAP_SHARED, m->fd, (off_t)from);
	if (at == MAP_FAILED)
		return -EAGAIN;
	w->at = at;
	return 0;
}

/* Waits for who makes it just now. */
static int make(struct fm_mapped *m, struct window *w)
{
	int ret = 0;

	pthread_mutex_lock(&w->making);
	if (!w->is_ready) {
		unmap(m, w->at);
		w->at = NULL;
		ret = map(m, w);
		w->is_ready = ret == 0;
	}
	pthread_mutex_unlock(&w->making);
	return ret;
}

/* ---- writing ---- */

/*
 * Why a place of the mapping is none. A file that is shorter than its room was cut. Else the kernel
 * has no page for it: pwrite(2) says why.
 */
static int no_page(const struct fm_mapped *m, uint64_t end)
{
	struct stat st;

	return fm_sys_fstat(m->fd, &st) == 0 && (uint64_t)st.st_size < end ? -EIO : -EAGAIN;
}

static int64_t copy_some(char *to, const char *from, size_t len)
{
	/* not written to */
	struct iovec local = { .iov_base = (char *)(uintptr_t)from, .iov_len = len };
	struct iovec remote = { .iov_base = to, .iov_len = len };

	if (FM_FAULT("store.copy"))
		return -EPERM;
	ssize_t n = process_vm_writev(getpid(), &local, 1, &remote, 1, 0);

	return n < 0 ? -errno : n;
}

/* Copies into a window that is ready. Returns the bytes, or -EIO. */
static int64_t copy(struct fm_mapped *m, const struct window *w, const char *buf, uint32_t len,
		    uint64_t offset)
{
	char *to = w->at + offset % m->window_bytes;
	uint32_t moved = 0;
	int64_t n = 1;

	while (moved < len && n > 0) {
		n = copy_some(to + moved, buf + moved, len - moved);
		moved += n > 0 ? (uint32_t)n : 0;
	}
	if (n == -EFAULT)
		n = no_page(m, offset + len);
	else if (n < 0)
		atomic_store(&m->is_refused, true);
	return n == -EIO ? n : moved;
}

/* What lies in one window. Fewer bytes than len: the others are for pwrite(2). */
static int64_t write_part(struct fm_mapped *m, const char *buf, uint32_t len, uint64_t offset)
{
	struct window *w = enter(m, offset / m->window_bytes);
	int64_t n;

	if (!w)
		return 0;
	n = make(m, w);
	if (n == 0)
		n = copy(m, w, buf, len, offset);
	leave(m, w, n > 0 ? (uint64_t)n : 0);
	if (n == -EAGAIN) {
		atomic_store(&m->is_refused, true);
		return 0;
	}
	return n;
}

int64_t fm_mapped_write(struct fm_mapped *m, const void *buf, uint32_t len, uint64_t offset)
{
	uint32_t moved = 0;

	if (offset > m->size || len > m->size - offset)
		return 0;
	while (moved < len && !atomic_load(&m->is_refused)) {
		uint64_t at = offset + moved, room = m->window_bytes - at % m->window_bytes;
		uint32_t part = len - moved < room ? len - moved : (uint32_t)room;
		int64_t n = write_part(m, (const char *)buf + moved, part, at);

		if (n < 0)
			return n;
		moved += (uint32_t)n;
		if (n < part)
			break;
	}
	atomic_fetch_add(&m->written, moved);
	return moved;
}
