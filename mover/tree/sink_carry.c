/* SPDX-License-Identifier: MIT */
/*
 * sink_carry - a name that only the old version has comes into the new one.
 *
 * Happy path: a hard link, so that it is the same file. A directory is made, and noted (in a file,
 * so that memory does not grow with their number); when nothing is made in it any more it gets
 * mode, owner, times and attributes of the old one. Linking is refused: for another user's file
 * (fs.protected_hardlinks), one with too many links, by some file systems. A regular file is cloned
 * or copied then, a symbolic link made anew; other files cannot be kept. Who has the file open
 * writes on into the version that is replaced, which goes: where that can be told the file cannot
 * be kept either; where it cannot, the user hears of it.
 *
 * Files are noted too, with the inode that they have in the new version: who saves a file writes
 * another one and renames it, and what was saved between here and the exchange is another file
 * under a name that both versions have. That goes into the new version, unless somebody wrote to
 * the file there since the exchange, which its time of modification tells, or saved it there.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mover/base/fault.h"
#include "mover/base/show.h"
#include "mover/journal/written.h"
#include "mover/tree/sink_merge.h"
#include "mover/tree/tsys.h"

#define COPY_LEN (256u << 10)
#define EXCHANGES_MAX 16
#define LIST_MAX (64u << 10)	/* XATTR_LIST_MAX */
#define MODE_WITHOUT_SET_IDS 01777u
/* the rest is for directories, which must be noted */
#define NOTED_BYTES_MAX (FM_DEFERRED_BYTES_MAX / 2)

/* ---------------------------------------------------------------------------------------- names */

void fm_merge_split(struct fm_merge_at *p)
{
	const char *slash = memrchr(p->path, '/', p->len);

	p->dir_len = slash ? (size_t)(slash - p->path) : 0;
	p->name = slash ? slash + 1 : p->path;
}

int fm_merge_fail(const struct fm_merge *w, int ret, const char *verb, const struct fm_merge_at *p)
{
	return fm_sink_fail(w->call->s, ret, verb, p->path, p->len, w->call->err);
}

/* -EPERM: what only the old version has cannot be kept. */
static int refuse(const struct fm_merge *w, const struct fm_merge_at *p, const char *why)
{
	const struct fm_sink *s = w->call->s;
	char whole[3 * FM_TREE_PATH_MAX];
	struct fm_path_shown shown;

	snprintf(whole, sizeof(whole), "%s/%s", s->opts.path, p->path);
	return fm_err_set(w->call->err, -EPERM,
			  "\"%s\" is only there, and cannot be kept: %s; move it away, or say "
			  "--delete to keep "
			  "nothing of that",
			  fm_path_show(whole, &shown), why);
}

int fm_merge_refuse_mount(struct fm_merge *w, const struct fm_merge_at *p)
{
	const struct fm_sink *s = w->call->s;
	char whole[3 * FM_TREE_PATH_MAX];
	struct fm_path_shown shown;

	w->has_mount = true;
	snprintf(whole, sizeof(whole), "%s/%s", s->opts.path, p->path);
	return fm_err_set(w->call->err, -EPERM,
			  "\"%s\": another file system is mounted there, in what is to be "
			  "replaced; unmount it first",
			  fm_path_show(whole, &shown));
}

/* ----------------------------------------------------------------------------------- attributes */

static bool is_lost(int ret)
{
	return ret == -EOPNOTSUPP || ret == -EPERM || ret == -EACCES || ret == -ENOSPC ||
	       ret == -EDQUOT || ret == -E2BIG || ret == -ERANGE || ret == -EINVAL;
}

/*
 * Copies one extended attribute. value is a buffer of FM_TREE_XATTRS_MAX bytes. Attributes of the
 * kernel (security.*, trusted.*) are copied only if this user may set them; the result does not
 * mention those that are lost.
 */
