/* SPDX-License-Identifier: MIT */
/* cpu_time - see cpu_time.h. */
#include "mover/base/cpu_time.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mover/base/cores.h"
#include "mover/base/env.h"
#include "mover/base/err.h"
#include "mover/base/proc_stat.h"

#define LINE_TEXT_MAX 512
#define SLACK_S	      1.0 /* of each core: ticks are coarse, and looking takes a while */
#define SECONDS_MAX   1e6 /* nobody measures for longer */
#define KERNEL_THREAD 0x00200000u /* in the flags of a process; PF_KTHREAD there */
#define MAGIC	      "fmove_cpu 2"
#define GROUPS_DIR    "/sys/fs/cgroup"

static uint64_t ns_of(uint64_t ticks)
{
	return ticks * (FM_NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
}

/* ---- /proc/stat ---- */

enum { USER, NICE, SYSTEM, IDLE, IOWAIT, IRQ, SOFTIRQ, STEAL, COLUMNS };

/* "cpu3 1 2 3 ...": 0 .. for a core, -1: the sum of all, -2: another line. */
static int line_take(const char *line, uint64_t columns[static COLUMNS])
{
	int core = -1, used = 0;
	const char *at;

	if (strncmp(line, "cpu", 3) != 0)
		return -2;
	if (line[3] != ' ' && sscanf(line + 3, "%d%n", &core, &used) != 1)
		return -2;
	at = line + 3 + used;
	for (int i = 0; i < COLUMNS; i++) {
		if (sscanf(at, " %" SCNu64 "%n", &columns[i], &used) != 1)
			return -2;
		at += used;
	}
	return core;
}

/* affinity: a list as the kernel writes it, "0-3,8"; "": all. */
static bool is_in(const char *affinity, int core)
{
	int from, to, used;

	if (!*affinity)
		return true;
	for (const char *at = affinity; sscanf(at, "%d%n", &from, &used) == 1; at++) {
		at += used;
		to = from;
		if (*at == '-' && sscanf(at + 1, "%d%n", &to, &used) == 1)
			at += 1 + used;
		if (core >= from && core <= to)
			return true;
		if (*at != ',')
			break;
	}
	return false;
}

static void core_take(int core, const uint64_t c[static COLUMNS], const char *affinity,
		      struct fm_cpu_time *out)
{
	uint64_t busy = ns_of(c[USER] + c[NICE] + c[SYSTEM] + c[IRQ] + c[SOFTIRQ] + c[STEAL]);

	if (core == -1)
		out->softirq_ns = ns_of(c[IRQ] + c[SOFTIRQ]);
	if (core < 0 || out->cores >= FM_CPU_CORES_MAX)
		return;
	out->core_softirq_ns[out->cores] = ns_of(c[IRQ] + c[SOFTIRQ]);
	out->busy_ns[out->cores++] = busy;
	if (!is_in(affinity, core))
		return;
	out->affine++;
	out->allowed_busy_ns += busy;
}

static int cores_read(const char *proc, const char *affinity, struct fm_cpu_time *out,
		      struct fm_err *err)
{
	char path[PATH_MAX], line[LINE_TEXT_MAX];
	uint64_t columns[COLUMNS];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/stat", proc);
	f = fopen(path, "re");
	if (!f)
		return fm_err_sys(err, -errno, "%s", path);
	/* The line of interrupts is longer: its rest comes as further lines, none of a core. */
	while (fgets(line, sizeof(line), f))
		core_take(line_take(line, columns), columns, affinity, out);
	(void)fclose(f);
	return out->cores > 0 ? 0 : fm_err_set(err, -EPROTO, "%s: has no processors", path);
}

/* ---- /proc/PID/stat ---- */

static void thread_take(const char *id, uint64_t ran_ns, uint64_t waited_ns,
			struct fm_cpu_time *out)
{
	out->wait_ns += waited_ns;
	if (out->threads < FM_CPU_THREADS_MAX)
		out->thread[out->threads++] =
			(struct fm_cpu_thread){strtoull(id, NULL, 10), ran_ns + waited_ns};
}

/* Its threads: how long each ran and waited for a processor, as schedstat has it. */
static void threads_read(const char *proc, const char *number, struct fm_cpu_time *out)
{
	char path[PATH_MAX];
	uint64_t ran_ns, waited_ns;
	struct dirent *e;
	DIR *dir;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s/task", proc, number);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		(void)snprintf(path, sizeof(path), "%s/%s/task/%.20s/schedstat", proc, number,
			       e->d_name);
		f = isdigit((unsigned char)e->d_name[0]) ? fopen(path, "re") : NULL;
		if (!f)
			continue;
		if (fscanf(f, "%" SCNu64 " %" SCNu64, &ran_ns, &waited_ns) == 2)
			thread_take(e->d_name, ran_ns, waited_ns, out);
		(void)fclose(f);
	}
	if (dir)
		(void)closedir(dir);
}

