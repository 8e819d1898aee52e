/* SPDX-License-Identifier: MIT */
/* check_devices - one RDMA port: its state, MTU, GIDs, PCIe link and place. See check.h. */
#include "client/doctor/check.h"

#include <string.h>

#include "client/doctor/lookup.h"
#include "client/doctor/mend.h"

#define FAST_MBPS 40000u /* below that a small MTU costs less than anybody measures */
#define PCIE_ENOUGH 0.97 /* of a port's rate: no link is narrower for less */
#define TYPE_V1 "IB/RoCE v1"
#define DRIVER_V1_ONLY "mlx4_core"

/* Known to have an address that somebody gave it. */
static bool is_configured(const struct fm_facts *f, const struct fm_facts_port *p)
{
	const struct fm_facts_address *a = NULL;

	while ((a = fm_address_next(f, &p->interface, a)) != NULL)
		if (a->link_local.is_known && !a->link_local.n)
			return true;
	return false;
}

static void state(const struct fm_facts *f, const struct fm_facts_port *p, struct fm_findings *list)
{
	struct fm_finding *out;

	if (!p->state.is_known || fm_is_active(p))
		return;
	if (fm_fact_is(&p->state, "INIT") && fm_fact_is(&p->link_layer, "InfiniBand")) {
		out = fm_finding_add(list, "no-subnet-manager", FM_ERROR, f);
		fm_finding_read(out, "%s port %u: INIT, link layer InfiniBand.", p->device.text,
				(unsigned)p->port.n);
		fm_finding_means(out, "The cable is good, but no subnet manager has given this "
				      "port an address. Nothing goes over it.");
		fm_finding_mend(
			out,
			"systemctl enable --now opensm    # on one node, if no switch runs one");
	} else if (is_configured(f, p)) {
		out = fm_finding_add(list, "port-down", FM_WARNING, f);
		fm_finding_read(out, "%s, interface %s: %s, and it has an address.", p->device.text,
				p->interface.text, p->state.text);
		fm_finding_means(out, "Nothing goes over this port. Its cable is not in, is cut, "
				      "or the other end is off.");
		fm_finding_mend(out, "ip link set dev %s up    # if it is not the cable",
				p->interface.text);
	}
}

/* A bond of the kernel's. One that the card makes itself has one device for both of its ports. */
static void lag(const struct fm_facts *f, const struct fm_facts_port *p, struct fm_findings *list)
{
	const struct fm_facts_interface *i = fm_interface_of(f, &p->interface);
	struct fm_finding *out;

	if (!i || !i->master.is_known || !i->bond_mode.is_known ||
	    strstr(fm_text_of(&p->device), "bond"))
		return;
	out = fm_finding_add(list, "lag-under-rdma", FM_WARNING, f);
	fm_finding_read(out, "%s, interface %s: part of the bond %s, mode %s.",
			fm_text_of(&p->device), i->name.text, i->master.text, i->bond_mode.text);
	fm_finding_means(out, "RDMA does not go over a bond of the kernel's: this port has no "
			      "address of its own, and the bond's TCP connections take one port "
			      "each. fmove uses ports side by side without one.");
	fm_finding_mend(out, "ip link set dev %s nomaster    # until the next boot", i->name.text);
	fm_finding_mend(out, "# then an address in a network of its own for each port");
}

