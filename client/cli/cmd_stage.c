/* SPDX-License-Identifier: MIT */
/*
 * cmd_stage - fmove stage [NODE:]STORE/PATH: a directory or file of another node, or of a store of
 * this one, is in this node's cache, and held. hf:ORG/NAME: a repository of Hugging Face is.
 */
#include "client/cli/ask.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/interrupt.h"
#include "client/cli/link_tree.h"
#include "client/cli/progress.h"
#include "client/cli/show.h"
#include "client/cli/stage_line.h"
#include "client/cli/warm.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/hub_name.h"
#include "mover/base/json.h"
#include "mover/base/words.h"

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_AS, OPT_PIN, OPT_PID, OPT_CHECK, OPT_NODES, OPT_DETACH,
       OPT_LINK, OPT_WARM };

const struct fm_opt fm_opts_stage[] = {
	{"as", 0, OPT_AS, "NAME", "what the dataset is called (the last part of PATH)", NULL},
	{"pin", 0, OPT_PIN, NULL, "it stays until fmove unpin", NULL},
	{"hold-pid", 0, OPT_PID, "PID", "it stays as long as this process (that which runs fmove)",
	 NULL},
	{"check", 0, OPT_CHECK, "HOW",
	 "listing: the source is asked what it is now (default); none: one that is here will do; "
	 "content: the source is read again, too",
	 "listing none content"},
	{"nodes", 0, OPT_NODES, "LIST",
	 "the nodes that are to have it: all, or names between commas", NULL},
	{"link", 0, OPT_LINK, "DIR",
	 "make a tree of directories with links to the files there, and print DIR, which is not "
	 "there, or empty",
	 "FILE"},
	{"warm", 0, OPT_WARM, NULL, "read it into memory then, if it fits into what is free", NULL},
	{"detach", 0, OPT_DETACH, NULL,
	 "end as soon as it comes: fmove datasets shows how far it is", NULL},
	FM_ASK_JSON,
	{NULL, 0, 0, NULL, NULL, NULL},
};

/* Exit status where the command cannot be run; its own is any else. */
enum { NOT_RUN = 126, NOT_FOUND = 127 };

struct stage {
	struct fm_name source;
	const char *repository;		/* as it was said: hf:ORG/NAME; NULL: it is none */
	struct fm_hub_name hub;
	char hf_home[FMOVE_PATH_MAX + 1];
	struct fmove_stage_options opts;
	char **command;			/* NULL: none */
	const char *check_text;		/* of --check; NULL: not given */
	const char *pid_text;		/* of --hold-pid; NULL: not given */
	const char *link;		/* of --link; NULL: not given */
	char path[FMOVE_PATH_MAX + 1];	/* that is printed */
	bool is_here;			/* what is asked for is; the rest is ours */
	bool has_warm;			/* --warm: */
	bool is_warm;			/* it was read into memory */
	bool is_json;
	bool is_detached;		/* what is not here is not waited for */
	bool is_left;			/* nor was it */
	bool has_line;			/* of progress, on the terminal */
	struct fm_stage_line line;
	/* With --nodes, in the end: */
	struct fm_json_writer w;
	bool has_json;			/* ... where their object is begun */
	unsigned ready, failed;
	uint64_t read;
};

/* ---- what was said ---- */

static int parse_pid(const char *text, pid_t *out)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (errno || *end || end == text || v <= 0 || v > INT32_MAX)
		return -EINVAL;
	*out = (pid_t)v;
	return 0;
}

/* What is behind "--" is the command; it is no operand. */
static int cut_command(int argc, char **argv, char ***command)
{
	*command = NULL;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") != 0)
			continue;
		*command = &argv[i + 1];
		return i;
	}
	return argc;
}

static size_t read_proc(pid_t pid, const char *name, char *out, size_t max)
{
	char path[48];
	size_t len;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	f = fopen(path, "re");
	len = f ? fread(out, 1, max - 1, f) : 0;
	if (f)
		(void)fclose(f);	/* only read */
	out[len] = '\0';
	return len;
}

