/* SPDX-License-Identifier: MIT */
/* system - see system.h. */
#include "client/cli/system.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "client/cli/interrupt.h"
#include "client/cli/setup.h"
#include "client/cli/show.h"
#include "config/preflight.h"
#include "mover/base/err.h"
#include "mover/base/json.h"
#include "mover/transport/listen.h"

#define UNIT "fmoved"

/* ---- what will be done ---- */

static void plan_path(FILE *to, const char *path)
{
	const bool is_there = access(path, F_OK) == 0;
	char shown[4 * PATH_MAX];

	(void)fprintf(to, is_there ? "  %s is there, and stays as it is\n" : "  make %s\n",
		      fm_show(path, strlen(path), shown, sizeof(shown)));
}

static void plan_user(FILE *to)
{
	if (getpwnam(FM_SERVICE_USER))
		(void)fprintf(to, "  the user " FM_SERVICE_USER " is there\n");
	else
		(void)fprintf(to, "  make the user and group " FM_SERVICE_USER ": %s\n",
			      fm_preflight_make_user());
}

static void plan_service(FILE *to)
{
	(void)fprintf(to, "  locked memory: LimitMEMLOCK=infinity is in " UNIT ".service\n");
	if (fm_preflight_is_booted())
		(void)fprintf(to, "  systemctl daemon-reload; systemctl enable --now " UNIT "\n");
	else
		(void)fprintf(to, "  systemctl enable " UNIT
				  " (systemd does not run here: started at the next boot)\n");
}

/* Who is configured already joins one more node, and nothing else is written. */
static void plan_files(const struct fm_setup *setup, const char *dir, FILE *to)
{
	char file[PATH_MAX], shown[4 * PATH_MAX];

	(void)snprintf(file, sizeof(file), "%s/" FM_CONFIG_FILE, dir);	/* cut: is not there */
	if (strcmp(setup->verb, "join") == 0 && access(file, F_OK) == 0) {
		plan_path(to, file);
		(void)fprintf(to, "  write the other node's entry in %s/" FM_CONFIG_PEERS_DIR "\n",
			      fm_show(dir, strlen(dir), shown, sizeof(shown)));
		return;
	}
	(void)fm_show(dir, strlen(dir), shown, sizeof(shown));
	(void)fprintf(to, "  write %s/" FM_CONFIG_FILE ", %s/node.key, %s/" FM_CONFIG_PEERS_DIR
			  " and %s/" FM_CONFIG_INVITES_DIR "\n",
		      shown, shown, shown, shown);
	for (unsigned i = 0; i < fm_setup_stores(setup); i++)
		plan_path(to, strchr(fm_setup_store(setup, i), '=') + 1);
}

void fm_system_plan(const struct fm_setup *setup, FILE *to)
{
	const char *dir = setup->dir ? setup->dir : FM_CONFIG_DIR;

	(void)fprintf(to, "fmove %s%s does this:\n", setup->verb,
		      setup->is_system ? " --system" : "");
	if (setup->is_system)
		plan_user(to);
	plan_files(setup, dir, to);
	if (setup->is_system)
		plan_service(to);
}

static void print_json(char *lines)
{
	struct fm_json_writer w;
	const char *line;

	fm_jw_stream(&w, stdout);	/* fm_stdout_end() looks for errors */
	fm_jw_object(&w, NULL);
	fm_jw_bool(&w, "dry_run", true);
	fm_jw_array(&w, "plan");
	while ((line = strsep(&lines, "\n")) != NULL)
		if (*line == ' ')	/* a step, not what stands above them */
			fm_jw_text(&w, NULL, line + strspn(line, " "));
	fm_jw_array_end(&w);
	fm_jw_u64(&w, "exit", FM_EXIT_DONE);
	fm_jw_object_end(&w);
	(void)printf("\n");
}

