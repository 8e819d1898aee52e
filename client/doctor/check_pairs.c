/* SPDX-License-Identifier: MIT */
/*
 * check_pairs - what two ends must agree on: MTU, prefix, RoCE version, both functions of a port.
 * See check.h.
 *
 * Two RDMA ports of two nodes whose addresses are in one network are the ends of a cable, or of a
 * switch's. Nodes that share none are no finding: in a ring of four each has one that it reaches
 * through others.
 */
#include "client/doctor/check.h"

#include <sys/socket.h>

#include "client/doctor/lookup.h"
#include "client/doctor/mend.h"

struct end {
	const struct fm_facts *node;
	const struct fm_facts_port *port;
	const struct fm_facts_address *address;
	struct fm_network net;
};

static bool end_of(const struct fm_facts *f, const struct fm_facts_address *a, struct end *out)
{
	*out = (struct end){ .node = f, .port = fm_port_of(f, &a->interface), .address = a };
	return out->port && out->port->device.is_known && !fm_fact_is_true(&a->link_local) &&
	       fm_net_of(&a->address, &a->bits, &out->net);
}

static const char *name_of(const struct end *e)
{
	return e->node->node.name.is_known ? e->node->node.name.text : "a node";
}

static void twice(const struct end *a, const struct end *b, struct fm_findings *list)
{
	struct fm_finding *out = fm_finding_add(list, "address-twice", FM_ERROR, a->node);

	fm_finding_read(out, "%s is at %s of %s and at %s of %s.", a->address->address.text,
			a->address->interface.text, name_of(a), b->address->interface.text,
			name_of(b));
	fm_finding_means(out, "Each takes the other's address for its own: nothing goes between "
			      "them, and others reach one of the two by chance.");
	fm_finding_mend(
		out, "# at %s another address of that network; then: ip address del %s/%u dev %s",
		name_of(b), b->address->address.text, b->net.bits, b->address->interface.text);
}

static void prefix(const struct end *a, const struct end *b, struct fm_findings *list)
{
	struct fm_finding *out = fm_finding_add(list, "prefix-differs", FM_WARNING, a->node);

	fm_finding_read(out, "%s/%u at %s of %s, %s/%u at %s of %s.", a->address->address.text,
			a->net.bits, a->address->interface.text, name_of(a),
			b->address->address.text, b->net.bits, b->address->interface.text,
			name_of(b));
	fm_finding_means(out, "The two ends disagree about which addresses are on this cable: what "
			      "one end sends over it, the other may answer elsewhere.");
	fm_finding_mend(out, "# the same prefix at both ends: a /30 for a cable between two nodes");
}

static void mtu(const struct end *a, const struct end *b, struct fm_findings *list)
{
	const struct fm_facts_interface *i = fm_interface_of(a->node, &a->address->interface),
					*k = fm_interface_of(b->node, &b->address->interface);
	const struct end *smaller;
	struct fm_finding *out;
	struct fm_mend m;

	if (!i || !k || !i->mtu.is_known || !k->mtu.is_known || i->mtu.n == k->mtu.n)
		return;
	smaller = i->mtu.n < k->mtu.n ? a : b;
	out = fm_finding_add(list, "mtu-differs", FM_ERROR, smaller->node);
	fm_finding_read(out, "MTU %u at %s of %s, MTU %u at %s of %s, at the ends of one network.",
			(unsigned)i->mtu.n, i->name.text, name_of(a), (unsigned)k->mtu.n,
			k->name.text, name_of(b));
	fm_finding_means(out, "What is longer than the smaller one is dropped without a word: "
			      "small messages pass, large ones hang. RDMA takes the smaller "
			      "RDMA MTU.");
	m = (struct fm_mend){ .interface = smaller->address->interface.text,
			      .mtu = (unsigned)(i->mtu.n > k->mtu.n ? i->mtu.n : k->mtu.n) };
	fm_mend_mtu(smaller->node, &m, out);
	fm_finding_mend(out, "# at %s", name_of(smaller));
}

/* Types of the GIDs of one address: 1 for v1, 2 for v2, 3 for both; 0: not known. */
static unsigned roce_of(const struct end *e)
{
	unsigned types = 0;

	for (size_t i = 0; i < e->node->gids_count; i++) {
		const struct fm_facts_gid *g = &e->node->gids[i];

		if (fm_fact_is_same(&g->device, &e->port->device) && fm_gid_is_of(g, &e->net))
			types |= fm_fact_is(&g->type, "RoCE v2")      ? 2
				 : fm_fact_is(&g->type, "IB/RoCE v1") ? 1
								      : 0;
	}
	return types;
}