static pid_t parent_of(pid_t pid)
{
	char stat[512];
	const char *end;
	int parent;

	(void)read_proc(pid, "stat", stat, sizeof(stat));
	end = strrchr(stat, ')');
	return end && sscanf(end + 1, " %*c %d", &parent) == 1 ? parent : 0;
}

/* Whether one was forked by the other and runs the same still: a subshell, which ends when we
 * do. */
static bool is_copy(pid_t pid, pid_t parent)
{
	char a[4096], b[4096];
	size_t len = read_proc(pid, "cmdline", a, sizeof(a));

	return len > 0 && read_proc(parent, "cmdline", b, sizeof(b)) == len &&
	       memcmp(a, b, len) == 0;
}

static bool is_ours(pid_t pid)
{
	char path[32];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return getuid() == 0 || (stat(path, &st) == 0 && st.st_uid == getuid());
}

/*
 * The process that runs us holds the data, so that DATA=$(fmove stage ...) is safe; of a subshell
 * it is the shell. One of another user (sudo) cannot: then it is there for the grace, and that is
 * said.
 */
static pid_t parent(void)
{
	pid_t pid = getppid(), next = parent_of(pid);

	while (next > 1 && is_ours(next) && is_copy(pid, next)) {
		pid = next;
		next = parent_of(pid);
	}
	if (is_ours(pid))
		return pid;
	fm_say("process %d, which runs this, is another user's: the copy stays for staging.grace "
	       "only; "
	       "--hold-pid names one of yours",
	       (int)pid);
	return 0;
}

static bool is_whole_store(const char *source)
{
	const char *colon = strchr(source, ':'), *slash = strchr(colon ? colon : source, '/');

	return !slash || !slash[1];
}

/* STORE/PATH is of this node. */
static int name_here(struct stage *s, struct fmove *c, const char *text, int *status)
{
	char node[FM_NAME_PART_MAX + 1], name[FM_ASK_NAME_TEXT_MAX];
	struct fmove_error why;
	struct fm_err err;
	int len;

	if (fmove_node(c, node, sizeof(node), &why) < 0) {
		*status = fm_ask_fail("stage", text, &why);
		return -1;
	}
	len = snprintf(name, sizeof(name), "%s:%s", node, text);
	if (len < 0 || (size_t)len >= sizeof(name))
		(void)fm_err_set(&err, -ENAMETOOLONG, "the path is too long");
	else if (fm_name_parse(name, &s->source, &err) == 0)
		return 0;
	*status = fm_fail("stage", &err);
	return -1;
}

/* Links are followed with our own rights. Where these end, the rules of the store say more. */
static int resolve(const char *text, char out[static PATH_MAX], struct fm_err *err)
{
	if (realpath(text, out))
		return 0;
	if (errno != EACCES)
		return fm_err_sys(err, -errno, "%s", text);
	if (strlen(text) >= PATH_MAX)
		return fm_err_set(err, -ENAMETOOLONG, "the path is too long");
	(void)strcpy(out, text);
	return 0;
}

/* An absolute path is of the store of this node that it is in. */
static int name_path(struct stage *s, struct fmove *c, const char *text, int *status)
{
	struct fmove_place place;
	struct fmove_error why;
	char path[PATH_MAX];
	struct fm_err err;

	if (resolve(text, path, &err) < 0) {
		*status = fm_fail("stage", &err);
		return -1;
	}
	if (fmove_locate(c, path, &place, &why) < 0) {
		*status = fm_ask_fail("stage", text, &why);
		return -1;
	}
	(void)snprintf(s->source.node, sizeof(s->source.node), "%.64s", place.node);
	(void)snprintf(s->source.store, sizeof(s->source.store), "%.64s", place.store);
	(void)snprintf(s->source.path, sizeof(s->source.path), "%s", place.path);
	return 0;
}

static int name_source(struct stage *s, struct fmove *c, const char *text, int *status)
{
	if (text[0] == '/')
		return name_path(s, c, text, status);
	return strchr(text, ':') ? 0 : name_here(s, c, text, status);
}

