/* SPDX-License-Identifier: MIT */
/* ceiling - see ceiling.h. */
#include "client/doctor/ceiling.h"

#include "client/doctor/lookup.h"

static double disk(const struct fm_facts *f)
{
	double least = 0, mbps;

	for (size_t i = 0; i < f->stores_count; i++)
		for (size_t k = 0; k < f->disks_count; k++) {
			if (!fm_fact_is_same(&f->stores[i].disk, &f->disks[k].name))
				continue;
			mbps = fm_pcie_raw_mbps(&f->disks[k].pcie_mtps, &f->disks[k].pcie_lanes);
			if (mbps > 0 && (least == 0 || mbps < least))
				least = mbps;
		}
	return least;
}

static void count_function(struct fm_ceiling *c, const struct fm_facts_port *p)
{
	bool is_used = fm_is_active(p) && p->interface.is_known &&
		       fm_has_address(c->node, &p->interface, true);

	c->functions++;
	c->functions_used += is_used;
	c->pcie_mbps += is_used ? fm_pcie_mbps(p, false) : 0;
}

static void take_least(struct fm_ceiling *c, double mbps, const char *what)
{
	if (mbps == 0 || (c->least && mbps >= c->least_mbps))
		return;
	c->least_mbps = mbps;
	c->least = what;
}

static void ceiling_of(const struct fm_facts *f, const struct fm_facts_port *p,
		       struct fm_ceiling *out)
{
	*out = (struct fm_ceiling){ .node = f, .port = p, .disk_mbps = disk(f) };
	if (p->rate_mbps.is_known && p->rdma_mtu.is_known)
		out->port_mbps = (double)p->rate_mbps.n * fm_roce_share((double)p->rdma_mtu.n);
	count_function(out, p);
	for (size_t i = 0; i < f->ports_count; i++)
		if (fm_is_sibling(p, &f->ports[i]))
			count_function(out, &f->ports[i]);
	take_least(out, out->port_mbps, "port");
	take_least(out, out->pcie_mbps, "PCIe");
	take_least(out, out->disk_mbps, "disk");
}

/* Its siblings stand for it, if one of them came before. */
static bool is_first(const struct fm_facts *f, const struct fm_facts_port *p)
{
	for (const struct fm_facts_port *other = f->ports; other < p; other++)
		if (fm_is_sibling(p, other) && fm_is_active(other))
			return false;
	return true;
}

size_t fm_ceilings(const struct fm_facts_set *set, struct fm_ceiling out[static FM_CEILINGS_MAX])
{
	size_t count = 0;

	for (size_t n = 0; n < set->count; n++)
		for (size_t i = 0; i < set->at[n]->ports_count && count < FM_CEILINGS_MAX; i++)
			if (fm_is_active(&set->at[n]->ports[i]) &&
			    is_first(set->at[n], &set->at[n]->ports[i]))
				ceiling_of(set->at[n], &set->at[n]->ports[i], &out[count++]);
	return count;
}