static int copy_xattr(struct fm_sink *s, int from, int to, const char *name, char *value)
{
	ssize_t len = fgetxattr(from, name, value, FM_TREE_XATTRS_MAX);
	int ret = len < 0 ? 0 : fm_tsys_set_xattr(to, name, value, (size_t)len);

	if (!is_lost(ret))
		return ret;
	if (strncmp(name, "user.", 5) == 0 || strncmp(name, "system.posix_acl_", 17) == 0)
		atomic_store(&s->has_lost_xattrs, true);
	return 0;
}

static int copy_xattrs(struct fm_sink *s, int from, int to)
{
	char *list = fm_tsys_alloc(LIST_MAX + FM_TREE_XATTRS_MAX);
	ssize_t len = list ? flistxattr(from, list, LIST_MAX) : -1;
	int ret = list ? 0 : -ENOMEM;

	for (const char *at = list; ret == 0 && len > 0 && at < list + len; at += strlen(at) + 1)
		ret = copy_xattr(s, from, to, at, list + LIST_MAX);
	fm_tsys_free(list);
	return ret;
}

/* Owner, mode and times, in that order: to give it away takes set-id bits from it. */
static int copy_attrs(struct fm_sink *s, int from, int to, const struct stat *st,
		      bool must_keep_owner)
{
	mode_t mode = st->st_mode & 07777;
	struct stat now;
	int ret = copy_xattrs(s, from, to);

	if (ret == 0)
		ret = fm_tsys_fstat(to, &now);
	if (ret == 0 && (now.st_uid != st->st_uid || now.st_gid != st->st_gid)) {
		ret = fm_tsys_chown(to, st->st_uid, st->st_gid);
		if (ret == -EPERM && !must_keep_owner) {
			mode &= MODE_WITHOUT_SET_IDS;
			ret = 0;
		}
	}
	if (ret == 0)
		ret = fm_tsys_chmod(to, mode);
	return ret == 0 ? fm_tsys_set_times(to, st) : ret;
}

/* ------------------------------------------------------------------------------------- carrying */

static int open_carried(struct fm_sink *s)
{
	int fd, ret;

	if (s->has_carried)
		return 0;
	fd = fm_tsys_open(s->stage, FM_STAGED_CARRIED, O_RDWR | O_CREAT | O_TRUNC, 0600);
	ret = fd < 0 ? fd : fm_deferred_open(&s->carried, fd);
	s->has_carried = ret == 0;
	return ret;
}

/*
 * Remembers an entry that was carried over from the old version. The deferred list has no field for
 * an inode number, so mtime_ns has the old entry's, and gid says whether it is a copy.
 */
static int note(struct fm_merge *w, const struct fm_merge_at *p, enum fm_pack_type type, ino_t ino,
		bool is_copy)
{
	const struct fm_pack_entry e = {.type = type,
					.mode = 0700,
					.mtime_ns = (int64_t)ino,
					.gid = is_copy,
					.path = p->path,
					.path_len = p->len};
	int ret = open_carried(w->call->s);

	if (ret == 0)
		ret = fm_deferred_add(&w->call->s->carried, &e);
	return ret < 0 ? fm_merge_fail(w, ret, "note", p) : 0;
}

/*
 * Notes a file that was taken over, so that it is compared again after the exchange. A late one is
 * not noted.
 */
static int note_file(struct fm_merge *w, const struct fm_merge_at *p, const struct stat *st,
		     bool is_copy)
{
	struct fm_sink *s = w->call->s;

	if (w->is_late)
		return 0;
	s->has_unnoted |=
		(s->has_carried && s->carried.bytes > NOTED_BYTES_MAX) || FM_FAULT("tree.unnoted");
	return s->has_unnoted ? 0 : note(w, p, FM_PACK_ATTR, st->st_ino, is_copy);
}

