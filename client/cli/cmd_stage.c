/* SPDX-License-Identifier: MIT */
/*
 * cmd_stage - fmove stage [NODE:]STORE/PATH: a directory or file of another node, or of a store of
 * this one, is in this node's cache, and held. hf:ORG/NAME: a repository of Hugging Face is.
 */
#include "client/cli/ask.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/interrupt.h"
#include "client/cli/link_tree.h"
#include "client/cli/show.h"
#include "client/cli/stage_holder.h"
#include "client/cli/stage_line.h"
#include "client/cli/stage_source.h"
#include "client/cli/stage_use.h"
#include "mover/base/err.h"
#include "mover/base/json.h"
#include "mover/base/shell.h"
#include "mover/base/words.h"

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_AS, OPT_PIN, OPT_PID, OPT_CHECK, OPT_NODES, OPT_DETACH,
       OPT_LINK, OPT_LIVE, OPT_WARM };

const struct fm_opt fm_opts_stage[] = {
	{"as", 0, OPT_AS, "NAME", "what the dataset is called (the last part of PATH)", NULL},
	{"pin", 0, OPT_PIN, NULL, "it stays until fmove unpin, on each node of --nodes", NULL},
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
	{"live", 0, OPT_LIVE, NULL,
	 "also from a volume that another node has mounted read-write: what comes may be a mixture",
	 NULL},
	{"warm", 0, OPT_WARM, NULL, "read it into memory then, if it fits into what is free", NULL},
	{"detach", 0, OPT_DETACH, NULL,
	 "end as soon as it comes: fmove datasets shows how far it is", NULL},
	FM_ASK_JSON,
	{NULL, 0, 0, NULL, NULL, NULL},
};

struct stage {
	struct fm_stage_source source;
	struct fmove_stage_options opts;
	struct fm_stage_use use;
	char hf_home[FMOVE_PATH_MAX + 1];	/* of a repository */
	char own[FMOVE_PATH_MAX + 1];	/* the caller's own cache, that it is from; "": not */
	const char *check_text;		/* of --check; NULL: not given */
	const char *pid_text;		/* of --hold-pid; NULL: not given */
	bool is_here;			/* what is asked for is; the rest is ours */
	bool is_json;
	bool is_detached;		/* what is not here is not waited for */
	bool is_left;			/* nor was it */
	char job[FMOVE_JOB_MAX];	/* it is logged by; "": it was not begun */
	struct fm_stage_line line;
	/* With --nodes, in the end: */
	struct fm_json_writer w;
	bool has_json;			/* ... where their object is begun */
	unsigned ready, failed, corrupt;	/* corrupt: of those that failed */
	uint64_t read;
};

/* ---- what was said ---- */

/* Cuts off the command behind "--", which is no operand. */
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

/* ---- progress ---- */

#define LOOKING "looking for it" /* of a repository of a hub: on no node yet */

static void progress(void *ctx, const char *phase, uint64_t bytes, uint64_t size)
{
	struct stage *s = ctx;

	/* When it was found and listed it is known that the caller may have it. */
	if (s->is_detached && strcmp(phase, "listing") != 0 && strcmp(phase, LOOKING) != 0) {
		s->is_left = true;
		fm_interrupt_raise();
	}
	fm_stage_line_show(&s->line,
			   &(struct fm_stage_report){ .what = fm_stage_source_short(&s->source),
						      .phase = phase,
						      .bytes = bytes,
						      .size = size });
}

static void accepted(void *ctx, const char *job)
{
	struct stage *s = ctx;

	(void)snprintf(s->job, sizeof(s->job), "%s", job);
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

/*
 * Begins the list of nodes in the JSON, with the first node that is told. A request that fails has
 * none.
 */
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
	fm_stage_line_clear(&s->line);
	s->read += n->read;
	s->ready += n->is_wanted && is_ready;
	s->failed += n->is_wanted && !is_ready;
	s->corrupt += n->is_wanted && !is_ready &&
		      fm_api_exit(fm_api_errno(n->code)) == FM_EXIT_CORRUPT;
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
	if (s->ready > 0)
		return FM_EXIT_PARTLY;
	return s->corrupt == s->failed ? FM_EXIT_CORRUPT : FM_EXIT_FAILED;
}

/* ---- the end ---- */

static const char same_disk[] =
	"the cache of this node is on the file system of the source: the copy uses no second disk, "
	"and is read no faster; staging.directory of fmove.conf should be on another one";

