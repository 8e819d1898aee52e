/* SPDX-License-Identifier: MIT */
/*
 * sink_stage - the start of a sink: looks at the final name and at what earlier tries left beside
 * it, then locks and fills the staging directory that the new version grows in.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/show.h"
#include "mover/tree/stash.h"
#include "mover/tree/sink.h"
#include "mover/tree/tsys.h"

#define DIR_FLAGS (O_RDONLY | O_DIRECTORY)
#define WAS_NAME_MAX 16
#define STATUS_MAX 4096

/* ----------------------------------------------------------------------------------- final name */

/*
 * Refuses a target that is a mount point: it cannot be renamed, which would be found out only at
 * the end.
 */
static int refuse_mount(struct fm_sink *s, struct fm_err *err)
{
	struct fm_path_shown shown;
	int fd = fm_tsys_open(s->opts.parent, s->opts.name, O_PATH | O_DIRECTORY, 0);
	int ret = fd < 0 ? fd : fm_tsys_is_mounted_on(fd, "");

	if (fd >= 0)
		close(fd);
	if (ret < 0)
		return fm_sink_fail(s, ret, "look at", NULL, 0, err);
	return ret == 0 ? 0
			: fm_err_set(err, -EPERM,
				     "\"%s\": another file system is mounted there, so it cannot "
				     "be replaced by one rename; put the "
				     "directory into it (a / at the end of the name), or "
				     "unmount it first",
				     fm_path_show(s->opts.path, &shown));
}

int fm_sink_look(struct fm_sink *s, struct fm_err *err)
{
	struct fm_path_shown shown;
	struct stat st;
	int ret = fm_tsys_fstatat(s->opts.parent, s->opts.name, &st);

	if (ret == -ENOENT)
		return 0;
	if (ret < 0)
		return fm_sink_fail(s, ret, "look at", NULL, 0, err);
	fm_path_show(s->opts.path, &shown);
	if (!S_ISDIR(st.st_mode))
		return fm_err_set(err, -ENOTDIR,
				  "\"%s\": is a %s; a tree does not replace it, remove it first",
				  shown.text,
				  S_ISREG(st.st_mode)	? "file"
				  : S_ISLNK(st.st_mode) ? "symbolic link"
							: "special file");
	if (!s->opts.may_replace && !s->opts.is_update)
		return fm_err_set(err, -EEXIST,
				  "directory \"%s\" exists; --update merges into it, --replace "
				  "puts this one in its place, "
				  "and a / behind that name puts it inside",
				  shown.text);
	ret = refuse_mount(s, err);
	if (ret < 0)
		return ret;
	s->old = fm_tsys_open(s->opts.parent, s->opts.name, DIR_FLAGS, 0);
	if (s->old >= 0) {
		s->is_merging = fm_sink_keeps_old(s);
		s->is_old_unsure = fm_sink_is_unsure(s);
		return 0;
	}
	ret = s->old;
	s->old = -1;
	/* What is replaced as a whole is opened only to be counted. */
	return s->opts.is_update ? fm_sink_fail(s, ret, "open", NULL, 0, err) : 0;
}

/* -------------------------------------------------------------------------------- earlier tries */

static void note_afresh(struct fm_sink *s, const char *why)
{
	char text[256];

	if (!why)
		return;
	snprintf(text, sizeof(text),
		 "an unfinished earlier transfer was removed and all is sent again: %s", why);
	fm_sink_note(s, text);
}

/* Something that fmove must not remove has the name that this sink needs: renames it, and warns. */
static int give_other_name(struct fm_sink *s, enum fm_staging_kind kind,
			   char aside[FM_STAGING_NAME_LEN + 1])
{
	char text[192];
	int ret;

	fm_staging_name(kind, "", aside);
	ret = fm_tsys_rename(s->opts.parent, s->new_name, s->opts.parent, aside, 0);
	if (ret < 0 || kind == FM_STAGING_KEPT)
		return ret;
	snprintf(text, sizeof(text),
		 "what had the name of a version that was replaced is %s beside it now; nothing "
		 "removes that",
		 aside);
	fm_sink_warn(s, text);
	return 0;
}

