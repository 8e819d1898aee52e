/* SPDX-License-Identifier: MIT */
/*
 * cmd_put - fmove put SRC... NODE:STORE/PATH. Sources are opened here, with the caller's rights,
 * and handed to the daemon.
 */
#include "client/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/interrupt.h"
#include "client/name.h"
#include "client/pump.h"
#include "mover/base/err.h"

const struct fm_opt fm_opts_put[] = {
	FM_TRANSFER_OPTS,
	{ NULL, 0, 0, NULL, NULL, NULL },
};

#define TARGET_TEXT_MAX (FMOVE_PATH_MAX + 2 * FM_NAME_PART_MAX + 4)

struct source {
	const char *label;
	int fd;
	bool is_stdin;
	struct fm_pump *pump;	/* NULL: fd goes to the daemon as it is */
};

static bool is_stdin(const char *src)
{
	return strcmp(src, "-") == 0;
}

/*
 * Whether the daemon may read it in place: a file from its start, or a pipe. Terminals and devices
 * stay here.
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

static int source_prepare(struct source *s, struct fm_err *err)
{
	struct stat st;

	if (fstat(s->fd, &st) < 0)
		return fm_err_sys(err, -errno, "%s", s->label);
	if (S_ISDIR(st.st_mode))
		return fm_err_set(err, -EISDIR,
				  "%s is a directory; name its files, or send it as one: "
				  "tar -c DIR | fmove put - NODE:STORE/NAME.tar",
				  s->label);
	if (can_hand_over(s->fd, &st))
		return 0;
	/* which reads the device as long as this process lives */
	return fm_pump_from(s->fd, &s->pump, &s->fd, err);
}

static int source_open(const char *src, struct source *s, struct fm_err *err)
{
	int ret;

	*s = (struct source){ .label = src, .fd = STDIN_FILENO, .is_stdin = is_stdin(src) };
	if (s->is_stdin)
		s->label = "standard input";
	else
		s->fd = open(src, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (s->fd < 0)
		return fm_err_sys(err, errno == EINTR && fm_is_interrupted() ? -ECANCELED : -errno,
				  "%s", src);
	ret = source_prepare(s, err);
	if (ret < 0)
		source_close(s);
	return ret;
}

/* The name that src gets in a directory. */
static int target_in_dir(const char *src, struct fm_name *target, struct fm_err *err)
{
	size_t len = strlen(src);
	char path[FMOVE_PATH_MAX + 1];

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
	return fm_name_append(target, fm_name_last(path), err);
}

static int send_source(struct fm_transfer *t, const struct source *s, const struct fm_name *target,
		       struct fm_outcome *one)
{
	struct fmove_name parts = fm_name_parts(target);
	struct fmove_error why;
	int ret;

	fm_transfer_begin(t, s->label);
	ret = fmove_put(t->conn, s->fd, &parts, &t->opts, &one->result, &why);
	fm_transfer_end(t);
	if (ret == 0)
		return 0;
	if (s->pump && fm_pump_error(s->pump) < 0)
		return fm_err_sys(&one->err, fm_pump_error(s->pump), "%s", s->label);
	(void)fm_transfer_error(&one->err, &why);
	return fm_err_wrap(&one->err, "%s", s->label);
}

static int put_source(struct fm_transfer *t, const char *src, struct fm_name *target,
		      struct fm_outcome *one)
{
	struct source source;
	int ret;

	ret = source_open(src, &source, &one->err);
	if (ret < 0)
		return ret;
	ret = send_source(t, &source, target, one);
	/* Nothing has been read of it yet. Standard input has no name of its own to go on with. */
	if (ret == -EISDIR && !source.is_stdin && target_in_dir(src, target, &one->err) == 0) {
		fm_err_clear(&one->err);
		ret = send_source(t, &source, target, one);
	}
	source_close(&source);
	return ret;
}

/* Returns the exit status that this file would have by itself. */
static int put_one(struct fm_transfer *t, const char *src, const struct fm_name *dest)
{
	char text[TARGET_TEXT_MAX];
	struct fm_outcome one = { .source = src, .target = text };
	struct fm_name target = *dest;
	int ret = 0;

	if (dest->is_dir)
		ret = target_in_dir(src, &target, &one.err);
	if (ret == 0)
		ret = put_source(t, src, &target, &one);
	(void)fm_name_text(&target, text, sizeof(text));
	fm_outcomes_add(&t->outcomes, &one);
	return (int)fm_api_exit(ret);
}

/*
 * Several sources need a directory; if the spelling does not say that it is one, ask. One source
 * just tries.
 */
static int dest_resolve(struct fm_transfer *t, struct fm_name *dest, struct fm_err *err)
{
	struct fmove_name parts = fm_name_parts(dest);
	struct fmove_entry entry;
	struct fmove_error why;

	if (dest->is_dir || !t->outcomes.is_many)
		return 0;
	fmove_set_timeout(t->conn, t->opts.timeout_ms);
	if (fmove_stat(t->conn, &parts, &entry, &why) == 0)
		dest->is_dir = entry.type == FMOVE_DIRECTORY;
	else if (fm_api_exit(why.code) == FM_EXIT_UNREACHABLE || fm_is_interrupted())
		return fm_transfer_error(err, &why);
	/* Whatever else is wrong with it, it is no directory that could be seen. */
	return 0;
}

/* What keeps every source from being sent is said once, with the first. */
static void put_none(struct fm_transfer *t, struct fm_args *args, const struct fm_err *err)
{
	struct fm_outcome one = { .source = args->operands[0],
				  .target = args->operands[args->count - 1],
				  .err = *err };

	fm_outcomes_add(&t->outcomes, &one);
	t->outcomes.failed += (unsigned)(args->count - 2);
}

static void put_all(struct fm_transfer *t, struct fm_args *args, const struct fm_name *dest)
{
	int sources = args->count - 1;

	for (int i = 0; i < sources; i++) {
		int status = put_one(t, args->operands[i], dest);

		if (status != FM_EXIT_CANCELLED && status != FM_EXIT_UNREACHABLE)
			continue;
		/* The others would fare no better. */
		if (i + 1 < sources)
			fm_say("put: %d more not tried", sources - i - 1);
		t->outcomes.failed += (unsigned)(sources - i - 1);
		return;
	}
}

static int put(struct fm_transfer *t, struct fm_args *args, struct fm_name *dest)
{
	struct fm_err err;
	int ret;

	ret = fm_transfer_open(t, &err);
	if (ret == 0)
		ret = dest_resolve(t, dest, &err);
	if (ret == 0 && t->outcomes.is_many && !dest->is_dir) {
		fm_transfer_close(t);
		return fm_usage(args,
				"several sources go into a directory: \"%s\" is none; end it with "
				"/ to make it one",
				args->operands[args->count - 1]);
	}
	fm_outcomes_begin(&t->outcomes);
	if (ret == 0)
		put_all(t, args, dest);
	else
		put_none(t, args, &err);
	fm_transfer_close(t);
	return fm_outcomes_end(&t->outcomes);
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
	if (fm_name_parse(args.operands[args.count - 1], &dest, &err) < 0)
		return fm_usage(&args, "%s", err.text);
	t.outcomes.is_many = args.count > 2;
	return put(&t, &args, &dest);
}
