/* SPDX-License-Identifier: MIT */
/*
 * group_commit - the members of a group get their place by one rename, if all that are expected
 * have come. See group.h.
 */
#include "mover/store/group_commit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/store/lead.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"
#include "mover/store/walk.h"
#include "mover/tree/stash.h"
#include "mover/tree/tsys.h"
#include "mover/tree/unfinished.h"

#define NAMED_MAX 4			/* names that an error has */
#define TRIES_MAX 16

/* ---- who has come ---- */

/* Names for an error: the first ones, and how many there are. */
struct names {
	uint64_t count;
	char text[FM_ERR_TEXT_MAX / 2];
	struct fm_group_names *list;	/* NULL: nobody wants them as lines */
};

static void name(struct names *n, const char *path)
{
	size_t len = strlen(n->text);
	struct fm_path_shown shown;

	if (n->list)
		fm_group_names_add(n->list, path);
	if (n->count++ < NAMED_MAX)
		(void)snprintf(n->text + len, sizeof(n->text) - len, "%s\"%s\"",
			       len > 0 ? ", " : "", fm_path_show(path, &shown));
	else if (n->count == NAMED_MAX + 1)
		(void)snprintf(n->text + len, sizeof(n->text) - len, " and others");
}

/* The first part of a path that is expected: what has to be directly below the group's. */
struct part {
	const char *at;
	size_t len;
};

/* What is expected: a list of paths below the group's, one a line, or a number of names. */
struct expected {
	const char *list;
	size_t len;
	uint32_t members;
	struct part *parts;		/* of the list, sorted: members may be very many */
	size_t part_count;
	struct names missing, beyond, there, cut_off;
	char line[FM_PATH_LEN_MAX + 1];
};

/*
 * Finds the next line of the list that holds something. Its length, or 0: there is none.
 */
static size_t find_line(const struct expected *e, size_t *at, const char **line)
{
	while (*at < e->len) {
		const char *from = e->list + *at, *end = memchr(from, '\n', e->len - *at);
		size_t len = end ? (size_t)(end - from) : e->len - *at;

		*at += len + 1;
		*line = from;
		if (len > 0 && len <= FM_PATH_LEN_MAX)
			return len;
	}
	return 0;
}

/* Takes it. false: there is none. */
static bool next_line(struct expected *e, size_t *at)
{
	const char *line;
	size_t len = find_line(e, at, &line);

	if (len > 0)
		memcpy(e->line, line, len);
	e->line[len] = '\0';
	return len > 0;
}

static int compare_parts(const void *a, const void *b)
{
	const struct part *p = a, *q = b;
	int order = memcmp(p->at, q->at, p->len < q->len ? p->len : q->len);

	return order != 0 ? order : (p->len > q->len) - (p->len < q->len);
}

static int sort_parts(struct expected *e)
{
	size_t at = 0, count = 0, len;
	const char *line;

	while (find_line(e, &at, &line) > 0)
		count++;
	if (count == 0)
		return 0;
	e->parts = fm_sys_alloc(count * sizeof(e->parts[0]));
	if (!e->parts)
		return -ENOMEM;
	for (at = 0; (len = find_line(e, &at, &line)) > 0;) {
		const char *slash = memchr(line, '/', len);

		e->parts[e->part_count++] =
			(struct part){line, slash ? (size_t)(slash - line) : len};
	}
	qsort(e->parts, e->part_count, sizeof(e->parts[0]), compare_parts);
	return 0;
}

/*
 * Whether a name directly below the group's path is in the list, or the first part of one that is.
 */
static bool is_listed(const struct expected *e, const char *member)
{
	const struct part p = {member, strlen(member)};

	return e->part_count > 0 &&
	       bsearch(&p, e->parts, e->part_count, sizeof(p), compare_parts) != NULL;
}

static int meet(void *ctx, int dir, const char *member)
{
	struct expected *e = ctx;

	(void)dir;
	if (fm_path_is_reserved(member))
		return 0;
	name(&e->there, member);
	if (e->len > 0 && !is_listed(e, member))
		name(&e->beyond, member);
	return 0;
}

/* Looks for each path of the list. */
static int look_for_listed(struct expected *e, int members, struct fm_err *err)
{
	size_t at = 0;
	int fd, ret;

	while (next_line(e, &at)) {
		ret = fm_path_check(e->line, err);
		if (ret < 0)
			return ret;
		fd = fm_sys_open_beneath(members, e->line, O_PATH | O_NOFOLLOW);
		if (fd == -ENOENT || fd == -ENOTDIR)
			name(&e->missing, e->line);
		else if (fd < 0)
			return fm_path_fail(err, fd, "look for", e->line);
		else
			close(fd);
	}
	return 0;
}

