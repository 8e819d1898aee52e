/* SPDX-License-Identifier: MIT */
/*
 * log - decisions and changes of state, one line each, to standard error.
 *
 * Under systemd (JOURNAL_STREAM set) each line carries the <N> prefix that the journal reads as its
 * priority; elsewhere a time. Any thread. Text from outside is escaped: a line is always one line.
 * Not for the data path. Nobody waits for who reads it, unless that is a file (log_file.h sees to
 * that): what has no room is lost, and counted.
 */
#ifndef FM_BASE_LOG_H
#define FM_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum fm_log_level { FM_LOG_ERROR, FM_LOG_WARN, FM_LOG_INFO, FM_LOG_DEBUG };

/* What the levels are called in the configuration and in arguments, in their order; NULL ends
 * it. */
extern const char *const fm_log_level_names[];

/* The level of that name, or -1. */
int fm_log_level_named(const char *name);

/* Default: FM_LOG_INFO. */
void fm_log_set_level(enum fm_log_level level);

void fm_log(enum fm_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Lines of one kind that others can cause as often as they like. Zero-initialise. Any thread. */
struct fm_log_limit {
	uint64_t since_ns;
	unsigned count;
	unsigned most;		/* in a minute; 0: 20 */
};

#define FM_LOG_USERS 64u
#define FM_LOG_USER_LINES 600	/* a minute, of each user, in each place that logs */

/*
 * Such a limit for each user of this machine, so that none leaves out the lines of another. There
 * are so many; who comes while all of them said something within a minute shares one with all who
 * do. Zero-initialise. Any thread.
 */
struct fm_log_users {
	unsigned most;			/* of each, in a minute; 0: 20 */
	unsigned count;
	uid_t uid[FM_LOG_USERS];
	struct fm_log_limit limit[FM_LOG_USERS], rest;
};

/* That user's, for a line at once: it may be another one's a minute later. */
struct fm_log_limit *fm_log_of_user(struct fm_log_users *users, uid_t uid, uint64_t now_ns);

/* Whether there may be one more. How many were left out is said with the first one that may. */
bool fm_log_may(struct fm_log_limit *limit, uint64_t now_ns);

/* A line of that kind, if there may be one more. */
void fm_log_some(struct fm_log_limit *limit, uint64_t now_ns, enum fm_log_level level,
		 const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/*
 * The same of a job (queue.h). Its id stands before the text, "job ID: ", and in the journal also
 * in the field FMOVE_JOB, by which fmove logs finds the lines. "": it has none.
 * limit NULL, with any now_ns: each line may be, as nobody else can cause them.
 */
void fm_log_job(struct fm_log_limit *limit, uint64_t now_ns, enum fm_log_level level,
		const char *job, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/*
 * From now on each line that this thread says is of that job, as fm_log_job() has it, unless it
 * names another one; NULL: of none again. It is copied.
 */
void fm_log_of_job(const char *job);

#define fm_log_error(...) fm_log(FM_LOG_ERROR, __VA_ARGS__)
#define fm_log_warn(...) fm_log(FM_LOG_WARN, __VA_ARGS__)
#define fm_log_info(...) fm_log(FM_LOG_INFO, __VA_ARGS__)
#define fm_log_debug(...) fm_log(FM_LOG_DEBUG, __VA_ARGS__)

#endif
