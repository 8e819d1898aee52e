/* SPDX-License-Identifier: MIT */
/*
 * cmd_purge - fmove purge NODE:STORE|DIR: what was replaced and is kept aside goes, in a store or
 * in a directory of the caller's. It is named as it goes, so there may be any number.
 */
#include "client/cli/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/interrupt.h"
#include "client/cli/rows.h"
#include "client/cli/show.h"
#include "client/lib/former.h"
#include "mover/tree/unfinished.h"
#include "mover/base/json.h"
#include "mover/base/err.h"

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_DRY, OPT_UNFINISHED };

const struct fm_opt fm_opts_purge[] = {
	{"dry-run", 'n', OPT_DRY, NULL, "only say what would go", NULL},
	{"unfinished", 0, OPT_UNFINISHED, NULL,
	 "what transfers that were cut off left there, instead", NULL},
	FM_ASK_JSON,
	{NULL, 0, 0, NULL, NULL, NULL},
};

struct purge {
	struct fm_rows rows;
	struct fm_name name;	/* of the store */
	bool is_local;		/* a directory of the caller's instead */
	bool is_unfinished;	/* not what was replaced: what is unfinished there */
	bool has_begun;
	bool is_json;
	bool is_dry;
	bool is_raw;		/* names as they are: nobody looks at them on a terminal */
	uint64_t count;
	uint64_t bytes;
};

static void print_json(struct purge *p, const struct fmove_aside *a)
{
	struct fm_json_writer *w = fm_rows_next(&p->rows);

	fm_jw_name(w, "path", a->path, strlen(a->path));
	if (a->name[0])
		fm_jw_name(w, "name", a->name, strlen(a->name));
	fm_jw_u64(w, "bytes", a->bytes);
	fm_jw_i64(w, "since_ns", a->since_ns);
	fm_jw_object_end(w);
}

static void print_text(const struct purge *p, const struct fmove_aside *a)
{
	static char name[4 * FMOVE_PATH_MAX + 8], path[4 * FMOVE_PATH_MAX + 8];
	const struct fmove_entry when = { .mtime_ns = a->since_ns };
	char bytes[FM_SHOW_MAX], time_text[32];

	fm_ask_time_text(&when, time_text);
	(void)printf("%10s %s %s ", fm_show_bytes(a->bytes, bytes),
		     p->is_unfinished ? "unfinished" : "replaced", time_text);
	if (a->name[0])
		(void)printf("%s (",
			     p->is_raw ? a->name
				       : fm_show(a->name, strlen(a->name), name, sizeof(name)));
	(void)printf("%s%s\n",
		     p->is_raw ? a->path : fm_show(a->path, strlen(a->path), path, sizeof(path)),
		     a->name[0] ? ")" : "");
}

static void begin(struct purge *p)
{
	p->has_begun = true;
	if (p->is_json)
		fm_rows_begin(&p->rows, p->is_unfinished ? "unfinished" : "aside");
}

static void end_json(struct purge *p, int status)
{
	struct fm_json_writer *w = fm_rows_over(&p->rows);

	fm_jw_u64(w, "bytes", p->bytes);
	fm_jw_bool(w, "dry_run", p->is_dry);
	fm_rows_end(&p->rows, status);
}

static void print(void *ctx, const struct fmove_aside *a)
{
	struct purge *p = ctx;

	if (p->is_json)
		print_json(p, a);
	else
		print_text(p, a);
	p->count++;
	p->bytes += a->bytes;
}

static int purge_store(const char *text, struct purge *p, int *status)
{
	struct fmove_error why;
	struct fmove_name parts = fm_name_parts(&p->name);
	struct fmove *c;
	int ret;

	if (fm_ask_open("purge", false, &c, status) < 0)
		return -ENOTCONN;
	begin(p);
	ret = p->is_unfinished ? fmove_purge_partials(c, &parts, p->is_dry, print, p, &why)
			       : fmove_purge(c, &parts, p->is_dry, print, p, &why);
	fmove_close(c);
	if (ret < 0)
		*status = fm_ask_fail("purge", text, &why);
	return ret;
}

/* Prints a stash in a directory of the caller; NULL: one stays. A signal ends it behind that. */
static bool print_former(void *ctx, const struct fm_former *f)
{
	struct fmove_aside a;

	if (f) {
		a = (struct fmove_aside){ .bytes = f->bytes, .since_ns = f->since_ns };
		(void)snprintf(a.path, sizeof(a.path), "%s/%s", f->stash, f->name);
		(void)snprintf(a.name, sizeof(a.name), "%s", f->name);
		print(ctx, &a);
	}
	return !fm_is_interrupted();
}

struct unfinished_purge {
	struct purge *p;
	struct fm_err first;		/* of those that stay */
	unsigned stay;
};

