/* SPDX-License-Identifier: MIT */
/* collect_ports - RDMA ports, their GIDs and PCIe links, from sysfs. See collect_priv.h. */
#include "mover/facts/collect_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CLASS "/sys/class/infiniband"
#define RDMA_CM "/sys/kernel/config/rdma_cm"
#define CARDS_MAX 64u
#define GIDS_SCANNED_MAX 1024 /* of one port; the tables of devices have 16 to 256 */

/*
 * Cards are told by the GUID that all ports of one have; the facts have a number in its place,
 * which tells nobody.
 */
struct cards {
	char guid[CARDS_MAX][64];
	size_t count;
};

static void card(struct fm_collect *c, const char *device, struct cards *cards,
		 struct fm_fact *fact)
{
	char line[FM_COLLECT_LINE_MAX];
	size_t i = 0;
	int ret = fm_collect_line(c, line, CLASS "/%s/sys_image_guid", device);

	if (ret < 0 || strlen(line) >= sizeof(cards->guid[0])) {
		fm_collect_failed(fact, ret < 0 ? ret : -EINVAL, "sys_image_guid");
		return;
	}
	/* Software devices may have none. */
	if (strspn(line, "0:") == strlen(line)) {
		fm_fact_unknown(fact, "sys_image_guid is zero");
		return;
	}
	while (i < cards->count && strcmp(cards->guid[i], line) != 0)
		i++;
	if (i == CARDS_MAX) {
		fm_fact_unknown(fact, "more than %u cards", CARDS_MAX);
		return;
	}
	if (i == cards->count)
		strcpy(cards->guid[cards->count++], line);
	fm_fact_number(fact, i);
}

/* "32.0 GT/s PCIe" */
static void transfers(const struct fm_collect *c, struct fm_fact *fact, const char *dir,
		      const char *which)
{
	char line[FM_COLLECT_LINE_MAX], *end;
	double gtps;
	int ret = fm_collect_line(c, line, "%s/%s_link_speed", dir, which);

	if (ret < 0) {
		fm_fact_unknown(fact, "%s/%s_link_speed: %s", dir, which, strerrordesc_np(-ret));
		return;
	}
	gtps = strtod(line, &end);
	if (end == line || !(gtps > 0 && gtps < 1000) || strncmp(end, " GT/s", 5) != 0)
		fm_fact_unknown(fact, "%s/%s_link_speed: says %s", dir, which, line);
	else
		fm_fact_number(fact, (uint64_t)(gtps * 1000 + 0.5));
}

void fm_collect_pcie(const struct fm_collect *c, const char *dir, const char *which,
		     struct fm_fact *mtps, struct fm_fact *lanes)
{
	transfers(c, mtps, dir, which);
	fm_collect_number(c, lanes, "%s/%s_link_width", dir, which);
	/* Of a link that is not there. */
	if (lanes->is_known && (lanes->n == 0 || lanes->n > 64))
		fm_fact_unknown(lanes, "%s/%s_link_width: says %u", dir, which, (unsigned)lanes->n);
}

/*
 * The largest payload of a packet that the device sends (Device Control, bits 5 to 7), from its
 * configuration space; only root is shown more than its first 64 bytes.
 */
static void max_payload(const struct fm_collect *c, const char *dir, struct fm_fact *fact)
{
	uint8_t config[256];
	char path[PATH_MAX];
	size_t len = 0, at;
	FILE *f;

	fm_fact_unknown(fact, "%s/config: only root may read it", dir);
	if (fm_collect_path(c, path, "%s/config", dir) < 0 || !(f = fopen(path, "re")))
		return;
	len = fread(config, 1, sizeof(config), f);
	fclose(f);
	if (len < sizeof(config) || !(config[6] & 0x10))
		return;
	at = config[0x34] & ~3u;
	for (unsigned i = 0; i < 48 && at >= 0x40 && at + 10 <= sizeof(config);
	     i++, at = config[at + 1] & ~3u)
		if (config[at] == 0x10) {
			fm_fact_number(fact, 128u << (config[at + 8] >> 5 & 7));
			return;
		}
}

/* "TOTAL_ERR_FATAL 0" is the last line of aer_dev_fatal. */
static void errors(const struct fm_collect *c, const char *dir, const char *kind, const char *total,
		   struct fm_fact *fact)
{
	char line[FM_COLLECT_LINE_MAX];
	int ret = fm_collect_line(c, line, "%s/aer_dev_%s", dir, kind);
	const char *at = ret == 0 ? strstr(line, total) : NULL;

	if (ret < 0)
		fm_fact_unknown(fact, "%s/aer_dev_%s: %s", dir, kind, strerrordesc_np(-ret));
	else if (!at)
		fm_fact_unknown(fact, "%s/aer_dev_%s: says no %s", dir, kind, total);
	else
		fm_fact_number(fact, strtoull(at + strlen(total), NULL, 10));
}

static void pci(const struct fm_collect *c, struct fm_facts_port *p, const char *device)
{
	char dir[PATH_MAX];

	(void)snprintf(dir, sizeof(dir), CLASS "/%s/device", device);
	fm_collect_link(c, &p->pci, "%s", dir);
	fm_collect_link(c, &p->driver, "%s/driver", dir);
	fm_collect_number(c, &p->numa, "%s/numa_node", dir);
	fm_collect_pcie(c, dir, "current", &p->pcie_mtps, &p->pcie_lanes);
	fm_collect_pcie(c, dir, "max", &p->pcie_mtps_max, &p->pcie_lanes_max);
	max_payload(c, dir, &p->mps);
	errors(c, dir, "fatal", "TOTAL_ERR_FATAL", &p->aer_fatal);
	errors(c, dir, "nonfatal", "TOTAL_ERR_NONFATAL", &p->aer_nonfatal);
	errors(c, dir, "correctable", "TOTAL_ERR_COR", &p->aer_correctable);
}

