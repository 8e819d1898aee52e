/* SPDX-License-Identifier: MIT */
/*
 * sink_attr - sets the attributes of an entry: extended attributes, mode, time and owner.
 *
 * The order matters. Extended attributes need the right to write, so they are set before the mode.
 * An ACL changes bits of the mode, so the mode is set after it. A file that was given away can no
 * longer be changed, so the owner is set last.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "mover/base/crc32c.h"
#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"
#include "mover/tree/xattr_rules.h"

#define LIST_MAX (64u << 10)	/* XATTR_LIST_MAX */

mode_t fm_sink_mode(const struct fm_sink *s, const struct fm_pack_entry *e)
{
	return e->mode | (s->opts.is_for_group && e->type == FM_PACK_DIR ? S_ISGID : 0);
}

mode_t fm_sink_create_mode(const struct fm_sink *s, const struct fm_pack_entry *e, bool *is_final)
{
	bool needs_write = s->opts.has_digests || (s->opts.has_owners && e->xattr_len > 0);

	*is_final = !s->has_default_acl && (e->mode & s->umask) == 0 &&
		    (!needs_write || (e->mode & S_IWUSR)) &&
		    !(s->opts.has_owners && e->xattr_len > 0);
	return *is_final ? e->mode : 0600;
}

/* -------------------------------------------------------------------------- extended attributes */

/*
 * Whether the attribute could not be kept because of the file system or the rights of this user.
 * The result notes that; it is no error.
 */
static bool is_not_kept(int ret)
{
	return ret == -EOPNOTSUPP || ret == -EPERM || ret == -EACCES || ret == -ENOSPC ||
	       ret == -EDQUOT || ret == -E2BIG || ret == -ERANGE || ret == -EINVAL;
}

static int set_one(struct fm_sink *s, int fd, const struct fm_pack_xattr *x)
{
	char name[FM_SINK_NAME_MAX + 1];
	int ret;

	memcpy(name, x->name, x->name_len);
	name[x->name_len] = '\0';
	ret = fm_tsys_set_xattr(fd, name, x->value, x->value_len);
	if (!is_not_kept(ret))
		return ret;
	atomic_store(&s->has_lost_xattrs, true);
	return 0;
}

static int set_xattrs(struct fm_sink *s, int fd, const struct fm_pack_entry *e)
{
	struct fm_pack_xattr x;
	size_t at = 0;
	int ret = 0;

	if (!s->opts.has_owners)
		return 0;
	while (ret == 0 && fm_pack_next_xattr(e, &at, &x) > 0)
		if (fm_xattr_may_travel(x.name, x.name_len))
			ret = set_one(s, fd, &x);
	return ret;
}

const struct fm_digest *fm_sink_digest(const struct fm_sink *s, const struct fm_pack_entry *e,
				       uint32_t crc, struct fm_digest *out)
{
	if (!s->opts.has_digests || (e->flags & FM_PACK_IS_CORRUPT))
		return NULL;
	*out = (struct fm_digest){
		.crc = fm_crc32c_whole(crc, e->size), .size = e->size, .mtime_ns = e->mtime_ns};
	return out;
}

static int set_digest(struct fm_sink *s, int fd, const struct fm_digest *digest)
{
	int ret;

	if (!digest || !s->opts.has_digests || atomic_load(&s->has_no_digests))
		return 0;
	ret = fm_digest_set(fd, digest);
	if (ret == -EOPNOTSUPP)
		atomic_store(&s->has_no_digests, true);
	return is_not_kept(ret) ? 0 : ret;
}

/* -------------------------------------------------------------------------------------- setting */

static int set_owner(struct fm_sink *s, int fd, const struct fm_pack_entry *e, struct fm_err *err)
{
	int ret = s->opts.has_owners ? fm_tsys_chown(fd, e->uid, e->gid) : 0;

	if (ret == -EPERM)
		return fm_sink_fail(s, ret, "give to its owner (that needs CAP_CHOWN)", e->path,
				    e->path_len, err);
	return ret < 0 ? fm_sink_fail(s, ret, "set the owner of", e->path, e->path_len, err) : 0;
}

