/* SPDX-License-Identifier: MIT */
/*
 * cmd_put - fmove put SRC... NODE:STORE/PATH... Sources are opened here, with the caller's rights,
 * and handed to the daemon.
 */
#include "client/cli/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/group_id.h"
#include "client/cli/interrupt.h"
#include "client/cli/latest.h"
#include "client/cli/name.h"
#include "client/cli/pump.h"
#include "client/cli/several.h"
#include "mover/base/env.h"
#include "mover/base/err.h"

const struct fm_opt fm_opts_put[] = {
	{"verify", 0, FM_TRANSFER_VERIFY, "readback",
	 "each chunk is read back from the far disk as soon as it is written, and compared",
	 "readback"},
	{"group", 0, FM_TRANSFER_GROUP, "ID",
	 "it becomes a member of the group of that ID, fmove group (FMOVE_GROUP)", NULL},
	{"latest", 0, FM_TRANSFER_LATEST, "NAME",
	 "when it is on disk, lead the symbolic link NAME, beside it, to it", NULL},
	{"keep-last", 0, FM_TRANSFER_KEEP_LAST, "N",
	 "with --latest: remove what that link led to before the last N", NULL},
	FM_DIR_PUT_OPT,
	FM_TRANSFER_OPTS,
	{NULL, 0, 0, NULL, NULL, NULL},
};

#define DETACHED_LOOK_MS 3000
#define TARGET_TEXT_MAX (FMOVE_PATH_MAX + 2 * FM_NAME_PART_MAX + 4)

struct source {
	const char *label;
	int fd;
	struct stat st;
	bool is_stdin;
	struct fm_pump *pump;	/* NULL: fd goes to the daemon as it is */
};

static bool is_stdin(const char *src)
{
	return strcmp(src, "-") == 0;
}

/*
 * Whether the daemon may read the source itself: a file from its start, or a pipe. Terminals and
 * devices are read here.
 */
static bool can_hand_over(int fd, const struct stat *st)
{
	if (S_ISREG(st->st_mode))
		return lseek(fd, 0, SEEK_CUR) == 0;
	return S_ISFIFO(st->st_mode) || S_ISSOCK(st->st_mode);
}

static void source_close(struct source *s)
{
	if (!s->is_stdin || s->pump)
		(void)close(s->fd);	/* only read */
}

static int source_prepare(const struct fm_transfer *t, struct source *s, struct fm_outcome *one)
{
	struct stat st;

	if (fstat(s->fd, &st) < 0)
		return fm_err_sys(&one->err, -errno, "%s", s->label);
	s->st = st;
	if (S_ISDIR(st.st_mode))
		return t->dir.is_recursive ? 0 : fm_dir_refuse(t, s->label, one);
	if (can_hand_over(s->fd, &st))
		return 0;
	/* which reads the device as long as this process lives */
	return fm_pump_from(s->fd, &s->pump, &s->fd, &one->err);
}

static int source_open(const struct fm_transfer *t, const char *src, struct source *s,
		       struct fm_outcome *one)
{
	int ret;