/*
 * Notes a member that was cut off. What keeps no journal has no name, and nobody goes on with it.
 */
static void note_cut_off(struct expected *e, const struct fm_walk *walk,
			 const struct fm_walk_at *at)
{
	char path[FM_PATH_LEN_MAX + 1];
	struct fm_unfinished u;

	if (fm_walk_path(walk, at, path, sizeof(path)) < 0 ||
	    fm_unfinished_look(at->dir, at->name, at->is_dir, &u) <= 0 || !u.name[0])
		return;
	(void)snprintf(e->line, sizeof(e->line), "%.*s%s",
		       (int)(strlen(path) - strlen(at->name)), path, u.name);
	name(&e->cut_off, e->line);
}

/*
 * Looks in all directories of the members for what was cut off: that a directory is there says
 * nothing, since the put of a file in it has made it.
 */
static int look_for_cut_off(struct expected *e, int members)
{
	struct fm_walk *walk = fm_sys_alloc(sizeof(*walk));
	int fd = walk ? fm_sys_open_beneath(members, ".", O_RDONLY | O_DIRECTORY) : -ENOMEM;
	int ret = fd < 0 ? fd : fm_walk_start(walk, fd);
	struct fm_walk_at at;

	if (ret < 0) {
		free(walk);
		return ret;
	}
	/* What is closed to us is of a tree, which came as a whole. */
	while ((ret = fm_walk_next(walk, &at)) > 0 || ret == -EACCES || ret == -EOVERFLOW) {
		if (ret < 0 || at.is_leaving || !fm_path_is_reserved(at.name))
			continue;
		note_cut_off(e, walk, &at);
		if (at.is_dir)
			fm_walk_skip(walk);
	}
	fm_walk_end(walk);
	free(walk);
	return ret;
}

/* A member that was put under a wrong name is missing, and another one is there in its place. */
static int judge_list(const struct expected *e, struct fm_err *err)
{
	const struct names *missing = &e->missing, *beyond = &e->beyond;
	char came[sizeof(beyond->text) + 64] = "";

	if (beyond->count > 0)
		(void)snprintf(came, sizeof(came), "%" PRIu64 " came that %s not expected: %s",
			       beyond->count, beyond->count == 1 ? "is" : "are", beyond->text);
	if (missing->count > 0)
		return fm_err_set(err, -ENODATA, "%" PRIu64 " of its members %s missing: %s%s%s",
				  missing->count, missing->count == 1 ? "is" : "are",
				  missing->text, came[0] ? "; " : "", came);
	if (beyond->count > 0)
		return fm_err_set(err, -ENODATA,
				  "%s; --expect of the commit can name all anew", came);
	return 0;
}

static int judge(const struct expected *e, struct fm_err *err)
{
	int ret = judge_list(e, err);

	if (ret < 0)
		return ret;
	if (e->members > 0 && e->there.count > e->members)
		return fm_err_set(err, -ENODATA,
				  "%" PRIu64 " members are there, and %" PRIu32 " expected: %s",
				  e->there.count, e->members, e->there.text);
	if (e->members > 0 && e->there.count != e->members)
		return fm_err_set(err, -ENODATA, "%" PRIu64 " of %" PRIu32 " members are there%s%s",
				  e->there.count, e->members, e->there.count > 0 ? ": " : "",
				  e->there.text);
	if (e->cut_off.count > 0)
		return fm_err_set(err, -ENODATA,
				  "%" PRIu64 " that came %s cut off: %s; put %s again",
				  e->cut_off.count, e->cut_off.count == 1 ? "was" : "were",
				  e->cut_off.text, e->cut_off.count == 1 ? "it" : "them");
	return 0;
}

static int look(struct expected *e, const struct fm_group_dir *g, struct fm_err *err)
{
	int members = fm_sys_open_dir(g->fd, FM_GROUP_MEMBERS, true), ret;

	if (members < 0)
		return fm_err_sys(err, members, "open the directory of the members");
	ret = sort_parts(e);
	if (ret == 0)
		ret = fm_tsys_each_name(members, meet, e);
	if (ret == 0)
		ret = look_for_cut_off(e, members);
	if (ret < 0)
		(void)fm_err_sys(err, ret, "look at the members");
	else
		ret = look_for_listed(e, members, err);
	free(e->parts);
	close(members);
	return ret;
}

