/* SPDX-License-Identifier: MIT */
/* group - see group.h: how a group begins and ends, and how members find it. */
#include "mover/store/group.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/log.h"
#include "mover/store/group_commit.h"
#include "mover/store/origin.h"
#include "mover/store/room.h"
#include "mover/store/store_dir.h"
#include "mover/store/sys.h"
#include "mover/tree/remove.h"
#include "mover/tree/tsys.h"

#define TRIES_MAX 4	/* each time somebody else's group goes or comes meanwhile */

/* ---- whose it is ---- */

static int no_group(const char *path, struct fm_err *err)
{
	struct fm_path_shown shown;

	return fm_err_set(err, -ENOENT,
			  "\"%s\": no group was begun for it, or it is over, or its record is "
			  "damaged",
			  fm_path_show(path, &shown));
}

/*
 * Checks that the group is the caller's: he has its ID, and is the user who began it. Which node
 * he asks from does not count, since members come from many.
 */
static int check_owner(const struct fm_group_dir *g, const char *path, const struct fm_who *who,
		       const uint8_t *id, struct fm_err *err)
{
	char digest[FM_GROUP_DIGEST_LEN + 1];
	struct fm_group_begun begun;
	struct fm_path_shown shown;

	fm_group_digest(id, digest);
	if (strcmp(digest, g->record.digest) == 0 && who->uid == g->record.uid)
		return 0;
	fm_group_dir_begun(g, &begun);
	return fm_err_set(err, -EPERM,
			  "\"%s\": the group for it has another ID, or is another user's: it was "
			  "begun by %s",
			  fm_path_show(path, &shown), begun.text);
}

static int check_going(const struct fm_group_dir *g, const char *path, struct fm_err *err)
{
	struct fm_path_shown shown;

	if (!g->is_open)
		return fm_err_set(err, -ENOENT, "\"%s\": its group was committed",
				  fm_path_show(path, &shown));
	if (fm_group_dir_is_over(g))
		return fm_err_set(err, -ENOENT,
				  "\"%s\": its group has expired: begin another one, with more "
				  "time (--expires)",
				  fm_path_show(path, &shown));
	return 0;
}

/* Opens the group of a path. A directory of its name that is not ours counts as none. */
static int open_group(const struct fm_path_parent *parent, const char *path,
		      struct fm_group_dir *g, struct fm_err *err)
{
	char name[FM_GROUP_NAME_LEN + 1];
	int ret;

	fm_group_dir_name(parent->name, name);
	ret = fm_group_dir_open(parent->fd, name, g);
	if (ret == -ENOENT || ret == -EPERM)
		return no_group(path, err);
	return ret < 0 ? fm_path_fail(err, ret, "open the group for", path) : 0;
}

/* Reads the record of an open group. One that is of another name counts as none. */
static int read_group(const struct fm_path_parent *parent, const char *path,
		      struct fm_group_dir *g, struct fm_err *err)
{
	int ret = fm_group_dir_read(g, err);

	return ret == -EBADMSG || (ret == 0 && strcmp(g->record.name, parent->name) != 0)
		       ? no_group(path, err)
		       : ret;
}

/* ---- beginning ---- */

static int64_t expiry(const struct fm_store_dir *sd, const struct fm_group_ask *ask, int64_t now_ns)
{
	uint64_t ns = ask->expires_s > 0 ? ask->expires_s * FM_NS_PER_S : sd->group_keep_ns;

	return now_ns + (int64_t)ns;
}

static int check_ask(const struct fm_store_dir *sd, const struct fm_group_ask *ask,
		     struct fm_err *err)
{
	uint64_t most_s = sd->group_keep_ns / FM_NS_PER_S;

	if (ask->expires_s > most_s)
		return fm_err_set(err, -EINVAL,
				  "a group of this store ends after %" PRIu64
				  " s at most (group_keep)",
				  most_s);
	return ask->expect_len > FM_GROUP_EXPECT_MAX
		       ? fm_err_set(err, -EINVAL, "the names expected have more than %d bytes",
				    FM_GROUP_EXPECT_MAX)
		       : 0;
}