	*s = (struct source){ .label = src, .fd = STDIN_FILENO, .is_stdin = is_stdin(src) };
	if (s->is_stdin)
		s->label = "standard input";
	else
		s->fd = open(src, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (s->fd < 0)
		return fm_err_sys(&one->err,
				  errno == EINTR && fm_is_interrupted() ? -ECANCELED : -errno, "%s",
				  src);
	ret = source_prepare(t, s, one);
	if (ret < 0)
		source_close(s);
	return ret;
}

/* Makes the name that src gets in a directory. */
static int target_in_dir(const char *src, struct fm_name *target, struct fm_err *err)
{
	size_t len = strlen(src);
	char path[FMOVE_PATH_MAX + 1];
	const char *last;

	if (is_stdin(src))
		return fm_err_set(
			err, -EISDIR,
			"standard input has no name of its own: say NODE:STORE/PATH/NAME");
	while (len > 1 && src[len - 1] == '/')
		len--;
	if (len > FMOVE_PATH_MAX)
		return fm_err_set(err, -ENAMETOOLONG, "the path of %zu bytes is longer than %d",
				  len, FMOVE_PATH_MAX);
	memcpy(path, src, len);
	path[len] = '\0';
	last = fm_name_last(path);
	if (!*last || strcmp(last, ".") == 0 || strcmp(last, "..") == 0)
		return fm_err_set(err, -EINVAL,
				  "%s has no name of its own: say NODE:STORE/PATH/NAME", src);
	return fm_name_append(target, last, err);
}

/* The absolute path of the source, for who looks at the job later; "" if it has none. */
static void source_path(const struct source *s, char out[static PATH_MAX])
{
	if (s->is_stdin || !realpath(s->label, out))
		out[0] = '\0';
}

static int send_source(struct fm_transfer *t, const struct source *s, const struct fm_name *target,
		       struct fm_outcome *one)
{
	struct fmove_name parts = fm_name_parts(target);
	struct fmove_error why;
	char path[PATH_MAX];
	int cancel_fd = t->opts.cancel_fd, ret;

	source_path(s, path);
	t->opts.file = path[0] ? path : NULL;
	if (s->pump)
		t->opts.cancel_fd = fm_pump_cancel_fd(s->pump);
	fm_transfer_set_kind(t, false);
	fm_transfer_begin(t, s->label);
	one->result.struct_size = sizeof(one->result);
	t->turn.is_off = s->pump || !S_ISREG(s->st.st_mode);
	if (t->is_detached)
		ret = fmove_put_detached(t->conn, s->fd, &parts, &t->opts, one->job, &why);
	else
		ret = fmove_put(t->conn, s->fd, &parts, &t->opts, &one->result, &why);
	t->turn.is_off = false;
	fm_transfer_end(t);
	t->opts.file = NULL;
	t->opts.cancel_fd = cancel_fd;
	one->is_handed_over = t->is_detached;
	if (ret == 0)
		return 0;
	if (s->pump && fm_pump_error(s->pump) < 0)
		return fm_err_sys(&one->err, fm_pump_error(s->pump), "%s", s->label);
	ret = fm_transfer_fail(one, s->label, &why);
	one->is_kept &= !s->is_stdin;
	return ret;
}

/*
 * 1: the file need not be sent. Standard input may be a file too, but has no name to compare by.
 * enters: as put_source() has it.
 */
static int is_spared(struct fm_transfer *t, const struct source *s, struct fm_name *target,
		     bool enters, struct fm_outcome *one)
{
	struct fmove_entry file = fm_dir_entry(&s->st);

	if (t->dir.tree.is_dry_run && !S_ISREG(s->st.st_mode))
		return fm_err_set(&one->err, -EINVAL,
				  "%s is read as it is sent: nobody knows before how much that is; "
				  "leave out --dry-run",
				  s->label);
	if (s->is_stdin && !t->dir.tree.is_dry_run)
		return 0;
	return fm_transfer_spares(t, enters ? s->label : NULL, &file, target, one);
}

/* Looks whether it is a directory, and says so in its is_dir. */
static int dest_look(struct fm_transfer *t, struct fm_name *dest, struct fm_err *err)
{
	struct fmove_name parts = fm_name_parts(dest);
	struct fmove_entry entry = {.struct_size = sizeof(entry)};
	struct fmove_error why;
	int ret;

	if (t->is_detached) {
		fmove_set_timeout(t->conn, DETACHED_LOOK_MS);
		ret = fmove_stat(t->conn, &parts, &entry, &why);
	} else {
		ret = fm_transfer_stat(t, dest, &entry, &why);
	}
	if (ret == 0)
		dest->is_dir = entry.type == FMOVE_DIRECTORY;
	else if ((fm_api_exit(why.code) == FM_EXIT_UNREACHABLE && !t->is_detached) ||
		 fm_is_interrupted())
		return fm_transfer_error(err, &why);
	/* Whatever else is wrong with it, it is no directory that could be seen. */
	return 0;
}

/*
 * What can be read only once may be gone by the time that the peer says that its name is a
 * directory's: that is looked for before. It waits for no place, as send_source() does not.
 */
static int enter_first(struct fm_transfer *t, const char *src, struct fm_name *target,
		       struct fm_err *err)
{
	int ret;