/* Of a number nobody knows the names. */
static void note_nameless(const struct expected *e, struct fm_group_names *missing)
{
	if (e->len == 0 && e->members > e->there.count)
		missing->count = e->members - (uint32_t)e->there.count;
}

int fm_group_look_members(const struct fm_group_dir *g, struct fm_group_view *out,
			  struct fm_err *err)
{
	struct expected e = {.list = g->record.expect,
			     .len = g->record.expect_len,
			     .members = g->record.members,
			     .missing.list = &out->missing,
			     .there.list = &out->there};
	int ret = look(&e, g, err);

	if (ret == 0)
		note_nameless(&e, &out->missing);
	return ret;
}

int fm_group_check_members(const struct fm_group_dir *g, const struct fm_group_ask *ask,
			   struct fm_err *err)
{
	bool is_asked = ask->expect_len > 0 || ask->members > 0;
	struct expected e = {.list = is_asked ? ask->expect : g->record.expect,
			     .len = is_asked ? ask->expect_len : g->record.expect_len,
			     .members = is_asked ? ask->members : g->record.members,
			     .missing.list = ask->missing};
	int ret;

	if (e.len == 0 && e.members == 0)
		return fm_err_set(err, -EINVAL,
				  "nobody said which members are expected: say --members N or "
				  "--expect NAME,...");
	ret = look(&e, g, err);
	if (ret < 0)
		return ret;
	if (ask->missing)
		note_nameless(&e, ask->missing);
	return judge(&e, err);
}

/* ---- the place ---- */

int fm_group_check_target(const struct fm_path_parent *parent, const char *path, bool may_replace,
			  struct fm_err *err)
{
	return fm_path_check_target(parent, path, may_replace, "a group",
				    "--replace puts the group in its place", err);
}

/* What had the name before. */
struct replaced {
	bool is_exchanged;		/* it has the members' place now */
	char stash[FM_STAGING_NAME_LEN + 1];	/* or it lies there; "": there was none */
	uint64_t ino;
};

/*
 * Puts the old directory aside before the new one has its name: where the file system cannot
 * exchange the two, neither has it for a moment.
 */
static int move_old(const struct fm_path_parent *parent, struct replaced *was)
{
	struct fm_stash_what what = {
		.dir = parent->fd, .from = parent->name, .name = parent->name};
	struct stat st;
	int ret = fm_sys_fstatat(parent->fd, parent->name, &st);

	if (ret < 0)
		return ret;
	was->ino = what.ino = st.st_ino;
	ret = fm_stash_keep(&what, parent->fd, FM_STAGING_OLD, was->stash);
	if (ret < 0)
		was->stash[0] = '\0';
	return ret;
}

/* The name is free again: the old directory gets it back, if it was put aside. */
static void give_back(const struct fm_path_parent *parent, const struct replaced *was)
{
	int ret = was->stash[0] ? fm_stash_give_back(parent->fd, was->stash, was->ino) : 0;

	if (ret < 0)
		fm_log_error("%s: what had the name stays in %s: %s", parent->name, was->stash,
			     fm_err_name(ret));
}

/* Gives the members the name. *was: for who undoes that. */
static int rename_members(const struct fm_path_parent *parent, const struct fm_group_dir *g,
			  bool may_replace, struct replaced *was)
{
	struct stat st;
	int ret = -EEXIST;

	*was = (struct replaced){.is_exchanged = false};
	for (int i = 0; i < TRIES_MAX && ret == -EEXIST; i++) {
		ret = fm_tsys_rename_free(g->fd, FM_GROUP_MEMBERS, parent->fd, parent->name);
		if (ret != -EEXIST || !may_replace)
			break;
		ret = fm_sys_fstatat(parent->fd, parent->name, &st);
		if (ret == 0 && !S_ISDIR(st.st_mode)) {
			ret = -ENOTDIR;
			break;
		}
		if (ret == 0)
			ret = fm_tsys_rename(g->fd, FM_GROUP_MEMBERS, parent->fd, parent->name,
					     RENAME_EXCHANGE);
		was->is_exchanged = ret == 0;
		if (fm_tsys_is_unsupported(ret)) {
			ret = move_old(parent, was);
			ret = ret == 0 ? -EEXIST : ret;
		}
		if (ret == -ENOENT)	/* it went meanwhile */
			ret = -EEXIST;
	}
	if (ret < 0)
		give_back(parent, was);
	return ret;
}