static void fill_record(const struct fm_store_dir *sd, const char *name, const struct fm_who *who,
			const struct fm_group_ask *ask, struct fm_group_record *r)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	fm_group_digest(ask->id, r->digest);
	(void)snprintf(r->name, sizeof(r->name), "%s", name);
	(void)snprintf(r->peer, sizeof(r->peer), "%s", who->peer ? who->peer : "");
	r->uid = who->uid;
	r->begun_ns = fm_time_ns(&now);
	r->expires_ns = expiry(sd, ask, r->begun_ns);
	r->may_replace = ask->may_replace;
	r->has_notes = true;
	r->members = ask->members;
	r->expect_len = ask->expect_len;
	memcpy(r->expect, ask->expect ? ask->expect : "", ask->expect_len);
	r->expect[r->expect_len] = '\0';
}

/* Takes room in the quota for the record, which may hold a long list. */
static int take_room(struct fm_store_dir *sd, const struct fm_group_dir *g, uint64_t *taken)
{
	struct fm_err err;
	struct stat st;
	int ret = fm_sys_fstatat(g->fd, FM_GROUP_RECORD_NAME, &st);

	if (ret == 0)
		ret = fm_room_take(sd, (uint64_t)st.st_size, &err);
	if (ret == 0)
		*taken = (uint64_t)st.st_size;
	return ret;
}

/* Makes the members' directory and writes the record. *taken: so much of the quota. */
static int fill(struct fm_store_dir *sd, struct fm_group_dir *g, const struct fm_path_make *make,
		uint64_t *taken)
{
	struct stat st;
	int ret = fm_path_make_dir(g->fd, FM_GROUP_MEMBERS, make);

	if (ret == 0)
		ret = fm_sys_fstatat(g->fd, FM_GROUP_MEMBERS, &st);
	if (ret < 0)
		return ret;
	g->record.dir_ino = g->key.ino;
	g->record.ino = st.st_ino;
	if (fm_origin_find_lasting(g->fd, FM_GROUP_MEMBERS, &g->record.origin) < 0)
		g->record.origin = 0;
	ret = fm_group_record_write(g->fd, &g->record, sd->store.is_durable);
	if (ret == 0)
		ret = take_room(sd, g, taken);
	return ret == 0 && sd->store.is_durable ? fm_tsys_fsync(g->fd) : ret;
}

/* Removes a group that is over or was committed. */
static int clear_alone(struct fm_store_dir *sd, const struct fm_path_parent *parent,
		       const char *path, struct fm_group_dir *g, struct fm_err *err)
{
	struct fm_group_use *alone;
	int ret = fm_group_close(&g->key, 0, &alone, err);

	if (ret < 0)
		return ret;
	ret = fm_group_dir_read(g, err);	/* it may have been committed meanwhile */
	if (ret == 0)
		ret = fm_group_dir_settle(sd, parent->fd, path, g);
	if (ret == 0 || ret == -EBADMSG)
		ret = fm_group_dir_remove(sd, parent->fd, g);
	if (ret < 0)
		(void)fm_path_fail(err, ret, "remove an earlier group for", path);
	fm_group_let_go(alone);
	return ret;
}

/* Whether a group is what is begun just now: who begins it again did not hear of the first time. */
static bool is_again(const struct fm_group_record *was, const struct fm_group_record *now)
{
	return strcmp(was->digest, now->digest) == 0 && was->uid == now->uid &&
	       strcmp(was->peer, now->peer) == 0 && was->may_replace == now->may_replace &&
	       was->members == now->members && was->expect_len == now->expect_len &&
	       memcmp(was->expect, now->expect, now->expect_len) == 0;
}

/*
 * Removes the group that has the name, if it is over or was committed, or says whose it is. 0: the
 * name may be free now. 1: it is the same.
 */
static int clear_name(struct fm_store_dir *sd, const struct fm_path_parent *parent,
		      const char *path, const struct fm_group_record *mine, struct fm_group_dir *g,
		      struct fm_err *err)
{
	struct fm_group_begun begun;
	struct fm_path_shown shown;
	char name[FM_GROUP_NAME_LEN + 1];
	int ret;