/* The copy is here: makes the links, or whatever else was asked for with it. */
static int finish(struct stage *s, const struct fmove_dataset *d, struct fmove_error *why)
{
	struct fm_err err;
	int ret;

	fm_stage_line_clear(&s->line);
	s->is_here = true;
	if (d->is_same_disk)
		fm_say("warning: %s", same_disk);
	if (d->note[0])
		fm_say("warning: %s", d->note);
	s->use.what = fm_stage_source_short(&s->source);
	s->use.hf_home = s->source.repository ? s->hf_home : NULL;
	ret = fm_stage_use(&s->use, d->path, &err);
	if (ret == 0)
		return 0;
	*why = (struct fmove_error){ .code = err.code, .exit = (int)fm_api_exit(err.code) };
	(void)snprintf(why->text, sizeof(why->text), "%s", err.text);
	return ret;
}

static void print_json(const struct stage *s, const struct fmove_dataset *d, bool is_fetched)
{
	struct fm_json_writer w;

	json_begin(&w);
	fm_jw_name(&w, "path", s->use.path, strlen(s->use.path));
	if (s->use.link)
		fm_jw_name(&w, "staged", d->path, strlen(d->path));
	if (s->use.has_warm)
		fm_jw_bool(&w, "warm", s->use.is_warm);
	fm_jw_name(&w, "name", d->name, strlen(d->name));
	fm_jw_text(&w, "version", d->version);
	fm_jw_name(&w, "source", d->source, strlen(d->source));
	fm_jw_u64(&w, "bytes", d->bytes);
	fm_jw_bool(&w, "fetched", is_fetched);
	fm_jw_text(&w, "check", fm_words_freshness[d->check]);
	if (d->is_same_disk)
		fm_jw_text(&w, "warning", same_disk);
	if (d->note[0])
		fm_jw_text(&w, "note", d->note);
	if (s->source.repository)
		fm_jw_name(&w, "hf_home", s->hf_home, strlen(s->hf_home));
	fm_jw_text(&w, "job", d->job);
	fm_jw_u64(&w, "exit", FM_EXIT_DONE);
	json_end(&w);
}

#define HELD_LEN 128

/*
 * How the copy will be held while nobody waits for it. Of several nodes the copy of this one may be
 * here, and held, while others are still waited for. A command would have held it by this process,
 * which ends.
 */
static const char *how_held(const struct stage *s, char text[static HELD_LEN])
{
	if (s->opts.is_pinned)
		return "pinned";
	if (!s->opts.nodes || s->opts.pid == 0 || s->use.command)
		return "held for nobody";
	(void)snprintf(text, HELD_LEN,
		       "held for nobody, but where it is on this node already: by process %d",
		       (int)s->opts.pid);
	return text;
}

/* Explains after Ctrl-C that only the waiting has ended, unless this process was the source. */
static void say_left(const struct stage *s, struct fmove_error *why)
{
	char held[HELD_LEN];

	why->code = -ECANCELED;
	if (s->own[0]) {	/* nobody else reads it */
		(void)snprintf(why->text, sizeof(why->text),
			       "ended: nothing of it stays, and the same command begins anew");
		return;
	}
	(void)snprintf(why->text, sizeof(why->text),
		       "no longer waited for, but it goes on, %s: fmove datasets shows it, the "
		       "same command waits for it again, and fmove cancel ends it if fmove jobs "
		       "has it",
		       how_held(s, held));
}

/* Reports for --detach that the copy will come. */
static int end_left(const struct stage *s, const char *source)
{
	struct fm_json_writer w;
	char held[HELD_LEN];

	fm_say("%s: comes, %s: fmove datasets shows it, the same command waits for it, and "
	       "fmove logs %s tells how it goes",
	       source, how_held(s, held), s->job);
	if (!s->is_json)
		return FM_EXIT_DONE;
	json_begin(&w);
	fm_jw_name(&w, "source", source, strlen(source));
	fm_jw_bool(&w, "detached", true);
	fm_jw_text(&w, "job", s->job);
	fm_jw_u64(&w, "exit", FM_EXIT_DONE);
	json_end(&w);
	return fm_stdout_end("stage", FM_EXIT_DONE);
}

/* No node has it, or one that cannot be asked may have it. */
static bool is_nowhere(const struct fmove_error *why)
{
	return why->code == -ENOENT || fm_api_exit(why->code) == FM_EXIT_UNREACHABLE;
}