	t->turn.is_off = true;
	ret = dest_look(t, target, err);
	t->turn.is_off = false;
	return ret == 0 && target->is_dir ? target_in_dir(src, target, err) : ret;
}

static uint64_t now_ns(void)
{
	return fm_clock_real.now_ns(fm_clock_real.ctx);
}

/* Sends it; where the target is a directory, and enters, into that under its own name. */
static int send_or_enter(struct fm_transfer *t, const char *src, const struct source *s,
			 struct fm_name *target, bool enters, struct fm_outcome *one)
{
	const uint64_t whole_ms = t->opts.timeout_ms, since_ns = now_ns();
	bool is_file = S_ISREG(s->st.st_mode) && !s->pump;
	int ret = enters && !is_file ? enter_first(t, src, target, &one->err) : 0;
	uint64_t gone_ms = is_file ? 0 : (now_ns() - since_ns) / FM_NS_PER_MS;

	if (whole_ms > 0)	/* it is that of both, and 0 would be for ever */
		t->opts.timeout_ms = gone_ms < whole_ms ? whole_ms - gone_ms : 1;
	if (ret == 0)
		ret = send_source(t, s, target, one);
	t->opts.timeout_ms = whole_ms;
	if (ret == -EISDIR && enters && is_file && target_in_dir(src, target, &one->err) == 0) {
		fm_err_clear(&one->err);
		ret = send_source(t, s, target, one);
	}
	return ret;
}

/* enters: where the target is a directory, a file goes into it, but no further than that. */
static int put_source(struct fm_transfer *t, const char *src, struct fm_name *target, bool enters,
		      struct fm_outcome *one)
{
	struct source source;
	int ret;