/* ---- progress ---- */

static void progress(void *ctx, const char *phase, uint64_t bytes, uint64_t size)
{
	struct stage *s = ctx;
	const struct fm_stage_report now = { .what = s->repository ? s->repository : s->source.path,
					     .phase = phase, .bytes = bytes, .size = size,
					     .now_ns = fm_clock_real.now_ns(fm_clock_real.ctx) };
	char text[512];

	/* With the listing it is known that the caller may have it. */
	if (s->is_detached && strcmp(phase, "listing") != 0) {
		s->is_left = true;
		fm_interrupt_raise();
	}
	if (!isatty(STDERR_FILENO))
		return;
	fm_stage_line_text(&s->line, &now, fm_progress_width(), text, sizeof(text));
	(void)fprintf(stderr, "\r%s\033[K", text);
	s->has_line = true;
}

static void clear_line(struct stage *s)
{
	if (s->has_line)
		(void)fputs("\r\033[K", stderr);
	s->has_line = false;
}

/* ---- several nodes ---- */

/* fm_stdout_end() looks for errors. */
static void json_begin(struct fm_json_writer *w)
{
	fm_jw_stream(w, stdout);
	fm_jw_object(w, NULL);
}

static void json_end(struct fm_json_writer *w)
{
	fm_jw_object_end(w);
	(void)printf("\n");
}

/* When all are known: a request that fails has no nodes. */
static void json_nodes(struct stage *s)
{
	if (s->has_json)
		return;
	json_begin(&s->w);
	fm_jw_array(&s->w, "nodes");
	s->has_json = true;
}

static void add_to_object(struct fm_json_writer *w, const struct fmove_stage_node *n)
{
	fm_jw_object(w, NULL);
	fm_jw_name(w, "node", n->node, strlen(n->node));
	fm_jw_text(w, "state", n->state);
	fm_jw_bool(w, "wanted", n->is_wanted);
	fm_jw_name(w, "path", n->path, strlen(n->path));
	fm_jw_u64(w, "bytes", n->bytes);
	fm_jw_u64(w, "read", n->read);
	if (n->code[0]) {
		fm_jw_object(w, "error");
		fm_jw_text(w, "code", n->code);
		fm_jw_text(w, "text", n->text);
		fm_jw_object_end(w);
	} else if (n->text[0]) {
		fm_jw_text(w, "warning", n->text);
	}
	fm_jw_object_end(w);
}

static void node(void *ctx, const struct fmove_stage_node *n, bool is_end)
{
	struct stage *s = ctx;
	bool is_ready = strcmp(n->state, "ready") == 0;

	if (!is_end) {
		fm_stage_line_node(&s->line, n);
		return;
	}
	clear_line(s);
	s->read += n->read;
	s->ready += n->is_wanted && is_ready;
	s->failed += n->is_wanted && !is_ready;
	if (s->is_json) {
		json_nodes(s);
		add_to_object(&s->w, n);
	}
	if (n->is_wanted && !is_ready)
		fm_say("%s: %s: %s", n->node, n->state, n->text);
	else if (n->is_wanted)
		fm_say("%s: ready: %s", n->node, n->path);
	if (n->text[0] && !n->code[0])
		fm_say("warning: %s", n->text);
}

static int status_of(const struct stage *s)
{
	if (s->failed == 0)
		return FM_EXIT_DONE;
	return s->ready > 0 ? FM_EXIT_PARTLY : FM_EXIT_FAILED;
}

/* ---- what is here ---- */

static int link_it(struct stage *s, const char *path, struct fm_err *err)
{
	uint64_t links;
	int ret = fm_link_tree(path, s->link, s->path, sizeof(s->path), &links, err);

	if (ret == 0)
		fm_say("%s: %llu link%s to %s", s->link, (unsigned long long)links,
		       links == 1 ? "" : "s", path);
	return ret;
}

static void warming(void *ctx, uint64_t bytes, uint64_t size)
{
	progress(ctx, "reading into memory", bytes, size);
}

