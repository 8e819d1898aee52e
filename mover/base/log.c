/* SPDX-License-Identifier: MIT */
/*
 * log - one line at a time to standard error, each with one write(2), so that lines of several
 * threads do not mix. Lines of jobs go to the socket of the journal if that is what reads us.
 *
 * Whoever reads the log may stand still: a journal that was stopped, a terminal that is held. Then
 * every thread that has something to say would stand still, too. So a line for which there is no
 * room is lost, and counted. Only a file is waited for.
 */
#include "mover/base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/env.h"
#include "mover/base/plain.h"

#define LOG_JOB_MAX 65		/* an id that is longer is cut */
#define LOG_TEXT_MAX 1024	/* before escaping */
#define LOG_LINE_MAX 2048	/* below PIPE_BUF: a pipe takes it whole */
#define LIMIT_LINES 20
#define LIMIT_NS (60 * FM_NS_PER_S)
#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define JOURNAL_FIELDS_MAX 256

static atomic_int log_level_max = FM_LOG_INFO;
static pthread_mutex_t limit_lock = PTHREAD_MUTEX_INITIALIZER;	/* of all limits: lines are few */
static pthread_once_t log_once = PTHREAD_ONCE_INIT;
static bool log_is_journal;
static atomic_uint log_lost;		/* lines, since the last one that was taken */

static const struct {
	const char *word;
	char priority;	/* syslog's, as the journal reads it */
} log_levels[] = {
	[FM_LOG_ERROR] = { "error", '3' },
	[FM_LOG_WARN] = { "warning", '4' },
	[FM_LOG_INFO] = { "info", '6' },
	[FM_LOG_DEBUG] = { "debug", '7' },
};

const char *const fm_log_level_names[] = { "error", "warn", "info", "debug", NULL };

int fm_log_level_named(const char *name)
{
	for (int i = 0; fm_log_level_names[i]; i++)
		if (strcmp(name, fm_log_level_names[i]) == 0)
			return i;
	return -1;
}

/*
 * JOURNAL_STREAM names the journal's socket; a child whose standard error was sent elsewhere has
 * inherited the variable only.
 */
static void log_find_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	if (!stream || sscanf(stream, "%llu:%llu", &dev, &ino) != 2 ||
	    fstat(STDERR_FILENO, &st) < 0)
		return;
	log_is_journal = st.st_dev == dev && st.st_ino == ino;
}

/* Returns the new length of line, which keeps room for "...\n". */
static size_t log_escape(char *line, size_t len, const char *text)
{
	const char *end = text + strlen(text);

	while (text < end) {
		if (len + 8 > LOG_LINE_MAX) {
			memcpy(line + len, "...", 3);
			return len + 3;
		}
		len += fm_plain_next(&text, end, line + len);
	}
	return len;
}

static size_t log_prefix(char *line, size_t room, enum fm_log_level level)
{
	struct timespec ts;
	struct tm tm;
	size_t len;

	if (log_is_journal)
		return (size_t)snprintf(line, room, "<%c>", log_levels[level].priority);
	clock_gettime(CLOCK_REALTIME, &ts);
	gmtime_r(&ts.tv_sec, &tm);
	len = strftime(line, room, "%Y-%m-%dT%H:%M:%S", &tm);
	len += (size_t)snprintf(line + len, room - len, ".%03ldZ %s: ", ts.tv_nsec / 1000000,
				log_levels[level].word);
	return len;
}

void fm_log_set_level(enum fm_log_level level)
{
	atomic_store_explicit(&log_level_max, (int)level, memory_order_relaxed);
}

static bool is_said(enum fm_log_level level)
{
	return (int)level <= atomic_load_explicit(&log_level_max, memory_order_relaxed);
}