static void roce(const struct end *a, const struct end *b, struct fm_findings *list)
{
	unsigned x = roce_of(a), y = roce_of(b);
	const struct end *newer;
	struct fm_finding *out;

	if (x == 0 || y == 0 || (x == 1) == (y == 1))
		return;
	newer = x == 1 ? b : a;
	if (fm_fact_is(&newer->port->roce_mode, "IB/RoCE v1"))
		return; /* somebody has mended it */
	out = fm_finding_add(list, "roce-version", (x & y) ? FM_WARNING : FM_ERROR, newer->node);
	fm_finding_read(out, "%s of %s speaks RoCE v1 only; %s of %s speaks v2 by default.",
			(x == 1 ? a : b)->port->device.text, name_of(x == 1 ? a : b),
			newer->port->device.text, name_of(newer));
	fm_finding_means(out, "A connection that begins with v2 does not arrive; fmove goes over "
			      "TCP between the two.");
	fm_finding_mend(out, "cma_roce_mode -d %s -p %u -m 1    # at %s, until the next boot",
			newer->port->device.text, (unsigned)newer->port->port.n, name_of(newer));
}

static void ends(const struct end *a, const struct end *b, struct fm_findings *list)
{
	if (fm_net_is_equal(&a->net, &b->net)) {
		twice(a, b, list);
	} else if (fm_net_is_same(&a->net, &b->net)) {
		mtu(a, b, list);
		roce(a, b, list);
	} else if (fm_net_has(&a->net, &b->net) && fm_net_has(&b->net, &a->net)) {
		prefix(a, b, list);
	}
}

/* ---- both functions of a port ---- */

/* The end of another node in the network of that address, or false. */
static bool partner(const struct fm_facts_set *set, const struct end *e, struct end *out)
{
	for (size_t n = 0; n < set->count; n++)
		for (size_t i = 0; i < set->at[n]->addresses_count; i++)
			if (set->at[n] != e->node &&
			    end_of(set->at[n], &set->at[n]->addresses[i], out) &&
			    fm_net_is_same(&e->net, &out->net))
				return true;
	return false;
}

/* IPv4 only: of others each function has some that lead nowhere. */
static bool has_partner(const struct fm_facts_set *set, const struct fm_facts *f,
			const struct fm_facts_port *p, struct end *own, struct end *other)
{
	const struct fm_facts_address *a = fm_ipv4_of(f, &p->interface);

	return a && end_of(f, a, own) && partner(set, own, other);
}

static void half_link(const struct fm_facts_set *set, const struct fm_facts *f,
		      const struct fm_facts_port *p, struct fm_findings *list)
{
	struct end own, other, mine;
	struct fm_finding *out;

	if (!fm_is_active(p) || !fm_ipv4_of(f, &p->interface) ||
	    has_partner(set, f, p, &own, &other))
		return;
	for (size_t i = 0; i < f->ports_count; i++) {
		if (!fm_is_sibling(p, &f->ports[i]) ||
		    !has_partner(set, f, &f->ports[i], &mine, &other))
			continue;
		if (!end_of(f, fm_ipv4_of(f, &p->interface), &own))
			return;
		out = fm_finding_add(list, "half-link", FM_WARNING, f);
		fm_finding_read(out,
				"%s of %s has %s/%u, and no other node has an address in that "
				"network; %s, the other function of the same port, "
				"reaches %s.",
				p->device.text, name_of(&own), own.address->address.text,
				own.net.bits, f->ports[i].device.text, name_of(&other));
		fm_finding_means(out,
				 "The two functions share one cable. Over this one nothing goes by "
				 "its IPv4 address: about half of the cable is not used.");
		fm_finding_mend(out,
				"# at %s, for the other function of the port of %s: another "
				"address of that network",
				name_of(&other), other.port->device.text);
		return;
	}
}

void fm_check_pairs(const struct fm_facts_set *set, struct fm_findings *out)
{
	struct end a, b;

	for (size_t n = 0; n < set->count; n++) {
		for (size_t i = 0; i < set->at[n]->addresses_count; i++) {
			if (!end_of(set->at[n], &set->at[n]->addresses[i], &a))
				continue;
			for (size_t m = n + 1; m < set->count; m++)
				for (size_t k = 0; k < set->at[m]->addresses_count; k++)
					if (end_of(set->at[m], &set->at[m]->addresses[k], &b))
						ends(&a, &b, out);
		}
		for (size_t i = 0; set->count > 1 && i < set->at[n]->ports_count; i++)
			half_link(set, set->at[n], &set->at[n]->ports[i], out);
	}
}
