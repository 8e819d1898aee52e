/* SPDX-License-Identifier: MIT */
/*
 * cmd_get - fmove get NODE:STORE/PATH DST. The target is made here, with the caller's rights, and
 * filled by the daemon.
 */
#include "client/transfer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/name.h"
#include "client/part.h"
#include "client/pump.h"
#include "mover/base/err.h"

const struct fm_opt fm_opts_get[] = {
	FM_TRANSFER_OPTS,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

#define SOURCE_TEXT_MAX (FMOVE_PATH_MAX + 2 * FM_NAME_PART_MAX + 4)
#define DST_MAX (2 * FMOVE_PATH_MAX + 2)

static int receive(struct fm_transfer *t, int fd, const struct fm_name *source,
		   struct fm_outcome *one)
{
	struct fmove_name parts = fm_name_parts(source);
	struct fmove_error why;
	int ret;

	fm_transfer_begin(t, source->path);
	ret = fmove_get(t->conn, fd, &parts, &t->opts, &one->result, &why);
	fm_transfer_end(t);
	if (ret == 0)
		return 0;
	(void)fm_transfer_error(&one->err, &why);
	return fm_err_wrap(&one->err, "%s", one->source);
}

/* ---- standard output ---- */

/*
 * A pipe may go to the daemon as it is; a file, a device or a terminal is written by us, as whoever
 * opened it meant it to be.
 */
static bool can_hand_over(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
}

static int get_pumped(struct fm_transfer *t, const struct fm_name *source, struct fm_outcome *one)
{
	struct fm_pump *pump;
	int fd, ret, written = 0;

	ret = fm_pump_to(STDOUT_FILENO, &pump, &fd, &one->err);
	if (ret < 0)
		return ret;
	ret = receive(t, fd, source, one);
	(void)close(fd);	/* our end of a pipe */
	if (ret == 0)
		written = fm_pump_finish(pump);
	else
		written = fm_pump_error(pump);	/* the daemon saw a broken pipe only */
	return written < 0 ? fm_err_sys(&one->err, written, "standard output") : ret;
}

static int get_stdout(struct fm_transfer *t, const struct fm_name *source, struct fm_outcome *one)
{
	int ret;

	if (can_hand_over(STDOUT_FILENO))
		ret = receive(t, STDOUT_FILENO, source, one);
	else
		ret = get_pumped(t, source, one);
	one->result.is_durable = false;		/* nobody synced what is behind it */
	return ret;
}

/* ---- a file ---- */

/* A directory means: under the name it has there. */
static int dst_resolve(const char *dst, const struct fm_name *source, char out[static DST_MAX],
		       struct fm_err *err)
{
	size_t len = strlen(dst);
	bool is_dir = len > 0 && dst[len - 1] == '/';
	struct stat st;

	if (len == 0)
		return fm_err_set(err, -ENOENT, "the name of the target is empty");
	if (len > FMOVE_PATH_MAX)
		return fm_err_set(err, -ENAMETOOLONG,
				  "the target's path of %zu bytes is longer than %d", len,
				  FMOVE_PATH_MAX);
	if (!is_dir)
		is_dir = stat(dst, &st) == 0 && S_ISDIR(st.st_mode);
	(void)snprintf(out, DST_MAX, "%s%s%s", dst, is_dir && dst[len - 1] != '/' ? "/" : "",
		       is_dir ? fm_name_last(source->path) : ""); /* fits: twice the longest path */
	return 0;
}

static int get_file(struct fm_transfer *t, const struct fm_name *source, const char *dst,
		    struct fm_outcome *one)
{
	struct fm_part part;
	int ret;

	ret = fm_part_open(dst, t->opts.may_replace, &part, &one->err);
	if (ret < 0)
		return ret;
	ret = receive(t, part.fd, source, one);
	if (ret < 0) {
		fm_part_discard(&part);
		return ret;
	}
	return fm_part_publish(&part,
			       &(struct fm_part_attr){ one->result.mode, one->result.mtime_ns,
						       one->result.is_durable },
			       &one->err);
}

static int get(struct fm_transfer *t, const struct fm_name *source, const char *dst)
{
	char text[SOURCE_TEXT_MAX], path[DST_MAX];
	struct fm_outcome one = { .source = text, .target = dst };
	bool is_stdout = strcmp(dst, "-") == 0;
	int ret = 0;

	(void)fm_name_text(source, text, sizeof(text));
	if (!is_stdout) {
		ret = dst_resolve(dst, source, path, &one.err);
		one.target = ret == 0 ? path : dst;
	}
	if (ret == 0)
		ret = fm_transfer_open(t, &one.err);
	fm_outcomes_begin(&t->outcomes);
	if (ret == 0)
		/* one.err has it */
		(void)(is_stdout ? get_stdout(t, source, &one) : get_file(t, source, path, &one));
	fm_outcomes_add(&t->outcomes, &one);
	fm_transfer_close(t);
	return fm_outcomes_end(&t->outcomes);
}

int fm_cmd_get(int argc, char **argv)
{
	struct fm_transfer t;
	struct fm_args args;
	struct fm_name source;
	struct fm_err err;

	fm_transfer_init(&t, "get");
	fm_args_begin(&args, "get", argc, argv);
	if (fm_transfer_args(&t, &args, 2, 2) < 0)
		return args.status;
	if (fm_name_parse(args.operands[0], &source, &err) < 0)
		return fm_usage(&args, "%s", err.text);
	if (source.path[0] == '\0' || source.is_dir)
		return fm_usage(&args, "\"%s\" is a directory; get receives one file",
				args.operands[0]);
	if (t.outcomes.is_json && strcmp(args.operands[1], "-") == 0)
		return fm_usage(&args, "--json and - both want standard output");
	return get(&t, &source, args.operands[1]);
}
