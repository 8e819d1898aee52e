/* SPDX-License-Identifier: MIT */
/* collect_storage - disks, fstab, NVMe connections and who makes them. See collect_priv.h. */
#include "mover/facts/collect_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "mover/facts/given_up.h"

#define BLOCK "/sys/block"
#define NVME "/sys/class/nvme"

static void pci_at(struct fm_collect *c, struct fm_facts_disk *d, const char *dir)
{
	fm_collect_link(c, &d->pci, "%s", dir);
	fm_collect_number(c, &d->numa, "%s/numa_node", dir);
	fm_collect_pcie(c, dir, "current", &d->pcie_mtps, &d->pcie_lanes);
}

/*
 * Behind a block device is its controller; with multipath a directory of the controller's name is
 * between.
 */
static void pci(struct fm_collect *c, struct fm_facts_disk *d, const char *name)
{
	int controller =
		(int)(strncmp(name, "nvme", 4) == 0 ? 4 + strspn(name + 4, "0123456789") : 0);
	char dir[PATH_MAX];

	(void)snprintf(dir, sizeof(dir), BLOCK "/%s/device/%.*s/device", name, controller, name);
	if (controller > 0)
		pci_at(c, d, dir);
	(void)snprintf(dir, sizeof(dir), BLOCK "/%s/device/device", name);
	if (!d->pci.is_known)
		pci_at(c, d, dir);
}

/* ---- how hot it is: of a local disk, which is asked for it, and may never answer ---- */

static int read_file(void *ctx, char *out, size_t cap)
{
	FILE *f = fopen(ctx, "re");
	size_t len;

	if (!f)
		return -errno;
	len = fread(out, 1, cap, f);
	(void)fclose(f);
	return len > 0 ? (int)len : -EIO;
}

static void celsius(struct fm_collect *c, struct fm_fact *fact, const char *dir, const char *what)
{
	char path[PATH_MAX], text[32] = "";
	int ret = fm_collect_path(c, path, "%s/%s", dir, what);
	long thousandths;

	if (ret == 0)
		ret = fm_ask_or_give_up(read_file, path, text, sizeof(text) - 1);
	if (ret < 0) {
		fm_collect_failed(fact, ret, path);
		return;
	}
	text[ret] = '\0';
	thousandths = strtol(text, NULL, 10);
	if (thousandths <= 0)
		fm_fact_unknown(fact, "%s: says %s", path, text);
	else
		fm_fact_number(fact, (uint64_t)thousandths / 1000);
}

/* "nvme0n1": the sensor is at nvme0. */
static void heat(struct fm_collect *c, struct fm_facts_disk *d, const char *name)
{
	int controller = (int)(4 + strspn(name + 4, "0123456789"));
	struct dirent **names;
	char dir[PATH_MAX] = "";
	int count;

	if (c->options->is_within_daemon || strncmp(name, "nvme", 4) != 0 || !d->pci.is_known) {
		fm_fact_unknown(&d->temperature_c, "%s",
				c->options->is_within_daemon ? FM_COLLECT_NOT_FOR_PEERS
							     : "no local NVMe disk");
		fm_fact_unknown(&d->temperature_max_c, "%s", d->temperature_c.text);
		return;
	}
	count = fm_collect_names(c, &names, NVME "/%.*s", controller, name);
	for (int i = 0; i < count; i++)
		if (strncmp(names[i]->d_name, "hwmon", 5) == 0)
			(void)snprintf(dir, sizeof(dir), NVME "/%.*s/%s", controller, name,
				       names[i]->d_name);
	fm_collect_names_free(names, count);
	if (!dir[0])
		(void)snprintf(dir, sizeof(dir), NVME "/%.*s/hwmon*", controller, name);
	celsius(c, &d->temperature_c, dir, "temp1_input");
	celsius(c, &d->temperature_max_c, dir, "temp1_max");
}

