/* SPDX-License-Identifier: MIT */
/* process - see process.h. */
#include "mover/metrics/process.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "mover/base/page.h"
#include "mover/base/proc_stat.h"

static double seconds(const struct timeval *tv)
{
	return (double)tv->tv_sec + (double)tv->tv_usec / 1e6;
}

static void add_cpu(struct fm_metrics *m, unsigned first)
{
	struct rusage used;

	if (getrusage(RUSAGE_SELF, &used) == 0)
		fm_metrics_add(m, first + FM_PROCESS_CPU,
			       seconds(&used.ru_utime) + seconds(&used.ru_stime), NULL);
}

static void add_memory(struct fm_metrics *m, unsigned first)
{
	unsigned long size, resident;
	double page = (double)fm_page_bytes();
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f)
		return;
	if (fscanf(f, "%lu %lu", &size, &resident) == 2) {
		fm_metrics_add(m, first + FM_PROCESS_RESIDENT, (double)resident * page, NULL);
		fm_metrics_add(m, first + FM_PROCESS_VIRTUAL, (double)size * page, NULL);
	}
	(void)fclose(f);	/* only read */
}

static void add_start(struct fm_metrics *m, unsigned first)
{
	char text[FM_PROC_STAT_MAX];
	struct fm_proc_stat is;
	struct timespec now, up;
	size_t len;
	FILE *f = fopen("/proc/self/stat", "re");

	if (!f)
		return;
	len = fread(text, 1, sizeof(text) - 1, f);
	(void)fclose(f);	/* only read */
	text[len] = '\0';
	if (fm_proc_stat_parse(text, &is) < 0)
		return;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)clock_gettime(CLOCK_BOOTTIME, &up);
	fm_metrics_add(m, first + FM_PROCESS_START,
		       (double)(now.tv_sec - up.tv_sec) + (double)(now.tv_nsec - up.tv_nsec) / 1e9 +
			       (double)is.start_ticks / (double)sysconf(_SC_CLK_TCK),
		       NULL);
}

static void add_descriptors(struct fm_metrics *m, unsigned first)
{
	struct rlimit limit;
	unsigned count = 0;
	DIR *dir = opendir("/proc/self/fd");

	if (dir) {
		while (readdir(dir))
			count++;
		(void)closedir(dir);	/* only read */
		/* without ".", ".." and the directory itself */
		fm_metrics_add(m, first + FM_PROCESS_FDS, count - 3.0, NULL);
	}
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
		fm_metrics_add(m, first + FM_PROCESS_FDS_MAX, (double)limit.rlim_cur, NULL);
}

void fm_metrics_add_process(struct fm_metrics *m, unsigned first)
{
	add_cpu(m, first);
	add_start(m, first);
	add_memory(m, first);
	add_descriptors(m, first);
}
