/* SPDX-License-Identifier: MIT */
/*
 * collect_node - the machine: names, processors, memory, what the kernel allows. See
 * collect_priv.h.
 */
#include "mover/facts/collect_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#define CPUFREQ "/sys/devices/system/cpu"

/* "MemTotal:       32768000 kB" of /proc/meminfo, in bytes. */
static void meminfo(const char *text, const char *key, struct fm_fact *fact)
{
	const char *at = strstr(text, key);
	char *end;
	uint64_t kib;

	if (!at) {
		fm_fact_unknown(fact, "/proc/meminfo does not say %s", key);
		return;
	}
	kib = strtoull(at + strlen(key), &end, 10);
	fm_fact_number(fact, kib < FM_FACT_UNLIMITED / 1024 ? kib * 1024 : FM_FACT_UNLIMITED);
}

/* Of files on disks: what is in tmpfs and shared counts as cached there, and cannot be dropped. */
static void page_cache(const char *text, struct fm_fact *fact)
{
	struct fm_fact shared = {0};

	meminfo(text, "\nCached:", fact);
	meminfo(text, "\nShmem:", &shared);
	if (fact->is_known && shared.is_known)
		fm_fact_number(fact, fact->n > shared.n ? fact->n - shared.n : 0);
	else
		fm_fact_unknown(fact, "/proc/meminfo does not say how much of it is shared");
	fm_fact_drop(&shared);
}

static void memory(struct fm_collect *c)
{
	struct fm_facts_node *n = &c->facts->node;
	char *text;
	int ret = fm_collect_file(c, &text, "/proc/meminfo");

	if (ret < 0) {
		fm_collect_failed(&n->memory_bytes, ret, "/proc/meminfo");
		fm_collect_failed(&n->huge_pages_bytes, ret, "/proc/meminfo");
		fm_collect_failed(&n->page_cache_bytes, ret, "/proc/meminfo");
		fm_collect_failed(&n->free_bytes, ret, "/proc/meminfo");
		return;
	}
	meminfo(text, "MemTotal:", &n->memory_bytes);
	meminfo(text, "Hugetlb:", &n->huge_pages_bytes);
	meminfo(text, "\nMemFree:", &n->free_bytes);
	page_cache(text, &n->page_cache_bytes);
	free(text);
}

/* What NVIDIA's driver calls its GPUs, of the first; a machine without that driver has no file. */
static void gpu(struct fm_collect *c)
{
	static const char dir[] = "/proc/driver/nvidia/gpus", key[] = "Model:";
	struct fm_fact *fact = &c->facts->node.gpu;
	struct dirent **names;
	int count = fm_collect_names(c, &names, dir), ret = count < 0 ? count : -ENOENT;
	char *text = NULL, *model = NULL;

	if (count > 0)
		ret = fm_collect_file(c, &text, "%s/%s/information", dir, names[0]->d_name);
	fm_collect_names_free(names, count);
	if (ret == 0 && (model = strstr(text, key))) {
		model += strlen(key) + strspn(model + strlen(key), " \t");
		model[strcspn(model, "\n")] = '\0';
	}
	if (ret < 0)
		fm_collect_failed(fact, ret, dir);
	else if (model)
		fm_fact_text(fact, FM_FACT_TEXT, model);
	else
		fm_fact_unknown(fact, "%s: its model is not said", dir);
	free(text);
}

static bool is_cpu(const char *name)
{
	return strncmp(name, "cpu", 3) == 0 && name[3] &&
	       strspn(name + 3, "0123456789") == strlen(name + 3);
}

/* One governor, or "mixed". */
static void governor(struct fm_collect *c, struct dirent **names, int count)
{
	struct fm_facts_node *n = &c->facts->node;
	struct fm_fact one = { 0 };

	fm_fact_unknown(&n->governor, "no processor");
	for (int i = 0; i < count; i++) {
		if (!is_cpu(names[i]->d_name))
			continue;
		fm_collect_text(c, &one, FM_FACT_TEXT, CPUFREQ "/%s/cpufreq/scaling_governor",
				names[i]->d_name);
		if (!one.is_known) {
			fm_fact_unknown(&n->governor, "%s", one.text ? one.text : "");
			break;
		}
		if (!n->governor.is_known)
			fm_fact_text(&n->governor, FM_FACT_TEXT, one.text);
		else if (!fm_fact_is_same(&n->governor, &one))
			fm_fact_text(&n->governor, FM_FACT_TEXT, "mixed");
	}
	free(one.text);
	fm_collect_text(c, &n->governor_driver, FM_FACT_TEXT,
			CPUFREQ "/cpu0/cpufreq/scaling_driver");
}

