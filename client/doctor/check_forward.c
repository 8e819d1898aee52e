/* SPDX-License-Identifier: MIT */
/*
 * check_forward - two nodes that reach each other through a third, which drops what it forwards.
 * See check.h.
 *
 * Docker sets that policy wherever it starts. By itself it is no finding: rules may let the traffic
 * through, and most nodes pass nothing on. So it is one only where a node has a route by that node
 * to another, and no session with it.
 */
#include "client/doctor/check.h"

#include "client/doctor/lookup.h"

/* Whether an address of the node is in that network; NULL: whether it is that address. */
static bool has_address(const struct fm_facts *f, const struct fm_fact *address,
			const struct fm_fact *bits)
{
	struct fm_network wanted, own;

	if (!fm_net_of(address, bits, &wanted))
		return false;
	for (size_t i = 0; i < f->addresses_count; i++)
		if (fm_net_of(&f->addresses[i].address, NULL, &own) &&
		    (bits ? fm_net_has(&wanted, &own) : fm_net_is_equal(&wanted, &own)))
			return true;
	return false;
}

static bool has_lost(const struct fm_facts *f, const struct fm_facts *other)
{
	for (size_t i = 0; i < f->sessions_count; i++)
		if (fm_fact_is_same(&f->sessions[i].peer, &other->node.name))
			return f->sessions[i].connected.is_known &&
			       !fm_fact_is_true(&f->sessions[i].connected);
	return false;
}

static void dropped(const struct fm_facts *by, const struct fm_facts *from,
		    const struct fm_facts *to, const struct fm_facts_route *r,
		    struct fm_findings *list)
{
	struct fm_finding *out = fm_finding_add(list, "forward-dropped", FM_WARNING, by);
	char net[FM_NETWORK_TEXT_MAX];

	fm_net_text(&r->destination, &r->bits, net);
	fm_finding_read(out,
			"%s has a route to %s by this node and no session with %s there; the "
			"firewall's policy here for what it passes on is to drop it.",
			fm_shown(&from->node.name), net, fm_shown(&to->node.name));
	fm_finding_means(out, "What no rule here lets through is lost. Docker sets that policy "
			      "when it starts, whatever was there before.");
	fm_finding_mend(out, "iptables -I FORWARD -d %s -j ACCEPT", net);
	fm_finding_mend(out, "iptables -I FORWARD -s %s -j ACCEPT    # until the next boot", net);
}

/* From one node by another. */
static void routes(const struct fm_facts_set *set, const struct fm_facts *from,
		   const struct fm_facts *by, struct fm_findings *list)
{
	for (size_t i = 0; i < from->routes_count; i++) {
		const struct fm_facts_route *r = &from->routes[i];

		if (!r->destination.is_known || !r->bits.is_known ||
		    !has_address(by, &r->gateway, NULL))
			continue;
		for (size_t n = 0; n < set->count; n++)
			if (set->at[n] != from && set->at[n] != by &&
			    has_address(set->at[n], &r->destination, &r->bits) &&
			    has_lost(from, set->at[n]))
				dropped(by, from, set->at[n], r, list);
	}
}

void fm_check_forward(const struct fm_facts_set *set, struct fm_findings *out)
{
	for (size_t n = 0; n < set->count; n++) {
		const struct fm_facts *by = set->at[n];

		if (!fm_fact_is_true(&by->node.forwards) ||
		    !fm_fact_is(&by->node.forward_policy, "drop"))
			continue;
		for (size_t i = 0; i < set->count; i++)
			if (set->at[i] != by)
				routes(set, set->at[i], by, out);
	}
}