	ret = source_open(t, src, &source, one);
	if (ret < 0)
		return ret;
	/* it has no name of its own to go on with */
	enters = enters && !source.is_stdin;
	if (S_ISDIR(source.st.st_mode))
		ret = fm_dir_put(t, source.fd, source.label, target, one);
	else
		ret = is_spared(t, &source, target, enters, one);
	if (ret == 0 && !S_ISDIR(source.st.st_mode))
		ret = send_or_enter(t, src, &source, target, enters, one);
	source_close(&source);
	return ret < 0 ? ret : 0;
}

/* Puts from a store of this node: the daemon opens the file. enters: as of put_source(). */
static int put_own(struct fm_transfer *t, const struct fm_name *own, struct fm_name *target,
		   bool enters, struct fm_outcome *one)
{
	struct fmove_entry file = {.struct_size = sizeof(file)};
	int is_tree = fm_transfer_is_tree(t, own, &file, one);
	int ret = is_tree < 0 ? is_tree : 0;

	if (is_tree == 0)
		ret = fm_transfer_spares(t, enters ? own->path : NULL, &file, target, one);
	if (ret != 0)
		return ret < 0 ? ret : 0;
	if (t->dir.tree.follows_links)
		return fm_err_set(&one->err, -EINVAL,
				  "%s: links in a store are not followed: leave out -L, or send "
				  "its directory by its own path",
				  one->source);
	ret = fm_transfer_stores(t, true, own, target, is_tree > 0, one);
	if (ret != -EISDIR || !enters || is_tree > 0)
		return ret;
	/* The one of the two that is a directory may be the source. */
	if (dest_look(t, target, &one->err) < 0 || !target->is_dir ||
	    target_in_dir(own->path, target, &one->err) < 0)
		return one->err.code;
	fm_err_clear(&one->err);
	return fm_transfer_stores(t, true, own, target, false, one);
}

/* Adds to "no such file" that the operand may be meant as a name at another node. */
static int explain(const struct fm_transfer *t, const char *src, struct fm_err *err)
{
	struct fm_name name;
	struct fm_err why;

	if (err->code == -ENOENT && t->node[0] && fm_name_parse(src, &name, &why) == 0)
		return fm_err_set(err, -ENOENT,
				  "%s: there is no such file, and %s is another node (this is %s): "
				  "put it from there, "
				  "or get it first",
				  src, name.node, t->node);
	return err->code;
}

/* Puts one source. Returns its error's code. */
static int put_one(struct fm_transfer *t, const char *src, const struct fm_name *dest)
{
	char text[TARGET_TEXT_MAX];
	struct fm_outcome one = { .source = src, .target = text };
	struct fm_name target = *dest, own;
	int is_own = fm_transfer_is_own(t, src, &own, &one.err);
	int ret = is_own < 0 ? is_own : 0;

	if (ret == 0 && dest->is_dir)
		ret = target_in_dir(is_own ? own.path : src, &target, &one.err);
	(void)fm_name_text(&target, text, sizeof(text));
	if (ret == 0 && is_own)
		ret = put_own(t, &own, &target, !dest->is_dir, &one);
	else if (ret == 0 && put_source(t, src, &target, !dest->is_dir, &one) < 0)
		ret = explain(t, src, &one.err);
	if (ret == 0)
		ret = fm_transfer_latest(t, &target, &one);
	(void)fm_name_text(&target, text, sizeof(text));	/* a file may have gone into it */
	fm_transfer_name(t, &one);
	fm_outcomes_add(&t->outcomes, &one);
	return ret;
}

/*
 * Finds out whether the target is a directory. Several sources need one, so it is asked for if the
 * spelling does not say it. One source is just tried.
 */
static int dest_resolve(struct fm_transfer *t, struct fm_name *dest, struct fm_err *err)
{
	/* A detached one cannot try again under another name; its peer may be away. */
	if (dest->is_dir || (!t->outcomes.is_many && (!t->is_detached || t->dir.is_recursive)))
		return 0;
	return dest_look(t, dest, err);
}

/* The name that a source would have in a directory: a part of its own text, not terminated. */
struct own_name {
	const char *src;
	const char *at;
	size_t len;
};

static struct own_name own_name_of(const char *src)
{
	struct own_name n = {.src = src, .len = strlen(src)};