static void processors(struct fm_collect *c)
{
	struct dirent **names;
	int count = fm_collect_names(c, &names, CPUFREQ), cpus = 0;

	if (count < 0) {
		fm_collect_failed(&c->facts->node.cpus, count, CPUFREQ);
		fm_collect_failed(&c->facts->node.governor, count, CPUFREQ);
		return;
	}
	for (int i = 0; i < count; i++)
		cpus += is_cpu(names[i]->d_name);
	fm_fact_number(&c->facts->node.cpus, (uint64_t)cpus);
	governor(c, names, count);
	fm_collect_names_free(names, count);
}

static bool has_yaml(const struct fm_collect *c, const char *dir, int *code)
{
	struct dirent **names;
	bool has = false;

	*code = fm_collect_names(c, &names, "%s", dir);
	for (int i = 0; i < *code; i++) {
		size_t len = strlen(names[i]->d_name);

		has = has || (len > 5 && strcmp(names[i]->d_name + len - 5, ".yaml") == 0);
	}
	fm_collect_names_free(names, *code);
	return has;
}

static void managers(struct fm_collect *c)
{
	struct fm_facts_node *n = &c->facts->node;
	struct dirent **names;
	int code = fm_collect_names(c, &names, "/run/NetworkManager/devices");
	bool has;

	fm_collect_names_free(names, code);
	fm_collect_list_read(&n->network_manager, code, "/run/NetworkManager/devices");
	if (n->network_manager.is_known)
		fm_fact_number(&n->network_manager, code >= 0);
	has = has_yaml(c, "/etc/netplan", &code);
	fm_collect_list_read(&n->netplan, code, "/etc/netplan");
	if (n->netplan.is_known)
		fm_fact_number(&n->netplan, has);
}

void fm_collect_node(struct fm_collect *c)
{
	struct fm_facts_node *n = &c->facts->node;
	struct timespec now;
	struct utsname name;

	if (clock_gettime(CLOCK_REALTIME, &now) == 0)
		fm_fact_number(&n->read_ms,
			       (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
	fm_fact_text(&n->fmove, FM_FACT_TEXT, FM_VERSION);
	fm_collect_text(c, &n->name, FM_FACT_TEXT, "/proc/sys/kernel/hostname");
	fm_collect_text(c, &n->kernel, FM_FACT_TEXT, "/proc/sys/kernel/osrelease");
	fm_collect_text(c, &n->kernel_build, FM_FACT_TEXT, "/proc/sys/kernel/version");
	fm_collect_text(c, &n->zfs, FM_FACT_TEXT, "/sys/module/zfs/version");
	fm_fact_unknown(&n->machine, "read from files");
	if (!*c->root && uname(&name) == 0)
		fm_fact_text(&n->machine, FM_FACT_TEXT, name.machine);
	fm_collect_text(c, &n->product, FM_FACT_TEXT, "/sys/class/dmi/id/product_name");
	memory(c);
	gpu(c);
	processors(c);
	fm_collect_number(c, &n->io_uring_disabled, "/proc/sys/kernel/io_uring_disabled");
	fm_collect_number(c, &n->forwards, "/proc/sys/net/ipv4/ip_forward");
	fm_collect_number(c, &n->rp_filter, "/proc/sys/net/ipv4/conf/all/rp_filter");
	fm_collect_number(c, &n->arp_ignore, "/proc/sys/net/ipv4/conf/all/arp_ignore");
	fm_collect_number(c, &n->arp_announce, "/proc/sys/net/ipv4/conf/all/arp_announce");
	managers(c);
}