	fm_group_dir_name(parent->name, name);
	ret = fm_group_dir_open(parent->fd, name, g);
	if (ret == -ENOENT)
		return 0;	/* it went meanwhile */
	if (ret < 0)
		return fm_err_set(err, -EEXIST, "\"%s\": %s, which is no group, is in its way",
				  fm_path_show(path, &shown), name);
	/* It may be another user's: nobody is kept out of one that goes on. */
	ret = fm_group_dir_read(g, err);
	if (ret == 0 && g->is_open && !fm_group_dir_is_over(g) && is_again(&g->record, mine)) {
		ret = 1;
	} else if (ret == 0 && g->is_open && !fm_group_dir_is_over(g)) {
		fm_group_dir_begun(g, &begun);
		ret = fm_err_set(err, -EEXIST,
				 "\"%s\": a group was begun for it by %s; fmove group discard "
				 "with its ID ends it",
				 fm_path_show(path, &shown), begun.text);
	} else if (ret == 0 || ret == -EBADMSG) {
		ret = clear_alone(sd, parent, path, g, err);
	}
	fm_group_dir_close(g);
	return ret;
}

/* Gives the group, made under another name, its own. 1: it was begun already. */
static int name_group(struct fm_store_dir *sd, const struct fm_path_parent *parent,
		      const char *path, const char *made, const struct fm_group_record *mine,
		      struct fm_group_dir *other, struct fm_err *err)
{
	char name[FM_GROUP_NAME_LEN + 1];
	int ret = -EEXIST, is_there = 0;

	fm_group_dir_name(parent->name, name);
	for (int i = 0; i < TRIES_MAX && ret == -EEXIST; i++) {
		ret = fm_tsys_rename_free(parent->fd, made, parent->fd, name);
		if (ret != -EEXIST)
			break;
		is_there = clear_name(sd, parent, path, mine, other, err);
		if (is_there < 0)
			return is_there;
		ret = is_there ? 0 : -EEXIST;
	}
	if (ret == 0 && sd->store.is_durable) {
		ret = fm_tsys_fsync(parent->fd);
		if (ret == 0 && fm_path_sync_up(sd->root, parent->fd, path, err) < 0)
			return err->code;
	}
	return ret < 0 ? fm_path_fail(err, ret, "begin a group for", path) : is_there;
}

/* Whether the group that has the name is this one, and goes on. */
static bool is_begun(const struct fm_path_parent *parent, const struct fm_group_record *mine,
		     struct fm_group_dir *other)
{
	char name[FM_GROUP_NAME_LEN + 1];
	struct fm_err unsaid;
	bool is;

	fm_group_dir_name(parent->name, name);
	if (fm_group_dir_open(parent->fd, name, other) < 0)
		return false;
	is = fm_group_dir_read(other, &unsaid) == 0 && other->is_open &&
	     !fm_group_dir_is_over(other) && is_again(&other->record, mine);
	fm_group_dir_close(other);
	return is;
}

/*
 * Counts the group, made under another name, as one of its user's, and gives it its own. 1: it was
 * begun already, for which there is always room.
 */
static int count_and_name(struct fm_store_dir *sd, const struct fm_path_parent *parent,
			  const char *path, const char *made, const struct fm_group_dir *g,
			  struct fm_group_dir *other, struct fm_err *err)
{
	const struct fm_group_record *mine = &g->record;
	struct fm_path_shown shown;
	int ret = fm_group_count_add(&sd->groups, &g->key, mine->uid, mine->expires_ns, err);
	/* before a member can come */
	int watched = ret == 0 ? fm_group_count_watch(&sd->groups, &g->key, parent->fd) : 0;

	if (ret == -EDQUOT && is_begun(parent, mine, other))
		return 1;
	if (ret < 0) {
		fm_err_wrap(err, "\"%s\"", fm_path_show(path, &shown));
		return ret;
	}
	ret = watched < 0 ? fm_path_fail(err, watched, "begin a group for", path)
			  : name_group(sd, parent, path, made, mine, other, err);
	if (ret != 0)
		fm_group_count_drop(&sd->groups, &g->key);
	if (ret > 0)	/* or the sweep counts it */
		(void)fm_group_count_found(&sd->groups, &other->key, mine->uid,
					   other->record.expires_ns);
	return ret;
}