/* A name was made; what it has counts against the quota. */
static int made(struct fm_merge *w, const struct fm_merge_at *p, bool is_copy)
{
	const struct fm_sink *s = w->call->s;
	struct stat st;
	int ret = fm_tsys_fstatat(p->dir, p->name, &st);

	if (ret < 0)
		ret = fm_merge_fail(w, ret, "look at", p);
	if (ret == 0 && s->opts.take && p->met->type == DT_REG)
		ret = fm_sink_take_old(w->call, (uint64_t)st.st_size);
	if (ret == 0)
		ret = note_file(w, p, &st, is_copy);
	if (ret < 0) {
		unlinkat(p->dir, p->name, 0);
		return ret;
	}
	w->carried++;
	return 0;
}

static bool is_zero(const char *buf, size_t len)
{
	return buf[0] == 0 && memcmp(buf, buf + 1, len - 1) == 0;
}

/* From *at on, to the end; zeros are left out. */
static int copy_blocks(const struct fm_sink *s, int from, int to, char *buf, uint64_t *at)
{
	for (;;) {
		ssize_t n = FM_FAULT("tree.read") ? (errno = EIO, -1)
						  : pread(from, buf, COPY_LEN, (off_t)*at);
		int ret = 0;

		if (atomic_load(&s->is_stopped))
			return -ECANCELED;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		if (!is_zero(buf, (size_t)n))
			ret = fm_tsys_write_all(to, buf, (size_t)n, *at);
		if (ret < 0)
			return ret;
		*at += (uint64_t)n;
	}
}

/* Zeros become holes. */
static int copy_content(const struct fm_sink *s, int from, int to)
{
	char *buf = fm_tsys_alloc(COPY_LEN);
	uint64_t size = 0;
	int ret = buf ? copy_blocks(s, from, to, buf, &size) : -ENOMEM;

	fm_tsys_free(buf);
	return ret == 0 ? fm_tsys_truncate(to, size) : ret;
}

/* 1: it was written to meanwhile. */
static int copy_all(struct fm_sink *s, int from, int to)
{
	struct stat st, now;
	int ret = fm_look_before_read(from, true, UINT64_MAX, &st);

	if (ret == -ESTALE)
		return 1;
	if (ret == 0 && !S_ISREG(st.st_mode))
		ret = -ESTALE;
	if (ret == 0 && (s->is_old_unsure || fm_tsys_clone(to, from) < 0))
		ret = copy_content(s, from, to);
	if (ret == 0)
		ret = fm_tsys_fstat(from, &now);
	if (ret == 0 && fm_is_written(from, &st, &now))
		return 1;
	return ret == 0 ? copy_attrs(s, from, to, &st, false) : ret;
}

static int fill_copy(struct fm_merge *w, const struct fm_merge_at *p, int from, int to)
{
	int ret = copy_all(w->call->s, from, to), close_ret = fm_tsys_close(to);

	if (ret == 0)
		ret = close_ret;
	if (ret > 0)
		return refuse(w, p, FM_FOREIGN_WRITTEN);
	return ret < 0 ? fm_merge_fail(w, ret, "copy into the new version", p) : 0;
}

/* Who writes to the file writes into the version that goes. 1: somebody has it open for that. */
static int is_in_use(struct fm_sink *s, int from)
{
	int ret = fm_tsys_is_open_to_write(from);

	s->has_unasked |= ret < 0;
	return ret > 0;
}