/*
 * Removes one unfinished transfer. If that fails, the first such error is kept for the end, and the
 * others are still removed.
 */
static bool remove_unfinished(void *ctx, int parent, const struct fm_unfinished *u)
{
	struct unfinished_purge *up = ctx;
	struct fmove_aside a = { .bytes = u->bytes, .since_ns = u->changed_ns };
	struct fm_err why;

	if (fm_unfinished_remove(parent, u, up->p->is_dry, NULL, &why) < 0) {
		if (up->stay++ == 0)
			up->first = why;
		return !fm_is_interrupted();
	}
	(void)snprintf(a.path, sizeof(a.path), "%s", u->found);
	(void)snprintf(a.name, sizeof(a.name), "%s", u->name);
	print(up->p, &a);
	return !fm_is_interrupted();
}

static int purge_unfinished(int dir, struct purge *p, struct fm_err *err)
{
	struct unfinished_purge up = { .p = p };
	int ret = fm_unfinished_each(dir, remove_unfinished, &up, err);

	if (ret < 0 || up.stay == 0)
		return ret;
	*err = up.first;
	fm_former_count_staying(err, up.stay);
	return err->code;
}

static int purge_local(const char *path, struct purge *p, int *status)
{
	int ret, fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct fm_err err;

	ret = fd < 0 ? fm_err_sys(&err, -errno, "%s", path) : fm_interrupt_start(&err);
	if (ret < 0) {
		*status = fm_fail("purge", &err);
		return ret;
	}
	begin(p);
	ret = p->is_unfinished ? purge_unfinished(fd, p, &err)
			       : fm_former_remove(fd, 0, p->is_dry, print_former, p, &err);
	(void)close(fd);	/* only read */
	if (fm_is_interrupted())	/* whatever stays */
		ret = fm_interrupt_check(&err);
	if (ret < 0) {
		fm_err_wrap(&err, "%s", path);
		*status = fm_fail("purge", &err);
	}
	return ret;
}

static const char *what(const struct purge *p)
{
	if (!p->is_unfinished)
		return fm_show_directories(p->count);
	return p->count == 1 ? "unfinished transfer" : "unfinished transfers";
}

static int purge(const char *text, struct purge *p)
{
	int ret, status = FM_EXIT_DONE;
	char bytes[FM_SHOW_MAX], shown[4 * FM_ASK_NAME_TEXT_MAX];

	ret = p->is_local ? purge_local(text, p, &status) : purge_store(text, p, &status);
	if (!p->has_begun)
		return status;
	if (ret < 0 && p->count > 0 && status != FM_EXIT_CANCELLED)
		status = FM_EXIT_PARTLY;
	if (p->is_json)
		end_json(p, status);
	else if (ret == 0 || p->count > 0)
		(void)printf("%s: %s %" PRIu64 " %s, %s%s\n",
			     p->is_raw ? text : fm_show(text, strlen(text), shown, sizeof(shown)),
			     p->is_dry ? "would remove" : "removed", p->count, what(p),
			     fm_show_bytes(p->bytes, bytes),
			     /* what they share goes with the last of them */
			     p->is_dry && p->count > 1 && !p->is_unfinished ? " at least" : "");
	return fm_stdout_end("purge", status);
}

int fm_cmd_purge(int argc, char **argv)
{
	struct purge p = { .is_raw = !isatty(STDOUT_FILENO) };
	struct fm_args args;
	struct fm_err err;
	struct stat st;
	int key;

	fm_args_begin(&args, "purge", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		p.is_json |= key == OPT_JSON;
		p.is_dry |= key == OPT_DRY;
		p.is_unfinished |= key == OPT_UNFINISHED;
	}
	if (p.is_raw)
		fm_stdout_raw();
	if (fm_args_end(&args, 1, 1) < 0)
		return args.status;
	p.is_local = !strchr(args.operands[0], ':') || args.operands[0][0] == '/' ||
		     args.operands[0][0] == '.';
	if (p.is_local && !strchr(args.operands[0], '/') &&
	    (stat(args.operands[0], &st) < 0 || !S_ISDIR(st.st_mode)))
		return fm_usage(&args,
				"\"%.200s\" names no store, as NODE:STORE does, and no directory "
				"here; \"fmove df\" lists the stores",
				args.operands[0]);
	if (p.is_local)
		return purge(args.operands[0], &p);
	if (fm_name_parse(args.operands[0], &p.name, &err) < 0)
		return fm_usage(&args, "%s", err.text);
	if (p.name.path[0])
		return fm_usage(&args,
				"\"%.200s\": a whole store is purged; leave out the path",
				args.operands[0]);
	return purge(args.operands[0], &p);
}