/*
 * The version that a try replaced before it died, or what somebody else put there. A merge that
 * died has not looked through it for what was saved in it while the new one was made: if there may
 * be such, it stays as long as what is unfinished does.
 */
static int put_replaced_aside(struct fm_sink *s, uint64_t ino, const struct fm_staging_state *state)
{
	const struct fm_stash_what what = {
		.dir = s->opts.parent, .from = s->new_name, .ino = ino, .name = s->opts.name};
	bool is_ours = ino == state->old_ino;
	bool was_merging =
		state->is_merging && !(is_ours && fm_sink_is_taken_over(s, s->new_name, state));
	enum fm_staging_kind kind = was_merging ? FM_STAGING_KEPT : FM_STAGING_OLD;
	char aside[FM_STAGING_NAME_LEN + 1], text[192];
	int ret = -ESTALE;

	if (is_ours && !was_merging && s->opts.take_old &&
	    s->opts.take_old(s->opts.ctx, s->opts.parent, s->new_name, ino) == 0)
		return 0;
	if (is_ours && (was_merging || !s->opts.take_old))
		ret = fm_stash_keep(&what, s->opts.parent, kind, aside);
	if (ret < 0)
		ret = give_other_name(s, kind, aside);
	if (ret < 0 || !was_merging)
		return ret;
	snprintf(text, sizeof(text),
		 "an earlier update ended before it took over what was saved in it meanwhile: the "
		 "version that it replaced is %s beside it",
		 aside);
	fm_sink_warn(s, text);
	return 0;
}

/* The .new that has that inode goes back into the staging directory; something else that takes its
 * name meanwhile does not. */
static int move_back(struct fm_sink *s, uint64_t ino, const char *name)
{
	int fd = fm_tsys_open(s->opts.parent, s->new_name, O_PATH | O_DIRECTORY, 0);
	struct stat st;
	int ret = fd < 0 ? fd : fm_tsys_fstat(fd, &st);

	if (ret == 0 && st.st_ino != ino)
		ret = -ESTALE;
	if (ret == 0)
		ret = fm_tsys_chmod_opened(fd, 0700);
	if (ret == 0)
		ret = fm_tsys_rename(s->opts.parent, s->new_name, s->stage, name, 0);
	if (fd >= 0)
		close(fd);
	if (ret == 0)
		ret = fm_tsys_fstatat(s->stage, name, &st);
	if (ret == 0 && st.st_ino != ino) {
		(void)fm_tsys_rename_free(s->stage, name, s->opts.parent, s->new_name);
		ret = -ESTALE;
	}
	return ret;
}

/* Removes the .new that has that inode. What else has that name, or what fails, leaves it there. */
static void drop_new(struct fm_sink *s, uint64_t ino)
{
	int fd = fm_tsys_open(s->opts.parent, s->new_name, O_PATH | O_DIRECTORY, 0);
	struct fm_tree_freed freed = fm_sink_freed(s);
	struct stat st;

	if (fd >= 0 && fm_tsys_fstat(fd, &st) == 0 && st.st_ino == ino &&
	    fm_staging_remove_opened(s->opts.parent, s->new_name, fd, &freed, NULL, NULL) == 0)
		note_afresh(s, "its files had their owners by then");
	if (fd >= 0)
		close(fd);
}

static bool is_new_free(const struct fm_sink *s)
{
	struct stat st;

	return fm_tsys_fstatat(s->opts.parent, s->new_name, &st) == -ENOENT;
}

/*
 * Under the .new name: the tree of a try that ended between prepare and publish (it goes back into
 * the staging directory as `name`), or the version that a try replaced before it died. The inode
 * tells. A tree whose entries have owners of their own does not come back, and goes: they may have
 * moved what is not theirs into it, and hold its directories open.
 */