	while (n.len > 1 && src[n.len - 1] == '/')
		n.len--;
	n.at = src + n.len;
	while (n.at > src && n.at[-1] != '/')
		n.at--;
	n.len -= (size_t)(n.at - src);
	return n;
}

static int by_own_name(const void *a, const void *b)
{
	const struct own_name *x = a, *y = b;
	int ret = memcmp(x->at, y->at, x->len < y->len ? x->len : y->len);

	return ret != 0 ? ret : (x->len > y->len) - (x->len < y->len);
}

/* Those without a name of their own are refused one by one. */
static bool has_own_name(const struct own_name *n)
{
	return n->len > 0 && n->at[n->len - 1] != '/' && !(n->len == 1 && strchr("-.", n->at[0])) &&
	       !(n->len == 2 && memcmp(n->at, "..", 2) == 0);
}

/*
 * Refuses two sources that would have one name in the directory: the later would replace the
 * earlier, or be refused when that is there already.
 */
static int check_twins(const struct fm_args *args, int sources, struct fm_err *err)
{
	struct own_name *names = calloc((size_t)sources, sizeof(*names));
	int ret = 0;

	if (!names)
		return fm_err_set(err, -ENOMEM, "no memory for %d names", sources);
	for (int i = 0; i < sources; i++)
		names[i] = own_name_of(args->operands[i]);
	qsort(names, (size_t)sources, sizeof(*names), by_own_name);
	for (int i = 1; i < sources && ret == 0; i++)
		if (has_own_name(&names[i]) && by_own_name(&names[i - 1], &names[i]) == 0)
			ret = fm_err_set(err, -EEXIST,
					 "%.200s and %.200s would both become \"%.*s\" in that "
					 "directory: put them one by one",
					 names[i - 1].src, names[i].src,
					 names[i].len < 100 ? (int)names[i].len : 100, names[i].at);
	free(names);
	return ret;
}

/* Reports once, with the first source, an error that keeps all of them from being sent. */
static void put_none(struct fm_transfer *t, struct fm_args *args, int dests,
		     const struct fm_err *err)
{
	struct fm_outcome one = { .source = args->operands[0],
				  .target = args->operands[args->count - 1],
				  .err = *err };

	fm_outcomes_add(&t->outcomes, &one);
	t->outcomes.failed += (unsigned)((args->count - dests) * dests - 1);
}

static void put_all(struct fm_transfer *t, struct fm_args *args, const struct fm_name *dest)
{
	int sources = args->count - 1;

	for (int i = 0; i < sources; i++) {
		int code = put_one(t, args->operands[i], dest);

		if (i + 1 == sources ||
		    (code != -ECANCELED && !fm_transfer_gives_up(t, (int)fm_api_exit(code), dest)))
			continue;
		/* The others would fare no better. */
		fm_say("put: %d more not tried", sources - i - 1);
		while (++i < sources)
			fm_transfer_skip(t, args->operands[i], args->operands[sources], code);
	}
}

/* ---- several destinations ---- */

/*
 * Counts the destinations: the operands at the end that name something at other nodes, never the
 * first operand.
 */
static int count_dests(struct fm_transfer *t, const struct fm_args *args, struct fm_err *err)
{
	struct fm_name name;
	struct fm_err why;
	int count = 1;

	for (int i = args->count - 2; i > 0 && fm_name_parse(args->operands[i], &name, &why) == 0;
	     i--) {
		int is_own = fm_transfer_is_own(t, args->operands[i], &name, err);

		if (is_own != 0)
			return is_own < 0 ? is_own : count;
		count++;
	}
	return count;
}

static int put_one_to_several(struct fm_transfer *t, const char *src, const struct fm_name *dests,
			      struct fm_name *targets, unsigned count)
{
	struct fm_name own;
	struct fm_err err;
	int is_own = fm_transfer_is_own(t, src, &own, &err);
	int ret = is_own < 0 ? is_own : 0;

	memcpy(targets, dests, count * sizeof(*dests));
	for (unsigned i = 0; i < count && ret == 0; i++)
		if (dests[i].is_dir)
			ret = target_in_dir(is_own ? own.path : src, &targets[i], &err);
	if (ret < 0)
		return fm_several_none(t, src, targets, count, &err);
	return fm_several_put(t, src, is_own ? &own : NULL, targets, count);
}

/* Of one of several destinations. name: as it was typed. */
static int dest_of_several(struct fm_transfer *t, struct fm_name *dest, const char *name,
			   int sources, struct fm_err *err)
{
	int ret = 0;

	/* A directory becomes the target itself, there already or not. */
	if (sources > 1 || !t->dir.is_recursive)
		ret = dest_resolve(t, dest, err);
	if (ret == 0 && sources > 1 && !dest->is_dir)
		ret = fm_err_set(err, -ENOTDIR,
				 "several sources go into a directory: \"%.200s\" is none; end it "
				 "with / to make it one",
				 name);
	return ret;
}

/*
 * Whether the sources behind what ended with that status would fare no better: one destination
 * keeps a file from all of them.
 */
static bool give_up_all(struct fm_transfer *t, int status, const struct fm_name *dests,
			unsigned count)
{
	bool gives_up = status == FM_EXIT_CANCELLED;

	for (unsigned i = 0; i < count && !gives_up; i++)
		gives_up = fm_transfer_gives_up(t, status, &dests[i]);
	return gives_up;
}

static int code_of(int status)
{
	return status == FM_EXIT_CANCELLED ? -ECANCELED : -EHOSTUNREACH;
}

/* names: of the destinations, as typed. */
static void skip_all(struct fm_transfer *t, const char *src, const char *const *names,
		     unsigned count, int code)
{
	for (unsigned i = 0; i < count; i++)
		fm_transfer_skip(t, src, names[i], code);
}

static void put_all_to_several(struct fm_transfer *t, const struct fm_args *args,
			       struct fm_name *dests, unsigned count)
{
	const char *const *operands = (const char *const *)args->operands;
	int sources = args->count - (int)count;
	struct fm_err err;
	int ret = 0;