/* -EAGAIN: there is no room. */
static int write_at_once(const char *line, size_t len)
{
	const struct iovec iov = { .iov_base = (char *)(uintptr_t)line, .iov_len = len };
	struct pollfd room = { .fd = STDERR_FILENO, .events = POLLOUT };
	struct stat st;
	ssize_t ret;

	if (fstat(STDERR_FILENO, &st) < 0)
		return -errno;
	if (S_ISSOCK(st.st_mode))
		ret = send(STDERR_FILENO, line, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	else
		ret = S_ISREG(st.st_mode) ? write(STDERR_FILENO, line, len)
					  : pwritev2(STDERR_FILENO, &iov, 1, -1, RWF_NOWAIT);
	if (ret < 0 && errno == EOPNOTSUPP)	/* a terminal, and a pipe of older kernels */
		ret = poll(&room, 1, 0) == 1 ? write(STDERR_FILENO, line, len)
					     : (errno = EAGAIN, -1);
	return ret < 0 ? -errno : 0;
}

static bool put_line(enum fm_log_level level, const char *text)
{
	char line[LOG_LINE_MAX];
	size_t len = log_prefix(line, sizeof(line), level);

	len = log_escape(line, len, text);
	line[len++] = '\n';
	return write_at_once(line, len) != -EAGAIN;
}

/*
 * A line with a field of its own, by the journal's native protocol: FIELD=VALUE, and a line end
 * behind each, which no value has. sd_journal_send() would wait for a journal that stands still.
 * -EAGAIN: there is no room; another -errno: there is no such journal.
 */
static int send_to_journal(enum fm_log_level level, const char *job, const char *text)
{
	static const struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = JOURNAL_SOCKET};
	char fields[JOURNAL_FIELDS_MAX], message[LOG_LINE_MAX];
	struct iovec parts[2] = {{.iov_base = fields}, {.iov_base = message}};
	const struct msghdr m = {.msg_name = (void *)(uintptr_t)&to,
				 .msg_namelen = sizeof(to),
				 .msg_iov = parts,
				 .msg_iovlen = 2};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret = 0;

	if (fd < 0)
		return -errno;
	/* fits: the names of our programs and the ids of jobs are short */
	parts[0].iov_len = (size_t)snprintf(fields, sizeof(fields),
					    "PRIORITY=%c\nSYSLOG_IDENTIFIER=%.64s\n"
					    "FMOVE_JOB=%.64s\nMESSAGE=",
					    log_levels[level].priority,
					    program_invocation_short_name, job);
	parts[1].iov_len = log_escape(message, 0, text);
	message[parts[1].iov_len++] = '\n';
	if (sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		ret = errno == EWOULDBLOCK ? -EAGAIN : -errno;
	(void)close(fd);
	return ret;
}

static bool put_job_line(enum fm_log_level level, const char *job, const char *text)
{
	int ret = *job && log_is_journal ? send_to_journal(level, job, text) : -ENOTCONN;

	return ret == 0 || (ret != -EAGAIN && put_line(level, text));
}

/* Whether those that were lost are told of, if any were. */
static bool tell_lost(void)
{
	unsigned lost = atomic_exchange_explicit(&log_lost, 0, memory_order_relaxed);
	char text[128];

	if (lost == 0)
		return true;
	(void)snprintf(text, sizeof(text),
		       "%u lines before this one were lost: nobody read the log", lost);
	if (put_line(FM_LOG_ERROR, text))
		return true;
	(void)atomic_fetch_add_explicit(&log_lost, lost, memory_order_relaxed);
	return false;
}

static _Thread_local char thread_job[LOG_JOB_MAX];

void fm_log_of_job(const char *job)
{
	thread_job[0] = '\0';
	if (job)
		(void)snprintf(thread_job, sizeof(thread_job), "%s", job);	/* fits: an id */
}

/* job: "": it is the thread's, if that has one. */
__attribute__((format(printf, 3, 0)))
static void log_line(enum fm_log_level level, const char *job, const char *fmt, va_list args)
{
	char text[LOG_TEXT_MAX] = "";
	int errno_saved = errno;
	size_t before = 0;
	int n;

	(void)pthread_once(&log_once, log_find_journal);
	if (!*job)
		job = thread_job;
	if (*job)
		before = (size_t)snprintf(text, sizeof(text), "job %.64s: ", job);
	n = vsnprintf(text + before, sizeof(text) - before, fmt, args);
	if (n < 0)
		text[before] = '\0';
	else if ((size_t)n >= sizeof(text) - before)
		memcpy(text + sizeof(text) - 4, "...", 4);
	if (!tell_lost() || !put_job_line(level, job, text))
		(void)atomic_fetch_add_explicit(&log_lost, 1, memory_order_relaxed);
	errno = errno_saved;
}

void fm_log(enum fm_log_level level, const char *fmt, ...)
{
	va_list args;

	if (!is_said(level))
		return;
	va_start(args, fmt);
	log_line(level, "", fmt, args);
	va_end(args);
}

void fm_log_some(struct fm_log_limit *limit, uint64_t now_ns, enum fm_log_level level,
		 const char *fmt, ...)
{
	va_list args;

	if (!is_said(level) || !fm_log_may(limit, now_ns))
		return;
	va_start(args, fmt);
	log_line(level, "", fmt, args);
	va_end(args);
}

void fm_log_job(struct fm_log_limit *limit, uint64_t now_ns, enum fm_log_level level,
		const char *job, const char *fmt, ...)
{
	va_list args;

	if (!is_said(level) || (limit && !fm_log_may(limit, now_ns)))
		return;
	va_start(args, fmt);
	log_line(level, job, fmt, args);
	va_end(args);
}

bool fm_log_may(struct fm_log_limit *limit, uint64_t now_ns)
{
	unsigned most = limit->most ? limit->most : LIMIT_LINES, left_out = 0;
	bool may;

	pthread_mutex_lock(&limit_lock);
	/* now_ns may be of before the minute began: another thread looked at the clock later, and
	 * came first. */
	if (now_ns > limit->since_ns && now_ns - limit->since_ns > LIMIT_NS) {
		left_out = limit->count > most ? limit->count - most : 0;
		limit->since_ns = now_ns;
		limit->count = 0;
	}
	may = limit->count++ < most;
	pthread_mutex_unlock(&limit_lock);
	if (left_out > 0)	/* without the lock: a file may let us wait */
		fm_log_warn("and %u more like it", left_out);
	return may;
}

/* The place of that user, or of one of whom nothing was said for a minute; -1: there is none. */
static int place_of(const struct fm_log_users *users, uid_t uid, uint64_t now_ns)
{
	int oldest = -1;

	for (unsigned i = 0; i < users->count; i++) {
		if (users->uid[i] == uid)
			return (int)i;
		if (now_ns > users->limit[i].since_ns + LIMIT_NS &&
		    (oldest < 0 || users->limit[i].since_ns < users->limit[oldest].since_ns))
			oldest = (int)i;
	}
	return users->count < FM_LOG_USERS ? (int)users->count : oldest;
}

struct fm_log_limit *fm_log_of_user(struct fm_log_users *users, uid_t uid, uint64_t now_ns)
{
	struct fm_log_limit *limit = &users->rest;
	int i;

	pthread_mutex_lock(&limit_lock);
	i = place_of(users, uid, now_ns);
	if (i >= 0) {
		limit = &users->limit[i];
		if ((unsigned)i == users->count || users->uid[i] != uid)
			*limit = (struct fm_log_limit){.since_ns = now_ns};
		users->count += (unsigned)i == users->count;
		users->uid[i] = uid;
	}
	limit->most = users->most;
	pthread_mutex_unlock(&limit_lock);
	return limit;
}