int fm_system_print_plan(const struct fm_setup *setup, struct fm_err *err)
{
	char *lines = NULL;
	size_t len;
	FILE *to;

	if (!setup->is_json) {
		fm_system_plan(setup, stdout);
		return 0;
	}
	to = open_memstream(&lines, &len);
	if (to)
		fm_system_plan(setup, to);
	if (!to || fclose(to) != 0) {
		free(lines);
		return fm_err_set(err, -ENOMEM, "out of memory");
	}
	print_json(lines);
	free(lines);
	return 0;
}

/* ---- doing it ---- */

int fm_system_run(const char *line, struct fm_err *err)
{
	char shell[] = "/bin/sh", option[] = "-c", talk[] = "exec >&2; eval \"$1\"", name[] = "sh";
	char *text = strdup(line);
	char *argv[] = { shell, option, talk, name, text, NULL };
	int status = 0, ret;
	pid_t pid;

	if (!text)
		return fm_err_set(err, -ENOMEM, "out of memory");
	fm_pipe_signal_restore();
	ret = posix_spawn(&pid, shell, NULL, NULL, argv, environ);
	fm_pipe_signal_ignore();
	free(text);
	if (ret != 0)
		return fm_err_sys(err, -ret, "%s", line);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return fm_err_sys(err, -errno, "%s", line);
	if (status != 0)
		return fm_err_set(err, -EIO, "%s: it failed (status %d)", line,
				  WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
	return 0;
}

/* What a signal ended, as Ctrl-C ends all that the terminal runs, did not fail. */
static int run_step(const char *line, struct fm_err *err)
{
	int ret = fm_system_run(line, err);

	return ret < 0 && fm_is_interrupted() ? fm_interrupt_check(err) : ret;
}

int fm_system_begin(struct fm_system *sys, struct fm_err *err)
{
	int ret;

	if (geteuid() != 0)
		return fm_err_set(err, -EPERM, "--system takes root: sudo fmove ...");
	if (!fm_preflight_has_unit())
		return fm_err_set(err, -ENOENT,
				  "--system: " UNIT ".service is not where systemd looks: make "
				  "install (PREFIX=/usr/local)");
	if (getpwnam(FM_SERVICE_USER))
		return 0;
	ret = run_step(fm_preflight_make_user(), err);
	sys->has_made_user = getpwnam(FM_SERVICE_USER) != NULL;	/* it may fail behind that */
	if (ret == 0 && !sys->has_made_user)
		return fm_err_set(err, -ENOENT, "%s: it made no user " FM_SERVICE_USER,
				  fm_preflight_make_user());
	return ret;
}

/* Why the service did not start, if its port is the reason. */
static int port_taken(const char *listen, struct fm_err *err)
{
	struct fm_listener *listener;
	int ret = fm_listener_new(NULL, listen, &listener, err);

	if (ret == 0)
		fm_listener_free(listener);
	return ret == -EADDRINUSE ? ret : 0;
}

int fm_system_start(struct fm_system *sys, const char *listen, struct fm_err *err)
{
	struct fm_err port = { 0 };
	int ret;

	sys->has_enabled = true;
	if (!fm_preflight_is_booted())
		return run_step("SYSTEMD_OFFLINE=1 systemctl --quiet enable " UNIT, err);
	ret = run_step("systemctl daemon-reload && systemctl --quiet enable --now " UNIT, err);
	if (ret == 0 || ret == -ECANCELED)
		return ret;
	if (port_taken(listen, &port) < 0) {
		*err = port;
		return fm_err_wrap(err, UNIT " did not start");
	}
	fm_err_wrap(err, "see journalctl -u " UNIT);
	return ret;
}

void fm_system_undo(const struct fm_system *sys)
{
	struct fm_err err = { 0 };

	if (sys->has_enabled && fm_preflight_is_booted())
		/* as far as it goes */
		(void)fm_system_run("systemctl --quiet disable --now " UNIT, &err);
	else if (sys->has_enabled)
		(void)fm_system_run("SYSTEMD_OFFLINE=1 systemctl --quiet disable " UNIT, &err);
	if (sys->has_made_user && fm_system_run("userdel " FM_SERVICE_USER, &err) < 0)
		fm_say("the user " FM_SERVICE_USER " was made, and stays: %s", err.text);
}