static int make_group(struct fm_store_dir *sd, const struct fm_path_parent *parent,
		      const char *path, const struct fm_path_make *make, struct fm_group_dir *g,
		      struct fm_err *err)
{
	struct fm_group_dir *other = fm_sys_alloc(sizeof(*other));
	char made[FM_GROUP_NAME_LEN + 1];
	uint64_t random, taken = 0;
	int ret;

	if (!other)
		return fm_err_sys(err, -ENOMEM, "allocate the group");
	fm_random_real.fill(fm_random_real.ctx, &random, sizeof(random));
	(void)snprintf(made, sizeof(made), FM_PATH_RESERVED "%016" PRIx64 ".group", random);
	ret = fm_tsys_mkdir(parent->fd, made);
	if (ret == 0)
		ret = fm_group_dir_open(parent->fd, made, g);
	if (ret == 0) {
		ret = fill(sd, g, make, &taken);
		fm_group_dir_close(g);
	}
	if (ret < 0)
		(void)fm_path_fail_making(err, ret, parent->fd, "begin a group for", path);
	else
		ret = count_and_name(sd, parent, path, made, g, other, err);
	if (ret != 0) {
		(void)fm_tree_remove(parent->fd, made, NULL);	/* nothing has come yet */
		fm_usage_sub(&sd->usage, taken);
	}
	free(other);
	return ret < 0 ? ret : 0;
}

static int begin(struct fm_store_dir *sd, const char *path, const struct fm_who *who,
		 const struct fm_group_ask *ask, struct fm_group_dir *g, struct fm_err *err)
{
	struct fm_path_make make = fm_store_dir_make(sd, who);
	struct fm_path_parent parent;
	int ret = check_ask(sd, ask, err);

	if (ret == 0)
		ret = fm_path_open_parent(sd->root, path, &make, &parent, err);
	if (ret < 0)
		return ret;
	fill_record(sd, parent.name, who, ask, &g->record);
	ret = fm_group_check_target(&parent, path, ask->may_replace, err);
	if (ret == 0)
		ret = make_group(sd, &parent, path, &make, g, err);
	close(parent.fd);
	return ret;
}

/* ---- committing, and ending ---- */

static int discard(struct fm_store_dir *sd, const struct fm_path_parent *parent, const char *path,
		   const struct fm_group_dir *g, struct fm_err *err)
{
	struct fm_path_shown shown;
	int ret;

	if (!g->is_open)
		return fm_err_set(err, -EEXIST,
				  "\"%s\": its group was committed; rm removes it",
				  fm_path_show(path, &shown));
	ret = fm_group_dir_remove(sd, parent->fd, g);
	if (ret == 0 && sd->store.is_durable)
		ret = fm_tsys_fsync(parent->fd);
	return ret < 0 ? fm_path_fail(err, ret, "end the group for", path) : 0;
}

static int check_published(const struct fm_path_parent *parent, const char *path,
			   const struct fm_group_dir *g, struct fm_err *err)
{
	struct fm_path_shown shown;
	int ret = fm_group_dir_is_at(g, parent->fd, parent->name);

	if (ret < 0 && ret != -ENOENT)
		return fm_path_fail(err, ret, "look at", path);
	return ret == 1
		       ? 0
		       : fm_err_set(err, -ESTALE,
				    "\"%s\" is not what its group had: that was committed, and has "
				    "been removed or replaced since, or its members were removed",
				    fm_path_show(path, &shown));
}

/*
 * A second commit: the first one's answer may have been lost, and so may its sync, if the daemon
 * ended behind the rename. That the members are not with the group any more does not say that they
 * are at their place.
 */
static int commit_again(struct fm_store_dir *sd, const struct fm_path_parent *parent,
			const char *path, const struct fm_group_dir *g, struct fm_err *err)
{
	int ret = fm_group_dir_settle(sd, parent->fd, path, g);

	if (ret < 0)
		return fm_path_fail(err, ret, "put aside what the group replaced at", path);
	ret = check_published(parent, path, g, err);
	return ret < 0 ? ret : fm_group_sync_place(sd, path, parent, g, err);
}