/* That it does not fit is no error: nothing is worse than without. */
static int warm_it(struct stage *s, const char *path, struct fm_err *err)
{
	const struct fm_warm_opts o = { .path = path, .follows_links = s->repository,
					.progress = isatty(STDERR_FILENO) ? warming : NULL,
					.ctx = s };
	char bytes[FM_SHOW_MAX], room[FM_SHOW_MAX];
	struct fm_warmed warmed;
	int ret;

	memset(&s->line, 0, sizeof(s->line));
	ret = fm_warm(&o, &warmed, err);
	clear_line(s);
	if (ret < 0)
		return ret;
	fm_show_bytes(warmed.bytes, bytes);
	if (warmed.fits)
		fm_say("--warm: %s read into memory", bytes);
	else
		fm_say("--warm: %s are more than the %s of memory that are free: none of it is "
		       "read", bytes, fm_show_bytes(warmed.room, room));
	s->is_warm = warmed.fits;
	return 0;
}

/* What is asked for besides, with the rights of who asks. */
static int finish(struct stage *s, const struct fmove_dataset *d, struct fmove_error *why)
{
	struct fm_err err;
	int ret = 0;

	clear_line(s);
	s->is_here = true;
	(void)snprintf(s->path, sizeof(s->path), "%s", d->path);
	if (!d->path[0])
		return 0;
	if (s->link)
		ret = link_it(s, d->path, &err);
	if (ret == 0 && s->has_warm)
		ret = warm_it(s, d->path, &err);
	if (ret == 0)
		return 0;
	*why = (struct fmove_error){ .code = err.code, .exit = (int)fm_api_exit(err.code) };
	(void)snprintf(why->text, sizeof(why->text), "%s", err.text);
	return ret;
}

/* ---- the end ---- */

static void print_json(const struct stage *s, const struct fmove_dataset *d, bool is_fetched)
{
	struct fm_json_writer w;

	json_begin(&w);
	fm_jw_name(&w, "path", s->path, strlen(s->path));
	if (s->link)
		fm_jw_name(&w, "staged", d->path, strlen(d->path));
	if (s->has_warm)
		fm_jw_bool(&w, "warm", s->is_warm);
	fm_jw_name(&w, "name", d->name, strlen(d->name));
	fm_jw_text(&w, "version", d->version);
	fm_jw_name(&w, "source", d->source, strlen(d->source));
	fm_jw_u64(&w, "bytes", d->bytes);
	fm_jw_bool(&w, "fetched", is_fetched);
	fm_jw_text(&w, "check", fm_words_check[d->check]);
	if (s->repository)
		fm_jw_name(&w, "hf_home", s->hf_home, strlen(s->hf_home));
	fm_jw_u64(&w, "exit", FM_EXIT_DONE);
	json_end(&w);
}

/* Nobody who waits holds it then. */
static const char *how_held(const struct stage *s)
{
	return s->opts.is_pinned ? "pinned" : "held for nobody";
}

/* Ctrl-C ends the waiting alone. */
static void say_left(const struct stage *s, struct fmove_error *why)
{
	why->code = -ECANCELED;
	(void)snprintf(why->text, sizeof(why->text),
		       "no longer waited for, but it goes on, %s: fmove datasets shows it, the "
		       "same command waits for it again, and fmove cancel ends it if fmove jobs "
		       "has it",
		       how_held(s));
}

/* --detach: it comes, and that is all. */
static int end_left(const struct stage *s, const char *source)
{
	struct fm_json_writer w;

	fm_say("%s: comes, %s: fmove datasets shows it, the same command waits for it", source,
	       how_held(s));
	if (!s->is_json)
		return FM_EXIT_DONE;
	json_begin(&w);
	fm_jw_name(&w, "source", source, strlen(source));
	fm_jw_bool(&w, "detached", true);
	fm_jw_u64(&w, "exit", FM_EXIT_DONE);
	json_end(&w);
	return fm_stdout_end("stage", FM_EXIT_DONE);
}