/* The processors of its affinity, "": not known. */
static void affinity_read(const char *proc, pid_t pid, char out[static LINE_TEXT_MAX])
{
	char path[PATH_MAX], line[LINE_TEXT_MAX];
	FILE *f;

	out[0] = '\0';
	(void)snprintf(path, sizeof(path), "%s/%d/status", proc, (int)pid);
	f = pid > 0 ? fopen(path, "re") : NULL;
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Cpus_allowed_list: %511[0-9,-]", out) == 1)
			break;
	if (f)
		(void)fclose(f);
}

/* One that has ended meanwhile counts no more; so did what it did before, and a difference says 0.
 */
static void process_count(const char *proc, const char *number, pid_t pid, struct fm_cpu_time *out)
{
	char path[PATH_MAX], text[FM_PROC_STAT_MAX];
	struct fm_proc_stat p;
	uint64_t ticks;
	size_t len;
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s/stat", proc, number);
	f = fopen(path, "re");
	if (!f)
		return;
	len = fread(text, 1, sizeof(text) - 1, f);
	(void)fclose(f);
	text[len] = '\0';
	if (fm_proc_stat_parse(text, &p) < 0)
		return;
	ticks = p.user_ticks + p.system_ticks;
	if (p.flags & KERNEL_THREAD)
		out->kernel_ns += strncmp(p.name, "ksoftirqd/", 10) == 0 ? 0 : ns_of(ticks);
	else if (pid > 0 && (p.parent == pid || atoi(number) == pid)) {
		out->process_ns += ns_of(ticks);
		threads_read(proc, number, out);
	}
}

/* The cores, and which of them a process may use. */
static int allowed_read(const char *proc, pid_t pid, struct fm_cpu_time *out, struct fm_err *err)
{
	char affinity[LINE_TEXT_MAX], groups[PATH_MAX];
	unsigned quota;
	int ret;

	affinity_read(proc, pid, affinity);
	ret = cores_read(proc, affinity, out, err);
	(void)snprintf(groups, sizeof(groups), "%s/%d/cgroup", proc, (int)pid);
	quota = pid > 0 ? fm_cores_quota(groups, GROUPS_DIR) : 0;
	out->allowed = quota > 0 && quota < out->affine ? quota : out->affine;
	return ret;
}

int fm_cpu_time_read(const char *proc, pid_t pid, struct fm_cpu_time *out, struct fm_err *err)
{
	DIR *dir = opendir(proc);
	struct dirent *e;

	memset(out, 0, sizeof(*out));
	if (!dir)
		return fm_err_sys(err, -errno, "%s", proc);
	out->at_ns = fm_clock_real.now_ns(fm_clock_real.ctx);
	while ((e = readdir(dir)))
		if (isdigit((unsigned char)e->d_name[0]))
			process_count(proc, e->d_name, pid, out);
	(void)closedir(dir);
	return allowed_read(proc, pid, out, err);
}

/* ---- as text ---- */

int fm_cpu_time_write(const struct fm_cpu_time *t, char *buf, size_t cap)
{
	int len = snprintf(buf, cap,
			   MAGIC " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
				 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %u",
			   t->at_ns, t->process_ns, t->kernel_ns, t->softirq_ns, t->wait_ns,
			   t->allowed_busy_ns, t->affine, t->allowed, t->cores);

	for (unsigned i = 0; i < t->cores && len > 0 && (size_t)len < cap; i++)
		len += snprintf(buf + len, cap - (size_t)len, " %" PRIu64 " %" PRIu64,
				t->busy_ns[i], t->core_softirq_ns[i]);
	if (len > 0 && (size_t)len < cap)
		len += snprintf(buf + len, cap - (size_t)len, " %u", t->threads);
	for (unsigned i = 0; i < t->threads && len > 0 && (size_t)len < cap; i++)
		len += snprintf(buf + len, cap - (size_t)len, " %" PRIu64 " %" PRIu64,
				t->thread[i].id, t->thread[i].wanted_ns);
	if (len > 0 && (size_t)len < cap)
		len += snprintf(buf + len, cap - (size_t)len, "\n");
	return len < 0 || (size_t)len >= cap ? -EMSGSIZE : len;
}

/* A blank, then digits; their value. */
static int number_take(const char **at, uint64_t max, uint64_t *out)
{
	char *end;

	if (**at != ' ' || !isdigit((unsigned char)(*at)[1]))
		return -EINVAL;
	errno = 0;
	*out = strtoull(*at + 1, &end, 10);
	if (errno || *out > max)
		return -EINVAL;
	*at = end;
	return 0;
}