/* Does what is asked of an open group, that the caller has alone. */
static int end(struct fm_store_dir *sd, const struct fm_path_parent *parent, const char *path,
	       const struct fm_group_ask *ask, struct fm_group_dir *g, struct fm_err *err)
{
	int ret = read_group(parent, path, g, err);

	if (ret < 0)
		return ret;
	if (ask->op == FM_GROUP_DISCARD)
		return discard(sd, parent, path, g, err);
	if (!g->is_open)
		return commit_again(sd, parent, path, g, err);
	ret = check_going(g, path, err);
	if (ret == 0)
		ret = fm_group_dir_check_lost(g, path, err);
	return ret == 0 ? fm_group_commit(sd, path, parent, g, ask, err) : ret;
}

static int close_and_end(struct fm_store_dir *sd, const char *path, const struct fm_who *who,
			 const struct fm_group_ask *ask, struct fm_group_dir *g, struct fm_err *err)
{
	struct fm_path_parent parent;
	struct fm_path_shown shown;
	struct fm_group_use *alone;
	int ret = fm_path_open_parent(sd->root, path, NULL, &parent, err);

	if (ret == -ENOENT)
		return no_group(path, err);
	if (ret < 0)
		return ret;
	ret = open_group(&parent, path, g, err);
	if (ret < 0)
		goto close_parent;
	/* First of all: others neither keep members out nor learn which ones come. */
	ret = read_group(&parent, path, g, err);
	if (ret == 0)
		ret = check_owner(g, path, who, ask->id, err);
	if (ret < 0)
		goto close_group;
	ret = fm_group_close(&g->key, fm_store_dir_begin_wait(sd), &alone, err);
	fm_store_dir_end_wait(sd);
	if (ret == 0) {
		ret = end(sd, &parent, path, ask, g, err);
		fm_group_let_go(alone);
	} else {
		fm_err_wrap(err, "\"%s\"", fm_path_show(path, &shown));
	}
close_group:
	fm_group_dir_close(g);
close_parent:
	close(parent.fd);
	return ret;
}

int fm_group_do(struct fm_store_dir *dir, const char *path, const struct fm_who *who,
		const struct fm_group_ask *ask, struct fm_err *err)
{
	struct fm_group_dir *g;
	int ret;

	if (path[0] == '\0')
		return fm_err_set(err, -EISDIR,
				  "the store itself is no group's; name a directory in it");
	g = fm_sys_alloc(sizeof(*g));
	if (!g)
		return fm_err_sys(err, -ENOMEM, "allocate the group");
	ret = ask->op == FM_GROUP_BEGIN ? begin(dir, path, who, ask, g, err)
					: close_and_end(dir, path, who, ask, g, err);
	free(g);
	return ret;
}

/* ---- members ---- */

/* A group that an earlier daemon began may not have been looked up yet. A member holds it, so it
 * does not end meanwhile. */
static int watch_found(struct fm_store_dir *sd, const struct fm_group_dir *g, struct fm_err *err)
{
	int ret = fm_group_count_found(&sd->groups, &g->key, g->record.uid, g->record.expires_ns);

	if (ret == 0)
		ret = fm_group_count_watch(&sd->groups, &g->key, g->fd);
	if (ret == -EDQUOT)
		return fm_err_set(err, ret,
				  "%u groups are open in this store, and no more are watched: "
				  "commit or discard one first; fmove group list shows them",
				  FM_GROUPS_OPEN_MAX);
	return ret < 0 ? fm_err_sys(err, ret, "watch the file system of the group") : 0;
}

/* Where a member goes. rest: its path below the group's. */
static int place_of(const char *path, size_t len, const struct fm_group_dir *g,
		    char place[static FM_PATH_LEN_MAX + 1], struct fm_err *err)
{
	size_t dir_len = len;
	int n;

	while (dir_len > 0 && path[dir_len - 1] != '/')
		dir_len--;
	n = snprintf(place, FM_PATH_LEN_MAX + 1, "%.*s%s/" FM_GROUP_MEMBERS "%s", (int)dir_len,
		     path, g->name, path + len);
	return n > FM_PATH_LEN_MAX ? fm_err_set(err, -ENAMETOOLONG,
						"the path of the member is too long by %d bytes",
						n - FM_PATH_LEN_MAX)
				   : 0;
}

