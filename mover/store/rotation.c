/* SPDX-License-Identifier: MIT */
/* rotation - see rotation.h. */
#include "mover/store/rotation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "mover/base/component.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/log.h"
#include "mover/store/group.h"
#include "mover/store/group_dir.h"
#include "mover/store/made_dir.h"
#include "mover/store/origin.h"
#include "mover/store/rotation_record.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"
#include "mover/store/walk.h"
#include "mover/tree/staging.h"
#include "mover/tree/stash.h"
#include "mover/tree/tsys.h"
#include "mover/tree/wanted.h"

struct rotation {
	struct fm_store_dir *sd;
	struct fm_path_parent parent;
	const char *link;		/* its path; for what is put beside it */
	struct fm_rotation_record *record;
	struct fm_entry *gone;
	size_t *count;
	unsigned stays;			/* so many, and of the first one: */
	char first[FM_NAME_LEN_MAX + 1];
	const char *why;
};

/* ---- which it is ---- */

static int identify(int dir, const char *name, struct fm_rotation_entry *out, struct stat *st)
{
	int ret = fm_sys_fstatat(dir, name, st);

	if (ret == 0)
		ret = fm_origin_find(dir, name, &out->origin);
	if (ret < 0)
		return ret;
	out->ino = st->st_ino;
	(void)snprintf(out->name, sizeof(out->name), "%s", name);
	return 0;
}

/*
 * 1: what was recorded has its name there; 0: something else has it; -ENOENT: nothing has; -ESTALE:
 * nobody knows, since another thing is told now of its origin, as by a newer kernel.
 */
static int is_still(int dir, const struct fm_rotation_entry *e, struct stat *st)
{
	struct fm_rotation_entry now;
	int ret = identify(dir, e->name, &now, st);

	if (ret == 0 && now.ino == e->ino && !fm_origin_is_alike(now.origin, e->origin))
		return -ESTALE;
	return ret < 0 ? ret : now.ino == e->ino && now.origin == e->origin;
}

/* ---- whether it is used ---- */

enum use { FREE, NOT_KNOWN, USED };

/* Of two looks: an error, or else what forbids more. */
static int worse(int use, int other)
{
	return other < 0 || other > use ? other : use;
}

#define ANOTHER "another one got its name just now"

/* The error of asking for a lease that only says that there are none, or none for us. */
static bool cannot_tell(int ret)
{
	return fm_tsys_is_unsupported(ret) || ret == -ENOLCK || ret == -EACCES || ret == -EPERM;
}