/* "200 Gb/sec (4X HDR)" */
static void rate(const struct fm_collect *c, struct fm_fact *fact, const char *dir)
{
	char line[FM_COLLECT_LINE_MAX], *end;
	double gbps;
	int ret = fm_collect_line(c, line, "%s/rate", dir);

	gbps = ret == 0 ? strtod(line, &end) : 0;
	if (ret < 0)
		fm_fact_unknown(fact, "%s/rate: %s", dir, strerrordesc_np(-ret));
	else if (!(gbps > 0 && gbps < 100000) || strncmp(end, " Gb/sec", 7) != 0)
		fm_fact_unknown(fact, "%s/rate: says %s", dir, line);
	else
		fm_fact_number(fact, (uint64_t)(gbps * 1000 + 0.5));
}

/* "4: ACTIVE" is ACTIVE. */
static void state(const struct fm_collect *c, struct fm_fact *fact, const char *dir)
{
	fm_collect_text(c, fact, FM_FACT_TEXT, "%s/state", dir);
	if (fact->is_known && strstr(fact->text, ": "))
		memmove(fact->text, strstr(fact->text, ": ") + 2,
			strlen(strstr(fact->text, ": ") + 2) + 1);
}

/* The GIDs that there are: an entry without one is zero, and its type cannot be read. */
static void gids(struct fm_collect *c, const char *dir, const char *device, const char *port)
{
	char line[FM_COLLECT_LINE_MAX];
	struct fm_facts_gid *g;

	for (int i = 0; i < GIDS_SCANNED_MAX && fm_collect_line(c, line, "%s/gids/%d", dir, i) == 0;
	     i++) {
		if (strspn(line, "0:") == strlen(line))
			continue;
		g = fm_facts_add(c->facts, c->facts->gids, &c->facts->gids_count);
		if (!g)
			return;
		fm_fact_text(&g->device, FM_FACT_NAME, device);
		fm_fact_number(&g->port, strtoull(port, NULL, 10));
		fm_fact_number(&g->index, (uint64_t)i);
		fm_fact_text(&g->gid, FM_FACT_ADDRESS, line);
		fm_collect_text(c, &g->type, FM_FACT_TEXT, "%s/gid_attrs/types/%d", dir, i);
		fm_collect_text(c, &g->interface, FM_FACT_NAME, "%s/gid_attrs/ndevs/%d", dir, i);
	}
}

/*
 * What rdma_cm connects with by default. Its directory is there only after somebody made it, and
 * making it would change the system.
 */
static void roce_mode(const struct fm_collect *c, struct fm_facts_port *p, const char *device,
		      const char *port)
{
	fm_collect_text(c, &p->roce_mode, FM_FACT_TEXT, RDMA_CM "/%s/ports/%s/default_roce_mode",
			device, port);
}

static void one_port(struct fm_collect *c, struct cards *cards, const char *device,
		     const char *port)
{
	struct fm_facts_port *p = fm_facts_add(c->facts, c->facts->ports, &c->facts->ports_count);
	char dir[PATH_MAX];

	if (!p)
		return;
	(void)snprintf(dir, sizeof(dir), CLASS "/%s/ports/%s", device, port);
	fm_fact_text(&p->device, FM_FACT_NAME, device);
	fm_fact_number(&p->port, strtoull(port, NULL, 10));
	card(c, device, cards, &p->card);
	pci(c, p, device);
	state(c, &p->state, dir);
	rate(c, &p->rate_mbps, dir);
	fm_collect_text(c, &p->link_layer, FM_FACT_TEXT, "%s/link_layer", dir);
	fm_collect_text(c, &p->type, FM_FACT_TEXT, CLASS "/%s/hca_type", device);
	fm_collect_text(c, &p->firmware, FM_FACT_TEXT, CLASS "/%s/fw_ver", device);
	fm_collect_text(c, &p->interface, FM_FACT_NAME, "%s/gid_attrs/ndevs/0", dir);
	if (p->interface.is_known)
		fm_collect_text(c, &p->cage, FM_FACT_NAME, "/sys/class/net/%s/phys_port_name",
				p->interface.text);
	fm_fact_unknown(&p->rdma_mtu, "read from files; only the device says it");
	fm_fact_unknown(&p->rdma_mtu_max, "read from files; only the device says it");
	roce_mode(c, p, device, port);
	gids(c, dir, device, port);
}

void fm_collect_ports(struct fm_collect *c)
{
	struct dirent **devices, **ports;
	int count = fm_collect_names(c, &devices, CLASS), port_count;
	struct cards cards = { .count = 0 };

	fm_collect_list_read(&c->facts->ports_read, count, CLASS);
	fm_collect_list_read(&c->facts->gids_read, count, CLASS);
	for (int i = 0; i < count; i++) {
		port_count = fm_collect_names(c, &ports, CLASS "/%s/ports", devices[i]->d_name);
		for (int k = 0; k < port_count; k++)
			one_port(c, &cards, devices[i]->d_name, ports[k]->d_name);
		fm_collect_names_free(ports, port_count);
	}
	fm_collect_names_free(devices, count);
}
