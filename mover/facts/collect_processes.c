/* SPDX-License-Identifier: MIT */
/*
 * collect_processes - the daemons of this machine and what the kernel lets them have, from procfs.
 * See collect_priv.h.
 */
#include "mover/facts/collect_priv.h"

#include <ctype.h>
#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CGROUPS "/sys/fs/cgroup"

/* "Max locked memory  65536  65536  bytes": the second, which a daemon raises the first to. */
static void limit(const char *text, const char *what, struct fm_fact *fact)
{
	const char *at = strstr(text, what);
	char hard[32];

	if (!at || sscanf(at + strlen(what), " %*31s %31s", hard) != 1)
		fm_fact_unknown(fact, "its limits do not say %s", what);
	else if (strcmp(hard, "unlimited") == 0)
		fm_fact_number(fact, FM_FACT_UNLIMITED);
	else
		fm_fact_number(fact, strtoull(hard, NULL, 10));
}

static void limits(struct fm_collect *c, struct fm_facts_process *p, const char *pid)
{
	char *text;
	int ret = fm_collect_file(c, &text, "/proc/%s/limits", pid);

	if (ret < 0) {
		fm_collect_failed(&p->memlock_bytes, ret, "its limits");
		fm_collect_failed(&p->files, ret, "its limits");
		return;
	}
	limit(text, "Max locked memory", &p->memlock_bytes);
	limit(text, "Max open files", &p->files);
	free(text);
}

static void rights(struct fm_collect *c, struct fm_facts_process *p, const char *pid)
{
	char *text, *at;
	int ret = fm_collect_file(c, &text, "/proc/%s/status", pid);

	if (ret < 0) {
		fm_collect_failed(&p->uid, ret, "its status");
		fm_collect_failed(&p->ipc_lock, ret, "its status");
		return;
	}
	at = strstr(text, "\nUid:");
	if (at)
		fm_fact_number(&p->uid, strtoull(at + strlen("\nUid:"), NULL, 10));
	at = strstr(text, "\nCapEff:");
	if (at)
		fm_fact_number(&p->ipc_lock,
			       strtoull(at + strlen("\nCapEff:"), NULL, 16) >> CAP_IPC_LOCK & 1);
	free(text);
}

/* The least of its control group and those above it. group is changed. */
static void memory_of(struct fm_collect *c, struct fm_fact *fact, char *group)
{
	char line[FM_COLLECT_LINE_MAX];
	uint64_t least = FM_FACT_UNLIMITED;
	int ret;

	for (; *group; *strrchr(group, '/') = '\0') {
		ret = fm_collect_line(c, line, CGROUPS "%s/memory.max", group);
		if (ret < 0 && ret != -ENOENT) {
			fm_collect_failed(fact, ret, "memory.max of its control group");
			return;
		}
		if (ret == 0 && isdigit((unsigned char)line[0]) && strtoull(line, NULL, 10) < least)
			least = strtoull(line, NULL, 10);
	}
	fm_fact_number(fact, least);
}

static void memory(struct fm_collect *c, struct fm_facts_process *p, const char *pid)
{
	char line[FM_COLLECT_LINE_MAX], *group, *end;
	int ret = fm_collect_line(c, line, "/proc/%s/cgroup", pid);

	if (ret < 0) {
		fm_collect_failed(&p->memory_max_bytes, ret, "its control group");
		return;
	}
	group = strstr(line, "0::/");
	if (!group || strstr(group, "/..") || (group != line && group[-1] != '\n')) {
		fm_fact_unknown(&p->memory_max_bytes,
				"it is in no control group (version 2) that is seen here");
		return;
	}
	group += strlen("0::");
	end = group + strcspn(group, "\n");
	while (end > group && end[-1] == '/')
		end--;
	*end = '\0';
	memory_of(c, &p->memory_max_bytes, group);
}

static void one_process(struct fm_collect *c, const char *pid)
{
	struct fm_facts_process *p;
	char name[FM_COLLECT_LINE_MAX];

	if (fm_collect_line(c, name, "/proc/%s/comm", pid) < 0)
		return; /* it has ended */
	if (strcmp(name, "fmoved") != 0 && strcmp(name, "fmove-nvmed") != 0)
		return;
	p = fm_facts_add(c->facts, c->facts->processes, &c->facts->processes_count);
	if (!p)
		return;
	fm_fact_text(&p->name, FM_FACT_NAME, name);
	fm_fact_number(&p->pid, strtoull(pid, NULL, 10));
	limits(c, p, pid);
	rights(c, p, pid);
	memory(c, p, pid);
	fm_collect_text(c, &p->oom_score_adj, FM_FACT_TEXT, "/proc/%s/oom_score_adj", pid);
}

void fm_collect_processes(struct fm_collect *c)
{
	struct dirent **names;
	int count = fm_collect_names(c, &names, "/proc");

	if (count < 0)
		fm_collect_failed(&c->facts->processes_read, count, "/proc");
	else
		fm_fact_number(&c->facts->processes_read, 1);
	for (int i = 0; i < count; i++)
		if (strspn(names[i]->d_name, "0123456789") == strlen(names[i]->d_name))
			one_process(c, names[i]->d_name);
	fm_collect_names_free(names, count);
}
