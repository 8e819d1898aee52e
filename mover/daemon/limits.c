/* SPDX-License-Identifier: MIT */
/* limits - see limits.h. */
#include "mover/daemon/limits.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/check.h"
#include "config/value.h"
#include "mover/api/api.h"
#include "mover/api/api_task.h"
#include "mover/base/log.h"
#include "mover/queue/queue.h"

/* The rest is for sessions, transfers and libraries. */
_Static_assert(FM_QUEUE_BYTES_MAX + FM_API_QUEUE_TOTAL_MAX +
			       FM_API_TASKS_MAX * FM_API_TASK_BYTES_MAX + FM_API_MSG_MAX +
			       FM_API_REQUEST_BYTES_MAX <=
		       FM_CONFIG_OVERHEAD_BYTES / 4 * 3,
	       "what local callers can make the daemon hold fits in what memory.total leaves "
	       "beside the arena");

/* With CAP_IPC_LOCK the limit does not count. Asked of the kernel directly: libcap is not worth a
 * dependency. */
static bool may_lock_anything(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (syscall(SYS_capget, &head, data) < 0)
		return false;
	return (data[0].effective >> CAP_IPC_LOCK & 1) != 0;
}

void fm_limits_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return;
	limit.rlim_cur = limit.rlim_max;
	/* what is there is looked at by who wants many */
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

uint64_t fm_limits_memlock(uint64_t need_bytes, const char *unit_user)
{
	char limit_text[FM_VALUE_TEXT_MAX], need_text[FM_VALUE_TEXT_MAX];
	struct rlimit limit;

	if (may_lock_anything() || getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
		return UINT64_MAX;
	if (limit.rlim_cur != limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_MEMLOCK, &limit);	/* what counts is looked at below */
		if (getrlimit(RLIMIT_MEMLOCK, &limit) < 0)
			return UINT64_MAX;
	}
	if (limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	if (limit.rlim_cur >= need_bytes)
		return limit.rlim_cur - need_bytes;
	fm_value_size_print(limit.rlim_cur, limit_text);
	fm_value_size_print(need_bytes, need_text);
	fm_log_warn("memlock: the limit is %s, io_uring's fixed buffers and RDMA need %s; going on "
		    "with what fits. "
		    "To raise it: LimitMEMLOCK=infinity in the unit (systemctl edit fmoved), or "
		    "the line "
		    "\"%s - memlock unlimited\" in /etc/security/limits.conf",
		    limit_text, need_text, unit_user);
	return 0;
}