static int fail(struct stage *s, struct fmove_error *why)
{
	char text[FM_ASK_NAME_TEXT_MAX];
	struct fm_json_writer w;
	int status;

	if (s->repository)
		(void)snprintf(text, sizeof(text), "%s", s->repository);
	else
		(void)fm_name_text(&s->source, text, sizeof(text));
	clear_line(s);
	if (s->is_left && why->code == -ECANCELED && !fm_is_interrupted())
		return end_left(s, text);
	if (fm_is_interrupted() && !s->is_here)
		say_left(s, why);
	status = fm_ask_fail("stage", text, why);
	if (!s->is_json)
		return status;
	json_begin(&w);
	fm_jw_name(&w, "source", text, strlen(text));
	fm_jw_u64(&w, "exit", (uint64_t)status);
	fm_ask_error_json(&w, why);
	json_end(&w);
	return fm_stdout_end("stage", status);
}

/* HF_HUB_CACHE goes before HF_HOME, so one that is set elsewhere must not lead away from it. */
static int set_environment(const struct stage *s)
{
	char hub[FMOVE_PATH_MAX + sizeof("/hub")];

	if (setenv("FMOVE_STAGED", s->path, 1) < 0)
		return -1;
	if (!s->repository)
		return 0;
	(void)snprintf(hub, sizeof(hub), "%s/hub", s->hf_home);
	return setenv("HF_HOME", s->hf_home, 1) < 0 ? -1 : setenv("HF_HUB_CACHE", hub, 1);
}

/* In our place, under our number: what holds the data is the command now. */
static int run_command(const struct stage *s)
{
	struct fm_err err;
	int code;

	if (fm_is_interrupted())	/* too late to end the waiting, not too late for this */
		return FM_EXIT_CANCELLED;
	if (set_environment(s) == 0)
		(void)execvp(s->command[0], s->command);
	code = errno;
	(void)fm_err_sys(&err, -code, "%s", s->command[0]);
	(void)fm_fail("stage", &err);
	return code == ENOENT ? NOT_FOUND : NOT_RUN;	/* as of env(1) and the shell */
}

static const char *freshness(const struct fmove_dataset *d, bool is_fetched)
{
	if (is_fetched)
		return "fetched as";
	switch (d->check) {
	case FMOVE_UNASKED:
		return "here, and its source not asked:";
	case FMOVE_BY_CONTENT:
		return "here, and its source read again and the same:";
	case FMOVE_BY_LISTING:
		break;
	}
	return "here and unchanged:";
}

/* Whether --nodes has this node, where COMMAND would run, or links be. False: *status says more. */
static bool can_run(const struct stage *s, struct fmove *c, const struct fm_args *args, int *status)
{
	char node[FM_NAME_PART_MAX + 1];
	struct fmove_error why;
	const char *at = s->opts.nodes;

	if ((!s->command && !s->link && !s->has_warm) || strcmp(at, "all") == 0)
		return true;
	if (fmove_node(c, node, sizeof(node), &why) < 0) {
		*status = fm_ask_fail("stage", NULL, &why);
		return false;
	}
	for (; *at; at += strspn(at, ",")) {
		size_t len = strcspn(at, ",");

		if (len == strlen(node) && memcmp(at, node, len) == 0)
			return true;
		at += len;
	}
	*status = s->command
			  ? fm_usage(args, "--nodes %s: %s is run on %s, which is not one of them",
				     s->opts.nodes, s->command[0], node)
			  : fm_usage(args, "--nodes %s: --%s is for the copy on %s, which is not "
					   "one of them",
				     s->opts.nodes, s->link ? "link" : "warm", node);
	return false;
}

