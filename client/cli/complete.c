/* SPDX-License-Identifier: MIT */
/* complete - see complete.h. Whatever cannot be asked for is no candidate: nothing is said. */
#include "client/cli/complete.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/cmd.h"
#include "client/cli/interrupt.h"
#include "client/cli/name.h"
#include "client/cli/topics.h"
#include "client/lib/fmove.h"
#include "mover/base/err.h"
#include "mover/base/plain.h"

#define ASK_MS 3000		/* for who presses TAB and waits */
#define NAMES_MAX 1000		/* of one directory */

/* ---- printing; fm_stdout_end() looks for errors ---- */

/*
 * Prints a candidate, unless it holds what a line cannot, or what a terminal obeys: that is typed
 * by hand.
 */
static void candidate(const char *before, const char *name, const char *behind)
{
	size_t len = strlen(name), at = 0, step;

	while (at < len && (step = fm_plain_len(name + at, len - at)) > 0)
		at += step;
	if (at == len)
		(void)printf("%s%s%s\n", before, name, behind);
}

static void words(const char *list)
{
	for (; *list; list += strspn(list, " ")) {
		size_t len = strcspn(list, " ");

		(void)printf("%.*s\n", (int)len, list);
		list += len;
	}
}

static void files(void)
{
	(void)printf("%s\n", FM_COMPLETE_FILES);
}

/* Completes with what that command prints. */
static void output_of(const char *verb)
{
	char name[] = "", quiet[] = "--quiet";
	char *argv[] = { name, quiet, NULL };

	(void)fm_cmd_find(verb)->run(2, argv);	/* none is no candidate */
}

/* ---- remote names ---- */

static bool print_node(void *ctx, const struct fmove_peer *node)
{
	const char *const *behind = ctx;

	candidate("", node->name, *behind);
	return true;
}

static void nodes(struct fmove *c, const char *behind)
{
	(void)fmove_nodes(c, print_node, &behind, NULL);	/* one is none */
}

struct listing {
	char before[FMOVE_PATH_MAX + 2 * FM_NAME_PART_MAX + 4];	/* "NODE:STORE/DIR/" */
	const char *prefix;	/* of the names in it */
	unsigned count;
};

static bool print_store(void *ctx, const struct fmove_space *space)
{
	struct listing *l = ctx;

	candidate(l->before, space->store, "/");
	return true;
}

static bool print_entry(void *ctx, const struct fmove_entry *e)
{
	struct listing *l = ctx;
	int order = strncmp(e->name, l->prefix, strlen(l->prefix));

	if (order == 0) {
		candidate(l->before, e->name, e->type == FMOVE_DIRECTORY ? "/" : "");
		l->count++;
	}
	return order <= 0 && l->count < NAMES_MAX;
}

/*
 * Makes a name to list from: in the order of bytes, it is before every name that begins with the
 * prefix.
 */
static void before_prefix(const char *prefix, char out[static FMOVE_NAME_MAX + 2])
{
	size_t len = strlen(prefix);

	out[0] = '\0';
	if (len == 0 || len > FMOVE_NAME_MAX || (unsigned char)prefix[len - 1] <= ' ')
		return;
	memcpy(out, prefix, len);
	out[len - 1]--;
	memcpy(out + len, "\xff", 2);
}

static void entries(struct fmove *c, const char *word)
{
	const char *slash = strrchr(word, '/');
	char after[FMOVE_NAME_MAX + 2];
	struct listing l = { .prefix = slash + 1 };
	struct fmove_name parts;
	struct fm_name name;

	if ((size_t)(slash - word) + 2 > sizeof(l.before))
		return;
	(void)snprintf(l.before, sizeof(l.before), "%.*s", (int)(slash + 1 - word), word);
	if (fm_name_parse(l.before, &name, NULL) < 0)
		return;
	parts = fm_name_parts(&name);
	before_prefix(l.prefix, after);
	(void)fmove_list(c, &parts, after, print_entry, &l, NULL);	/* one is none */
}

static void stores(struct fmove *c, const char *word)
{
	const char *colon = strchr(word, ':');
	char node[FM_NAME_PART_MAX + 1];
	const struct fmove_name parts = { node, "", "" };
	struct listing l = { .prefix = "" };

	if ((size_t)(colon - word) > FM_NAME_PART_MAX)
		return;
	(void)snprintf(node, sizeof(node), "%.*s", (int)(colon - word), word);
	(void)snprintf(l.before, sizeof(l.before), "%s:", node);
	(void)fmove_space(c, &parts, print_store, &l, NULL);	/* one is none */
}

/* Completes a name at another node. behind: what to add behind the name of a node. */
static void remote(const char *word, const char *behind)
{
	struct fmove *c;

	if (fmove_connect(fm_socket_path(), &c, NULL) < 0)
		return;
	fmove_set_timeout(c, ASK_MS);
	fmove_set_cancel(c, fm_interrupt_fd());
	if (!strchr(word, ':'))
		nodes(c, behind);
	else if (strchr(strchr(word, ':'), '/'))
		entries(c, word);
	else
		stores(c, word);
	fmove_close(c);
}