/* A regular file that may not be linked, or of which nobody knows whether it is on the disk. */
static int copy_file(struct fm_merge *w, const struct fm_merge_at *p)
{
	int from = fm_tsys_open(p->met->dir->fd, p->met->name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0),
	    to, ret;

	if (from == -EACCES || from == -EPERM)
		return refuse(w, p, FM_FOREIGN_FILE);
	if (from < 0)
		return from == -ENOENT ? 0 : fm_merge_fail(w, from, "read", p);
	if (is_in_use(w->call->s, from)) {
		close(from);
		return refuse(w, p, FM_FOREIGN_WRITTEN);
	}
	to = fm_tsys_open(p->dir, p->name, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (to < 0) {
		close(from);
		return to == -EEXIST ? 0 : fm_merge_fail(w, to, "create", p);
	}
	ret = fill_copy(w, p, from, to);
	close(from);
	if (ret < 0)
		unlinkat(p->dir, p->name, 0);
	return ret < 0 ? ret : made(w, p, true);
}

/* A symbolic link that may not be linked. */
static int copy_link(struct fm_merge *w, const struct fm_merge_at *p)
{
	char target[FM_TREE_PATH_MAX + 1];
	struct stat st, now;
	ssize_t len = readlinkat(p->met->dir->fd, p->met->name, target, sizeof(target) - 1);
	int ret = len < 0 ? -errno : fm_tsys_fstatat(p->met->dir->fd, p->met->name, &st);

	if (ret < 0)
		return ret == -ENOENT ? 0 : fm_merge_fail(w, ret, "read", p);
	target[len] = '\0';
	ret = fm_tsys_symlink(target, p->dir, p->name);
	if (ret == 0)
		ret = fm_tsys_fstatat(p->dir, p->name, &now);
	if (ret == 0 && (now.st_uid != st.st_uid || now.st_gid != st.st_gid))
		ret = fm_tsys_own_link(p->dir, p->name, st.st_uid, st.st_gid);
	if (ret == -EPERM) {
		unlinkat(p->dir, p->name, 0);
		return refuse(w, p, FM_FOREIGN_LINK);
	}
	if (ret == 0)
		ret = fm_tsys_set_link(p->dir, p->name, fm_tsys_mtime(&st));
	return ret < 0 ? fm_merge_fail(w, ret, "make the symbolic link", p) : made(w, p, true);
}

static int carry_by_copy(struct fm_merge *w, const struct fm_merge_at *p)
{
	switch (p->met->type) {
	case DT_REG:
		return copy_file(w, p);
	case DT_LNK:
		return copy_link(w, p);
	default:
		return refuse(w, p, FM_FOREIGN_SPECIAL);
	}
}

static int carry_file(struct fm_merge *w, const struct fm_merge_at *p)
{
	int ret;

	if (w->call->s->is_old_unsure && !w->is_late && p->met->type == DT_REG)
		return copy_file(w, p);
	ret = fm_tsys_link(p->met->dir->fd, p->met->name, p->dir, p->name);
	switch (ret) {
	case 0:
		return made(w, p, false);
	case -ENOENT:	/* it went meanwhile */
	case -EEXIST:
		return 0;
	case -EXDEV:
		return fm_merge_refuse_mount(w, p);
	case -EPERM:
	case -EACCES:
	case -EMLINK:
	case -EOPNOTSUPP:
	case -ENOSYS:
	case -EINVAL:
		return carry_by_copy(w, p);
	default:
		return fm_merge_fail(w, ret, "link into the new version", p);
	}
}

/* Made in the staging directory, where nobody else is, and its owner's before it has a name that he
 * can reach. */
static int make_late_dir(struct fm_merge *w, const struct fm_merge_at *p, struct stat *st)
{
	const struct fm_sink *s = w->call->s;
	struct stat old;
	int ret;

	(void)unlinkat(s->stage, FM_STAGED_MADE, AT_REMOVEDIR);	/* of a try that was killed */
	ret = fm_tsys_mkdir(s->stage, FM_STAGED_MADE);
	if (ret == 0)
		ret = fm_tsys_fstatat(s->stage, FM_STAGED_MADE, st);
	if (ret == 0)
		ret = fm_tsys_fstat(p->met->dir->fd, &old);
	if (ret == 0 && s->opts.has_owners)
		ret = fm_tsys_own_link(s->stage, FM_STAGED_MADE, old.st_uid, old.st_gid);
	return ret < 0 ? ret : fm_tsys_rename_free(s->stage, FM_STAGED_MADE, p->dir, p->name);
}

/* Which one it is tells it later from others that may have its name then. */
static int make_dir(struct fm_merge *w, const struct fm_merge_at *p, struct stat *st)
{
	int ret;

	if (w->is_late)
		return make_late_dir(w, p, st);
	ret = fm_tsys_mkdir(p->dir, p->name);
	return ret < 0 ? ret : fm_tsys_fstatat(p->dir, p->name, st);
}

static int carry_dir(struct fm_merge *w, const struct fm_merge_at *p)
{
	struct stat st;
	int ret = make_dir(w, p, &st);

	if (ret < 0)
		return ret == -EEXIST ? 0 : fm_merge_fail(w, ret, "make the directory", p);
	w->carried++;
	return note(w, p, FM_PACK_DIR, st.st_ino, false);
}

/* A file that keeps its digest is listed with it. Of others it is not known whether they ever came
 * through here. */
static int list_carried(struct fm_merge *w, const struct fm_merge_at *p)
{
	const struct fm_sink *s = w->call->s;
	struct fm_pack_entry e = { .type = FM_PACK_FILE, .path = p->path, .path_len = p->len };
	struct fm_digest digest;
	struct stat st;
	int fd, ret = 0;

	if (!s->has_manifest || w->is_late || p->met->type != DT_REG)
		return 0;
	fd = fm_tsys_open(p->dir, p->name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return 0;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fm_digest_of(fd, &st, &digest) > 0) {
		e.size = (uint64_t)st.st_size;
		e.mtime_ns = fm_tsys_mtime(&st);
		ret = fm_sink_list_file(w->call, &e, &digest.crc);
	}
	close(fd);
	return ret;
}

int fm_merge_carry(struct fm_merge *w, const struct fm_merge_at *p)
{
	uint64_t before = w->carried;
	int ret = p->met->type == DT_DIR ? carry_dir(w, p) : carry_file(w, p);

	return ret < 0 || w->carried == before ? ret : list_carried(w, p);
}

/*
 * A directory of the new tree gets what the old one of that name has: the one that was made here.
 * Once the tree has its name its owners can have put another's there.
 */
static int finish_dir(struct fm_merge *w, const struct fm_merge_at *p, int old_dir, uint64_t ino)
{
	int from = fm_tsys_open(old_dir, p->name, O_RDONLY | O_DIRECTORY, 0), to, ret;
	struct stat st, made;

	if (from < 0)
		return from == -ENOENT ? 0 : fm_merge_fail(w, from, "open", p);
	to = fm_tsys_open(p->dir, p->name, O_RDONLY | O_DIRECTORY, 0);
	ret = to < 0 ? to : fm_tsys_fstat(from, &st);
	if (ret == 0)
		ret = fm_tsys_fstat(to, &made);
	if (ret == 0 && made.st_ino != ino)
		ret = -ESTALE;
	if (ret == 0)
		ret = copy_attrs(w->call->s, from, to, &st, true);
	if (to >= 0)
		close(to);
	close(from);
	if (ret == -EPERM)
		return refuse(w, p, FM_FOREIGN_DIR);
	return ret < 0 ? fm_merge_fail(w, ret, "set mode, owner and times of", p) : 0;
}

/*
 * Finds the place in the new version of an entry that was noted. Returns its directory in the old
 * version, or an error.
 */
static int find_noted(struct fm_merge *w, const struct fm_pack_entry *e, struct fm_merge_at *p)
{
	memcpy(p->path, e->path, e->path_len);
	p->path[e->path_len] = '\0';
	p->len = e->path_len;
	fm_merge_split(p);
	p->dir = fm_sink_dir_find(&w->call->data, p->path, p->dir_len);
	return fm_sink_dir_find(&w->call->old, p->path, p->dir_len);
}

static int finish_one(void *ctx, const struct fm_pack_entry *e)
{
	struct fm_merge *w = ctx;
	struct fm_merge_at p;
	int old_dir, ret = fm_sink_may_go_on(w->call->s, w->call->err);

	if (ret < 0 || e->type != FM_PACK_DIR)
		return ret;
	old_dir = find_noted(w, e, &p);
	if (p.dir < 0)
		ret = fm_merge_fail(w, p.dir, "look for", &p);
	else if (old_dir >= 0)
		ret = finish_dir(w, &p, old_dir, (uint64_t)e->mtime_ns);
	if (ret == 0 || !w->is_late)
		return ret;
	/* Its users may have replaced this one. The others are finished all the same. */
	if (w->left.code == 0)
		w->left = *w->call->err;
	return 0;
}

int fm_sink_finish_carried(struct fm_sink_call *call)
{
	struct fm_sink *s = call->s;
	struct fm_merge w = { .call = call, .is_late = s->has_final_name };
	int ret;

	if (!s->has_carried)
		return 0;
	fm_err_clear(call->err);
	ret = fm_deferred_each(&s->carried, finish_one, &w);
	if (ret < 0 && call->err->code == 0)
		(void)fm_sink_fail(s, ret, "read what was kept for the end of", NULL, 0, call->err);
	if (ret == 0 && w.left.code < 0) {
		*call->err = w.left;
		ret = w.left.code;
	}
	return ret;
}

/* ------------------------------------------------------------------------------ saved meanwhile */

/*
 * The new version still has what was taken over, and the old one has another file there by now. A
 * link has one inode with its file.
 */
static bool is_saved(const struct fm_pack_entry *e, const struct stat *old, const struct stat *now)
{
	bool is_copy = e->gid != 0;

	if ((uint64_t)now->st_ino != (uint64_t)e->mtime_ns || old->st_ino == now->st_ino ||
	    S_ISDIR(old->st_mode) || S_ISDIR(now->st_mode))
		return false;
	return !is_copy || old->st_size != now->st_size || fm_tsys_mtime(old) != fm_tsys_mtime(now);
}

/*
 * Somebody wrote to it since the new version has its name: that is not in what was saved in the old
 * one, and the other way round.
 */
static bool is_written_late(const struct fm_merge *w, const struct stat *now)
{
	return S_ISREG(now->st_mode) && fm_tsys_mtime(now) >= (int64_t)w->placed_ns;
}

/* The new version keeps its own, and all of the old one stays. Others are looked at all the same.
 */
static int leave_both(struct fm_merge *w, const struct fm_merge_at *p)
{
	struct fm_path_shown shown;

	if (w->left.code == 0)
		(void)fm_err_set(&w->left, -ESTALE,
				 "\"%s\" was saved there, and written to in the new one",
				 fm_path_show(p->path, &shown));
	return 0;
}

/*
 * What is `made` gets the name, and the other way round. Only the file with inode `mine` gives it
 * away: one that somebody saved meanwhile is younger, and gets it back. 1: *out had the name. 0:
 * something younger has it.
 */
static int exchange(const struct fm_merge *w, const struct fm_merge_at *p, ino_t mine,
		    struct stat *out)
{
	int stage = w->call->s->stage, ret;
	struct stat held;

	for (int i = 0; i < EXCHANGES_MAX; i++) {
		ret = fm_tsys_fstatat(stage, FM_STAGED_MADE, &held);
		if (ret == 0)
			ret = fm_tsys_rename(stage, FM_STAGED_MADE, p->dir, p->name,
					     RENAME_EXCHANGE);
		if (ret == 0)
			ret = fm_tsys_fstatat(stage, FM_STAGED_MADE, out);
		if (ret < 0)
			return ret;
		if (out->st_ino == mine)
			return i == 0;
		mine = held.st_ino;
	}
	return -EBUSY;
}

/* 1: what is `made` has the name. 0: something younger has it. */
static int put_saved(struct fm_merge *w, const struct fm_merge_at *p, const struct stat *now)
{
	int stage = w->call->s->stage;
	struct stat made, out;
	int ret = fm_tsys_fstatat(stage, FM_STAGED_MADE, &made);

	if (ret == 0)
		ret = exchange(w, p, now->st_ino, &out);
	if (ret > 0 && is_written_late(w, &out)) {
		ret = exchange(w, p, made.st_ino, &out);
		if (ret >= 0)
			ret = leave_both(w, p);
	}
	if (fm_tsys_is_unsupported(ret)) {
		ret = fm_tsys_rename(stage, FM_STAGED_MADE, p->dir, p->name, 0);
		ret = ret < 0 ? ret : 1;
	}
	if (ret == -ENOENT)	/* what went stays away */
		ret = 0;
	if (ret < 0)
		return fm_merge_fail(w, ret, "put into the new version", p);
	if (S_ISREG(ret > 0 ? now->st_mode : made.st_mode))
		fm_sink_give(w->call->s, (uint64_t)(ret > 0 ? now->st_size : made.st_size));
	return ret;
}

/*
 * Takes over a file that was saved again. The copy is made in the staging directory, where no other
 * user has access, and gets its name by one rename.
 */
static int take_saved(struct fm_merge *w, const struct fm_merge_at *p, const struct stat *now)
{
	const struct fm_sink *s = w->call->s;
	struct fm_merge_at made_at = *p;
	uint64_t before = w->carried;
	int ret;

	made_at.dir = s->stage;
	made_at.name = FM_STAGED_MADE;
	(void)unlinkat(s->stage, FM_STAGED_MADE, 0);
	ret = carry_file(w, &made_at);
	if (ret < 0 || w->carried == before)	/* it went meanwhile */
		return ret;
	w->carried = before;	/* a name that was counted */
	ret = put_saved(w, p, now);
	w->has_saved |= ret > 0;
	(void)unlinkat(s->stage, FM_STAGED_MADE, 0);
	return ret < 0 ? ret : 0;
}

static int look_at_noted(void *ctx, const struct fm_pack_entry *e)
{
	struct fm_merge *w = ctx;
	struct fm_sink *s = w->call->s;
	struct fm_scan_dir in = { .path_len = 0 };
	struct fm_scan_met met = { .dir = &in };
	struct fm_merge_at p = { .met = &met };
	struct stat old, now;
	int ret = fm_sink_may_go_on(s, w->call->err);

	if (ret < 0 || e->type != FM_PACK_ATTR)
		return ret;
	in.fd = find_noted(w, e, &p);
	ret = in.fd < 0 ? in.fd : p.dir < 0 ? p.dir : fm_tsys_fstatat(in.fd, p.name, &old);
	if (ret == 0)
		ret = fm_tsys_fstatat(p.dir, p.name, &now);
	if (ret == -ENOENT || ret == -ENOTDIR || ret == -ELOOP ||
	    (ret == 0 && !is_saved(e, &old, &now)))
		return 0;	/* what went from either stays away */
	if (ret < 0)
		return fm_merge_fail(w, ret, "look at", &p);
	if (is_written_late(w, &now))
		return leave_both(w, &p);
	met.name = p.name;
	met.name_len = strlen(p.name);
	met.type = (unsigned char)IFTODT(old.st_mode);
	ret = fm_merge_check_owner(w, &p);
	return ret < 0 ? ret : take_saved(w, &p, &now);
}

int fm_merge_take_saved(struct fm_merge *w)
{
	struct fm_sink *s = w->call->s;
	int ret = s->has_carried ? fm_deferred_each(&s->carried, look_at_noted, w) : 0;

	if (ret < 0 && w->call->err->code == 0)
		(void)fm_sink_fail(s, ret, "read what was kept for the end of", NULL, 0,
				   w->call->err);
	if (s->has_unnoted)
		fm_sink_warn(s, "not all that was kept could be looked at again: what was saved "
			"meanwhile may not be there");
	return ret;
}