/*
 * Tries whether the first len bytes of a member's path are those of its group. 1: no group was
 * begun there.
 */
static int enter_at(struct fm_store_dir *sd, const struct fm_group_member *m, size_t len,
		    struct fm_group_dir *g, struct fm_group_use **out, struct fm_err *err)
{
	struct fm_path_parent parent;
	char group[FM_PATH_LEN_MAX + 1];
	int ret;

	memcpy(group, m->path, len);
	group[len] = '\0';
	ret = fm_path_open_parent(sd->root, group, NULL, &parent, err);
	if (ret < 0)
		return ret == -ENOENT || ret == -ENOTDIR ? 1 : ret;
	ret = open_group(&parent, group, g, err);
	if (ret < 0) {
		ret = ret == -ENOENT ? 1 : ret;
		goto close_parent;
	}
	/* Before it is looked at: from here on nobody commits it. */
	ret = fm_group_hold(&g->key, m->path, len, out, err);
	if (ret < 0)
		goto close_group;
	ret = read_group(&parent, group, g, err);
	if (ret == 0)
		ret = check_owner(g, group, m->who, m->id, err);
	if (ret == 0)
		ret = check_going(g, group, err);
	if (ret == 0)
		ret = fm_group_dir_check_lost(g, group, err);
	if (ret == 0)
		ret = watch_found(sd, g, err);
	if (ret == 0 && !m->is_synced)
		ret = fm_group_dir_note_unsynced(sd, g, err);
	if (ret < 0)
		fm_group_let_go(*out);
close_group:
	fm_group_dir_close(g);
close_parent:
	close(parent.fd);
	return ret;
}

static int no_group_above(const char *path, struct fm_err *err)
{
	struct fm_path_shown shown;

	return fm_err_set(err, -ENOENT,
			  "\"%s\": no group was begun for a directory that it is in, or it is "
			  "over; a member (--group, FMOVE_GROUP) is named below its group's path",
			  fm_path_show(path, &shown));
}

/*
 * Looks for the group at each directory of the path, the innermost first. Where none is the
 * caller's, the innermost one that there is says why.
 */
static int enter(struct fm_store_dir *sd, const struct fm_group_member *m, struct fm_group_dir *g,
		 char *place, struct fm_group_use **out, struct fm_err *err)
{
	const char *path = m->path;
	size_t len = strlen(path);
	struct fm_err why;
	int ret, first = 0;

	for (;;) {
		while (len > 0 && path[len - 1] != '/')
			len--;
		if (len == 0)
			break;
		ret = enter_at(sd, m, --len, g, out, &why);
		if (ret == 0) {
			ret = place_of(path, len, g, place, err);
			if (ret < 0)
				fm_group_let_go(*out);
			return ret;
		}
		if (ret < 0 && first == 0) {
			first = ret;
			*err = why;
		}
	}
	return first < 0 ? first : no_group_above(path, err);
}

int fm_group_enter(struct fm_store_dir *dir, const struct fm_group_member *member,
		   char place[static FM_PATH_LEN_MAX + 1], struct fm_group_use **out,
		   struct fm_err *err)
{
	struct fm_group_dir *g = fm_sys_alloc(sizeof(*g));
	int ret = g ? enter(dir, member, g, place, out, err)
		    : fm_err_sys(err, -ENOMEM, "allocate the group");

	free(g);
	return ret;
}

/* Replaces what stands in the text, wherever it stands. What does not fit any more is cut. */
static void replace(struct fm_err *err, const char *what, const char *by)
{
	char text[FM_ERR_TEXT_MAX];
	char *at = err->text;

	while ((at = strstr(at, what))) {
		size_t before = (size_t)(at - err->text);

		(void)snprintf(text, sizeof(text), "%.*s%s%s", (int)before, err->text, by,
			       at + strlen(what));
		memcpy(err->text, text, sizeof(text));
		before += strlen(by);
		if (before >= sizeof(text))
			break;
		at = err->text + before;
	}
}