static int pair_take(const char **at, uint64_t *first, uint64_t *second)
{
	int ret = number_take(at, INT64_MAX, first);

	return ret < 0 ? ret : number_take(at, INT64_MAX, second);
}

int fm_cpu_time_parse(const char *text, size_t len, struct fm_cpu_time *out)
{
	char copy[FM_CPU_TEXT_MAX];
	const char *at = copy + strlen(MAGIC);
	uint64_t *const fields[] = {&out->at_ns,      &out->process_ns,	     &out->kernel_ns,
				    &out->softirq_ns, &out->wait_ns,	     &out->allowed_busy_ns,
				    &out->affine,     &out->allowed};
	uint64_t cores = 0, threads = 0;
	int ret = 0;

	memset(out, 0, sizeof(*out));
	if (len >= sizeof(copy) || memchr(text, '\0', len))
		return -EINVAL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (strncmp(copy, MAGIC, strlen(MAGIC)) != 0)
		return -EINVAL;
	for (size_t i = 0; ret == 0 && i < sizeof(fields) / sizeof(fields[0]); i++)
		ret = number_take(&at, INT64_MAX, fields[i]);
	if (ret == 0)
		ret = number_take(&at, FM_CPU_CORES_MAX, &cores);
	for (; ret == 0 && out->cores < cores; out->cores++)
		ret = pair_take(&at, &out->busy_ns[out->cores], &out->core_softirq_ns[out->cores]);
	if (ret == 0)
		ret = number_take(&at, FM_CPU_THREADS_MAX, &threads);
	for (; ret == 0 && out->threads < threads; out->threads++)
		ret = pair_take(&at, &out->thread[out->threads].id,
				&out->thread[out->threads].wanted_ns);
	if (out->affine > cores || out->allowed > out->affine)
		return -EINVAL;
	return ret < 0 || strcmp(at, "\n") != 0 ? -EINVAL : 0;
}

/* ---- between two looks ---- */

static double grown(uint64_t before, uint64_t after)
{
	return after > before ? (double)(after - before) / 1e9 : 0;
}

static double most(double a, double b)
{
	return a > b ? a : b;
}

/* ticks are coarse, so a core may seem busier than there is time */
static double share_of(uint64_t before, uint64_t after, double seconds)
{
	double share = grown(before, after) / seconds;

	return share > 1 ? 1 : share;
}

/* One that began in between wanted nothing before. */
static uint64_t wanted_by(const struct fm_cpu_time *t, uint64_t id)
{
	for (unsigned i = 0; i < t->threads; i++)
		if (t->thread[i].id == id)
			return t->thread[i].wanted_ns;
	return 0;
}

static void shares(const struct fm_cpu_time *before, const struct fm_cpu_time *after,
		   struct fm_cpu_used *out)
{
	double s = out->seconds;

	for (unsigned i = 0; i < after->cores; i++) {
		out->busiest =
			most(out->busiest, share_of(before->busy_ns[i], after->busy_ns[i], s));
		out->core_softirq =
			most(out->core_softirq, share_of(before->core_softirq_ns[i],
							 after->core_softirq_ns[i], s));
	}
	for (unsigned i = 0; i < after->threads; i++)
		out->thread_wanted = most(out->thread_wanted,
					  share_of(wanted_by(before, after->thread[i].id),
						   after->thread[i].wanted_ns, s));
}

int fm_cpu_time_used(const struct fm_cpu_time *before, const struct fm_cpu_time *after,
		     struct fm_cpu_used *out)
{
	double seconds = grown(before->at_ns, after->at_ns);

	memset(out, 0, sizeof(*out));
	if (before->cores != after->cores || seconds <= 0 || seconds > SECONDS_MAX)
		return -EINVAL;
	out->seconds = seconds;
	out->process_s = grown(before->process_ns, after->process_ns);
	out->kernel_s = grown(before->kernel_ns, after->kernel_ns);
	out->softirq_s = grown(before->softirq_ns, after->softirq_ns);
	if (out->process_s + out->kernel_s + out->softirq_s > after->cores * (seconds + SLACK_S))
		return -EINVAL;
	shares(before, after, out);
	out->wait_s = grown(before->wait_ns, after->wait_ns);
	out->allowed = (unsigned)after->allowed;
	if (after->affine > 0 && after->affine == before->affine)
		out->allowed_busy = grown(before->allowed_busy_ns, after->allowed_busy_ns) /
				    seconds / (double)after->affine;
	out->allowed_busy = out->allowed_busy > 1 ? 1 : out->allowed_busy;
	return 0;
}