/* Each node was named by node(); this one's path is what a program reads. */
static int stage_nodes(struct stage *s, struct fmove *c)
{
	struct fmove_name name = fm_name_parts(&s->source);
	char bytes[FM_SHOW_MAX];
	struct fmove_dataset d;
	struct fmove_error why;
	bool is_fetched;
	int ret = fmove_stage(c, &name, &s->opts, &d, &is_fetched, &why), status;

	fmove_close(c);
	if (ret < 0)
		return fail(s, &why);
	fm_say("%u of %u nodes have it; %s read from the source", s->ready, s->ready + s->failed,
	       fm_show_bytes(s->read, bytes));
	ret = finish(s, &d, &why);
	status = ret < 0 ? fm_ask_fail("stage", NULL, &why) : status_of(s);
	if (s->is_json) {
		json_nodes(s);
		fm_jw_array_end(&s->w);
		fm_jw_u64(&s->w, "source_bytes", s->read);
		fm_jw_name(&s->w, "path", s->path, ret < 0 ? 0 : strlen(s->path));
		if (s->has_warm)
			fm_jw_bool(&s->w, "warm", s->is_warm);
		fm_jw_u64(&s->w, "exit", (uint64_t)status);
		if (ret < 0)
			fm_ask_error_json(&s->w, &why);
		json_end(&s->w);
	} else if (s->command && status == FM_EXIT_DONE) {
		return run_command(s);
	} else if (s->command) {
		fm_say("stage: %s is not run%s", s->command[0],
		       ret < 0 ? "" : ", since not every node has it");
	} else if (s->path[0] && ret == 0) {
		fm_stdout_raw();
		(void)printf("%s\n", s->path);
	}
	return fm_stdout_end("stage", status);
}

static int stage(struct stage *s, struct fmove *c)
{
	struct fmove_name name = fm_name_parts(&s->source);
	char bytes[FM_SHOW_MAX];
	struct fmove_dataset d;
	struct fmove_error why;
	bool is_fetched;
	int ret = s->repository
			  ? fmove_stage_hub(c, s->hub.dir, s->hub.revision, &s->opts, &d,
					    s->hf_home, &is_fetched, &why)
			  : fmove_stage(c, &name, &s->opts, &d, &is_fetched, &why);

	fmove_close(c);
	if (ret < 0)
		return fail(s, &why);
	clear_line(s);
	fm_say("%s: %s, %s %.12s", d.source, fm_show_bytes(d.bytes, bytes),
	       freshness(&d, is_fetched), d.version);
	if (s->opts.name && strcmp(s->opts.name, d.name) != 0)
		fm_say("it is called %s here, as when it was staged first; not %s", d.name,
		       s->opts.name);
	if (s->repository)
		fm_say("HF_HOME=%s", s->hf_home);
	if (finish(s, &d, &why) < 0)
		return fail(s, &why);
	if (s->command)
		return run_command(s);
	if (s->is_json) {
		print_json(s, &d, is_fetched);
	} else {
		fm_stdout_raw();	/* a program reads it: DATA=$(fmove stage ...) */
		(void)printf("%s\n", s->path);
	}
	return fm_stdout_end("stage", FM_EXIT_DONE);
}

/* What can be said of the operand before the daemon is asked. */
static int check_source(struct stage *s, struct fm_args *args)
{
	const char *text = args->operands[0];
	bool has_node = strchr(text, ':');
	struct fm_err err;

	if (text[0] == '.')
		return fm_usage(args,
				"%s: what is staged is named [NODE:]STORE/PATH, or by an absolute "
				"path in a store of this node",
				text);
	if (text[0] == '/')
		return FM_EXIT_DONE;
	if (has_node && fm_name_parse(text, &s->source, &err) < 0)
		return fm_usage(args, "%s", err.text);
	if (is_whole_store(text) && !s->opts.name)
		return fm_usage(
			args,
			"%s names a whole store: name a directory in it, or the dataset with --as; "
			"\"fmove df%s%s\" lists the stores",
			text, has_node ? " " : "", has_node ? s->source.node : "");
	return FM_EXIT_DONE;
}

static int check_repository(struct stage *s, struct fm_args *args)
{
	struct fm_err err;

	s->repository = args->operands[0];
	if (s->opts.nodes)
		return fm_usage(args, "--nodes: hf:ORG/NAME is staged by each node for itself");
	if (s->opts.check == FMOVE_UNASKED)
		return fm_usage(args, "--check none: a hub's node says what commit it is");
	if (fm_hub_name_parse(s->repository + 3, &s->hub, &err) < 0)
		return fm_usage(args, "%s", err.text);
	return FM_EXIT_DONE;
}