void fm_group_name_as_asked(const struct fm_group_use *use, struct fm_err *err)
{
	char name[FM_NAME_LEN_MAX + 1], place[FM_GROUP_NAME_LEN + sizeof("/" FM_GROUP_MEMBERS)];
	struct fm_path_shown shown;
	const char *path;
	size_t from, len;

	if (!use)
		return;
	path = fm_group_use_path(use, &len);
	from = len;
	while (from > 0 && path[from - 1] != '/')
		from--;
	(void)snprintf(name, sizeof(name), "%.*s", (int)(len - from), path + from);
	fm_group_dir_name(name, place);
	(void)snprintf(place + FM_GROUP_NAME_LEN, sizeof(place) - FM_GROUP_NAME_LEN,
		       "/" FM_GROUP_MEMBERS);
	replace(err, place, fm_path_show(name, &shown));
}

/* -EBUSY: a group goes on, and nothing has its name yet. */
static int refuse_if_going(const struct fm_path_parent *parent, const char *path,
			   struct fm_group_dir *g, struct fm_err *err)
{
	struct fm_group_begun begun;
	struct fm_path_shown shown;
	struct stat st;
	int ret = read_group(parent, path, g, err);

	if (ret == 0)
		ret = check_going(g, path, err);
	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	ret = fm_sys_fstatat(parent->fd, parent->name, &st);
	if (ret != -ENOENT)
		return ret < 0 ? fm_path_fail(err, ret, "look for", path) : 0;
	fm_group_dir_begun(g, &begun);
	return fm_err_set(err, -EBUSY,
			  "\"%s\": a group was begun for it by %s, and is not committed: put "
			  "its members with its ID (--group, FMOVE_GROUP)",
			  fm_path_show(path, &shown), begun.text);
}

/* The same of the group that a path may have. Most have none, which costs one look. */
static int stay_out_at(struct fm_store_dir *sd, const char *path, struct fm_err *err)
{
	char name[FM_GROUP_NAME_LEN + 1];
	struct fm_path_parent parent;
	struct fm_group_dir *g;
	struct stat st;
	int ret = fm_path_open_parent(sd->root, path, NULL, &parent, err);

	if (ret < 0)
		return ret == -ENOENT || ret == -ENOTDIR ? 0 : ret;
	fm_group_dir_name(parent.name, name);
	if (fm_call_fstatat(parent.fd, name, &st) < 0) {
		close(parent.fd);
		return 0;
	}
	g = fm_sys_alloc(sizeof(*g));
	ret = g ? open_group(&parent, path, g, err)
		: fm_err_sys(err, -ENOMEM, "allocate the group");
	if (ret == 0) {
		ret = refuse_if_going(&parent, path, g, err);
		fm_group_dir_close(g);
	}
	free(g);
	close(parent.fd);
	return ret == -ENOENT ? 0 : ret;
}

int fm_group_stay_out(struct fm_store_dir *dir, const char *path, struct fm_err *err)
{
	char above[FM_PATH_LEN_MAX + 1];
	char *slash;
	int ret;

	(void)snprintf(above, sizeof(above), "%s", path);	/* fits: it was checked */
	do {
		ret = stay_out_at(dir, above, err);
		slash = strrchr(above, '/');
		if (slash)
			*slash = '\0';
	} while (ret == 0 && slash);
	if (ret == 0)
		fm_err_clear(err);
	return ret;
}

void fm_group_forget(struct fm_store_dir *sd, const struct fm_path_parent *parent, const char *path)
{
	struct fm_group_dir *g = fm_sys_alloc(sizeof(*g));
	struct fm_err unsaid;

	if (g && open_group(parent, path, g, &unsaid) == 0) {
		if (read_group(parent, path, g, &unsaid) == 0 && !g->is_open &&
		    fm_group_dir_is_at(g, parent->fd, parent->name) != 1)
			(void)clear_alone(sd, parent, path, g, &unsaid);
		fm_group_dir_close(g);
	}
	free(g);
}