	for (unsigned i = 0; i < count && ret == 0; i++)
		ret = dest_of_several(t, &dests[i], operands[sources + (int)i], sources,
				      &err);
	for (int i = 0; i < sources; i++) {
		int status = ret < 0 ? fm_several_none(t, operands[i], dests, count, &err)
				     : put_one_to_several(t, operands[i], dests,
							  dests + count, count);

		if (i + 1 == sources || (ret == 0 && !give_up_all(t, status, dests, count)))
			continue;
		/* The others would fare no better. */
		fm_say("put: %d more not tried", sources - i - 1);
		while (++i < sources)
			skip_all(t, operands[i], operands + sources, count,
				 ret < 0 ? ret : code_of(status));
	}
}

/*
 * --detach to several: a job for each, since nobody waits until all have it. What can be read once
 * only, as a pipe, would be divided among them.
 */
static int check_each(struct fm_args *args, int sources)
{
	struct stat st;

	for (int i = 0; i < sources; i++) {
		const char *src = args->operands[i];

		if (is_stdin(src) || (stat(src, &st) == 0 && !S_ISREG(st.st_mode) &&
				      !S_ISDIR(st.st_mode)))
			return fm_usage(args,
					"--detach to several destinations reads \"%s\" for each, "
					"and it can be read once only: leave out --detach",
					src);
	}
	return 0;
}

/* To one of them. *is_over: a signal came, and nothing more is begun. */
static void detach_to(struct fm_transfer *t, struct fm_args *args, const char *name, int sources,
		      bool *is_over)
{
	struct fm_name dest;
	struct fm_err err = { 0 };

	/* it could be parsed before */
	(void)fm_name_parse(name, &dest, &err);
	/* the error is each source's */
	if (!*is_over)
		(void)dest_of_several(t, &dest, name, sources, &err);
	for (int i = 0; i < sources; i++) {
		struct fm_outcome one = {
			.source = args->operands[i], .target = name, .err = err};

		if (*is_over)
			fm_transfer_skip(t, args->operands[i], name, -ECANCELED);
		else if (err.code < 0)
			fm_outcomes_add(&t->outcomes, &one);
		else
			*is_over = put_one(t, args->operands[i], &dest) == -ECANCELED;
	}
}

static int detach_to_each(struct fm_transfer *t, struct fm_args *args, int count)
{
	int sources = args->count - count, ret = check_each(args, sources);
	bool is_over = false;

	if (ret != 0)
		return ret;
	fm_outcomes_begin(&t->outcomes);
	for (int i = 0; i < count; i++)
		detach_to(t, args, args->operands[sources + i], sources, &is_over);
	return fm_outcomes_end(&t->outcomes);
}

static int put_to_several(struct fm_transfer *t, struct fm_args *args, unsigned count)
{
	const char *const *names = (const char *const *)args->operands + args->count - count;
	struct fm_name *dests;
	struct fm_err err;

	if (t->is_detached)
		return detach_to_each(t, args, (int)count);
	if (count > FM_SEVERAL_MAX)
		return fm_usage(args, "%u destinations: no more than %d at once", count,
				FM_SEVERAL_MAX);
	/* as asked for; as they are for one source */
	dests = calloc(2 * (size_t)count, sizeof(*dests));
	if (!dests)
		return fm_usage(args, "no memory for %u destinations", count);
	for (unsigned i = 0; i < count; i++)
		/* it could be parsed before */
		(void)fm_name_parse(names[i], &dests[i], &err);
	fm_outcomes_begin(&t->outcomes);
	put_all_to_several(t, args, dests, count);
	free(dests);
	return fm_outcomes_end(&t->outcomes);
}

/* ---- all of it ---- */

static int put_to_one(struct fm_transfer *t, struct fm_args *args, struct fm_name *dest,
		      struct fm_err *err)
{
	int ret = dest_resolve(t, dest, err);