/* The line that puts it where nodes find it. False: there is no path, or one that is too long. */
static bool put_line(char out[static FMOVE_TEXT_MAX], const char *path, const char *dir)
{
	int len = snprintf(out, FMOVE_TEXT_MAX,
			   "; your own hub cache has it, for you alone: fmove put -r %s "
			   "NODE:STORE/%s (and its blobs beside it, if there are) into a store of "
			   "another node with layout = \"hf\"",
			   path, dir);

	return path[0] && len < FMOVE_TEXT_MAX;
}

/*
 * Only the caller can read what is in his own hub cache, and while he does, for this node. For more
 * than that he can put it into a store. That line is said whole, whatever it takes of the rest.
 */
static void add_own(const struct stage *s, struct fmove_error *why)
{
	char own[FMOVE_PATH_MAX + 1], path[FMOVE_PATH_MAX + FM_HUB_DIR_MAX + 2];
	char quoted[FMOVE_TEXT_MAX * 4], how[FMOVE_TEXT_MAX];
	const char *dir = s->source.hub.dir;
	size_t len = strlen(why->text), room;

	if (s->own[0] || !fm_stage_source_is_own(&s->source, own, sizeof(own)))
		return;
	(void)snprintf(path, sizeof(path), "%s/%s", own, dir);	/* it fits */
	if (!put_line(how, fm_shell_quote(path, quoted, sizeof(quoted)), dir))
		(void)put_line(how, dir, dir);	/* in that cache */
	room = sizeof(why->text) - 1 - strlen(how);
	if (len > room)
		len = room;
	(void)snprintf(why->text + len, sizeof(why->text) - len, "%s", how);
}

static int fail(struct stage *s, struct fmove_error *why)
{
	char text[FM_ASK_NAME_TEXT_MAX];
	struct fm_json_writer w;
	int status;

	fm_stage_source_text(&s->source, text, sizeof(text));
	fm_stage_line_clear(&s->line);
	if (s->is_left && why->code == -ECANCELED && !fm_is_interrupted())
		return end_left(s, text);
	if (fm_is_interrupted() && !s->is_here)
		say_left(s, why);
	if (is_nowhere(why))
		add_own(s, why);
	status = fm_ask_fail("stage", text, why);
	if (!s->is_json)
		return status;
	json_begin(&w);
	fm_jw_name(&w, "source", text, strlen(text));
	if (s->job[0])
		fm_jw_text(&w, "job", s->job);
	fm_jw_u64(&w, "exit", (uint64_t)status);
	fm_ask_error_json(&w, why);
	json_end(&w);
	return fm_stdout_end("stage", status);
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
	case FMOVE_BY_SEAL:
		return "here, and its volume sealed since:";
	case FMOVE_BY_LISTING:
		break;
	}
	return "here and unchanged:";
}

/*
 * Whether --nodes includes this node, where COMMAND would run, links would be made, or whose copy
 * is compared. False: *status is the exit status.
 */
static bool is_here_wanted(const struct stage *s, struct fmove *c, const struct fm_args *args,
			   int *status)
{
	char node[FM_NAME_PART_MAX + 1];
	struct fmove_error why;
	const char *at = s->opts.nodes, *option = fm_stage_use_option(&s->use);

	if (s->opts.check == FMOVE_BY_CONTENT)	/* it is what the source is compared with */
		option = "check content";

	if ((!s->use.command && !option) || strcmp(at, "all") == 0)
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
	*status = s->use.command
			  ? fm_usage(args, "--nodes %s: %s is run on %s, which is not one of them",
				     s->opts.nodes, s->use.command[0], node)
			  : fm_usage(args, "--nodes %s: --%s is for the copy on %s, which is not "
					   "one of them",
				     s->opts.nodes, option, node);
	return false;
}

static int request(struct stage *s, struct fmove *c, struct fmove_dataset *d, bool *is_fetched,
		   struct fmove_error *why)
{
	struct fmove_name name = fm_name_parts(&s->source.name);

	return s->source.repository
		       ? fmove_stage_hub(c, s->source.hub.dir, s->source.hub.revision, &s->opts, d,
					 s->hf_home, is_fetched, why)
		       : fmove_stage(c, &name, &s->opts, d, is_fetched, why);
}

/*
 * What no node has comes from the caller's own hub cache, if that has it. It is read by this
 * process: not for other nodes, not when nobody waits for it, and compared by its names only.
 */
static int request_own(struct stage *s, struct fmove *c, struct fmove_dataset *d, bool *is_fetched,
		       struct fmove_error *why)
{
	const struct fmove_error nowhere = *why;
	char text[FMOVE_TEXT_MAX];
	int fd, ret;