static void disks(struct fm_collect *c)
{
	struct dirent **names;
	int count = fm_collect_names(c, &names, BLOCK);
	struct fm_facts_disk *d;
	struct stat st;
	char path[PATH_MAX];

	fm_collect_list_read(&c->facts->disks_read, count, BLOCK);
	for (int i = 0; i < count; i++) {
		/* What is made of other devices, or of memory, has none of its own. */
		if (fm_collect_path(c, path, BLOCK "/%s/device", names[i]->d_name) < 0 ||
		    stat(path, &st) < 0)
			continue;
		d = fm_facts_add(c->facts, c->facts->disks, &c->facts->disks_count);
		if (!d)
			break;
		fm_fact_text(&d->name, FM_FACT_NAME, names[i]->d_name);
		fm_collect_text(c, &d->model, FM_FACT_TEXT, BLOCK "/%s/device/model",
				names[i]->d_name);
		pci(c, d, names[i]->d_name);
		heat(c, d, names[i]->d_name);
	}
	fm_collect_names_free(names, count);
}

/* ---- fstab ---- */

/* What is on the network is nobody's business here, and may name a user and a password. */
static bool is_local(const char *source)
{
	static const char *const begins[] = { "/dev/",
					      "UUID=", "LABEL=", "PARTUUID=", "PARTLABEL=" };

	for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++)
		if (strncmp(source, begins[i], strlen(begins[i])) == 0)
			return true;
	return false;
}

static void fstab_line(struct fm_collect *c, char *line)
{
	char *field[3], *rest = line;
	struct fm_facts_fstab *f;
	unsigned n = 0;

	while (n < 3 && (field[n] = strtok_r(n == 0 ? line : NULL, " \t", &rest)) != NULL)
		n++;
	if (n < 3 || !is_local(field[0]) ||
	    !(f = fm_facts_add(c->facts, c->facts->fstab, &c->facts->fstab_count)))
		return;
	fm_fact_text(&f->source, FM_FACT_TEXT, field[0]);
	fm_fact_text(&f->point, FM_FACT_TEXT, field[1]);
	fm_fact_text(&f->type, FM_FACT_TEXT, field[2]);
}

static void fstab(struct fm_collect *c)
{
	char *text, *rest = NULL;
	int ret;

	if (c->options->is_within_daemon) {
		fm_fact_unknown(&c->facts->fstab_read, FM_COLLECT_NOT_FOR_PEERS);
		return;
	}
	ret = fm_collect_file(c, &text, "/etc/fstab");
	fm_collect_list_read(&c->facts->fstab_read, ret, "/etc/fstab");
	if (ret < 0)
		return;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		fstab_line(c, line);
	free(text);
}

/* ---- NVMe connections: none of these attributes asks the target ---- */

/*
 * "traddr=10.0.0.9,trsvcid=4420" of what udev is told. Not of `address`: while a connection over
 * TCP is lost or removed, kernels up to 6.18 may read a socket for it that is not there any more.
 */
static void controller_address(struct fm_collect *c, struct fm_fact *fact, const char *name)
{
	char address[128], *text, *rest, *host = NULL, *port = NULL;
	int ret = fm_collect_file(c, &text, NVME "/%s/uevent", name);

	if (ret < 0) {
		fm_collect_failed(fact, ret, NVME "/NAME/uevent");
		return;
	}
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (strncmp(line, "NVME_TRADDR=", 12) == 0)
			host = line + 12;
		else if (strncmp(line, "NVME_TRSVCID=", 13) == 0)
			port = line + 13;
	}
	(void)snprintf(address, sizeof(address), "traddr=%s,trsvcid=%s", host ? host : "",
		       port ? port : "");
	if (host && port)
		fm_fact_text(fact, FM_FACT_TEXT, address);
	else
		fm_fact_unknown(fact, "it has none");
	free(text);
}

/* How often the kernel tried to connect it anew; those that count it show it since 2026. */
static void controller_reconnects(struct fm_collect *c, struct fm_facts_controller *n,
				  const char *name)
{
	if (fm_fact_is(&n->transport, "pcie"))
		fm_fact_unknown(&n->reconnects, "it is a local disk");
	else
		fm_collect_number(c, &n->reconnects, NVME "/%s/diag/reconnect_count", name);
}

