/* SPDX-License-Identifier: MIT */
/*
 * args - options and operands of one verb, by the rows of its table. See cmd.h.
 *
 * Options may stand anywhere before "--": "--name VALUE", "--name=VALUE", "-n VALUE", "-nVALUE",
 * flags together "-rf". A lone "-" is an operand. "-h" is help where the verb has no such row.
 */
#include "client/cli/cmd.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What every verb understands beside its own rows. Negative, so that no row can have it. */
#define KEY_HELP (-2)
#define KEY_SOCKET (-3)

static const struct fm_opt opt_help = { "help", 'h', KEY_HELP, NULL, NULL, NULL };
static const struct fm_opt opt_socket = { "socket", 0, KEY_SOCKET, "PATH", NULL, NULL };

void fm_args_begin(struct fm_args *args, const char *verb, int argc, char **argv)
{
	*args = (struct fm_args){
		.cmd = fm_cmd_find(verb), .argv = argv, .argc = argc, .at = 1, .operands = argv
	};
	assert(args->cmd);
}

static int args_stop(struct fm_args *args, int status)
{
	args->is_stopped = true;
	args->status = status;
	return -1;
}

int fm_usage(const struct fm_args *args, const char *fmt, ...)
{
	char text[512];
	va_list list;

	va_start(list, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, list);	/* cut if it is too long */
	va_end(list);
	fm_say("%s: %s (fmove %s --help)", args->cmd->name, text, args->cmd->name);
	return FM_EXIT_USAGE;
}

static int unknown_option(struct fm_args *args, const char *name)
{
	const char *names[FM_OPTS_MAX + 3];
	const char *nearest;
	size_t n = 0;

	for (const struct fm_opt *o = args->cmd->opts; o->name && n < FM_OPTS_MAX; o++)
		names[n++] = o->name;
	names[n++] = opt_help.name;
	if (args->cmd->has_socket)
		names[n++] = opt_socket.name;
	names[n] = NULL;
	nearest = fm_nearest(name, names);
	if (nearest)
		return args_stop(args, fm_usage(args, "unknown option --%s, did you mean --%s?",
						name, nearest));
	return args_stop(args, fm_usage(args, "unknown option --%s", name));
}

static const struct fm_opt *opt_by_name(const struct fm_args *args, const char *name, size_t len)
{
	for (const struct fm_opt *o = args->cmd->opts; o->name; o++)
		if (strlen(o->name) == len && strncmp(o->name, name, len) == 0)
			return o;
	if (len == strlen(opt_help.name) && strncmp(name, opt_help.name, len) == 0)
		return &opt_help;
	if (args->cmd->has_socket && len == strlen(opt_socket.name) &&
	    strncmp(name, opt_socket.name, len) == 0)
		return &opt_socket;
	return NULL;
}

static const struct fm_opt *opt_by_letter(const struct fm_args *args, char letter)
{
	for (const struct fm_opt *o = args->cmd->opts; o->name; o++)
		if (o->letter == letter)
			return o;
	return letter == opt_help.letter ? &opt_help : NULL;
}

/* Takes an option that was found, with its value from args->value if it has one. */
static int option_found(struct fm_args *args, const struct fm_opt *o)
{
	if (o->key == KEY_HELP) {
		fm_help_cmd(args->cmd);
		return args_stop(args, fm_stdout_end(args->cmd->name, FM_EXIT_DONE));
	}
	if (o->key == KEY_SOCKET) {
		fm_socket_set(args->value);
		return 0;
	}
	return o->key;
}

static int long_option(struct fm_args *args, const char *text)
{
	const char *equals = strchr(text, '=');
	size_t len = equals ? (size_t)(equals - text) : strlen(text);
	const struct fm_opt *o = opt_by_name(args, text, len);

	if (!o) {
		char name[64];

		/* cut if it is too long */
		(void)snprintf(name, sizeof(name), "%.*s", (int)len, text);
		return unknown_option(args, name);
	}
	if (!o->arg && equals)
		return args_stop(args, fm_usage(args, "--%s takes no value", o->name));
	args->value = equals ? equals + 1 : NULL;
	if (o->arg && !equals) {
		if (args->at == args->argc)
			return args_stop(args,
					 fm_usage(args, "--%s needs a value: %s", o->name, o->arg));
		args->value = args->argv[args->at++];
	}
	return option_found(args, o);
}

/*
 * Takes the first letter of args->letters as an option. The -h of "-rh" was meant as another tool's
 * option: whoever wants help writes it alone, and a script is not told that all is done.
 */
static int letter_option(struct fm_args *args)
{
	bool is_alone = args->letters[-1] == '-' && args->letters[1] == '\0';
	char letter = *args->letters++;
	const struct fm_opt *o = opt_by_letter(args, letter);

	if (!o || (o == &opt_help && !is_alone))
		return args_stop(args, fm_usage(args, "unknown option -%c", letter));
	if (o->arg) {
		args->value = args->letters;
		args->letters = "";
		if (!*args->value && args->at == args->argc)
			return args_stop(args,
					 fm_usage(args, "-%c needs a value: %s", letter, o->arg));
		if (!*args->value)
			args->value = args->argv[args->at++];
	}
	return option_found(args, o);
}

int fm_args_next(struct fm_args *args)
{
	int key = 0;

	while (key == 0 && !args->is_stopped) {
		char *text;

		if (args->letters && *args->letters) {
			key = letter_option(args);
			continue;
		}
		if (args->at == args->argc)
			return 0;
		text = args->argv[args->at++];
		if (args->is_operands_only || text[0] != '-' || text[1] == '\0')
			/* never before what is still to be read */
			args->operands[args->count++] = text;
		else if (strcmp(text, "--") == 0)
			args->is_operands_only = true;
		else if (text[1] == '-')
			key = long_option(args, text + 2);
		else
			args->letters = text + 1;
	}
	return args->is_stopped ? -1 : key;
}

int fm_args_end(struct fm_args *args, int min, int max)
{
	const char *gap = args->cmd->args[0] ? " " : "";

	if (args->is_stopped)
		return -1;
	if (args->count < min)
		return args_stop(args, fm_usage(args, "too few arguments: fmove %s%s%s",
						args->cmd->name, gap, args->cmd->args));
	if (max >= 0 && args->count > max)
		return args_stop(
			args, fm_usage(args, "too many arguments, from \"%s\" on: fmove %s%s%s",
				       args->operands[max], args->cmd->name, gap, args->cmd->args));
	return 0;
}