int fm_sink_set_mode(struct fm_sink *s, int fd, const struct fm_pack_entry *e,
		     const struct fm_digest *digest, bool is_final, struct fm_err *err)
{
	int ret = set_digest(s, fd, digest);

	if (e->mtime_ns == INT64_MAX || e->mtime_ns == INT64_MIN)
		atomic_store(&s->has_cut_times, true);
	if (ret == 0 && !is_final)
		ret = fm_tsys_chmod(fd, fm_sink_mode(s, e));
	if (ret == 0)
		ret = fm_tsys_set_mtime(fd, e->mtime_ns);
	return ret < 0 ? fm_sink_fail(s, ret, "set mode and time of", e->path, e->path_len, err)
		       : 0;
}

int fm_sink_set_attrs(struct fm_sink *s, int fd, const struct fm_pack_entry *e,
		      const struct fm_digest *digest, bool is_final, struct fm_err *err)
{
	int ret = set_xattrs(s, fd, e);

	if (ret < 0)
		return fm_sink_fail(s, ret, "set extended attributes of", e->path, e->path_len,
				    err);
	ret = fm_sink_set_mode(s, fd, e, digest, is_final, err);
	return ret < 0 ? ret : set_owner(s, fd, e, err);
}

/* ------------------------------------------------------------------------------------ comparing */

/* How many of those that travel a file has; -errno. */
static int count_xattrs(int fd)
{
	char *list = fm_tsys_alloc(LIST_MAX);
	ssize_t len;
	int count = 0;

	if (!list)
		return -ENOMEM;
	len = flistxattr(fd, list, LIST_MAX);
	if (len < 0)
		count = errno == EOPNOTSUPP ? 0 : -errno;
	for (const char *at = list; len > 0 && at < list + len; at += strlen(at) + 1)
		count += fm_xattr_may_travel(at, strlen(at));
	fm_tsys_free(list);
	return count;
}

/* buf: as long as the longest value. */
static bool has_xattr(int fd, const struct fm_pack_xattr *x, char *buf)
{
	char name[FM_SINK_NAME_MAX + 1];
	ssize_t len;

	memcpy(name, x->name, x->name_len);
	name[x->name_len] = '\0';
	len = fgetxattr(fd, name, buf, FM_TREE_XATTRS_MAX);
	return len == (ssize_t)x->value_len && memcmp(buf, x->value, x->value_len) == 0;
}

int fm_sink_has_xattrs(int fd, const struct fm_pack_entry *e)
{
	char *buf = fm_tsys_alloc(FM_TREE_XATTRS_MAX);
	struct fm_pack_xattr x;
	size_t at = 0;
	int count = 0, ret = 1;

	if (!buf)
		return -ENOMEM;
	while (ret > 0 && fm_pack_next_xattr(e, &at, &x) > 0) {
		if (!fm_xattr_may_travel(x.name, x.name_len))
			continue;
		ret = has_xattr(fd, &x, buf);
		count++;
	}
	fm_tsys_free(buf);
	if (ret > 0) {
		ret = count_xattrs(fd);
		ret = ret < 0 ? ret : ret == count;
	}
	return ret;
}

int fm_sink_has_attrs(const struct fm_sink *s, const struct fm_sink_seen *seen,
		      const struct fm_pack_entry *e)
{
	const struct stat *st = seen->st;
	int fd, ret;

	if (!S_ISREG(st->st_mode) || (st->st_mode & 07777) != e->mode)
		return 0;
	if (!s->opts.has_owners)
		return st->st_uid == s->uid;
	if (st->st_uid != e->uid || st->st_gid != e->gid)
		return 0;
	fd = fm_tsys_open(seen->dir, seen->name, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return 0;
	ret = fm_sink_has_xattrs(fd, e);
	close(fd);
	return ret;
}
