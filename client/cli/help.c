/* SPDX-License-Identifier: MIT */
/*
 * help - what --help prints, made of the tables, 80 columns wide, to standard output. See cmd.h.
 */
#include "client/cli/cmd.h"

#include <stdio.h>
#include <string.h>

#include "client/cli/topics.h"

#define COLUMNS 80
#define OPTION_COLUMN 24	/* where the words about an option begin */

/*
 * Prints the words of text, wrapped, from column `at` on. Each further line begins at column
 * `indent`. Newlines in text are kept.
 */
static void wrap(const char *text, size_t at, size_t indent)
{
	while (*text) {
		size_t word = strcspn(text, " \n");

		if (at > indent && at + 1 + word > COLUMNS) {
			(void)putchar('\n');
			at = 0;
		}
		if (at < indent)
			(void)printf("%*s", (int)(indent - at), "");
		else if (at > indent)
			(void)putchar(' ');
		at = at < indent ? indent + word : at > indent ? at + 1 + word : at + word;
		(void)printf("%.*s", (int)word, text);
		text += word;
		if (*text == '\n') {
			(void)putchar('\n');
			at = 0;
		}
		if (*text)
			text++;
	}
	(void)putchar('\n');
}

static void help_option(const struct fm_opt *o)
{
	char head[80];
	int len;

	len = snprintf(head, sizeof(head), "  --%s%s%s", o->name, o->arg ? " " : "",
		       o->arg ? o->arg : "");
	if (o->letter)
		len += snprintf(head + len, sizeof(head) - (size_t)len, ", -%c", o->letter);
	(void)printf("%s", head);
	if (len >= OPTION_COLUMN - 1) {
		(void)putchar('\n');
		len = 0;
	}
	wrap(o->help, (size_t)len, OPTION_COLUMN);
}

/* Prints an option that all verbs have, without the letter that this one uses for another. */
static void help_global(const struct fm_cmd *cmd, const struct fm_opt *global)
{
	struct fm_opt shown = *global;

	for (const struct fm_opt *o = cmd->opts; o->name; o++)
		if (o->letter == global->letter)
			shown.letter = 0;
	help_option(&shown);
}

/* Prints the verbs of a group. "" is the group of all. */
static void help_commands(const char *group)
{
	for (const struct fm_cmd *c = fm_cmds; c->name; c++) {
		const char *word = fm_cmd_word(c, group);

		if (!word)
			continue;
		(void)printf("  %s", word);
		wrap(c->summary, 2 + strlen(word), OPTION_COLUMN - 8);
	}
}

void fm_help_cmd(const struct fm_cmd *cmd)
{
	char usage[256];

	(void)snprintf(usage, sizeof(usage), "Usage: fmove %s %s%s%s", cmd->name,
		       cmd->opts->name ? "[OPTION...]" : "",
		       cmd->opts->name && *cmd->args ? " " : "", cmd->args);
	wrap(usage, 0, 0);
	(void)putchar('\n');
	wrap(cmd->summary, 0, 0);
	if (cmd->text) {
		(void)putchar('\n');
		wrap(cmd->text, 0, 0);
	}
	if (!cmd->run) {
		(void)printf("\nCommands:\n");
		help_commands(cmd->name);
	}
	(void)printf("\nOptions:\n");
	for (const struct fm_opt *o = cmd->opts; o->name; o++)
		help_option(o);
	for (const struct fm_opt *o = fm_opts_global; o->name; o++)
		if (strcmp(o->name, "help") == 0 ||
		    (cmd->has_socket && strcmp(o->name, "socket") == 0))
			help_global(cmd, o);
}

void fm_help_text(const char *text)
{
	wrap(text, 0, 0);
}

static void help_topics(void)
{
	char names[256];
	size_t len = 0;

	for (const struct fm_topic *t = fm_topics; t->name; t++)
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s",
					len > 0 ? " " : "", t->name);
	(void)printf("\nTopics, for fmove help:\n  ");
	wrap(names, 2, 2);
}

void fm_help_all(void)
{
	(void)printf("Usage: fmove [--socket PATH] COMMAND ...\n\n");
	wrap("Moves files between the nodes of a cluster at the speed of its disks, verified end "
	     "to end, over RDMA or TCP.",
	     0, 0);
	(void)printf("\nCommands:\n");
	help_commands("");
	(void)printf("\nOptions:\n");
	for (const struct fm_opt *o = fm_opts_global; o->name; o++)
		help_option(o);
	help_topics();
	(void)printf("\nA remote name is NODE:STORE/PATH. Exit status:\n");
	(void)printf("  0 done  1 failed  2 usage  3 partly done  4 unreachable or timed out\n"
		     "  5 data corrupt  6 refused  130 cancelled\n");
	(void)printf("\nfmove COMMAND --help says more; so does fmove(1). fmove alone says what is "
		     "next.\n");
}
