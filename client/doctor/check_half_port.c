/* SPDX-License-Identifier: MIT */
/*
 * check_half_port - a port that shows up as several functions, of which not all carry anything. See
 * check.h.
 *
 * A DGX Spark's cage is two PCIe links of four lanes each: with one of them a 200 Gb/s cable ends
 * at about 100.
 */
#include "client/doctor/check.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "client/doctor/lookup.h"
#include "client/doctor/mend.h"

#define RP_FILTER_STRICT 1u
#define TABLE_FIRST 101u /* of the routes that a rule leads to */

/* Its addresses are its master's. */
static bool is_own(const struct fm_facts *f, const struct fm_facts_port *p)
{
	const struct fm_facts_interface *i = fm_interface_of(f, &p->interface);

	return i && i->has_master.is_known && !i->has_master.n;
}

static const struct fm_facts_port *sibling_with_address(const struct fm_facts *f,
							const struct fm_facts_port *p)
{
	for (size_t i = 0; i < f->ports_count; i++) {
		const struct fm_facts_port *other = &f->ports[i];

		if (fm_is_sibling(p, other) && fm_is_active(other) &&
		    fm_has_address(f, &other->interface, false))
			return other;
	}
	return NULL;
}

static void cost(struct fm_finding *f, const struct fm_facts_port *used)
{
	double pcie = fm_pcie_mbps(used, false) / 1000;

	if (pcie > 0 && used->rate_mbps.is_known && pcie < (double)used->rate_mbps.n / 1000)
		fm_finding_means(f,
				 "Both functions share one cable of %.0f Gb/s, and each has a PCIe "
				 "link of its own. That of %s ends at %.0f Gb/s, "
				 "so about half of the cable is not used.",
				 (double)used->rate_mbps.n / 1000, used->device.text, pcie);
	else
		fm_finding_means(f, "Both functions share one cable, and each has a PCIe link of "
				    "its own: what uses one of them may get half of the "
				    "cable.");
}

static void mend(const struct fm_facts_set *set, const struct fm_facts *f,
		 const struct fm_facts_port *p, const struct fm_facts_port *used,
		 struct fm_finding *out)
{
	const struct fm_facts_interface *i = fm_interface_of(f, &used->interface);
	struct fm_mend m = { .interface = p->interface.text };
	char address[24];

	m.mtu = i && i->mtu.is_known && i->mtu.n <= FM_MTU_JUMBO ? (unsigned)i->mtu.n : 0;
	if (fm_mend_next_network(set, fm_ipv4_of(f, &used->interface), address))
		m.address = address;
	fm_mend_address(f, &m, out);
	fm_finding_mend(
		out,
		"# at the other end of the cable the same, with the other address of that network");
}

static void without_address(const struct fm_facts_set *set, const struct fm_facts *f,
			    const struct fm_facts_port *p, struct fm_findings *list)
{
	const struct fm_facts_port *used = sibling_with_address(f, p);
	bool is_link_local = fm_has_address(f, &p->interface, true);
	struct fm_finding *out;

	if (!used) {
		if (is_link_local || !fm_is_active(p))
			return;
		out = fm_finding_add(list, "port-without-address", FM_WARNING, f);
		fm_finding_read(
			out,
			"%s, interface %s: a cable is in it and its link is up; it has no address.",
			p->device.text, p->interface.text);
		fm_finding_means(out, "Nothing can go over this port.");
		fm_mend_address(f, &(struct fm_mend){ .interface = p->interface.text }, out);
		return;
	}
	if (is_link_local) {
		out = fm_finding_add(list, "half-port-for-others", FM_NOTE, f);
		fm_finding_read(out,
				"%s, interface %s: only an IPv6 link-local address; %s, the other "
				"function of the same port, has others.",
				p->device.text, p->interface.text, used->device.text);
		fm_finding_means(out, "fmove uses both. NCCL and most other programs use the one "
				      "with the other addresses alone.");
	} else {
		out = fm_finding_add(list, "half-port", FM_WARNING, f);
		fm_finding_read(out,
				"%s, interface %s: no address; %s, the other function of the same "
				"port, has one.",
				p->device.text, p->interface.text, used->device.text);
	}
	cost(out, used);
	mend(set, f, p, used, out);
}

/* A function whose link is down while the other's, over the same cable, is up. */
static void down(const struct fm_facts *f, const struct fm_facts_port *p, struct fm_findings *list)
{
	const struct fm_facts_port *used = sibling_with_address(f, p);
	struct fm_finding *out;

	if (!used)
		return;
	out = fm_finding_add(list, "half-port-down", FM_WARNING, f);
	fm_finding_read(out,
			"%s, interface %s: %s; %s, the other function of the same port, is up.",
			p->device.text, p->interface.text, p->state.text, used->device.text);
	cost(out, used);
	fm_finding_mend(out, "ip link set dev %s up", p->interface.text);
}

/* ---- two ports in one subnet ---- */

static uint64_t greater(const struct fm_fact *a, const struct fm_fact *b)
{
	return a->n > b->n ? a->n : b->n;
}

