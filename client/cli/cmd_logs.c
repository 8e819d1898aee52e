/* SPDX-License-Identifier: MIT */
/*
 * cmd_logs - fmove logs: what this node's journal has of a job, by the field that the daemons give
 * its lines (base/log.h).
 *
 * Anybody may write such a field. So each line names the unit, or else the program, that the
 * journal itself saw it come from.
 */
#include "client/cli/cmd.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/cli/ask.h"
#include "client/cli/interrupt.h"
#include "client/cli/rows.h"
#include "client/cli/system_log.h"
#include "mover/base/err.h"
#include "mover/base/json.h"
#include "mover/base/plain.h"

enum { OPT_JSON = FM_ASK_JSON_KEY, OPT_FOLLOW };

const struct fm_opt fm_opts_logs[] = {
	{"follow", 'f', OPT_FOLLOW, NULL, "go on with lines as they come, until Ctrl-C", NULL},
	FM_ASK_JSON,
	{NULL, 0, 0, NULL, NULL, NULL},
};

#define JOB_LEN	     8	  /* characters of a job's id */
#define FIELD_MAX    4096 /* of what is printed of one; longer ones are cut */
#define LATE_LOOK_MS 1000
#define US_PER_S     UINT64_C(1000000)

struct logs {
	struct fm_system_log *journal;
	struct fm_rows rows;
	bool is_json;
	unsigned count;
};

/* The field of the entry as it may be printed, "" if it has none. Returns out. */
static const char *field(struct logs *logs, const char *name, char out[static FIELD_MAX])
{
	size_t len;
	const char *bytes = fm_system_log_field(logs->journal, name, &len);

	out[0] = '\0';
	if (bytes && len > 0)
		(void)fm_plain(bytes, len, out, FIELD_MAX);
	return out;
}

static const char *source(struct logs *logs, char out[static FIELD_MAX])
{
	if (*field(logs, "_SYSTEMD_UNIT", out) || *field(logs, "_COMM", out))
		return out;
	return "?";
}

static void print_line(struct logs *logs, uint64_t time_us)
{
	char host[FIELD_MAX], from[FIELD_MAX], message[FIELD_MAX], time[32];
	const time_t seconds = (time_t)(time_us / US_PER_S);
	struct tm tm;

	(void)localtime_r(&seconds, &tm);
	(void)strftime(time, sizeof(time), "%Y-%m-%d %H:%M:%S", &tm); /* fits */
	(void)printf("%s.%03u %s %s[%s]: %s\n", time, (unsigned)(time_us % US_PER_S / 1000),
		     field(logs, "_HOSTNAME", host), source(logs, from),
		     field(logs, "_PID", (char[FIELD_MAX]){0}), field(logs, "MESSAGE", message));
}

static void print_json(struct logs *logs, uint64_t time_us)
{
	struct fm_json_writer *w = fm_rows_next(&logs->rows);
	char text[FIELD_MAX];

	fm_jw_u64(w, "time_us", time_us);
	fm_jw_text(w, "host", field(logs, "_HOSTNAME", text));
	fm_jw_text(w, "from", source(logs, text));
	fm_jw_text(w, "pid", field(logs, "_PID", text));
	fm_jw_text(w, "priority", field(logs, "PRIORITY", text));
	fm_jw_text(w, "text", field(logs, "MESSAGE", text));
	fm_jw_object_end(w);
}

/* Prints all that is there. -errno. */
static int print_all(struct logs *logs)
{
	uint64_t time_us;
	int ret;

	while ((ret = fm_system_log_next(logs->journal, &time_us)) > 0 && !fm_is_interrupted()) {
		if (logs->is_json)
			print_json(logs, time_us);
		else
			print_line(logs, time_us);
		logs->count++;
	}
	return ret < 0 ? ret : 0;
}

/* Until Ctrl-C, or until nobody reads what is printed. */
static int follow(struct logs *logs)
{
	struct pollfd fds[] = {{fm_interrupt_fd(), POLLIN, 0},
			       {fm_system_log_fd(logs->journal), POLLIN, 0}};
	int ret = 0;

	while (ret >= 0 && !fm_is_interrupted() && fflush(stdout) == 0) {
		/* Also at times without news: a network file system tells of none. */
		(void)poll(fds, 2, LATE_LOOK_MS);
		ret = fm_system_log_process(logs->journal);
		if (ret >= 0)
			ret = print_all(logs);
	}
	return ret;
}

static int nothing_found(const struct logs *logs, const char *job)
{
	if (!fm_system_log_has_files(logs->journal))
		return fm_fail_text(-ENOENT,
				    "logs: there is no journal here that you may read: members of "
				    "the group systemd-journal and root may; without systemd, "
				    "fmoved's standard error is the log, where lines of this job "
				    "begin with \"job %s:\"",
				    job);
	return fm_fail_text(-ENOENT,
			    "logs: no line of job %s in what you may read of this node's journal: "
			    "members of the group systemd-journal and root read all of it; the "
			    "other nodes of the job have lines of their own",
			    job);
}

static bool is_job(const char *text)
{
	return strlen(text) == JOB_LEN &&
	       strspn(text, "abcdefghijklmnopqrstuvwxyz234567") == JOB_LEN;
}

static int run(struct logs *logs, const char *job, bool is_following)
{
	char match[sizeof("FMOVE_JOB=") + JOB_LEN];
	struct fm_err err;
	int ret;

	(void)snprintf(match, sizeof(match), "FMOVE_JOB=%s", job);
	if (fm_system_log_open(match, &logs->journal, &err) < 0 ||
	    (is_following && fm_interrupt_start(&err) < 0))
		return fm_fail("logs", &err);
	ret = print_all(logs);
	if (ret == 0 && is_following)
		ret = follow(logs);
	if (ret < 0)
		return fm_fail_text(ret, "logs: read the journal: %s", fm_err_name(ret));
	if (fm_is_interrupted())
		return FM_EXIT_CANCELLED;
	return logs->count > 0 ? FM_EXIT_DONE : nothing_found(logs, job);
}

int fm_cmd_logs(int argc, char **argv)
{
	struct logs logs = {.count = 0};
	bool is_following = false;
	struct fm_args args;
	int key, status;

	fm_args_begin(&args, "logs", argc, argv);
	while ((key = fm_args_next(&args)) > 0) {
		logs.is_json |= key == OPT_JSON;
		is_following |= key == OPT_FOLLOW;
	}
	if (fm_args_end(&args, 1, 1) < 0)
		return args.status;
	if (!is_job(args.operands[0]))
		return fm_usage(&args,
				"\"%.40s\" is no id of a job: that has %d characters a-z and 2-7 "
				"(fmove jobs; job of fmove stage --json)",
				args.operands[0], JOB_LEN);
	if (logs.is_json)
		fm_rows_begin(&logs.rows, "lines");
	status = run(&logs, args.operands[0], is_following);
	fm_system_log_close(logs.journal);
	if (logs.is_json)
		fm_rows_end(&logs.rows, status);
	return fm_stdout_end("logs", status);
}