static void controllers(struct fm_collect *c)
{
	struct fm_facts_controller *n;
	struct dirent **names;
	int count = fm_collect_names(c, &names, NVME);

	fm_collect_list_read(&c->facts->controllers_read, count, NVME);
	for (int i = 0; i < count; i++) {
		n = fm_facts_add(c->facts, c->facts->controllers, &c->facts->controllers_count);
		if (!n)
			break;
		fm_fact_text(&n->name, FM_FACT_NAME, names[i]->d_name);
		fm_collect_text(c, &n->transport, FM_FACT_TEXT, NVME "/%s/transport",
				names[i]->d_name);
		controller_address(c, &n->address, names[i]->d_name);
		fm_collect_text(c, &n->subsystem, FM_FACT_TEXT, NVME "/%s/subsysnqn",
				names[i]->d_name);
		if (c->options->is_within_daemon)
			fm_fact_unknown(&n->host_nqn, FM_COLLECT_NOT_FOR_PEERS);
		else
			fm_collect_text(c, &n->host_nqn, FM_FACT_TEXT, NVME "/%s/hostnqn",
					names[i]->d_name);
		fm_collect_text(c, &n->state, FM_FACT_TEXT, NVME "/%s/state", names[i]->d_name);
		controller_reconnects(c, n, names[i]->d_name);
	}
	fm_collect_names_free(names, count);
}

/*
 * Services that connect by themselves: enabled by a link, and, where it needs one, with a file that
 * names targets.
 */
static const struct {
	const char *name, *unit, *targets;
} owners[] = {
	{ "nvmf-autoconnect", "nvmf-autoconnect.service", "/etc/nvme/discovery.conf" },
	{ "nvmf-autoconnect", "nvmf-autoconnect.service", "/etc/nvme/config.json" },
	{ "stafd", "stafd.service", NULL },
	{ "stacd", "stacd.service", NULL },
	{ "fmove-nvmed", "fmove-nvmed.service", NULL },
};

static bool has_targets(const struct fm_collect *c, const char *path)
{
	bool has = false;
	char *text, *rest = NULL;

	if (fm_collect_file(c, &text, "%s", path) < 0)
		return false;
	for (char *line = strtok_r(text, "\n", &rest); line && !has;
	     line = strtok_r(NULL, "\n", &rest)) {
		line += strspn(line, " \t");
		has = *line && *line != '#' && strcmp(line, "[]") != 0;
	}
	free(text);
	return has;
}

static bool is_enabled(const struct fm_collect *c, const char *unit)
{
	static const char *const wants[] = { "multi-user", "default", "remote-fs",
					     "remote-fs-pre" };
	char path[PATH_MAX];
	struct stat st;

	for (size_t i = 0; i < sizeof(wants) / sizeof(wants[0]); i++)
		if (fm_collect_path(c, path, "/etc/systemd/system/%s.target.wants/%s", wants[i],
				    unit) == 0 &&
		    lstat(path, &st) == 0)
			return true;
	return false;
}

static void who_connects(struct fm_collect *c)
{
	struct fm_facts_owner *o;

	fm_fact_number(&c->facts->owners_read, 1);
	for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]); i++) {
		if (!is_enabled(c, owners[i].unit) ||
		    (owners[i].targets && !has_targets(c, owners[i].targets)))
			continue;
		o = fm_facts_add(c->facts, c->facts->owners, &c->facts->owners_count);
		if (!o)
			return;
		fm_fact_text(&o->name, FM_FACT_NAME, owners[i].name);
		fm_fact_text(&o->evidence, FM_FACT_TEXT,
			     owners[i].targets ? owners[i].targets : owners[i].unit);
	}
}

void fm_collect_storage(struct fm_collect *c)
{
	disks(c);
	fstab(c);
	controllers(c);
	who_connects(c);
}