static int look_at_file(int dir, const char *name)
{
	struct stat st;
	int ret = fm_sys_fstatat(dir, name, &st), fd;

	if (ret < 0 || !S_ISREG(st.st_mode))
		return ret < 0 ? ret : FREE;
	fd = fm_tsys_open(dir, name, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return fd == -EAGAIN ? USED : fd;	/* somebody else's lease */
	ret = FM_FAULT("store.lease") ? -EINVAL : fm_call_is_open_elsewhere(fd);
	close(fd);
	if (ret > 0)
		return USED;
	return cannot_tell(ret) ? NOT_KNOWN : ret;
}

/* A tree is read from a directory that is held so (store_tree.c), whatever of it is open. */
static int look_at_dir(int dir, const char *name)
{
	int fd = fm_sys_open_dir(dir, name, true), ret;

	if (fd < 0)
		return fd;
	ret = FM_FAULT("store.flock") ? -ENOLCK : fm_call(flock(fd, LOCK_EX | LOCK_NB));
	close(fd);
	if (ret == -EWOULDBLOCK)
		return USED;
	return ret < 0 ? NOT_KNOWN : FREE;
}

static int look_at_entry(const struct fm_walk_at *at)
{
	if (at->is_leaving)
		return FREE;
	if (at->is_dir)
		return fm_group_is_name(at->name) ? USED : look_at_dir(at->dir, at->name);
	return look_at_file(at->dir, at->name);
}

static int look_below(int dir, const char *name)
{
	struct fm_walk *walk = fm_sys_alloc(sizeof(*walk));
	int fd = walk ? fm_sys_open_dir(dir, name, true) : -ENOMEM, use = FREE;
	int ret = fd < 0 ? fd : fm_walk_start(walk, fd);
	struct fm_walk_at at;

	if (ret < 0) {
		free(walk);
		return ret;
	}
	walk->stays = true;
	while (use != USED && (ret = fm_walk_next(walk, &at)) > 0) {
		ret = look_at_entry(&at);
		if (ret < 0)
			break;
		use = worse(use, ret);
	}
	fm_walk_end(walk);
	free(walk);
	return ret < 0 ? ret : use;
}

/* enum use, and why it is used; or why nobody can look, so that it stays. */
static int look(int dir, const char *name, bool is_dir, const char **why)
{
	int ret = is_dir ? fm_wanted_in(dir, name) : FM_WANTED_NOTHING;

	if (ret > FM_WANTED_NOTHING) {
		*why = FM_STAGING_WANTED;
		return USED;
	}
	if (ret == 0)
		ret = is_dir ? look_at_dir(dir, name) : look_at_file(dir, name);
	if (ret >= 0 && ret != USED && is_dir)
		ret = worse(ret, look_below(dir, name));
	if (ret == USED)
		*why = "a file of it is open, it is read or locked (flock), or a group goes on in "
		       "it";
	else if (ret < 0)
		*why = fm_err_name(ret);
	return ret;
}

/* The path of what has that name beside the link. Cut if it is too long: nothing has that path. */
static const char *beside(const struct rotation *r, const char *name,
			  char out[static FM_PATH_LEN_MAX + 1])
{
	const char *slash = strrchr(r->link, '/');

	(void)snprintf(out, FM_PATH_LEN_MAX + 1, "%.*s%s",
		       slash ? (int)(slash + 1 - r->link) : 0, r->link, name);
	return out;
}

struct led {
	const struct rotation *r;
	const struct fm_rotation_entry *to;
	dev_t dev;
};

/*
 * Whether the name is in what a link says. Others see the store under another path, as in
 * containers, and not all of its links lead there from here: such a name is enough.
 */
static bool says(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (;; text++) {
		if (strncmp(text, name, len) == 0 && (!text[len] || text[len] == '/'))
			return true;
		text = strchr(text, '/');
		if (!text)
			return false;
	}
}

/* Whether a link says the name, or leads to it within the store in another way. */
static int leads_to(void *ctx, int dir, const char *name)
{
	const struct led *led = ctx;
	char text[FM_PATH_LEN_MAX + 1], path[FM_PATH_LEN_MAX + 1];
	ssize_t text_len = readlinkat(dir, name, text, sizeof(text) - 1);
	struct stat st;
	bool is_it;
	int fd;

	if (text_len < 0)
		return 0;	/* no link */
	text[text_len] = '\0';
	if (says(text, led->to->name))
		return 1;
	fd = fm_sys_open_beneath(led->r->sd->root, beside(led->r, name, path), O_PATH);
	if (fd < 0)
		return 0;
	is_it = fm_sys_fstat(fd, &st) == 0 && st.st_ino == led->to->ino && st.st_dev == led->dev;
	close(fd);
	return is_it;
}

/*
 * 0: no link beside it leads to it. Another one that is led there just now is seen, or sees that it
 * is away (lead.c).
 */
static int look_at_links(const struct rotation *r, const struct fm_rotation_entry *e, dev_t dev,
			 const char **why)
{
	struct led led = {.r = r, .to = e, .dev = dev};
	int ret;

	pthread_mutex_lock(&r->sd->rotating);
	ret = fm_tsys_each_name(r->parent.fd, leads_to, &led);
	pthread_mutex_unlock(&r->sd->rotating);
	if (ret != 0)
		*why = ret > 0 ? "a link beside it leads to it" : fm_err_name(ret);
	return ret;
}

/* ---- one goes ---- */

static void freed(void *ctx, int64_t bytes)
{
	fm_usage_sub(&((struct fm_store_dir *)ctx)->usage, bytes < 0 ? (uint64_t)-bytes : 0);
}

/* What nobody can look at more closely waits for its time, as what was replaced does. */
static void leave_aside(const struct rotation *r, const char *stash)
{
	char path[FM_PATH_LEN_MAX + 1];

	fm_aside_add(r->sd, beside(r, stash, path));
}

/* Looks again at what lies in a stash, where no path leads that anybody was told. */
static int look_again(const struct rotation *r, const char *stash,
		      const struct fm_rotation_entry *e, const char **why)
{
	int fd = fm_sys_open_dir(r->parent.fd, stash, true), ret = fd;
	struct stat st;

	if (fd >= 0) {
		ret = is_still(fd, e, &st) == 1 ? look(fd, e->name, true, why) : -ESTALE;
		if (ret == -ESTALE)
			*why = ANOTHER;
		else if (ret >= 0 && look_at_links(r, e, st.st_dev, why) != 0)
			ret = USED;
		close(fd);
	} else {
		*why = fm_err_name(ret);
	}
	/* What is removed must not be seen again after a power cut. */
	if (ret == FREE && r->sd->store.is_durable) {
		ret = fm_tsys_fsync(r->parent.fd);
		*why = fm_err_name(ret);
	}
	return ret;
}

/* What a group was published as goes, and with it what is kept for a second commit. */
static void forget_group(const struct rotation *r, const char *name)
{
	const struct fm_path_parent parent = {.fd = r->parent.fd, .name = name};
	char path[FM_PATH_LEN_MAX + 1];

	fm_group_forget(r->sd, &parent, beside(r, name, path));
}

/* 0: it has its name no more. *why: why it stays. */
static int remove_dir(const struct rotation *r, const struct fm_rotation_entry *e, const char **why)
{
	const struct fm_tree_freed told = {.used = freed, .ctx = r->sd};
	const struct fm_stash_what what = {
		.dir = r->parent.fd, .from = e->name, .ino = e->ino, .name = e->name};
	char stash[FM_STAGING_NAME_LEN + 1];
	int ret = fm_stash_keep(&what, r->parent.fd, FM_STAGING_OLD, stash);

	if (ret < 0) {
		*why = fm_err_name(ret);
		return ret;
	}
	ret = look_again(r, stash, e, why);
	if (ret < 0 || ret == USED) {
		ret = fm_stash_give_back(r->parent.fd, stash, e->ino);
		if (ret < 0)
			fm_log_error("store %s: \"%s\" stays in %s, and cannot get its name: %s",
				     r->sd->store.name, e->name, stash, fm_err_name(ret));
		return -EBUSY;
	}
	forget_group(r, e->name);
	if (ret == NOT_KNOWN || fm_stash_remove_unwanted(r->parent.fd, stash, &told) < 0)
		leave_aside(r, stash);
	return 0;
}

/* Takes it out of a directory where its name stays with it, unless another one has come there. */
static int remove_taken(const struct rotation *r, int private, const struct fm_rotation_entry *e,
			const char **why)
{
	struct stat st;
	int ret = is_still(private, e, &st);

	*why = ret == 0 ? ANOTHER : fm_err_name(ret);
	if (ret == 1 && look_at_links(r, e, st.st_dev, why) == 0) {
		ret = fm_sys_unlinkat(private, e->name, 0);
		*why = fm_err_name(ret);
		if (ret == 0 && S_ISREG(st.st_mode))
			fm_usage_sub(&r->sd->usage, (uint64_t)st.st_size);
		if (ret == 0)
			return 0;
	}
	fm_stash_put_back(private, e->name, r->parent.fd, e->name);
	return -EBUSY;
}

/* Who opened it meanwhile has it still. */
static int remove_file(const struct rotation *r, const struct fm_rotation_entry *e,
		       const char **why)
{
	char temp[FM_STAGING_NAME_LEN + 1];
	int private = fm_made_private(r->parent.fd, temp), ret = private;

	if (private >= 0)
		ret = fm_tsys_rename_free(r->parent.fd, e->name, private, e->name);
	*why = fm_err_name(ret);
	if (ret == 0)
		ret = remove_taken(r, private, e, why);
	if (private < 0)
		return ret;
	close(private);
	(void)unlinkat(r->parent.fd, temp, AT_REMOVEDIR);	/* what stays is swept */
	return ret;
}

static int go(const struct rotation *r, const struct fm_rotation_entry *e, const struct stat *st,
	      const char **why)
{
	int ret;

	if (look_at_links(r, e, st->st_dev, why) != 0)
		return -EBUSY;
	ret = look(r->parent.fd, e->name, S_ISDIR(st->st_mode), why);
	if (ret < 0 || ret == USED)
		return -EBUSY;
	return S_ISDIR(st->st_mode) ? remove_dir(r, e, why) : remove_file(r, e, why);
}

static void note_gone(struct rotation *r, const struct fm_rotation_entry *e, const struct stat *st)
{
	struct fm_entry *out = &r->gone[(*r->count)++];

	*out = (struct fm_entry){.attr.type = S_ISDIR(st->st_mode) ? FM_NODE_DIR : FM_NODE_FILE};
	(void)snprintf(out->name, sizeof(out->name), "%s", e->name);
}

static void note_stays(struct rotation *r, const char *name, const char *why)
{
	if (r->stays++ > 0)
		return;
	(void)snprintf(r->first, sizeof(r->first), "%s", name);
	r->why = why;
}

/* How many of the record are older than the last `keep` that are there. */
static unsigned count_older(const struct rotation *r, uint32_t keep)
{
	unsigned i = r->record->count;
	struct stat st;

	while (i > 0 && keep > 0)
		keep -= is_still(r->parent.fd, &r->record->entry[--i], &st) == 1;
	return i;
}

static void go_all(struct rotation *r, uint32_t keep)
{
	unsigned older = count_older(r, keep);

	for (unsigned i = 0; i < older && *r->count < FM_ROTATED_MAX; i++) {
		const struct fm_rotation_entry *e = &r->record->entry[i];
		const char *why;
		struct stat st;

		if (is_still(r->parent.fd, e, &st) != 1)
			continue;
		if (go(r, e, &st, &why) == 0)
			note_gone(r, e, &st);
		else
			note_stays(r, e->name, why);
	}
}

/* ---- all of it ---- */

/*
 * Forgets what has its name no more. What another rotation has in a stash just now may get it back.
 */
static void forget_gone(const struct rotation *r)
{
	bool is_alone = atomic_load(&r->sd->rotations) == 1;
	struct fm_rotation_record *record = r->record;
	struct stat st;

	for (unsigned i = record->count; i-- > 0;) {
		int ret = is_still(r->parent.fd, &record->entry[i], &st);

		if (ret == 0 || (ret == -ENOENT && is_alone))
			fm_rotation_record_drop(record, i);
	}
}

/* It begins anew: 0. */
static int say_damaged(const struct rotation *r)
{
	struct fm_path_shown shown;

	fm_log_warn("store %s: what \"%s\" led to with --keep-last is not known any more, its "
		    "record is damaged: what was published so far stays until somebody removes it",
		    r->sd->store.name, fm_path_show(r->link, &shown));
	return 0;
}

static int record(const struct rotation *r, const struct fm_rotation_entry *published)
{
	int ret;

	pthread_mutex_lock(&r->sd->rotating);
	ret = fm_rotation_record_read(r->parent.fd, r->parent.name, r->record);
	if (ret == -EBADMSG)
		ret = say_damaged(r);
	if (ret == 0) {
		forget_gone(r);
		fm_rotation_record_add(r->record, published);
		ret = fm_rotation_record_write(r->parent.fd, r->record, r->sd->store.is_durable);
	}
	pthread_mutex_unlock(&r->sd->rotating);
	return ret;
}

static int say_stays(const struct rotation *r, struct fm_err *err)
{
	struct fm_path_shown shown;
	char more[40] = "";

	if (r->stays > 1)
		(void)snprintf(more, sizeof(more), ", and %u more", r->stays - 1);
	return fm_err_set(err, -EBUSY, "\"%s\" stays: %s%s; the next rotation tries again",
			  fm_path_show(r->first, &shown), r->why, more);
}

/* Before what it led to goes the link is on the disk. A durable store has seen to that. */
static int sync_link(const struct rotation *r, struct fm_err *err)
{
	int ret = r->sd->store.is_durable ? 0 : fm_tsys_fsync(r->parent.fd);

	return ret < 0 ? fm_path_fail(err, ret, "sync the directory of the link", r->link) : 0;
}

static int rotate(struct rotation *r, const char *published, uint32_t keep, struct fm_err *err)
{
	struct fm_rotation_entry newest;
	struct stat st;
	int ret = identify(r->parent.fd, published, &newest, &st);

	if (ret == -EOPNOTSUPP)
		return fm_err_set(err, ret,
				  "nothing is removed: this file system does not tell what was "
				  "published from what gets its name later");
	if (ret == 0 && sync_link(r, err) < 0)
		return err->code;	/* also for want of room: nothing goes for that */
	if (ret == 0)
		ret = record(r, &newest);
	if (ret == 0 || ret == -ENOSPC || ret == -EDQUOT)
		go_all(r, keep);
	if (ret == -ENOSPC || ret == -EDQUOT)
		ret = record(r, &newest);
	if (ret == 0 && *r->count > 0 && r->sd->store.is_durable)
		ret = fm_tsys_fsync(r->parent.fd);
	if (ret < 0)
		return fm_path_fail(err, ret, "note for --keep-last", published);
	return r->stays > 0 ? say_stays(r, err) : 0;
}

int fm_rotate(struct fm_store_dir *dir, const char *link, const char *published, uint32_t keep,
	      struct fm_entry *gone, size_t *count, struct fm_err *err)
{
	struct rotation r = {.sd = dir, .link = link, .gone = gone, .count = count};
	int ret;

	*count = 0;
	if (!link[0] || !fm_is_component(published) || fm_path_is_reserved(published))
		return fm_err_set(err, -EINVAL, "what is kept is what a link leads to beside it");
	ret = fm_path_open_parent(dir->root, link, NULL, &r.parent, err);
	if (ret < 0)
		return ret;
	r.record = fm_sys_alloc(sizeof(*r.record));
	if (r.record) {
		atomic_fetch_add(&dir->rotations, 1);
		ret = rotate(&r, published, keep, err);
		atomic_fetch_sub(&dir->rotations, 1);
	} else {
		ret = fm_err_sys(err, -ENOMEM, "allocate the rotation");
	}
	free(r.record);
	close(r.parent.fd);
	return ret;
}
