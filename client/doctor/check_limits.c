/* SPDX-License-Identifier: MIT */
/*
 * check_limits - what the kernel lets the daemon have: memory, files, io_uring, processors at their
 * speed. See check.h.
 */
#include "client/doctor/check.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/show.h"

#define FREE_SHARE 10u	/* of memory: less than a tenth is free */
#define CACHE_SHARE 4u	/* and more than a quarter would be, without the page cache */
#define FILES_ENOUGH 4096u /* connections, and files of transfers; the unit says 65536 */

static const char *bytes_text(uint64_t bytes, char out[static FM_SHOW_MAX])
{
	return bytes == FM_FACT_UNLIMITED ? "unlimited" : fm_show_bytes(bytes, out);
}

static void memlock(const struct fm_facts *f, const struct fm_facts_process *p,
		    struct fm_findings *list)
{
	char limit[FM_SHOW_MAX], arena[FM_SHOW_MAX];
	struct fm_finding *out;

	if (!p->memlock_bytes.is_known || !p->ipc_lock.is_known || p->ipc_lock.n ||
	    !f->daemon.arena_bytes.is_known || p->memlock_bytes.n >= f->daemon.arena_bytes.n)
		return;
	out = fm_finding_add(list, "memlock", FM_ERROR, f);
	fm_finding_read(out, "fmoved (process %llu) may lock %s of memory; its arena has %s.",
			(unsigned long long)p->pid.n, bytes_text(p->memlock_bytes.n, limit),
			fm_show_bytes(f->daemon.arena_bytes.n, arena));
	fm_finding_means(out, "The arena cannot be registered: no RDMA, and io_uring without fixed "
			      "buffers. fmoved goes on with what fits.");
	fm_finding_mend(out, "# systemctl edit fmoved, then: systemctl restart fmoved");
	fm_finding_mend(out, "[Service]");
	fm_finding_mend(out, "LimitMEMLOCK=infinity");
	fm_finding_mend(
		out, "# without systemd, in /etc/security/limits.conf: fmove - memlock unlimited");
}

static void files(const struct fm_facts *f, const struct fm_facts_process *p,
		  struct fm_findings *list)
{
	struct fm_finding *out;

	if (!p->files.is_known || p->files.n >= FILES_ENOUGH)
		return;
	out = fm_finding_add(list, "open-files", FM_WARNING, f);
	fm_finding_read(out, "fmoved (process %llu) may open %llu files.",
			(unsigned long long)p->pid.n, (unsigned long long)p->files.n);
	fm_finding_means(out, "With many peers or many transfers at once it refuses the next one.");
	fm_finding_mend(out, "# systemctl edit fmoved, then: systemctl restart fmoved");
	fm_finding_mend(out, "[Service]");
	fm_finding_mend(out, "LimitNOFILE=65536");
}

static void control_group(const struct fm_facts *f, const struct fm_facts_process *p,
			  struct fm_findings *list)
{
	char limit[FM_SHOW_MAX], total[FM_SHOW_MAX];
	struct fm_finding *out;

	if (!p->memory_max_bytes.is_known || !f->daemon.total_bytes.is_known ||
	    p->memory_max_bytes.n >= f->daemon.total_bytes.n)
		return;
	out = fm_finding_add(list, "memory-control-group", FM_ERROR, f);
	fm_finding_read(out,
			"The control group of fmoved (process %llu) may have %s of memory; "
			"memory.total is %s.",
			(unsigned long long)p->pid.n, bytes_text(p->memory_max_bytes.n, limit),
			fm_show_bytes(f->daemon.total_bytes.n, total));
	fm_finding_means(out, "The kernel kills fmoved before it has used what it was told it may, "
			      "in the midst of transfers.");
	fm_finding_mend(out, "# systemctl edit fmoved (or memory.total in fmove.conf made "
			     "smaller), then: systemctl restart fmoved");
	fm_finding_mend(out, "[Service]");
	fm_finding_mend(out, "MemoryMax=infinity");
}

/* A transfer that ends is begun again; a volume whose supervisor ended has nobody to guard it. */
static void oom(const struct fm_facts *f, const struct fm_facts_process *p,
		struct fm_findings *list)
{
	long adj = strtol(fm_text_of(&p->oom_score_adj), NULL, 10);
	struct fm_finding *out;

	if (!p->oom_score_adj.is_known || adj <= 0)
		return;
	out = fm_finding_add(list, "oom-score", FM_WARNING, f);
	fm_finding_read(out, "fmove-nvmed (process %llu) has oom_score_adj %ld.",
			(unsigned long long)p->pid.n, adj);
	fm_finding_means(out, "When memory is short the kernel ends it before others; until it is "
			      "back nobody unmounts a volume that was lost or is another's.");
	fm_finding_mend(out, "# systemctl edit fmove-nvmed, then: systemctl restart fmove-nvmed");
	fm_finding_mend(out, "[Service]");
	fm_finding_mend(out, "OOMScoreAdjust=-500");
}

/* GPUs without memory of their own, by a part of their name. */
static bool has_unified_memory(const struct fm_facts *f)
{
	static const char *const names[] = { "GB10", "Orin", "Thor", "Xavier" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strstr(fm_text_of(&f->node.gpu), names[i]))
			return f->node.gpu.is_known;
	return false;
}