/* Undoes the rename. The error that led here is the one to report. */
static void undo(const struct fm_path_parent *parent, const struct fm_group_dir *g,
		 const struct replaced *was)
{
	int ret = was->is_exchanged
			  ? fm_call_renameat(parent->fd, parent->name, g->fd, FM_GROUP_MEMBERS,
					     RENAME_EXCHANGE)
			  : fm_tsys_rename_free(parent->fd, parent->name, g->fd, FM_GROUP_MEMBERS);

	if (ret < 0)
		fm_log_error("%s: cannot undo the commit of its group: %s", parent->name,
			     fm_err_name(ret));
	else
		give_back(parent, was);
}

int fm_group_sync_place(struct fm_store_dir *sd, const char *path,
			const struct fm_path_parent *parent, const struct fm_group_dir *g,
			struct fm_err *err)
{
	int ret;

	if (!sd->store.is_durable)
		return 0;
	ret = fm_tsys_fsync(parent->fd);
	if (ret == 0)
		ret = fm_tsys_fsync(g->fd);
	return ret < 0 ? fm_path_fail(err, ret, "sync the directory of", path)
		       : fm_path_sync_up(sd->root, parent->fd, path, err);
}

/*
 * Members may have been put without a sync, and not all of them on this connection. Where none was,
 * each is on the disk since before it had its name, so what could not be written is somebody
 * else's: who writes to that file system could keep every group from its commit otherwise.
 */
static int sync_members(struct fm_store_dir *sd, const char *path, struct fm_group_dir *g,
			struct fm_err *err)
{
	struct fm_path_shown shown;
	bool is_watched;
	int ret = fm_group_count_sync(&sd->groups, &g->key, g->fd, &is_watched);

	/* Its time was over meanwhile, and with it goes what is known of it. */
	if (ret == 0 && !is_watched && !g->is_synced && fm_group_dir_is_over(g))
		return fm_err_set(err, -ENOENT,
				  "\"%s\": its group has expired while it was committed, and "
				  "whether its members could be synced is not known: begin another "
				  "one, with more time (--expires)",
				  fm_path_show(path, &shown));
	if (ret < 0 && g->is_synced) {
		fm_log_warn("the group for \"%s\" is committed, though something on its file "
			    "system could not be written: %s; its members were on the disk before",
			    fm_path_show(path, &shown), fm_err_name(ret));
		return 0;
	}
	if (ret == 0)
		return 0;
	fm_group_dir_lose(g, path, ret);
	return fm_group_dir_check_lost(g, path, err);
}

static int publish(struct fm_store_dir *sd, const char *path, const struct fm_path_parent *parent,
		   struct fm_group_dir *g, bool may_replace, struct fm_err *err)
{
	struct replaced was;
	int ret = 0;

	if (sd->store.is_durable)
		ret = sync_members(sd, path, g, err);
	if (ret < 0)
		return ret;
	ret = rename_members(parent, g, may_replace, &was);
	if (ret < 0 && fm_group_check_target(parent, path, may_replace, err) < 0)
		return err->code;
	if (ret < 0)
		return fm_path_fail(err, ret, "publish the group", path);
	ret = fm_group_sync_place(sd, path, parent, g, err);
	if (ret < 0) {
		undo(parent, g, &was);
		return ret;
	}
	g->is_open = false;
	fm_group_dir_published(sd, g);
	ret = fm_group_dir_settle(sd, parent->fd, path, g);
	if (ret < 0)
		fm_log_warn("store %s: cannot put aside what the group \"%s\" replaced: %s; the "
			    "next sweep tries again",
			    sd->store.name, g->record.name, fm_err_name(ret));
	fm_lead_note_order(sd, parent, g);
	return 0;
}

int fm_group_commit(struct fm_store_dir *sd, const char *path, const struct fm_path_parent *parent,
		    struct fm_group_dir *g, const struct fm_group_ask *ask, struct fm_err *err)
{
	bool may_replace = ask->may_replace || g->record.may_replace;
	struct fm_path_shown shown;
	int ret = fm_group_check_members(g, ask, err);

	if (ret < 0) {
		fm_err_wrap(err, "\"%s\"", fm_path_show(path, &shown));
		return ret;
	}
	ret = fm_group_check_target(parent, path, may_replace, err);
	if (ret < 0 || ask->op == FM_GROUP_CHECK)
		return ret;
	return publish(sd, path, parent, g, may_replace, err);
}