static void mtu(const struct fm_facts *f, const struct fm_facts_port *p, struct fm_findings *list)
{
	const struct fm_facts_interface *i = fm_interface_of(f, &p->interface);
	struct fm_finding *out;

	if (!i || !i->mtu.is_known || !p->rate_mbps.is_known || p->rate_mbps.n < FAST_MBPS ||
	    !fm_fact_is(&p->link_layer, "Ethernet") || !p->rdma_mtu.is_known ||
	    p->rdma_mtu.n >= FM_RDMA_MTU_FULL)
		return;
	if (i->mtu.n < FM_MTU_FULL) {
		out = fm_finding_add(list, "mtu-small", FM_WARNING, f);
		fm_finding_read(out, "%s, interface %s: MTU %u, so the RDMA MTU is %u.",
				p->device.text, i->name.text, (unsigned)i->mtu.n,
				(unsigned)p->rdma_mtu.n);
		fm_finding_means(out,
				 "At most %.1f of %.1f Gb/s are payload; with an RDMA MTU of %u it "
				 "is %.1f. TCP needs more processor time, too.",
				 fm_roce_share((double)p->rdma_mtu.n) * (double)p->rate_mbps.n /
					 1000,
				 (double)p->rate_mbps.n / 1000, FM_RDMA_MTU_FULL,
				 fm_roce_share(FM_RDMA_MTU_FULL) * (double)p->rate_mbps.n / 1000);
		fm_mend_mtu(f, &(struct fm_mend){ .interface = i->name.text, .mtu = FM_MTU_JUMBO },
			    out);
		fm_finding_mend(out, "# at the other end, too, and at a switch between them first");
	} else if (p->rdma_mtu_max.is_known && p->rdma_mtu_max.n > p->rdma_mtu.n) {
		out = fm_finding_add(list, "rdma-mtu-behind", FM_WARNING, f);
		fm_finding_read(
			out, "%s: RDMA MTU %u, its interface %s has MTU %u, the device can do %u.",
			p->device.text, (unsigned)p->rdma_mtu.n, i->name.text, (unsigned)i->mtu.n,
			(unsigned)p->rdma_mtu_max.n);
		fm_finding_means(out, "The device still goes by an earlier MTU of its interface.");
		fm_finding_mend(out, "ip link set dev %s down && ip link set dev %s up",
				i->name.text, i->name.text);
	}
}

/* ---- GIDs ---- */

static void gid_of(const struct fm_facts *f, const struct fm_facts_port *p,
		   const struct fm_facts_address *a, struct fm_findings *list)
{
	unsigned found = 0, newer = 0, unknown = 0;
	struct fm_finding *out;
	struct fm_network net;

	if (!fm_net_of(&a->address, NULL, &net))
		return;
	for (size_t i = 0; i < f->gids_count; i++) {
		const struct fm_facts_gid *g = &f->gids[i];

		unknown += !g->gid.is_known || !g->device.is_known || !g->port.is_known ||
			   !p->port.is_known;
		if (!fm_fact_is_same(&g->device, &p->device) ||
		    !fm_fact_is_same(&g->port, &p->port))
			continue;
		found += fm_gid_is_of(g, &net);
		newer += fm_gid_is_of(g, &net) && !fm_fact_is(&g->type, TYPE_V1);
	}
	if (found == 0 && unknown == 0) {
		out = fm_finding_add(list, "gid-missing", FM_ERROR, f);
		fm_finding_read(
			out, "%s port %u has no GID for %s, the address of its interface %s.",
			p->device.text, (unsigned)p->port.n, a->address.text, a->interface.text);
		fm_finding_means(out, "RDMA cannot use this address; fmove goes over TCP here. The "
				      "kernel makes a GID when an address is added "
				      "while the interface is up.");
		fm_finding_mend(out, "ip link set dev %s down && ip link set dev %s up",
				a->interface.text, a->interface.text);
	} else if (found > 0 && newer == 0 && p->driver.is_known &&
		   !fm_fact_is(&p->driver, DRIVER_V1_ONLY)) {
		out = fm_finding_add(list, "gid-v1-only", FM_WARNING, f);
		fm_finding_read(out, "%s port %u has only a GID of RoCE v1 for %s.", p->device.text,
				(unsigned)p->port.n, a->address.text);
		fm_finding_means(out, "A node that connects with RoCE v2, the default of current "
				      "kernels, does not reach this port over RDMA.");
		fm_finding_mend(out,
				"mlxconfig -d %s query    # ROCE_NEXT_PROTOCOL and "
				"ROCE_CC_PRIO_MASK; then update the firmware",
				p->pci.is_known ? p->pci.text : p->device.text);
	}
}

static void gids(const struct fm_facts *f, const struct fm_facts_port *p, struct fm_findings *list)
{
	const struct fm_facts_address *a = NULL;

	if (!f->gids_read.is_known || f->gids_count == FM_FACTS_GIDS_MAX || !fm_is_active(p) ||
	    !fm_fact_is(&p->link_layer, "Ethernet"))
		return;
	while ((a = fm_address_next(f, &p->interface, a)) != NULL)
		if (!fm_fact_is_true(&a->link_local))
			gid_of(f, p, a, list);
}

/* ---- PCIe ---- */

/* Of all functions that share the cage of one. */
static double pcie_of_cage(const struct fm_facts *f, const struct fm_facts_port *p, bool is_max)
{
	double sum = fm_pcie_mbps(p, is_max);

	for (size_t i = 0; i < f->ports_count; i++)
		if (fm_is_sibling(p, &f->ports[i]))
			sum += fm_pcie_mbps(&f->ports[i], is_max);
	return sum;
}

