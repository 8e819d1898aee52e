/* SPDX-License-Identifier: MIT */
/* collect_network - interfaces, from sysfs and procfs. See collect_priv.h. */
#include "mover/facts/collect_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CLASS "/sys/class/net"
#define CONF "/proc/sys/net/ipv4/conf"

/*
 * Whether NetworkManager manages it: what that keeps of each device in a file of its run directory,
 * since its bus would start it. Where it keeps nothing of this one, or does not run, it does not.
 */
static void managed(struct fm_collect *c, struct fm_facts_interface *i)
{
	struct fm_fact index = { 0 };
	char *text;
	int ret;

	fm_collect_number(c, &index, CLASS "/%s/ifindex", i->name.text);
	if (!c->facts->node.network_manager.is_known || !index.is_known) {
		fm_fact_unknown(&i->nm_managed, "%s",
				index.is_known ? "not known whether NetworkManager runs"
					       : index.text);
	} else if (!c->facts->node.network_manager.n) {
		fm_fact_number(&i->nm_managed, false);
	} else if ((ret = fm_collect_file(c, &text, "/run/NetworkManager/devices/%llu",
					  (unsigned long long)index.n)) < 0) {
		fm_collect_list_read(&i->nm_managed, ret, "/run/NetworkManager/devices");
		if (i->nm_managed.is_known)
			fm_fact_number(&i->nm_managed, false);
	} else {
		fm_fact_number(&i->nm_managed, strstr(text, "\nmanaged=true\n") != NULL);
		free(text);
	}
	free(index.text);
}

/* Of a bond or a bridge that it is a part of. */
static void has_master(struct fm_collect *c, struct fm_facts_interface *i)
{
	char path[PATH_MAX] = "";
	struct stat st;
	int ret = fm_collect_path(c, path, CLASS "/%s/master", i->name.text);

	if (ret == 0 && lstat(path, &st) < 0)
		ret = -errno;
	if (ret == 0 || ret == -ENOENT)
		fm_fact_number(&i->has_master, ret == 0);
	else
		fm_collect_failed(&i->has_master, ret, path);
	if (ret < 0)
		return;
	fm_collect_link(c, &i->master, CLASS "/%s/master", i->name.text);
	if (i->master.is_known)
		fm_collect_text(c, &i->bond_mode, FM_FACT_TEXT, CLASS "/%s/bonding/mode",
				i->master.text);
}

static void one_interface(struct fm_collect *c, const char *name)
{
	struct fm_facts_interface *i;

	if (strcmp(name, "lo") == 0 || strcmp(name, "bonding_masters") == 0)
		return;
	i = fm_facts_add(c->facts, c->facts->interfaces, &c->facts->interfaces_count);
	if (!i)
		return;
	fm_fact_text(&i->name, FM_FACT_NAME, name);
	if (!i->name.is_known)
		return;
	fm_collect_number(c, &i->mtu, CLASS "/%s/mtu", name);
	fm_collect_text(c, &i->state, FM_FACT_TEXT, CLASS "/%s/operstate", name);
	fm_collect_number(c, &i->speed_mbps, CLASS "/%s/speed", name);
	has_master(c, i);
	fm_collect_number(c, &i->rp_filter, CONF "/%s/rp_filter", name);
	fm_collect_number(c, &i->arp_ignore, CONF "/%s/arp_ignore", name);
	fm_collect_number(c, &i->arp_announce, CONF "/%s/arp_announce", name);
	managed(c, i);
}

void fm_collect_network(struct fm_collect *c)
{
	struct dirent **names;
	int count = fm_collect_names(c, &names, CLASS);

	fm_collect_list_read(&c->facts->interfaces_read, count, CLASS);
	for (int i = 0; i < count; i++)
		one_interface(c, names[i]->d_name);
	fm_collect_names_free(names, count);
}
