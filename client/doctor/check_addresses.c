/* SPDX-License-Identifier: MIT */
/*
 * check_addresses - addresses of RDMA ports: who may take them, whether the kernel sends by them,
 * whether they are alone. See check.h.
 */
#include "client/doctor/check.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "client/doctor/lookup.h"
#include "client/doctor/mend.h"

#define TABLE_MAIN 254u
#define HEADERS_V4 28u /* of a ping: IP and ICMP */
#define HEADERS_V6 48u

static void of_network_manager(const struct fm_facts *f, const struct fm_facts_address *a,
			       struct fm_findings *list)
{
	const struct fm_facts_interface *i = fm_interface_of(f, &a->interface);
	struct fm_finding *out;
	char text[64];

	if (!i || !fm_fact_is_true(&i->nm_managed) || !a->no_prefix_route.is_known ||
	    a->no_prefix_route.n != 0 || !a->address.is_known || !a->bits.is_known)
		return;
	(void)snprintf(text, sizeof(text), "%s/%u", a->address.text, (unsigned)a->bits.n);
	out = fm_finding_add(list, "address-may-go", FM_WARNING, f);
	fm_finding_read(
		out,
		"%s at %s: NetworkManager manages the interface, and did not add this address.",
		text, a->interface.text);
	fm_finding_means(out, "No profile of NetworkManager has it. It goes when NetworkManager "
			      "activates one, at a new cable or a restart, and at the "
			      "next boot; transfers over it end then.");
	fm_mend_address(f, &(struct fm_mend){ .interface = a->interface.text, .address = text },
			out);
}

/* A route of whatever table that leads to its network by its interface. */
static bool has_route(const struct fm_facts *f, const struct fm_facts_address *a,
		      const struct fm_network *net)
{
	struct fm_network to;

	for (size_t i = 0; i < f->routes_count; i++) {
		const struct fm_facts_route *r = &f->routes[i];

		if (!r->interface.is_known)
			return true; /* it may be this one's */
		if (fm_fact_is_same(&r->interface, &a->interface) &&
		    (!fm_net_of(&r->destination, &r->bits, &to) ||
		     (to.bits > 0 && fm_net_has(&to, net))))
			return true;
	}
	return false;
}

static void route(const struct fm_facts *f, const struct fm_facts_address *a,
		  struct fm_findings *list)
{
	const struct fm_facts_port *p = fm_port_of(f, &a->interface);
	char network[FM_NETWORK_TEXT_MAX];
	struct fm_finding *out;
	struct fm_network net;

	if (!f->routes_read.is_known || f->routes_count == FM_FACTS_ROUTES_MAX ||
	    !fm_is_active(p) || !fm_net_of(&a->address, &a->bits, &net) ||
	    net.bits == (net.family == AF_INET ? 32u : 128u) || has_route(f, a, &net))
		return;
	fm_net_text(&a->address, &a->bits, network);
	out = fm_finding_add(list, "address-without-route", FM_WARNING, f);
	fm_finding_read(out, "%s/%u at %s: no route leads to its network by this interface.",
			a->address.text, net.bits, a->interface.text);
	fm_finding_means(
		out,
		"What is sent to the other end of this cable leaves elsewhere, or not at all.");
	fm_finding_mend(out, "ip route add %s dev %s src %s", network, a->interface.text,
			a->address.text);
}

static void duplicates(const struct fm_facts *f, size_t at, struct fm_findings *list)
{
	const struct fm_facts_address *a = &f->addresses[at];
	struct fm_finding *out;
	struct fm_network one, other;

	if (fm_fact_is_true(&a->duplicate) && fm_net_of(&a->address, &a->bits, &one)) {
		out = fm_finding_add(list, "address-duplicate", FM_ERROR, f);
		fm_finding_read(out, "%s at %s: the kernel found it at another machine, too.",
				a->address.text, a->interface.text);
		fm_finding_means(out, "The kernel does not use it.");
		fm_finding_mend(out,
				"# give one of the two another address, then here: ip address del "
				"%s/%u dev %s",
				a->address.text, one.bits, a->interface.text);
	}
	if (!fm_net_of(&a->address, NULL, &one))
		return;
	for (size_t i = at + 1; i < f->addresses_count; i++) {
		const struct fm_facts_address *b = &f->addresses[i];

		if (!fm_net_of(&b->address, &b->bits, &other) || !fm_net_is_equal(&one, &other) ||
		    !b->interface.is_known || fm_fact_is_same(&a->interface, &b->interface))
			continue;
		out = fm_finding_add(list, "address-duplicate", FM_ERROR, f);
		fm_finding_read(out, "%s is at %s and at %s.", a->address.text, a->interface.text,
				b->interface.text);
		fm_finding_means(out, "What comes back for it may come to either port.");
		fm_finding_mend(out, "ip address del %s/%u dev %s", b->address.text, other.bits,
				b->interface.text);
	}
}

/* ---- where traffic leaves ---- */