static int take_new_back(struct fm_sink *s, const char *name)
{
	struct fm_staging_state state = { .data_ino = 0 };
	bool is_known, is_made;
	struct stat st;
	int ret = fm_tsys_fstatat(s->opts.parent, s->new_name, &st);

	if (ret < 0)
		return ret == -ENOENT ? 0 : ret;
	is_known = S_ISDIR(st.st_mode) && fm_staging_read(s->lock, &state) == 0;
	is_made = is_known && state.data_ino == st.st_ino;
	if (is_made) {
		struct fm_manifest_key key;

		if (fm_manifest_key_at(s->opts.parent, s->new_name, &key) == 0)
			fm_manifest_remove(s->opts.parent, &key);
		if (!s->opts.has_owners)
			return move_back(s, st.st_ino, name);
		drop_new(s, st.st_ino);
		if (is_new_free(s))
			return 0;
	}
	state.is_merging = state.is_merging && is_known && !is_made;
	return put_replaced_aside(s, st.st_ino, &state);
}

static const char *was_name(unsigned i, char out[WAS_NAME_MAX])
{
	snprintf(out, WAS_NAME_MAX, FM_STAGED_WAS "%u", i);
	return out;
}

/*
 * Renames the data of earlier tries to was.0, was.1 and so on. *count: how many there are,
 * FM_SINK_WAS_MAX + 1 at most.
 */
static int gather_was(struct fm_sink *s, unsigned *count)
{
	char name[WAS_NAME_MAX];
	struct stat st;
	int ret = 0;

	for (*count = 0; *count < FM_SINK_WAS_MAX; ++*count) {
		ret = fm_tsys_fstatat(s->stage, was_name(*count, name), &st);
		if (ret < 0)
			break;
	}
	if (ret < 0 && ret != -ENOENT)
		return ret;
	ret = fm_tsys_rename(s->stage, FM_STAGED_DATA, s->stage, was_name(*count, name),
			     RENAME_NOREPLACE);
	if (fm_tsys_is_unsupported(ret))
		ret = fm_tsys_rename(s->stage, FM_STAGED_DATA, s->stage, name, 0);
	if (ret == 0)
		++*count;
	if (ret < 0 && ret != -ENOENT)
		return ret;
	ret = take_new_back(s, was_name(*count, name));
	if (ret < 0)
		return ret;
	ret = fm_tsys_fstatat(s->stage, name, &st);
	*count += ret == 0;
	return ret == -ENOENT ? 0 : ret;
}

static int remove_was(const struct fm_sink *s, unsigned count)
{
	struct fm_tree_freed freed = fm_sink_freed(s);
	char name[WAS_NAME_MAX];
	int ret = 0;

	for (unsigned i = count; ret == 0 && i > 0; i--)
		ret = fm_tree_remove(s->stage, was_name(i - 1, name), &freed);
	return ret;
}

void fm_sink_remove_data(const struct fm_sink *s)
{
	struct fm_tree_freed freed = fm_sink_freed(s);

	/* Both are tried, whatever happens to the other. */
	(void)fm_tree_remove(s->stage, FM_STAGED_DATA, &freed);
	(void)remove_was(s, FM_SINK_WAS_MAX + 1);
}

static int open_was(struct fm_sink *s, unsigned count)
{
	char name[WAS_NAME_MAX];

	for (unsigned i = 0; i < count; i++) {
		int fd = fm_tsys_open(s->stage, was_name(i, name), DIR_FLAGS, 0);

		if (fd < 0)
			return fd;
		s->was[s->was_count++] = fd;
	}
	return 0;
}

/* ------------------------------------------------------------------------ the staging directory */