	if (ret == 0 && t->outcomes.is_many && !dest->is_dir)
		return fm_usage(args,
				"several sources go into a directory: \"%s\" is none; end it with "
				"/ to make it one",
				args->operands[args->count - 1]);
	fm_outcomes_begin(&t->outcomes);
	if (ret == 0)
		put_all(t, args, dest);
	else
		put_none(t, args, 1, err);
	return fm_outcomes_end(&t->outcomes);
}

static int put(struct fm_transfer *t, struct fm_args *args, struct fm_name *dest)
{
	struct fm_err err;
	int ret, dests = 1;

	ret = fm_transfer_open(t, &err);
	if (ret == 0)
		ret = dests = count_dests(t, args, &err);
	if (ret > 0 && t->latest && args->count - dests > 1) {
		fm_transfer_close(t);
		return fm_usage(args, "--latest leads a link to one thing, and these are %d: put "
				      "one at a time, or a directory (-r)",
				args->count - dests);
	}
	if (ret > 0)
		ret = check_twins(args, args->count - dests, &err);
	if (ret < 0) {
		fm_outcomes_begin(&t->outcomes);
		put_none(t, args, dests > 0 ? dests : 1, &err);
		ret = fm_outcomes_end(&t->outcomes);
	} else if (dests > 1) {
		ret = put_to_several(t, args, (unsigned)dests);
	} else {
		ret = put_to_one(t, args, dest, &err);
	}
	fm_transfer_close(t);
	return ret;
}

static int no_destination(const struct fm_args *args, const struct fm_err *err)
{
	struct fm_name name;
	struct fm_err other;

	if (args->count == 2 && fm_name_parse(args->operands[0], &name, &other) == 0)
		return fm_usage(args, "%s; to receive a file from there: fmove get", err->text);
	return fm_usage(args, "%s", err->text);
}

/* Takes the group from the environment where no option says it. Returns 0, or an exit status. */
static int take_group(struct fm_transfer *t, struct fm_args *args)
{
	const char *said = t->opts.group;
	const char *which = said ? "--group" : "FMOVE_GROUP is set, which";

	args->status = fm_group_take_id(args, said, &t->opts.group);
	if (args->status != 0 || !t->opts.group)
		return args->status;
	if (t->dir.tree.is_update || t->dir.tree.is_dry_run)
		args->status = fm_usage(args, "%s takes no --update and no --dry-run: what a group "
					      "has cannot be seen", which);
	else if (t->latest)
		args->status = fm_usage(args, "%s takes no --latest: what a group has cannot be "
					      "seen; say it with fmove group commit%s", which,
					said ? "" : ", or unset FMOVE_GROUP");
	return args->status;
}

/* The link leads to one thing, that is seen and on the disk. Returns 0, or an exit status. */
static int check_latest(struct fm_transfer *t, struct fm_args *args)
{
	if (!t->latest)
		return fm_latest_check(args, t->latest, t->keep_last);
	if (t->is_detached || t->dir.tree.is_dry_run)
		return fm_usage(args, "--latest leads a link to what is put when this command "
				      "ends: leave out --detach and --dry-run");
	if (t->opts.durability == FMOVE_MEMORY)
		return fm_usage(args, "--latest leads a link to what is on the disk: leave out "
				      "--durability memory");
	t->opts.durability = FMOVE_DISK;
	return 0;
}

int fm_cmd_put(int argc, char **argv)
{
	struct fm_transfer t;
	struct fm_args args;
	struct fm_name dest;
	struct fm_err err;

	fm_transfer_init(&t, "put");
	fm_args_begin(&args, "put", argc, argv);
	if (fm_transfer_args(&t, &args, 2, -1) < 0)
		return args.status;
	if (take_group(&t, &args) != 0)
		return args.status;
	if ((args.status = check_latest(&t, &args)) != 0)
		return args.status;
	if (fm_name_parse(args.operands[args.count - 1], &dest, &err) < 0)
		return no_destination(&args, &err);
	t.outcomes.is_many = args.count > 2;
	return put(&t, &args, &dest);
}