static void page_cache(const struct fm_facts *f, struct fm_findings *list)
{
	const struct fm_fact *all = &f->node.memory_bytes, *cache = &f->node.page_cache_bytes,
			     *free = &f->node.free_bytes;
	char a[FM_SHOW_MAX], b[FM_SHOW_MAX], d[FM_SHOW_MAX];
	struct fm_finding *out;

	if (!has_unified_memory(f) || !all->is_known || !cache->is_known || !free->is_known ||
	    free->n >= all->n / FREE_SHARE || cache->n <= all->n / CACHE_SHARE)
		return;
	out = fm_finding_add(list, "page-cache-gpu", FM_WARNING, f);
	fm_finding_read(out, "%s shares the memory of the machine: of %s, %s are free and %s hold "
			     "files that were read or written.",
			f->node.gpu.text, fm_show_bytes(all->n, a), fm_show_bytes(free->n, b),
			fm_show_bytes(cache->n, d));
	fm_finding_means(out, "CUDA counts what is free, and not what the kernel would give back: "
			      "models may not load. fmove reads past this cache where it can; "
			      "other programs fill it.");
	fm_finding_mend(out, "sync; echo 3 >/proc/sys/vm/drop_caches    # before it is loaded");
}

static void machine_memory(const struct fm_facts *f, struct fm_findings *list)
{
	const struct fm_fact *huge = &f->node.huge_pages_bytes, *all = &f->node.memory_bytes;
	char total[FM_SHOW_MAX], memory[FM_SHOW_MAX], reserved[FM_SHOW_MAX];
	struct fm_finding *out;
	uint64_t usable;

	if (!f->daemon.total_bytes.is_known || !all->is_known || !huge->is_known)
		return;
	usable = all->n > huge->n ? all->n - huge->n : 0;
	if (f->daemon.total_bytes.n <= usable / 2)
		return;
	out = fm_finding_add(list, "memory-machine", FM_WARNING, f);
	fm_finding_read(
		out,
		"memory.total is %s; the machine has %s, of which %s are reserved as huge pages.",
		fm_show_bytes(f->daemon.total_bytes.n, total), fm_show_bytes(all->n, memory),
		fm_show_bytes(huge->n, reserved));
	fm_finding_means(out, "More than half of the memory that programs share may become "
			      "fmoved's. Where a GPU shares it, models do not load.");
	fm_finding_mend(out, "memory = { total = \"512MiB\"; };    # in fmove.conf; then: "
			     "systemctl restart fmoved");
}

static void io_uring(const struct fm_facts *f, struct fm_findings *list)
{
	const struct fm_fact *off = &f->node.io_uring_disabled;
	struct fm_finding *out;

	/* A daemon that says what it uses knows better: 1 lets a group have it. */
	if (!off->is_known || off->n == 0 || strstr(fm_text_of(&f->daemon.io), "io_uring"))
		return;
	out = fm_finding_add(list, "io-uring-off", FM_WARNING, f);
	fm_finding_read(out, "kernel.io_uring_disabled is %llu.", (unsigned long long)off->n);
	fm_finding_means(out, "Files are read and written by threads: more processor time, and "
			      "less at once. The same is done, only slower.");
	fm_finding_mend(out, "echo kernel.io_uring_disabled=0 >/etc/sysctl.d/60-fmove.conf && "
			     "sysctl -p /etc/sysctl.d/60-fmove.conf");
	fm_finding_mend(out, "systemctl restart fmoved");
}

/* Of these two, "powersave" is what everybody runs, and means something else. */
static bool is_active_driver(const struct fm_facts *f)
{
	return fm_fact_is(&f->node.governor_driver, "intel_pstate") ||
	       fm_fact_is(&f->node.governor_driver, "amd-pstate-epp");
}

static void governor(const struct fm_facts *f, struct fm_findings *list)
{
	struct fm_finding *out;

	if (!fm_fact_is(&f->node.governor, "powersave") || !f->node.governor_driver.is_known ||
	    is_active_driver(f))
		return;
	out = fm_finding_add(list, "governor", FM_WARNING, f);
	fm_finding_read(out, "The governor of the processors is powersave, of the driver %s.",
			f->node.governor_driver.text);
	fm_finding_means(out, "They run at their lowest speed whatever there is to do: checksums, "
			      "TCP and TLS are slow.");
	fm_finding_mend(out, "cpupower frequency-set --governor schedutil");
}

void fm_check_limits(const struct fm_facts_set *set, struct fm_findings *out)
{
	for (size_t n = 0; n < set->count; n++) {
		const struct fm_facts *f = set->at[n];

		for (size_t i = 0; i < f->processes_count; i++) {
			if (fm_fact_is(&f->processes[i].name, "fmove-nvmed"))
				oom(f, &f->processes[i], out);
			if (!fm_fact_is(&f->processes[i].name, "fmoved"))
				continue;
			memlock(f, &f->processes[i], out);
			files(f, &f->processes[i], out);
			control_group(f, &f->processes[i], out);
		}
		machine_memory(f, out);
		page_cache(f, out);
		io_uring(f, out);
		governor(f, out);
	}
}