/*
 * The route of the main table that the kernel takes without a rule: the longest prefix, then the
 * smallest metric.
 */
static const struct fm_facts_route *way_to(const struct fm_facts *f, const struct fm_network *to)
{
	const struct fm_facts_route *best = NULL;
	struct fm_network net;

	for (size_t i = 0; i < f->routes_count; i++) {
		const struct fm_facts_route *r = &f->routes[i];

		if (!r->table.is_known || r->table.n != TABLE_MAIN || !r->interface.is_known ||
		    !fm_net_of(&r->destination, &r->bits, &net))
			continue;
		/*
		 * A default route has no address that would tell its family: "::" and "0.0.0.0" do.
		 */
		if (net.family != to->family || !fm_net_has(&net, to))
			continue;
		if (!best || r->bits.n > best->bits.n ||
		    (r->bits.n == best->bits.n && r->metric.n < best->metric.n))
			best = r;
	}
	return best;
}

/* An address of this node at an RDMA port, in whose network the other is. */
static const struct fm_facts_address *address_beside(const struct fm_facts *f,
						     const struct fm_network *to,
						     const struct fm_fact *interface)
{
	const struct fm_facts_address *found = NULL;
	struct fm_network net;

	for (size_t i = 0; i < f->addresses_count; i++) {
		const struct fm_facts_address *a = &f->addresses[i];

		if (fm_fact_is_true(&a->link_local) || !fm_net_of(&a->address, &a->bits, &net) ||
		    !fm_net_has(&net, to) || !fm_port_of(f, &a->interface))
			continue;
		if (fm_fact_is_same(&a->interface, interface))
			return NULL; /* it leaves by a port of that network */
		found = a;
	}
	return found;
}

static void leaves(const struct fm_facts *f, const struct fm_fact *remote, struct fm_findings *list)
{
	const struct fm_facts_address *a;
	const struct fm_facts_route *way;
	struct fm_finding *out;
	char network[FM_NETWORK_TEXT_MAX];
	struct fm_network to;

	if (!f->routes_read.is_known || f->routes_count == FM_FACTS_ROUTES_MAX ||
	    !fm_net_of(remote, NULL, &to) || !(way = way_to(f, &to)))
		return;
	a = address_beside(f, &to, &way->interface);
	if (!a)
		return;
	out = fm_finding_add(list, "leaves-elsewhere", FM_WARNING, f);
	fm_finding_read(out, "%s is in the network of %s, but a route to %s leads to it by %s.",
			remote->text, a->interface.text,
			fm_net_text(&way->destination, &way->bits, network), way->interface.text);
	fm_finding_means(out,
			 "What does not bind itself to the port goes over %s, which may be slower "
			 "and seen by others.",
			 way->interface.text);
	fm_finding_mend(out, "ip route add %s/%u dev %s", remote->text, to.bits, a->interface.text);
}

/* ---- what is large and does not arrive ---- */

static void black_hole(const struct fm_facts *f, const struct fm_facts_rail *r,
		       struct fm_findings *list)
{
	struct fm_finding *out;

	if (!r->packet_passes.is_known || r->packet_passes.n || !r->packet_bytes.is_known)
		return;
	out = fm_finding_add(list, "mtu-black-hole", FM_ERROR, f);
	fm_finding_read(out, "From %s to %s of %s a packet of %llu bytes does not arrive, a small "
			     "one does.",
			fm_shown(&r->local), fm_shown(&r->remote), fm_shown(&r->peer),
			(unsigned long long)r->packet_bytes.n);
	fm_finding_means(out, "The other end, or a switch between the two, has a smaller MTU and "
			      "drops what is larger without a word: RDMA and large messages hang, "
			      "small ones pass.");
	if (r->remote.is_known && r->packet_bytes.n > HEADERS_V6)
		fm_finding_mend(out, "ping -M do -s %llu %s    # from here, until it is answered",
				(unsigned long long)r->packet_bytes.n -
					(strchr(r->remote.text, ':') ? HEADERS_V6 : HEADERS_V4),
				r->remote.text);
	fm_finding_mend(out, "# the same MTU at both ends, and at least that at every port of a "
			     "switch between them");
}

void fm_check_addresses(const struct fm_facts_set *set, struct fm_findings *out)
{
	for (size_t n = 0; n < set->count; n++) {
		const struct fm_facts *f = set->at[n];

		for (size_t i = 0; i < f->addresses_count; i++) {
			const struct fm_facts_address *a = &f->addresses[i];

			if (!fm_port_of(f, &a->interface) || fm_fact_is_true(&a->link_local))
				continue;
			of_network_manager(f, a, out);
			route(f, a, out);
			duplicates(f, i, out);
		}
		for (size_t i = 0; i < f->rails_count; i++)
			leaves(f, &f->rails[i].remote, out);
		for (size_t i = 0; i < f->rails_count; i++)
			black_hole(f, &f->rails[i], out);
	}
}