static int open_journal(struct fm_sink *s, const char **why, struct fm_err *err)
{
	struct fm_journal_opts opts = {
		.is_tree = true, .is_synced = s->opts.is_synced, .source = s->opts.source};
	int fd = fm_tsys_open(s->stage, FM_STAGED_JOURNAL, O_RDWR | O_CREAT, 0600);

	snprintf(opts.name, sizeof(opts.name), "%s", s->opts.name);
	if (fd < 0)
		return fm_sink_fail(s, fd, "open the journal of", NULL, 0, err);
	return fm_journal_open(fd, &opts, &s->journal, why, err);
}

static int empty_journal(struct fm_sink *s, struct fm_err *err)
{
	const char *none;
	int ret;

	fm_journal_close(s->journal);
	s->journal = NULL;
	ret = fm_tsys_unlink(s->stage, FM_STAGED_JOURNAL, 0);
	if (ret < 0)
		return fm_sink_fail(s, ret, "empty the journal of", NULL, 0, err);
	return open_journal(s, &none, err);
}

/*
 * Whether what the last try made is still here: it is one of was.*. If not it has been published,
 * and all that the process did not do any more is remove the rest. 1, 0, or why nobody can say.
 */
static int has_last_data(const struct fm_sink *s, unsigned count)
{
	char name[WAS_NAME_MAX];
	struct fm_staging_state state;
	struct stat st;
	int ret;

	if (fm_staging_read(s->lock, &state) < 0)
		return 1;
	for (unsigned i = count; i > 0; i--) {
		ret = fm_tsys_fstatat(s->stage, was_name(i - 1, name), &st);
		if (ret < 0 && ret != -ENOENT)
			return ret;
		if (ret == 0 && st.st_ino == state.data_ino)
			return 1;
	}
	return 0;
}

/*
 * Files without a journal are trusted by nobody. A journal without its files must go too: it would
 * vouch for files that this try makes and has not synced.
 */
static int open_or_empty_journal(struct fm_sink *s, unsigned count, const char **why,
				 struct fm_err *err)
{
	bool is_too_often = count > FM_SINK_WAS_MAX;
	int ret = open_journal(s, why, err);

	if (ret < 0 || fm_journal_is_empty(s->journal))
		return ret;
	if (!is_too_often && count > 0) {
		ret = has_last_data(s, count);
		if (ret < 0)
			return fm_sink_fail(s, ret, "look at an unfinished transfer of", NULL, 0,
					    err);
		if (ret > 0)
			return 0;
	}
	*why = is_too_often ? "it was tried too often" : NULL;
	return empty_journal(s, err);
}

/* Go on from earlier tries, or remove what they left. */
static int meet_earlier(struct fm_sink *s, struct fm_err *err)
{
	const char *why = NULL;
	unsigned count;
	int ret = gather_was(s, &count);

	if (ret < 0)
		return fm_sink_fail(s, ret, "look at an unfinished transfer of", NULL, 0, err);
	ret = open_or_empty_journal(s, count, &why, err);
	if (ret < 0)
		return ret;
	s->tree.is_partial = !fm_journal_is_empty(s->journal);
	if (!s->tree.is_partial)
		note_afresh(s, why);
	ret = s->tree.is_partial ? open_was(s, count) : remove_was(s, count);
	return ret < 0 ? fm_sink_fail(s, ret, "go on with an unfinished transfer of", NULL, 0, err)
		       : 0;
}

/* ---------------------------------------------------------------------------------- the new try */

/* umask(2) cannot ask without setting, and would do so for all threads. All bits: not known. */
static mode_t ask_umask(void)
{
	char status[STATUS_MAX + 1];
	const char *at = NULL;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, status, STATUS_MAX);

	if (fd >= 0)
		close(fd);
	if (len > 0) {
		status[len] = '\0';
		at = strstr(status, "\nUmask:");
	}
	return at ? (mode_t)strtoul(at + strlen("\nUmask:"), NULL, 8) : 0777;
}