/*
 * Only where the link is the limit, and the device could do more: a link that is enough is no
 * finding.
 */
static void pcie(const struct fm_facts *f, const struct fm_facts_port *p, struct fm_findings *list)
{
	double now = pcie_of_cage(f, p, false), could = pcie_of_cage(f, p, true);
	struct fm_finding *out;

	if (!fm_is_active(p) || !p->rate_mbps.is_known || now == 0 ||
	    now >= PCIE_ENOUGH * (double)p->rate_mbps.n)
		return;
	if (fm_pcie_mbps(p, false) >= fm_pcie_mbps(p, true) || could <= now)
		return;
	out = fm_finding_add(list, "pcie-narrow", FM_WARNING, f);
	fm_finding_read(out, "%s at %s: PCIe %.1f GT/s x%u; the device can do %.1f GT/s x%u.",
			p->device.text, p->pci.is_known ? p->pci.text : "an unknown address",
			(double)p->pcie_mtps.n / 1000, (unsigned)p->pcie_lanes.n,
			(double)p->pcie_mtps_max.n / 1000, (unsigned)p->pcie_lanes_max.n);
	fm_finding_means(out, "The PCIe link%s carr%s %.0f Gb/s, the port %.0f.",
			 now > fm_pcie_mbps(p, false) ? "s of this port" : "",
			 now > fm_pcie_mbps(p, false) ? "y" : "ies", now / 1000,
			 (double)p->rate_mbps.n / 1000);
	fm_finding_mend(out, "# put the card into a slot with more lanes of its generation, or "
			     "seat it anew; the BIOS may split or slow the slot");
}

static void errors(const struct fm_facts *f, const struct fm_facts_port *p,
		   struct fm_findings *list)
{
	struct fm_finding *out;

	if (p->aer_fatal.n + p->aer_nonfatal.n == 0)
		return;
	out = fm_finding_add(list, "pcie-errors", FM_WARNING, f);
	fm_finding_read(out,
			"%s at %s: %llu fatal and %llu other PCIe errors that were not corrected, "
			"since the boot.",
			p->device.text, p->pci.is_known ? p->pci.text : "an unknown address",
			(unsigned long long)p->aer_fatal.n, (unsigned long long)p->aer_nonfatal.n);
	fm_finding_means(out, "Transfers of the device were lost on their way to memory. "
			      "Connections break, and the device may go.");
	fm_finding_mend(out, "# seat the card anew, look for firmware of the card and the BIOS; "
			     "then read aer_dev_fatal and aer_dev_nonfatal again");
}

/* ---- NUMA ---- */

static const struct fm_facts_disk *disk_of(const struct fm_facts *f, const struct fm_facts_store *s)
{
	for (size_t i = 0; i < f->disks_count; i++)
		if (fm_fact_is_same(&f->disks[i].name, &s->disk))
			return &f->disks[i];
	return NULL;
}

static void numa(const struct fm_facts *f, const struct fm_facts_port *p, struct fm_findings *list)
{
	struct fm_finding *out;

	if (!fm_is_active(p) || !p->numa.is_known)
		return;
	for (size_t i = 0; i < f->stores_count; i++) {
		const struct fm_facts_disk *d = disk_of(f, &f->stores[i]);

		if (!d || !d->numa.is_known || d->numa.n == p->numa.n)
			continue;
		out = fm_finding_add(list, "numa-far", FM_NOTE, f);
		fm_finding_read(out, "%s is at NUMA node %u, %s with a store at node %u.",
				p->device.text, (unsigned)p->numa.n, d->name.text,
				(unsigned)d->numa.n);
		fm_finding_means(out, "Each byte crosses from one processor to the other. That "
				      "costs where the link between them is busy.");
		fm_finding_mend(out, "# a slot at the other processor, for the card or the disk");
		return;
	}
}

void fm_check_devices(const struct fm_facts_set *set, struct fm_findings *out)
{
	for (size_t n = 0; n < set->count; n++) {
		const struct fm_facts *f = set->at[n];

		for (size_t i = 0; i < f->ports_count; i++) {
			const struct fm_facts_port *p = &f->ports[i];

			if (!p->device.is_known)
				continue;
			state(f, p, out);
			lag(f, p, out);
			mtu(f, p, out);
			gids(f, p, out);
			pcie(f, p, out);
			errors(f, p, out);
			numa(f, p, out);
		}
	}
}
