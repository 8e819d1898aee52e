/* SPDX-License-Identifier: MIT */
/*
 * warm - see warm.h. Files are read, and not only asked for: the kernel takes a readahead for a
 * hint, of a few hundred KiB for each call, and says nothing of what became of it.
 */
#include "client/cli/warm.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/interrupt.h"
#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"

#define STEP_BYTES ((size_t)1 << 20)
#define TELL_BYTES (UINT64_C(64) << 20)	/* between two looks of progress() */
#define MARGIN_MIN (UINT64_C(256) << 20)
#define MARGIN_PART 20			/* of what is available */

/* ---- what is free ---- */

/*
 * Reads the number behind `key` at the start of a line. With key "" it is the only one of the file.
 */
static bool read_number(const char *path, const char *key, uint64_t *out)
{
	FILE *f = FM_FAULT("warm.facts") ? NULL : fopen(path, "re");
	size_t len = strlen(key);
	bool is_found = false;
	char line[256];

	if (!f)
		return false;
	while (!is_found && fgets(line, sizeof(line), f))
		is_found = strncmp(line, key, len) == 0 &&
			   sscanf(line + len, "%" SCNu64, out) == 1;
	(void)fclose(f);	/* only read */
	return is_found;
}

static bool read_of_group(const char *group, const char *file, const char *key, uint64_t *out)
{
	char path[PATH_MAX];

	return snprintf(path, sizeof(path), "%s/%s", group, file) < (int)sizeof(path) &&
	       read_number(path, key, out);
}

/*
 * How much more memory the group may take: cached files make room for it. UINT64_MAX: there is no
 * limit.
 */
static uint64_t room_of_group(const char *group)
{
	uint64_t max, current = 0, active = 0, inactive = 0, used;

	if (!read_of_group(group, "memory.max", "", &max))
		return UINT64_MAX;
	(void)read_of_group(group, "memory.current", "", &current);	/* 0: nothing is */
	(void)read_of_group(group, "memory.stat", "active_file ", &active);
	(void)read_of_group(group, "memory.stat", "inactive_file ", &inactive);
	used = current - (active + inactive < current ? active + inactive : current);
	return max > used ? max - used : 0;
}

/* Ours, "0::/a/b", and those above it. */
static uint64_t room_of_groups(const struct fm_warm_places *where, uint64_t room)
{
	char line[PATH_MAX], group[2 * PATH_MAX];
	FILE *f = FM_FAULT("warm.facts") ? NULL : fopen(where->cgroup, "re");
	size_t top = strlen(where->cgroups);
	bool is_found = false;

	while (f && !is_found && fgets(line, sizeof(line), f))
		is_found = strncmp(line, "0::/", 4) == 0;
	if (f)
		(void)fclose(f);	/* only read */
	if (!is_found)
		return room;
	line[strcspn(line, "\n")] = '\0';
	(void)snprintf(group, sizeof(group), "%s%s", where->cgroups, line + 3);
	while (strlen(group) > top) {
		uint64_t here = room_of_group(group);

		room = here < room ? here : room;
		*strrchr(group, '/') = '\0';
	}
	return room;
}

uint64_t fm_warm_room(const struct fm_warm_places *where)
{
	static const struct fm_warm_places real = { "/proc/meminfo", "/proc/self/cgroup",
						    "/sys/fs/cgroup" };
	uint64_t kib, room, margin;

	where = where ? where : &real;
	if (!read_number(where->meminfo, "MemAvailable:", &kib))
		return 0;
	room = room_of_groups(where, kib << 10);
	margin = room / MARGIN_PART > MARGIN_MIN ? room / MARGIN_PART : MARGIN_MIN;
	return room > margin ? room - margin : 0;
}

/* ---- every file ---- */

struct warming {
	const struct fm_warm_opts *o;
	struct fm_warmed *out;
	char *buf;			/* NULL: sizes alone are added up */
	uint64_t done, told;
	struct fm_err *err;
};

static int note_done(struct warming *w, uint64_t bytes)
{
	w->done += bytes;
	if (w->o->progress && w->done - w->told >= TELL_BYTES) {
		w->told = w->done;
		w->o->progress(w->o->ctx, w->done, w->out->bytes);
	}
	return fm_is_interrupted() ? -ECANCELED : 0;
}

static int read_file(struct warming *w, const char *path)
{
	int fd = FM_FAULT("warm.open") ? -EMFILE
				       : fm_call(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
	int ret = fd < 0 ? fd : 0;
	uint64_t at = 0;

	if (fd >= 0)
		(void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);	/* only faster */
	while (ret == 0) {
		int64_t n = FM_FAULT("warm.read") ? -EIO
						  : fm_call_read_all(fd, w->buf, STEP_BYTES, at);

		if (n <= 0) {
			ret = (int)n;
			break;
		}
		at += (uint64_t)n;
		ret = note_done(w, (uint64_t)n);
	}
	if (fd >= 0)
		(void)close(fd);	/* only read */
	return ret < 0 ? fm_err_sys(w->err, ret, "--warm: read %s", path) : 0;
}

static int take(struct warming *w, const FTSENT *e)
{
	if (fm_is_interrupted())
		return fm_err_set(w->err, -ECANCELED, "--warm: ended in the midst");
	switch (e->fts_info) {
	case FTS_F:
		if (w->buf)
			return read_file(w, e->fts_accpath);
		w->out->bytes += (uint64_t)e->fts_statp->st_size;
		return 0;
	case FTS_DNR:
	case FTS_ERR:
	case FTS_NS:
		return fm_err_sys(w->err, -e->fts_errno, "--warm: read %s", e->fts_path);
	default:
		return 0;
	}
}

/* NULL: errno says why, or is 0 at the end. */
static const FTSENT *next_entry(FTS *fts)
{
	const FTSENT *e;

	errno = 0;
	e = fts_read(fts);
	return FM_FAULT("warm.next") ? (errno = EIO, NULL) : e;
}

static int take_all(struct warming *w)
{
	char *roots[] = { (char *)w->o->path, NULL };
	int how = FTS_NOCHDIR | (w->o->follows_links ? FTS_LOGICAL : FTS_PHYSICAL);
	FTS *fts = FM_FAULT("warm.walk") ? (errno = ENOMEM, NULL) : fts_open(roots, how, NULL);
	const FTSENT *e;
	int ret = 0;

	if (!fts)
		return fm_err_sys(w->err, -errno, "--warm: read %s", w->o->path);
	while (ret == 0 && (e = next_entry(fts)))
		ret = take(w, e);
	if (ret == 0 && errno)
		ret = fm_err_sys(w->err, -errno, "--warm: read %s", w->o->path);
	(void)fts_close(fts);	/* only read */
	return ret;
}

int fm_warm(const struct fm_warm_opts *o, struct fm_warmed *out, struct fm_err *err)
{
	struct warming w = { .o = o, .out = out, .err = err };
	int ret;

	*out = (struct fm_warmed){ .room = fm_warm_room(NULL) };
	ret = take_all(&w);
	out->fits = ret == 0 && out->bytes <= out->room;
	if (ret < 0 || !out->fits)
		return ret;
	w.buf = FM_FAULT("warm.alloc") ? NULL : malloc(STEP_BYTES);
	if (!w.buf)
		return fm_err_set(err, -ENOMEM, "--warm: no memory to read");
	ret = take_all(&w);
	free(w.buf);
	return ret;
}
