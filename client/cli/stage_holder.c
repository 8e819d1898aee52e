/* SPDX-License-Identifier: MIT */
/* stage_holder - see stage_holder.h. */
#include "client/cli/stage_holder.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "mover/base/proc_stat.h"

int fm_stage_holder_parse(const char *text, pid_t *out)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (errno || *end || end == text || v <= 0 || v > INT32_MAX)
		return -EINVAL;
	*out = (pid_t)v;
	return 0;
}

static size_t read_proc(pid_t pid, const char *name, char *out, size_t max)
{
	char path[48];
	size_t len;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	f = fopen(path, "re");
	len = f ? fread(out, 1, max - 1, f) : 0;
	if (f)
		(void)fclose(f);	/* only read */
	out[len] = '\0';
	return len;
}

static bool look_at(pid_t pid, struct fm_proc_stat *out)
{
	char text[FM_PROC_STAT_MAX];

	(void)read_proc(pid, "stat", text, sizeof(text));
	return fm_proc_stat_parse(text, out) == 0;
}

static pid_t parent_of(pid_t pid)
{
	struct fm_proc_stat is;

	return look_at(pid, &is) ? is.parent : 0;
}

/* Whether it only started us as another user, and waits for our end, which is its own. */
static bool ends_with_us(pid_t pid)
{
	static const char *const names[] = { "sudo", "doas", "su", "runuser" };
	struct fm_proc_stat is;

	if (!look_at(pid, &is))
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(is.name, names[i]) == 0)
			return true;
	return false;
}

/* Whether one was forked by the other and runs the same still: a subshell, which ends when we
 * do. */
static bool is_copy(pid_t pid, pid_t parent)
{
	char a[4096], b[4096];
	size_t len = read_proc(pid, "cmdline", a, sizeof(a));

	return len > 0 && read_proc(parent, "cmdline", b, sizeof(b)) == len &&
	       memcmp(a, b, len) == 0;
}

static bool is_ours(pid_t pid)
{
	char path[32];
	struct stat st;

	(void)snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	return getuid() == 0 || (stat(path, &st) == 0 && st.st_uid == getuid());
}

/*
 * The process that runs us holds the data, so that DATA=$(fmove stage ...) is safe; of a subshell
 * it is the shell. One of another user cannot, and one as sudo is gone with us: then the copy is
 * there for the grace, and that is said.
 */
pid_t fm_stage_holder(void)
{
	pid_t pid = getppid(), next = parent_of(pid);
	bool is_passing = ends_with_us(pid);

	while (!is_passing && next > 1 && is_ours(next) && is_copy(pid, next)) {
		pid = next;
		next = parent_of(pid);
	}
	if (!is_passing && is_ours(pid))
		return pid;
	fm_say("process %d, which runs this, %s: the copy stays for staging.grace only; "
	       "--hold-pid names one of yours",
	       (int)pid, is_passing ? "ends with it, as sudo does" : "is another user's");
	return 0;
}