/* ---- a command line ---- */

struct line {
	const struct fm_cmd *cmd;	/* NULL: not known yet */
	const char *group;		/* "": the whole */
	const struct fm_opt *pending;	/* an option whose value comes next */
	const char *operand;		/* the last one, or "" */
	bool is_operands_only;
};

static const struct fm_opt socket_option = { "socket", 0, 1, "PATH", NULL, "FILE" };

static const struct fm_opt *find_option(const struct fm_cmd *cmd, const char *word)
{
	if (strcmp(word, "--socket") == 0)
		return &socket_option;
	for (const struct fm_opt *o = cmd ? cmd->opts : fm_opts_global; o->name; o++)
		if (word[1] == '-' ? strcmp(word + 2, o->name) == 0
				   : o->letter && word[1] == o->letter && !word[2])
			return o;
	return NULL;
}

static void take_verb(struct line *l, const char *word)
{
	for (const struct fm_cmd *c = fm_cmds; c->name; c++) {
		const char *own = fm_cmd_word(c, l->group);

		if (!own || strcmp(own, word) != 0)
			continue;
		if (c->run)
			l->cmd = c;
		else
			l->group = c->name;
		return;
	}
}

static void take(struct line *l, const char *word)
{
	const struct fm_opt *option = NULL;

	if (l->pending) {
		if (l->pending == &socket_option)
			fm_socket_set(word);
		l->pending = NULL;
	} else if (strcmp(word, "--") == 0) {
		l->is_operands_only = true;
	} else if (word[0] == '-' && word[1] && !l->is_operands_only) {
		option = find_option(l->cmd, word);
		l->pending = option && option->arg ? option : NULL;
	} else if (!l->cmd) {
		take_verb(l, word);
	} else {
		l->operand = word;
	}
}

static void options(const struct line *l)
{
	bool is_whole = !l->cmd && !l->group[0];
	const struct fm_opt *o = is_whole ? fm_opts_global : fm_opts_none;

	for (o = l->cmd ? l->cmd->opts : o; o->name; o++)
		(void)printf("--%s\n", o->name);
	if (!is_whole)
		(void)printf("--help\n");
	if (l->cmd && l->cmd->has_socket)
		(void)printf("--socket\n");
}

static void verbs(const char *group)
{
	for (const struct fm_cmd *c = fm_cmds; c->name; c++)
		if (fm_cmd_word(c, group))
			(void)printf("%s\n", fm_cmd_word(c, group));
}

static void helped(void)
{
	verbs("");
	for (const struct fm_topic *t = fm_topics; t->name; t++)
		(void)printf("%s\n", t->name);
}

static void value(const struct fm_opt *option)
{
	if (option->values && strcmp(option->values, "FILE") == 0)
		files();
	else if (option->values)
		words(option->values);
	else if (strcmp(option->arg, "NODE") == 0)
		remote("", "");
}

/* Completes an operand, by what the verb's usage calls it. */
static void operands(const struct line *l, const char *word)
{
	const char *args = l->cmd->args;
	bool is_remote = strstr(args, "NODE:STORE") || strstr(args, "[NODE");

	if (strstr(args, "JOB"))
		output_of("jobs");
	else if (strstr(args, "VOLUME"))
		output_of("nvme list");
	else if (strcmp(l->cmd->name, "help") == 0)
		helped();
	else if (strstr(args, "NAME | check NAME") && !l->operand[0]) {
		words("check");
		output_of("datasets");
	} else if (strstr(args, "NAME") && !is_remote)
		output_of("datasets");
	else if (strncmp(args, "[rdma|", 6) == 0)
		words("rdma tcp disk nvme-tcp put all compare");
	else if (strncmp(args, "check [FILE]", 12) == 0)
		words("check options example");
	else if (strncmp(args, "bash|", 5) == 0)
		words("bash zsh fish");
	else if (strcmp(args, "NODE") == 0)
		remote("", "");
	if (is_remote)
		remote(word, ":");
	if (strstr(args, "SRC") || strstr(args, "DST") || strstr(args, "DIR") ||
	    strstr(args, "FILE") || strstr(args, "/PATH |"))
		files();
}

void fm_complete(int count, char **argv)
{
	struct line l = { .group = "", .operand = "" };
	const char *word = count > 0 ? argv[count - 1] : "";
	struct fm_err err;

	/* a daemon that is silent knows no limit that it is told */
	if (fm_interrupt_start(&err) == 0)
		fm_interrupt_after(ASK_MS);
	for (int i = 0; i + 1 < count; i++)
		take(&l, argv[i]);
	if (l.pending)
		value(l.pending);
	else if (word[0] == '-' && !l.is_operands_only)
		options(&l);
	else if (!l.cmd)
		verbs(l.group);
	else
		operands(&l, word);
}
