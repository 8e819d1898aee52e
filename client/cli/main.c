/* SPDX-License-Identifier: MIT */
/*
 * main - fmove and fmove-full: find the verb, let it do the rest.
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "client/cli/full.h"
#include "client/cli/interrupt.h"
#include "mover/base/fault.h"

/* Options before the verb. The index of the verb, or -1 and *status. */
static int global_options(int argc, char **argv, int *status)
{
	int at = 1;

	*status = FM_EXIT_DONE;
	for (; at < argc && argv[at][0] == '-'; at++) {
		if (strcmp(argv[at], "--help") == 0 || strcmp(argv[at], "-h") == 0) {
			fm_help_all();
			return -1;
		}
		if (strcmp(argv[at], "--version") == 0 || strcmp(argv[at], "-V") == 0) {
			(void)printf("fmove %s\n", FM_VERSION);
			return -1;
		}
		if (strcmp(argv[at], "--socket") == 0 && at + 1 < argc) {
			fm_socket_set(argv[++at]);
		} else if (strncmp(argv[at], "--socket=", 9) == 0) {
			fm_socket_set(argv[at] + 9);
		} else {
			if (strcmp(argv[at], "--socket") == 0)
				fm_say("--socket needs a value: PATH");
			else
				fm_say("unknown option %s (fmove --help)", argv[at]);
			*status = FM_EXIT_USAGE;
			return -1;
		}
	}
	return at;
}

/*
 * Opens missing standard descriptors. Otherwise a file opened later would get such a number, and
 * what is printed would go into it.
 */
static void standard_fds(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			/*
			 * Takes the lowest number. Whoever uses it gets an error, as it should be.
			 */
			(void)!open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/* Whether --json is among our arguments. Those behind "--" belong to a program that is run. */
static bool wants_json(int argc, char **argv)
{
	for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--json") == 0)
			return true;
	return false;
}

static int run(int argc, char **argv)
{
	int status, at = global_options(argc, argv, &status);

	if (at < 0)
		return fm_stdout_end("help", status);
	if (at == argc)
		return fm_cmd_alone.run(0, argv + at);
	return fm_dispatch("", argc - at, argv + at);
}

int main(int argc, char **argv)
{
	bool is_json = wants_json(argc, argv);	/* before a verb sorts its operands out */
	int status;

	standard_fds();
	status = fm_full_begin(argv);
	if (status != FM_EXIT_DONE)
		return is_json ? fm_stdout_error(status) : status;
	fm_fault_arm_from_env();
	fm_stdout_begin();
	fm_pipe_signal_ignore();
	if (is_json)
		fm_stdout_json();
	status = run(argc, argv);
	return is_json ? fm_stdout_error(status) : status;
}