	if (s->is_detached || s->opts.check != FMOVE_BY_LISTING ||
	    !fm_stage_source_is_own(&s->source, s->own, sizeof(s->own)))
		return nowhere.code;
	fd = open(s->own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return nowhere.code;
	ret = fmove_stage_own(c, fd, s->source.hub.dir, s->source.hub.revision, &s->opts, d,
			      s->hf_home, is_fetched, why);
	(void)close(fd);	/* only read */
	if (ret == 0 && nowhere.code != -ENOENT)
		fm_say("warning: %s", nowhere.text);
	if (ret == 0)
		return 0;
	(void)snprintf(text, sizeof(text), "%s", why->text);
	(void)snprintf(why->text, sizeof(why->text),
		       "no node that answers has it, and your own %.200s: %.*s", s->own,
		       (int)sizeof(why->text) / 2, text);
	return ret;
}

/* Stages on several nodes, and prints this node's path, which is what a program reads. */
static int stage_nodes(struct stage *s, struct fmove *c)
{
	char bytes[FM_SHOW_MAX];
	struct fmove_dataset d = {.struct_size = sizeof(d)};
	struct fmove_error why;
	bool is_fetched;
	int ret = request(s, c, &d, &is_fetched, &why), status;

	fmove_close(c);
	if (ret < 0)
		return fail(s, &why);
	fm_say("%u of %u nodes have it; %s read from the source", s->ready, s->ready + s->failed,
	       fm_show_bytes(s->read, bytes));
	if (s->failed > 0)
		fm_say("fmove logs %s, here and on each of them, tells how it went", d.job);
	if (s->source.repository && d.path[0])
		fm_say("HF_HOME=%s", s->hf_home);
	ret = finish(s, &d, &why);
	status = ret < 0 ? fm_ask_fail("stage", NULL, &why) : status_of(s);
	if (s->is_json) {
		json_nodes(s);
		fm_jw_array_end(&s->w);
		fm_jw_u64(&s->w, "source_bytes", s->read);
		fm_jw_text(&s->w, "job", d.job);
		fm_jw_name(&s->w, "path", s->use.path, ret < 0 ? 0 : strlen(s->use.path));
		if (s->use.has_warm)
			fm_jw_bool(&s->w, "warm", s->use.is_warm);
		if (d.is_same_disk)
			fm_jw_text(&s->w, "warning", same_disk);
		if (d.note[0])
			fm_jw_text(&s->w, "note", d.note);
		if (s->source.repository && d.path[0])
			fm_jw_name(&s->w, "hf_home", s->hf_home, strlen(s->hf_home));
		fm_jw_u64(&s->w, "exit", (uint64_t)status);
		if (ret < 0)
			fm_ask_error_json(&s->w, &why);
		json_end(&s->w);
	} else if (s->use.command && status == FM_EXIT_DONE) {
		return fm_stage_run(&s->use);
	} else if (s->use.command) {
		fm_say("stage: %s is not run%s", s->use.command[0],
		       ret < 0 ? "" : ", since not every node has it");
	} else if (s->use.path[0] && ret == 0) {
		fm_stdout_raw();
		(void)printf("%s\n", s->use.path);
	}
	return fm_stdout_end("stage", status);
}

static int stage(struct stage *s, struct fmove *c)
{
	char bytes[FM_SHOW_MAX];
	struct fmove_dataset d = {.struct_size = sizeof(d)};
	struct fmove_error why;
	bool is_fetched;
	int ret = request(s, c, &d, &is_fetched, &why);

	if (ret < 0 && s->source.repository && is_nowhere(&why) && !fm_is_interrupted())
		ret = request_own(s, c, &d, &is_fetched, &why);
	fmove_close(c);
	if (ret < 0)
		return fail(s, &why);
	fm_stage_line_clear(&s->line);
	fm_say("%s: %s, %s %.12s", d.source, fm_show_bytes(d.bytes, bytes),
	       freshness(&d, is_fetched), d.version);
	if (s->opts.name && strcmp(s->opts.name, d.name) != 0)
		fm_say("it is called %s here, as when it was staged first; not %s", d.name,
		       s->opts.name);
	if (s->own[0])
		fm_say("it is from your own %s, which no node shares: this copy is for you alone",
		       s->own);
	if (s->source.repository)
		fm_say("HF_HOME=%s", s->hf_home);
	if (finish(s, &d, &why) < 0)
		return fail(s, &why);
	if (s->use.command)
		return fm_stage_run(&s->use);
	if (s->is_json) {
		print_json(s, &d, is_fetched);
	} else {
		fm_stdout_raw();	/* a program reads it: DATA=$(fmove stage ...) */
		(void)printf("%s\n", s->use.path);
	}
	return fm_stdout_end("stage", FM_EXIT_DONE);
}

static int check_args(struct stage *s, struct fm_args *args)
{
	bool is_hub = fm_stage_is_repository(args->operands[0]);
	int check = s->check_text ? fm_word_parse(fm_words_check, s->check_text) : 0;

	if (check < 0)
		return fm_usage(args, "--check %s: not listing, none or content", s->check_text);
	s->opts.check = (enum fmove_freshness)check;
	if (s->opts.name && !s->opts.name[0])
		return fm_usage(args, "--as: an empty name: what is the dataset called?");
	if (s->opts.nodes && !s->opts.nodes[0])
		return fm_usage(args, "--nodes: an empty list: all, or names between commas");
	if (s->use.command && !s->use.command[0])
		return fm_usage(args, "no command behind --: name one, or leave -- out");
	if (s->pid_text && s->is_detached)
		return fm_usage(args, "--detach: nobody holds what comes later: use --pin");
	if (s->use.command && s->is_detached)
		return fm_usage(args, "--detach: a command behind -- needs what is waited for");
	if (fm_stage_use_option(&s->use) && s->is_detached)
		return fm_usage(args, "--detach: --%s needs what is waited for",
				fm_stage_use_option(&s->use));
	if (s->use.command && s->is_json)
		return fm_usage(args, "--json: standard output is the command's");
	if (is_hub && s->opts.check == FMOVE_UNASKED)
		return fm_usage(args, "--check none: only a node that has the hub can say which "
				      "commit it is: leave it out; what is staged is used with "
				      "HF_HOME=DIRECTORY/hf (staging.directory) and "
				      "HF_HUB_OFFLINE=1");
	return fm_stage_source_check(&s->source, args, s->opts.name);
}

/* Reads the arguments. False: the command ends with args->status. */
static bool take_args(struct stage *s, struct fm_args *args)
{
	int key;

	while ((key = fm_args_next(args)) > 0) {
		s->is_json |= key == OPT_JSON;
		s->opts.is_pinned |= key == OPT_PIN;
		s->opts.is_live |= key == OPT_LIVE;
		s->is_detached |= key == OPT_DETACH;
		s->use.has_warm |= key == OPT_WARM;
		if (key == OPT_AS)
			s->opts.name = args->value;
		if (key == OPT_CHECK)
			s->check_text = args->value;
		if (key == OPT_NODES)
			s->opts.nodes = args->value;
		if (key == OPT_LINK)
			s->use.link = args->value;
		if (key == OPT_PID)
			s->pid_text = args->value;
	}
	if (fm_args_end(args, 1, 1) < 0)
		return false;
	if (s->pid_text && fm_stage_holder_parse(s->pid_text, &s->opts.pid) < 0)
		args->status = fm_usage(args, "--hold-pid %s: not the number of a process",
					s->pid_text);
	else
		args->status = check_args(s, args);
	return args->status == FM_EXIT_DONE;
}

int fm_cmd_stage(int argc, char **argv)
{
	struct stage s = { .opts = { .struct_size = sizeof(s.opts) } };
	struct fm_args args;
	struct fm_err err;
	struct fmove *c;
	int status;

	argc = cut_command(argc, argv, &s.use.command);
	fm_args_begin(&args, "stage", argc, argv);
	if (!take_args(&s, &args))
		return args.status;
	if (s.opts.pid == 0 && !s.is_detached)
		s.opts.pid = s.use.command ? getpid() : fm_stage_holder();
	if (s.is_detached || isatty(STDERR_FILENO))
		s.opts.progress = progress;
	s.opts.accepted = accepted;
	s.opts.ctx = &s;
	if (fm_interrupt_start(&err) < 0)
		return fm_fail("stage", &err);
	if (s.use.link && fm_link_tree_check(s.use.link, &err) < 0)
		return fm_fail("stage", &err);
	s.opts.cancel_fd = fm_interrupt_fd();
	if (fm_ask_open("stage", false, &c, &status) < 0)
		return status;
	if (fm_stage_source_find(&s.source, c, args.operands[0], &status) < 0) {
		fmove_close(c);
		return status;
	}
	if (!s.opts.nodes)
		return stage(&s, c);
	if (!is_here_wanted(&s, c, &args, &status)) {
		fmove_close(c);
		return status;
	}
	s.opts.node = node;
	return stage_nodes(&s, c);
}
