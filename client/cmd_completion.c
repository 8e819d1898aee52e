/* SPDX-License-Identifier: MIT */
/*
 * cmd_completion - fmove completion bash: written from the table of verbs, so it knows what --help
 * knows.
 */
#include "client/cmd.h"

#include <stdio.h>
#include <string.h>

static void print_options(const struct fm_cmd *c)
{
	for (const struct fm_opt *o = c->opts; o->name; o++)
		(void)printf(" --%s", o->name);	/* fm_stdout_end() looks for errors */
	(void)printf(" --help%s", c->has_socket ? " --socket" : "");
}

/* What can follow an option that takes a value. */
static void print_values(const struct fm_cmd *c)
{
	for (const struct fm_opt *o = c->opts; o->name; o++) {
		if (!o->arg)
			continue;
		if (o->values && strcmp(o->values, "FILE") == 0)
			(void)printf("\t%s/--%s) compopt -o filenames; COMPREPLY=($(compgen -f -- "
				     "\"$word\")); return ;;\n",
				     c->name, o->name);
		else
			(void)printf("\t%s/--%s) COMPREPLY=($(compgen -W \"%s\" -- \"$word\")); "
				     "return ;;\n",
				     c->name, o->name, o->values ? o->values : "");
	}
}

static void print_bash(void)
{
	(void)printf("# Completion of fmove for bash; made by: fmove completion bash\n"
		     "_fmove()\n{\n"
		     "\tlocal word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} "
		     "verb= i options\n"
		     "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
		     "\t\tcase ${COMP_WORDS[i]} in\n"
		     "\t\t--socket) ((i++)) ;;\n"
		     "\t\t-*) ;;\n"
		     "\t\t*) verb=${COMP_WORDS[i]}; break ;;\n"
		     "\t\tesac\n\tdone\n"
		     "\tCOMPREPLY=()\n"
		     "\tcase $verb/$before in\n"
		     "\t*/--socket) compopt -o filenames; COMPREPLY=($(compgen -f -- \"$word\")); "
		     "return ;;\n");
	for (const struct fm_cmd *c = fm_cmds; c->name; c++)
		print_values(c);
	(void)printf("\tesac\n\tcase $verb in\n\t'') options=\"--help --version --socket");
	for (const struct fm_cmd *c = fm_cmds; c->name; c++)
		(void)printf(" %s", c->name);
	(void)printf("\" ;;\n");
	for (const struct fm_cmd *c = fm_cmds; c->name; c++) {
		(void)printf("\t%s) options=\"", c->name);
		print_options(c);
		(void)printf("\" ;;\n");
	}
	(void)printf("\t*) return ;;\n\tesac\n"
		     "\tif [[ -z $verb || $word == -* ]]; then\n"
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
	print_bash();
	return fm_stdout_end("completion", FM_EXIT_DONE);
}
