/* SPDX-License-Identifier: MIT */
/*
 * cmd_completion - fmove completion bash: written from the table of verbs, so it knows what --help
 * knows.
 */
#include "client/cli/cmd.h"

#include <stdio.h>
#include <string.h>

static void print_options(const struct fm_cmd *c)
{
	for (const struct fm_opt *o = c->opts; o->name; o++)
		(void)printf(" --%s", o->name);	/* fm_stdout_end() looks for errors */
	(void)printf(" --help%s", c->has_socket ? " --socket" : "");
}

/* The words of a group, "" being the whole. */
static void print_words(const char *group)
{
	for (const struct fm_cmd *c = fm_cmds; c->name; c++)
		if (fm_cmd_word(c, group))
			(void)printf(" %s", fm_cmd_word(c, group));
}

/* What can follow an option that takes a value. */
static void print_values(const struct fm_cmd *c)
{
	for (const struct fm_opt *o = c->opts; o->name; o++) {
		if (!o->arg)
			continue;
		if (o->values && strcmp(o->values, "FILE") == 0)
			(void)printf(
				"\t\"%s\"/--%s) compopt -o filenames; COMPREPLY=($(compgen -f -- "
				"\"$word\")); return ;;\n",
				c->name, o->name);
		else
			(void)printf(
				"\t\"%s\"/--%s) COMPREPLY=($(compgen -W \"%s\" -- \"$word\")); "
				"return ;;\n",
				c->name, o->name, o->values ? o->values : "");
	}
}

/* As a pattern of case: a word of these is followed by another that belongs to the verb. */
static void print_groups(void)
{
	const char *gap = " ";

	for (const struct fm_cmd *c = fm_cmds; c->name; c++) {
		if (c->run)
			continue;
		(void)printf("%s%s", gap, c->name);
		gap = " | ";
	}
}

/* Which verb it is, into $verb, and what it has, into $options. */
static void print_verb(void)
{
	(void)printf("# Completion of fmove for bash; made by: fmove completion bash\n"
		     "_fmove()\n{\n"
		     "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} "
		     "verb= i options\n"
		     "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
		     "\t\tcase ${COMP_WORDS[i]} in\n"
		     "\t\t--socket) ((i++)) ;;\n"
		     "\t\t-*) ;;\n"
		     "\t\t*) verb+=${verb:+ }${COMP_WORDS[i]}\n"
		     "\t\t\tcase $verb in");
	print_groups();
	(void)printf(") ;; *) break ;; esac ;;\n"
		     "\t\tesac\n\tdone\n"
		     "\tCOMPREPLY=()\n"
		     "\tcase $verb/$before in\n"
		     "\t*/--socket) compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\")); "
		     "return ;;\n");
	for (const struct fm_cmd *c = fm_cmds; c->name; c++)
		print_values(c);
	(void)printf("\tesac\n\tcase $verb in\n\t'') options=\"--help --version --socket");
	print_words("");
	(void)printf("\" ;;\n");
	for (const struct fm_cmd *c = fm_cmds; c->name; c++) {
		(void)printf("\t\"%s\") options=\"", c->name);
		print_options(c);
		if (!c->run)
			print_words(c->name);
		(void)printf("\" ;;\n");
	}
	(void)printf("\t*) return ;;\n\tesac\n");
}

/* What the last word may be: of a verb that is known by now. */
static void print_last_word(void)
{
	(void)printf("\tcase $verb in\n"
		     "\twait | cancel | resume)\n"
		     "\t\t[[ $word == -* ]] || options=$(fmove jobs --quiet 2>/dev/null)\n"
		     "\t\tCOMPREPLY=($(compgen -W \"$options\" -- \"$word\")); return ;;\n"
		     "\tnvme\\ up | nvme\\ connect | nvme\\ down | nvme\\ disconnect | nvme\\ seal "
		     "| nvme\\ unseal | nvme\\ status)\n"
		     "\t\t[[ $word == -* ]] || options=$(fmove nvme list --quiet 2>/dev/null)\n"
		     "\t\tCOMPREPLY=($(compgen -W \"$options\" -- \"$word\")); return ;;\n"
		     "\tpin | unpin | unstage | datasets)\n"
		     "\t\t[[ $verb != datasets || $before == check || $word == -* ]] || "
		     "options=check\n"
		     "\t\t[[ $word == -* || $options == check ]] || {\n"
		     /* never as words that bash expands: a name is what somebody else chose */
		     "\t\t\twhile IFS= read -r before; do\n"
		     "\t\t\t\t[[ $before == \"$word\"* ]] && COMPREPLY+=(\"$(printf %%q "
		     "\"$before\")\")\n"
		     "\t\t\tdone < <(fmove datasets --quiet 2>/dev/null); return\n"
		     "\t\t}\n"
		     "\t\tCOMPREPLY=($(compgen -W \"$options\" -- \"$word\")); return ;;\n"
		     "\tbench)\n"
		     "\t\t[[ $word == -* ]] || options='rdma tcp disk nvme-tcp put all compare'\n"
		     "\t\tcompopt -o default; COMPREPLY=($(compgen -W \"$options\" -- \"$word\")); "
		     "return ;;\n"
		     "\t'' |");
	print_groups();
	(void)printf(") COMPREPLY=($(compgen -W \"$options\" -- \"$word\")); return ;;\n"
		     "\tesac\n"
		     "\tif [[ $word == -* ]]; then\n"
		     "\t\tCOMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
		     "\telse\n"
		     "\t\tcompopt -o filenames\n"
		     "\t\tCOMPREPLY=($(compgen -f -- \"$word\"))\n"
		     "\tfi\n}\n"
		     "complete -F _fmove fmove\n");
}

int fm_cmd_completion(int argc, char **argv)
{
	struct fm_args args;

	fm_args_begin(&args, "completion", argc, argv);
	while (fm_args_next(&args) > 0)
		;
	if (fm_args_end(&args, 1, 1) < 0)
		return args.status;
	if (strcmp(args.operands[0], "bash") != 0)
		return fm_usage(&args, "%s: there is one for bash only", args.operands[0]);
	print_verb();
	print_last_word();
	return fm_stdout_end("completion", FM_EXIT_DONE);
}