static int check_args(struct stage *s, struct fm_args *args)
{
	int check = s->check_text ? fm_word_parse(fm_words_check, s->check_text) : 0;

	if (check < 0)
		return fm_usage(args, "--check %s: not listing, none or content", s->check_text);
	s->opts.check = (enum fmove_freshness)check;
	if (check != FMOVE_BY_LISTING && s->opts.nodes)
		return fm_usage(args,
				"--check %s: with --nodes each node goes by the source's listing",
				s->check_text);
	if (s->opts.name && !s->opts.name[0])
		return fm_usage(args, "--as: an empty name: what is the dataset called?");
	if (s->opts.nodes && !s->opts.nodes[0])
		return fm_usage(args, "--nodes: an empty list: all, or names between commas");
	if (s->command && !s->command[0])
		return fm_usage(args, "no command behind --");
	if (s->pid_text && s->is_detached)
		return fm_usage(args, "--detach: nobody holds what comes later: use --pin");
	if (s->command && s->is_detached)
		return fm_usage(args, "--detach: a command behind -- needs what is waited for");
	if ((s->link || s->has_warm) && s->is_detached)
		return fm_usage(args, "--detach: --%s needs what is waited for",
				s->link ? "link" : "warm");
	if (s->command && s->is_json)
		return fm_usage(args, "--json: standard output is the command's");
	if (strncmp(args->operands[0], "hf:", 3) == 0)
		return check_repository(s, args);
	return check_source(s, args);
}

/* False: it is over, with args->status. */
static bool take_args(struct stage *s, struct fm_args *args)
{
	int key;

	while ((key = fm_args_next(args)) > 0) {
		s->is_json |= key == OPT_JSON;
		s->opts.is_pinned |= key == OPT_PIN;
		s->is_detached |= key == OPT_DETACH;
		s->has_warm |= key == OPT_WARM;
		if (key == OPT_AS)
			s->opts.name = args->value;
		if (key == OPT_CHECK)
			s->check_text = args->value;
		if (key == OPT_NODES)
			s->opts.nodes = args->value;
		if (key == OPT_LINK)
			s->link = args->value;
		if (key == OPT_PID)
			s->pid_text = args->value;
	}
	if (fm_args_end(args, 1, 1) < 0)
		return false;
	if (s->pid_text && parse_pid(s->pid_text, &s->opts.pid) < 0)
		args->status = fm_usage(args, "--hold-pid %s: not the number of a process",
					s->pid_text);
	else
		args->status = check_args(s, args);
	return args->status == FM_EXIT_DONE;
}

int fm_cmd_stage(int argc, char **argv)
{
	struct stage s = { .opts = { .pid = 0 } };
	struct fm_args args;
	struct fm_err err;
	struct fmove *c;
	int status;

	argc = cut_command(argc, argv, &s.command);
	fm_args_begin(&args, "stage", argc, argv);
	if (!take_args(&s, &args))
		return args.status;
	if (s.opts.pid == 0 && !s.is_detached)
		s.opts.pid = s.command ? getpid() : parent();
	if (s.is_detached || isatty(STDERR_FILENO)) {
		s.opts.progress = progress;
		s.opts.ctx = &s;
	}
	if (fm_interrupt_start(&err) < 0)
		return fm_fail("stage", &err);
	if (s.link && fm_link_tree_check(s.link, &err) < 0)
		return fm_fail("stage", &err);
	s.opts.cancel_fd = fm_interrupt_fd();
	if (fm_ask_open("stage", false, &c, &status) < 0)
		return status;
	if (name_source(&s, c, args.operands[0], &status) < 0) {
		fmove_close(c);
		return status;
	}
	if (!s.opts.nodes)
		return stage(&s, c);
	if (!can_run(&s, c, &args, &status)) {
		fmove_close(c);
		return status;
	}
	s.opts.node = node;
	s.opts.ctx = &s;
	return stage_nodes(&s, c);
}
