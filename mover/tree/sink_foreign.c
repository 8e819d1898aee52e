/* SPDX-License-Identifier: MIT */
/*
 * sink_foreign - what an update could not keep: another user's files that may be neither linked nor
 * read, and what of others only root can make anew.
 *
 * The survey, before anything comes, finds the names. Whether one of them is only there, and so
 * would have to be kept, nobody knows before all names came; then bytes have come, too. So an
 * update that meets such a name is refused for a dry run, as one is for which there may be no
 * room (is_unmeasured): the dry run refuses by name what it does not meet, and the update that
 * follows says how much will come, which tells that there was one.
 *
 * Of more than FM_SINK_FOREIGN_MAX the rest is refused when it is come to.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mover/base/show.h"
#include "mover/tree/sink_merge.h"
#include "mover/tree/tsys.h"

/* One name. */
struct foreign {
	const char *why;
	bool is_met;			/* the source has it, too */
	size_t len;
	char path[];			/* terminated */
};

static bool has_capability(unsigned cap)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	return syscall(SYS_capget, &head, data) == 0 && (data[cap / 32].effective & 1u << cap % 32);
}

/* fs.protected_hardlinks; nobody can say: then it is tried. */
static bool are_links_protected(void)
{
	int fd = open("/proc/sys/fs/protected_hardlinks", O_RDONLY | O_CLOEXEC);
	char c = '0';

	if (fd < 0)
		return false;
	if (read(fd, &c, 1) != 1)
		c = '0';
	(void)close(fd);	/* only read */
	return c == '1';
}

void fm_foreign_begin(struct fm_sink_foreign *f)
{
	f->may_link = has_capability(CAP_FOWNER) || !are_links_protected();
	f->may_give = has_capability(CAP_CHOWN);
}

/* Why a name could not be kept; NULL: it could. */
static const char *why_not(const struct fm_sink *s, const struct fm_scan_met *met,
			   const struct stat *st)
{
	const struct fm_sink_foreign *f = &s->foreign;

	if (st->st_uid == s->uid)
		return NULL;
	if (S_ISDIR(st->st_mode))
		return f->may_give ? NULL : FM_FOREIGN_DIR;
	if (f->may_link)
		return NULL;
	if (S_ISREG(st->st_mode))
		return faccessat(met->dir->fd, met->name, R_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) ==
				       0
			       ? NULL
			       : FM_FOREIGN_FILE;
	if (S_ISLNK(st->st_mode))
		return f->may_give ? NULL : FM_FOREIGN_LINK;
	return FM_FOREIGN_SPECIAL;
}

static int add(struct fm_sink_foreign *f, const char *path, size_t len, const char *why)
{
	struct foreign *one = fm_tsys_alloc(sizeof(*one) + len + 1);

	if (!one)
		return -ENOMEM;
	*one = (struct foreign){ .why = why, .len = len };
	memcpy(one->path, path, len + 1);
	f->at[f->count++] = one;
	return 0;
}

int fm_foreign_look(struct fm_merge *w, const struct fm_merge_at *p)
{
	struct fm_sink_foreign *f = &w->call->s->foreign;
	const char *why;
	struct stat st;
	int ret;

	if ((f->may_link && f->may_give) || f->count == FM_SINK_FOREIGN_MAX)
		return 0;
	ret = p->met->name_len > 0 ? fm_tsys_fstatat(p->met->dir->fd, p->met->name, &st)
				   : fm_tsys_fstat(p->met->dir->fd, &st);
	why = ret == 0 ? why_not(w->call->s, p->met, &st) : NULL;
	ret = ret == -ENOENT || !why ? 0 : add(f, p->path, p->len, why);
	return ret < 0 ? fm_merge_fail(w, ret, "look at", p) : 0;
}

/* Sorts by path. A directory comes before what is in it. */
static int compare(const void *a, const void *b)
{
	const struct foreign *x = *(const struct foreign *const *)a,
			     *y = *(const struct foreign *const *)b;
	int order = memcmp(x->path, y->path, x->len < y->len ? x->len : y->len);

	return order ? order : (x->len > y->len) - (x->len < y->len);
}

void fm_foreign_end(struct fm_sink_foreign *f)
{
	if (f->count > 0)
		qsort(f->at, f->count, sizeof(f->at[0]), compare);
}

void fm_foreign_free(struct fm_sink_foreign *f)
{
	while (f->count > 0)
		fm_tsys_free(f->at[--f->count]);
}

void fm_sink_foreign_met(struct fm_sink *s, const char *path, size_t len)
{
	const struct fm_sink_foreign *f = &s->foreign;
	size_t low = 0, high = f->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct foreign *one = f->at[mid];
		int order = memcmp(path, one->path, len < one->len ? len : one->len);

		if (order == 0 && len == one->len) {
			__atomic_store_n(&f->at[mid]->is_met, true, __ATOMIC_RELAXED);
			return;
		}
		if (order < 0 || (order == 0 && len < one->len))
			high = mid;
		else
			low = mid + 1;
	}
}

static int fail(const struct fm_sink *s, int code, const struct foreign *one, const char *is_what,
		struct fm_err *err)
{
	char whole[3 * FM_TREE_PATH_MAX];
	struct fm_path_shown shown;

	(void)snprintf(whole, sizeof(whole), "%s/%s", s->opts.path, one->path);
	return fm_err_set(err, code,
			  "\"%s\" %s, and cannot be kept: %s; move it away, or say --delete to "
			  "keep nothing of that",
			  fm_path_show(whole, &shown), is_what, one->why);
}

int fm_foreign_ask(struct fm_sink *s, struct fm_err *err)
{
	if (s->foreign.count == 0 || s->opts.is_dry || s->bytes > 0 || s->opts.is_measured)
		return 0;
	s->tree.is_unmeasured = true;
	return fail(s, -ENOSPC, s->foreign.at[0], "is there, perhaps only there", err);
}

int fm_sink_refuse_foreign(struct fm_sink *s, struct fm_err *err)
{
	int ret = fm_sink_survey(s, err);

	if (ret < 0)
		return ret;
	for (size_t i = 0; i < s->foreign.count; i++)
		if (!__atomic_load_n(&s->foreign.at[i]->is_met, __ATOMIC_RELAXED))
			return fail(s, -EPERM, s->foreign.at[i], "is only there", err);
	return 0;
}