/* ---- the sweep ---- */

/* Whether a directory without a record that counts is left for long. */
static bool is_left(const struct fm_store_dir *sd, const struct fm_group_dir *g)
{
	struct timespec now;
	struct stat st;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	return fm_sys_fstat(g->fd, &st) == 0 &&
	       fm_time_ns(&now) - fm_time_ns(&st.st_ctim) > (int64_t)sd->partial_keep_ns;
}

static void say_expired(const struct fm_store_dir *sd, const char *path,
			const struct fm_group_dir *g)
{
	static const struct fm_group_ask nothing_more;
	struct fm_group_begun begun;
	struct fm_path_shown shown;
	struct fm_err why = {.text = "all its members had come"};

	fm_group_dir_begun(g, &begun);
	(void)fm_group_check_members(g, &nothing_more, &why);
	fm_log_warn("store %s: the group %s, of %s, begun by %s, has expired, and what had come is "
		    "removed: %s",
		    sd->store.name, fm_path_show(path, &shown), g->record.name, begun.text,
		    why.text);
}

static bool sweep_alone(struct fm_store_dir *sd, int parent, const char *path,
			struct fm_group_dir *g)
{
	struct fm_err err;
	int ret = fm_group_dir_read(g, &err);
	bool is_record = ret == 0;

	if (ret < 0 && (ret != -EBADMSG || !is_left(sd, g)))
		return false;
	if (is_record) {
		ret = fm_group_dir_settle(sd, parent, path, g);
		if (ret < 0 || !fm_group_dir_is_over(g))
			return false;
		if (g->is_open)
			say_expired(sd, path, g);
	}
	return fm_group_dir_remove(sd, parent, g) == 0;
}

/*
 * Counts an open group, unless it ends meanwhile: who ends it drops it then, or has done so. 0, or
 * why it may not be counted.
 */
static int count_found(struct fm_store_dir *sd, struct fm_group_dir *g)
{
	const struct fm_group_record *r = &g->record;
	int ret = fm_group_count_found(&sd->groups, &g->key, r->uid, r->expires_ns);
	struct fm_err unsaid;

	if (ret == -EDQUOT)
		return 0;
	if (ret == 0)
		ret = fm_group_dir_read(g, &unsaid);
	if (ret == -EBADMSG || (ret == 0 && !g->is_open)) {
		fm_group_dir_published(sd, g);
		return 0;
	}
	if (ret == 0)
		/* or when the next member comes */
		(void)fm_group_count_watch(&sd->groups, &g->key, g->fd);
	return ret;
}

/*
 * 1: the sweep may have something to do, for which alone members are kept out. 0: it goes on, and
 * is counted, by its own name and not by the one that it is made under; or nobody knows whose it
 * is. An error: it cannot be looked at.
 */
static int look_at(struct fm_store_dir *sd, struct fm_group_dir *g)
{
	char name[FM_GROUP_NAME_LEN + 1];
	struct fm_err err;
	int ret = fm_group_dir_read(g, &err);

	if (ret < 0)
		return ret == -EBADMSG ? is_left(sd, g) : ret;
	if (!g->is_open || fm_group_dir_is_over(g))
		return 1;
	fm_group_dir_name(g->record.name, name);
	return strcmp(name, g->name) == 0 ? count_found(sd, g) : 0;
}

int fm_group_sweep(struct fm_store_dir *dir, int parent, const char *name, const char *path)
{
	struct fm_group_dir *g = fm_sys_alloc(sizeof(*g));
	int ret = g ? fm_group_dir_open(parent, name, g) : -ENOMEM;
	struct fm_group_use *alone;
	struct fm_err err;

	if (ret < 0) {
		free(g);
		return ret == -ENOENT || ret == -EPERM ? 0 : ret;
	}
	ret = look_at(dir, g);
	if (ret > 0)
		ret = fm_group_close(&g->key, 0, &alone, &err) == 0;
	if (ret > 0) {
		ret = sweep_alone(dir, parent, path, g);
		fm_group_let_go(alone);
	}
	fm_group_dir_close(g);
	free(g);
	return ret;
}