static int make_data(struct fm_sink *s)
{
	struct stat st;
	int ret = fm_tsys_mkdir(s->stage, FM_STAGED_DATA);

	if (ret < 0)
		return ret;
	s->data = fm_tsys_open(s->stage, FM_STAGED_DATA, DIR_FLAGS, 0);
	ret = s->data < 0 ? s->data : fm_tsys_fstat(s->data, &st);
	if (ret == 0)
		ret = fm_staging_write(
			s->lock, &(struct fm_staging_state){.data_ino = st.st_ino,
							    .is_merging = fm_sink_keeps_old(s),
							    .begun_ns = fm_tsys_ctime(&st)});
	if (ret < 0)
		return ret;
	s->umask = ask_umask();
	s->has_default_acl = fgetxattr(s->data, "system.posix_acl_default", NULL, 0) > 0;
	return 0;
}

static int make_spool(struct fm_sink *s)
{
	int fd = fm_tsys_open(s->stage, FM_STAGED_SPOOL, O_RDWR | O_CREAT | O_TRUNC, 0600);
	int ret = fd < 0 ? fd : fm_deferred_open(&s->deferred, fd);

	s->has_deferred = ret == 0;
	return ret;
}

/* Whose command was killed just now is still being closed, and who runs it again at once is not to
 * be refused for that. */
#define LOCK_LOOK_MS 50

static int lock_patiently(struct fm_sink *s)
{
	const struct timespec look = { .tv_nsec = LOCK_LOOK_MS * 1000000L };
	const unsigned wait_ms = s->opts.lock_wait_ms ? s->opts.lock_wait_ms : FM_TREE_LOCK_WAIT_MS;
	int ret = fm_staging_lock(s->opts.parent, s->tree_name, &s->stage, &s->lock);

	for (unsigned waited = 0; ret == -EBUSY && waited < wait_ms; waited += LOCK_LOOK_MS) {
		nanosleep(&look, NULL);
		ret = fm_staging_lock(s->opts.parent, s->tree_name, &s->stage, &s->lock);
	}
	return ret;
}

/* Of a dry run: whether a staging directory could be made. */
static int ask_may_stage(const struct fm_sink *s)
{
	return faccessat(s->opts.parent, ".", W_OK | X_OK, AT_EACCESS) < 0 ? -errno : 0;
}

static int lock_staging(struct fm_sink *s, struct fm_err *err)
{
	struct fm_path_shown shown;
	int ret = s->opts.is_dry ? ask_may_stage(s) : lock_patiently(s);

	if (ret == 0)
		return 0;
	if (ret == -EBUSY)
		return fm_err_set(
			err, ret,
			"\"%s\": is being written by another transfer; wait for it, or cancel it",
			fm_path_show(s->opts.path, &shown));
	if (ret == -EPERM)
		return fm_err_set(err, ret,
				  "\"%s\": %s beside it is another user's, or no staging "
				  "directory, or may not be made "
				  "there; move it away, or look at owner and mode",
				  fm_path_show(s->opts.path, &shown), s->tree_name);
	return fm_sink_fail(s, ret, "make a staging directory beside", NULL, 0, err);
}

static int fill_staging(struct fm_sink *s, struct fm_err *err)
{
	int ret = meet_earlier(s, err);

	if (ret < 0)
		return ret;
	ret = make_data(s);
	if (ret == 0)
		ret = make_spool(s);
	if (ret == 0)
		ret = fm_sink_begin_manifest(s);
	return ret < 0 ? fm_sink_fail(s, ret, "make a staging directory beside", NULL, 0, err) : 0;
}

/* Whether there is something for the next try. */
static bool has_journal(const struct fm_sink *s)
{
	struct stat st;

	return fstatat(s->stage, FM_STAGED_JOURNAL, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_size > 0;
}

int fm_sink_stage(struct fm_sink *s, struct fm_err *err)
{
	int ret = lock_staging(s, err);

	if (ret < 0 || s->opts.is_dry)
		return ret;
	ret = fill_staging(s, err);
	if (ret == 0)
		return 0;
	if (has_journal(s))
		s->state = FM_SINK_KEPT;	/* as it was, however this one ends */
	else
		fm_sink_discard(&s->tree);
	return ret;
}
