/* SPDX-License-Identifier: MIT */
/* hold - see hold.h. */
#include "staging/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mover/base/call.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/proc_stat.h"
#include "mover/journal/host.h"

#define FILE_MAX 4096 /* /proc/PID/stat and the lines of status before the one we want */

_Static_assert(FM_HOLD_BOOT_LEN == FM_JOURNAL_ID_LEN, "one kind of boot");

static int read_proc(pid_t pid, const char *name, char text[static FILE_MAX])
{
	char path[64];
	int64_t got;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	fd = FM_FAULT("hold.open") ? -EMFILE : fm_call(open(path, O_RDONLY | O_CLOEXEC));
	if (fd < 0)
		return fd;
	got = FM_FAULT("hold.read") ? -EIO : fm_call_read_all(fd, text, FILE_MAX - 1, 0);
	(void)close(fd); /* only read */
	text[got < 0 ? 0 : got] = '\0';
	return got < 0 ? (int)got : 0;
}

static int uid_of(const char *status, uid_t *out)
{
	const char *at = strstr(status, "\nUid:\t");
	unsigned uid;

	if (!at || sscanf(at + 6, "%u", &uid) != 1)
		return -EINVAL;
	*out = uid;
	return 0;
}

static int open_pidfd(pid_t pid, int *pidfd)
{
	int fd = FM_FAULT("hold.pidfd") ? -EMFILE : fm_call(syscall(SYS_pidfd_open, pid, 0));

	if (fd >= 0 && fm_hold_is_over(fd)) {
		(void)close(fd); /* only looked at */
		fd = -ESRCH;
	}
	/* A number that is a thread's is no process. */
	if (fd == -EINVAL || fd == -ENOENT)
		fd = -ESRCH;
	*pidfd = fd;
	return fd < 0 ? fd : 0;
}

static int look(pid_t pid, struct fm_hold_process *out, uid_t *uid)
{
	char text[FILE_MAX];
	struct fm_journal_host host;
	struct fm_proc_stat is;
	int ret = read_proc(pid, "stat", text);

	*out = (struct fm_hold_process){.pid = pid};
	if (ret == 0)
		ret = fm_proc_stat_parse(text, &is);
	if (ret == 0)
		ret = read_proc(pid, "status", text);
	if (ret == 0)
		ret = uid_of(text, uid);
	if (ret == 0)
		ret = fm_journal_host_here(&host);
	if (ret < 0)
		return ret;
	out->start = is.start_ticks;
	memcpy(out->boot, host.boot, sizeof(out->boot));
	return ret;
}

/*
 * The pidfd first: what /proc says while that process has not ended is said of it, since its number
 * is given to no other before.
 */
static int find(pid_t pid, struct fm_hold_process *out, uid_t *uid, int *pidfd)
{
	int ret = pid > 0 ? open_pidfd(pid, pidfd) : -ESRCH;

	if (ret < 0)
		return ret;
	ret = look(pid, out, uid);
	if (fm_hold_is_over(*pidfd))
		ret = -ESRCH;
	else if (ret == -ENOENT)
		ret = -EACCES; /* it lives, and is not shown */
	if (ret < 0)
		(void)close(*pidfd); /* only looked at */
	return ret;
}

int fm_hold_find(pid_t pid, struct fm_hold_process *out, uid_t *uid, int *pidfd, struct fm_err *err)
{
	int ret = find(pid, out, uid, pidfd);

	if (ret == -ESRCH)
		return fm_err_set(err, ret, "there is no process %d (any more): name one that runs",
				  pid);
	if (ret == -EACCES)
		return fm_err_set(err, ret,
				  "this service is not shown process %d: hidepid= of /proc, or "
				  "ProtectProc= of its unit, forbids it",
				  pid);
	return ret < 0 ? fm_err_sys(err, ret, "process %d", pid) : 0;
}

int fm_hold_find_again(const struct fm_hold_process *process, int *pidfd)
{
	struct fm_hold_process now;
	uid_t uid;
	int ret = find(process->pid, &now, &uid, pidfd);

	if (ret < 0)
		return ret;
	if (now.start == process->start && fm_journal_host_is_same(now.boot, process->boot))
		return 0;
	(void)close(*pidfd); /* only looked at */
	return -ESRCH;
}

bool fm_hold_is_over(int pidfd)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}