/* What is missing of the policy, as sysctl lines. false: nothing that is known. */
static bool policy(const struct fm_facts *f, const struct fm_facts_interface *i,
		   struct fm_finding *out)
{
	const struct fm_facts_node *n = &f->node;
	bool is_missing = false;

	if (n->arp_ignore.is_known && i->arp_ignore.is_known &&
	    greater(&n->arp_ignore, &i->arp_ignore) == 0) {
		fm_finding_read(
			out, "%s: arp_ignore is 0, so this port answers for the other's address.",
			i->name.text);
		fm_finding_mend(out, "sysctl -w net/ipv4/conf/%s/arp_ignore=1", i->name.text);
		is_missing = true;
	}
	if (n->arp_announce.is_known && i->arp_announce.is_known &&
	    greater(&n->arp_announce, &i->arp_announce) < 2) {
		fm_finding_read(
			out,
			"%s: arp_announce is below 2, so this port asks with the other's address.",
			i->name.text);
		fm_finding_mend(out, "sysctl -w net/ipv4/conf/%s/arp_announce=2", i->name.text);
		is_missing = true;
	}
	if (n->rp_filter.is_known && i->rp_filter.is_known &&
	    greater(&n->rp_filter, &i->rp_filter) == RP_FILTER_STRICT) {
		fm_finding_read(
			out,
			"%s: rp_filter is strict, so what comes in by the second port is dropped.",
			i->name.text);
		fm_finding_mend(out, "sysctl -w net/ipv4/conf/%s/rp_filter=2", i->name.text);
		is_missing = true;
	}
	return is_missing;
}

static void rules(const struct fm_facts *f, const struct fm_facts_address *const a[2],
		  struct fm_finding *out)
{
	if (!f->node.rules.is_known || f->node.rules.n >= 2)
		return;
	fm_finding_read(out, "There are %llu policy rules, so both addresses send by one port.",
			(unsigned long long)f->node.rules.n);
	for (unsigned i = 0; i < 2; i++) {
		char network[FM_NETWORK_TEXT_MAX];

		fm_finding_mend(out, "ip rule add from %s table %u", a[i]->address.text,
				TABLE_FIRST + i);
		fm_finding_mend(out, "ip route add %s dev %s src %s table %u",
				fm_net_text(&a[i]->address, &a[i]->bits, network),
				a[i]->interface.text, a[i]->address.text, TABLE_FIRST + i);
	}
}

static void one_subnet(const struct fm_facts *f, const struct fm_facts_address *a,
		       const struct fm_facts_address *b, struct fm_findings *list)
{
	const struct fm_facts_interface *i = fm_interface_of(f, &a->interface),
					*k = fm_interface_of(f, &b->interface);
	struct fm_finding *out = fm_finding_add(list, "one-subnet", FM_WARNING, f);
	bool is_missing = f->node.rules.is_known && f->node.rules.n < 2;

	fm_finding_read(out, "%s/%u at %s and %s/%u at %s are in one network.", a->address.text,
			(unsigned)a->bits.n, a->interface.text, b->address.text,
			(unsigned)b->bits.n, b->interface.text);
	is_missing |= i && policy(f, i, out);
	is_missing |= k && policy(f, k, out);
	if (!is_missing) {
		fm_finding_drop(list, out);
		return;
	}
	rules(f, (const struct fm_facts_address *const[2]){ a, b }, out);
	fm_finding_means(out, "The kernel takes the two ports for one: half of the bandwidth is "
			      "not used, and a cable that is cut takes both addresses "
			      "with it. A network of its own for each port needs none of this.");
}

static void subnets(const struct fm_facts *f, struct fm_findings *list)
{
	struct fm_network a, b;

	for (size_t i = 0; i < f->addresses_count; i++)
		for (size_t k = i + 1; k < f->addresses_count; k++) {
			const struct fm_facts_address *x = &f->addresses[i], *y = &f->addresses[k];

			if (!fm_net_of(&x->address, &x->bits, &a) ||
			    !fm_net_of(&y->address, &y->bits, &b) || a.family != AF_INET ||
			    b.family != AF_INET || !fm_net_is_same(&a, &b) ||
			    fm_fact_is_same(&x->interface, &y->interface))
				continue;
			if (fm_port_of(f, &x->interface) && fm_port_of(f, &y->interface))
				one_subnet(f, x, y, list);
		}
}

void fm_check_half_port(const struct fm_facts_set *set, struct fm_findings *out)
{
	for (size_t n = 0; n < set->count; n++) {
		const struct fm_facts *f = set->at[n];

		if (!f->addresses_read.is_known)
			continue;
		for (size_t i = 0; i < f->ports_count; i++) {
			const struct fm_facts_port *p = &f->ports[i];

			if (!p->device.is_known || !p->interface.is_known || !p->state.is_known ||
			    !is_own(f, p))
				continue;
			if (!fm_is_active(p))
				down(f, p, out);
			else if (!fm_has_address(f, &p->interface, false))
				without_address(set, f, p, out);
		}
		subnets(f, out);
	}
}
