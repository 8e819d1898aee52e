/* SPDX-License-Identifier: MIT */
/*
 * topology_make - from facts to a topology: ports first, then what rails, sessions and NVMe
 * connections say goes over them. See topology.h.
 */
#include "client/topology/topology.h"

#include <string.h>
#include <sys/socket.h>

#include "client/doctor/finding.h"
#include "client/doctor/lookup.h"
#include "mover/base/plain.h"

#define TABLE_MAIN 254u

/* Facts are others' words: what is drawn of them is plain. */
#define COPY(to, from) (void)fm_plain((from), strlen(from), (to), sizeof(to))

struct making {
	const struct fm_facts_set *set;
	struct fm_topology *t;
};

/* ---- ports ---- */

/* The first of its cage, which stands for the port. */
static const struct fm_facts_port *first_of(const struct fm_facts *f, const struct fm_facts_port *p)
{
	for (size_t i = 0; i < f->ports_count; i++)
		if (&f->ports[i] == p || fm_is_sibling(&f->ports[i], p))
			return &f->ports[i];
	return p;
}

/* The cage, if no other card has one of that name; else the interface or the device. */
static const char *port_name(const struct fm_facts *f, const struct fm_facts_port *first)
{
	bool is_alone = first->cage.is_known;

	for (size_t i = 0; is_alone && i < f->ports_count; i++)
		if (fm_fact_is_same(&f->ports[i].cage, &first->cage))
			is_alone = fm_fact_is_same(&f->ports[i].card, &first->card);
	if (is_alone)
		return first->cage.text;
	return first->interface.is_known ? first->interface.text : fm_text_of(&first->device);
}

/* Its own index of that address: RoCE v2 where the device has both. */
static uint64_t gid_of(const struct fm_facts *f, const struct fm_facts_port *p,
		       const struct fm_facts_address *a)
{
	uint64_t found = FM_TOPOLOGY_NONE;
	struct fm_network net;

	if (!p || !a || !fm_net_of(&a->address, &a->bits, &net))
		return found;
	for (size_t i = 0; i < f->gids_count; i++) {
		const struct fm_facts_gid *g = &f->gids[i];

		if (!fm_fact_is_same(&g->device, &p->device) || !fm_gid_is_of(g, &net) ||
		    !g->index.is_known || !fm_fact_is_same(&g->port, &p->port))
			continue;
		if (fm_fact_is(&g->type, "RoCE v2"))
			return g->index.n;
		found = g->index.n;
	}
	return found;
}

static const struct fm_facts_address *address_of(const struct fm_facts *f,
						 const struct fm_fact *interface)
{
	const struct fm_facts_address *a = fm_ipv4_of(f, interface);

	if (!a)
		a = fm_address_next(f, interface, NULL);
	while (a && fm_fact_is_true(&a->link_local))
		a = fm_address_next(f, interface, a);
	return a;
}

static void function_add(struct fm_topology *t, struct fm_topology_port *to,
			 const struct fm_facts *f, const struct fm_fact *interface,
			 const struct fm_facts_port *p)
{
	const struct fm_facts_interface *i = fm_interface_of(f, interface);
	const struct fm_facts_address *a = address_of(f, interface);
	struct fm_topology_function *out;

	if (to->function_count == FM_TOPOLOGY_FUNCTIONS_MAX) {
		t->left_out++;
		return;
	}
	out = &to->functions[to->function_count++];
	COPY(out->interface, fm_text_of(interface));
	COPY(out->device, p ? fm_text_of(&p->device) : "");
	out->port = p ? p->port.n : 0;
	COPY(out->address, a ? fm_text_of(&a->address) : "");
	out->gid_index = gid_of(f, p, a);
	out->mtu = i ? i->mtu.n : 0;
	out->rdma_mtu = p ? p->rdma_mtu.n : 0;
}

static void rdma_port(struct making *m, unsigned node, const struct fm_facts *f,
		      const struct fm_facts_port *p)
{
	const struct fm_facts_port *first = first_of(f, p);
	unsigned at = fm_topology_port(m->t, node, port_name(f, first));
	struct fm_topology_port *out;

	if (at == FM_TOPOLOGY_PORTS_MAX)
		return;
	out = &m->t->ports[at];
	if (!out->state[0] || fm_is_active(p))
		COPY(out->state, fm_text_of(&p->state));
	COPY(out->link_layer, fm_text_of(&p->link_layer));
	if (p->rate_mbps.n > out->rate_mbps)
		out->rate_mbps = p->rate_mbps.n;
	function_add(m->t, out, f, &p->interface, p);
}

/* ---- whose an address is ---- */

static const struct fm_facts_address *find_address(const struct fm_facts *f,
						   const struct fm_network *net)
{
	struct fm_network own;

	for (size_t i = 0; i < f->addresses_count; i++)
		if (fm_net_of(&f->addresses[i].address, &f->addresses[i].bits, &own) &&
		    fm_net_is_equal(&own, net))
			return &f->addresses[i];
	return NULL;
}

static const struct fm_facts *facts_of(const struct making *m, const char *name)
{
	for (size_t i = 0; i < m->set->count; i++)
		if (fm_fact_is(&m->set->at[i]->node.name, name))
			return m->set->at[i];
	return NULL;
}

/* The port of an interface; one without RDMA is made when something goes over it. */
static unsigned interface_port(struct making *m, unsigned node, const struct fm_facts *f,
			       const struct fm_fact *interface)
{
	const struct fm_facts_port *p = fm_port_of(f, interface);
	const struct fm_facts_interface *i = fm_interface_of(f, interface);
	size_t before = m->t->port_count;
	struct fm_topology_port *out;
	unsigned at;

	if (p)
		return fm_topology_port(m->t, node, port_name(f, first_of(f, p)));
	at = fm_topology_port(m->t, node, fm_text_of(interface));
	if (at == FM_TOPOLOGY_PORTS_MAX || m->t->port_count == before)
		return at;
	out = &m->t->ports[at];
	out->rate_mbps = i ? i->speed_mbps.n : 0;
	function_add(m->t, out, f, interface, NULL);
	return at;
}

static bool is_loopback(const struct fm_network *net)
{
	static const uint8_t one[16] = {[15] = 1};

	return net->family == AF_INET ? net->address[0] == 127
				      : memcmp(net->address, one, sizeof(one)) == 0;
}

/*
 * The port that has the address. If nothing says which, it is called as the address, so that both
 * ends call it the same; nodes of one machine have nothing but the loopback in common.
 */
static unsigned end_port(struct making *m, unsigned node, const struct fm_fact *address)
{
	const struct fm_facts *f = facts_of(m, m->t->nodes[node].name);
	const struct fm_facts_address *a = NULL;
	struct fm_network net;

	if (!fm_net_of(address, NULL, &net))
		return fm_topology_port(m->t, node, "?");
	a = f ? find_address(f, &net) : NULL;
	if (a && a->interface.is_known)
		return interface_port(m, node, f, &a->interface);
	return fm_topology_port(m->t, node, is_loopback(&net) ? "loopback" : address->text);
}

/* ---- relays ---- */

/* The longest prefix that has it, of the main table. */
static const struct fm_facts_route *route_to(const struct fm_facts *f, const struct fm_network *to)
{
	const struct fm_facts_route *best = NULL;
	struct fm_network net;

	for (size_t i = 0; i < f->routes_count; i++) {
		const struct fm_facts_route *r = &f->routes[i];

		if (r->table.n == TABLE_MAIN && fm_net_of(&r->destination, &r->bits, &net) &&
		    net.family == to->family && fm_net_has(&net, to) &&
		    (!best || r->bits.n > best->bits.n))
			best = r;
	}
	return best;
}

static const char *node_at(const struct making *m, const struct fm_fact *address)
{
	struct fm_network net;

	for (size_t i = 0; fm_net_of(address, NULL, &net) && i < m->set->count; i++)
		if (find_address(m->set->at[i], &net))
			return fm_text_of(&m->set->at[i]->node.name);
	return "";
}

/* Whether the two addresses share no network, as this end has it; and who is between. */
static void relay(const struct making *m, const struct fm_facts *f, const struct fm_fact *local,
		  const struct fm_fact *remote, struct fm_topology_link *l)
{
	const struct fm_facts_address *a;
	const struct fm_facts_route *r;
	struct fm_network net, own;

	if (!fm_net_of(local, NULL, &net) || !(a = find_address(f, &net)) ||
	    !fm_net_of(&a->address, &a->bits, &own) || !fm_net_of(remote, NULL, &net) ||
	    fm_net_has(&own, &net))
		return;
	r = route_to(f, &net);
	if (r && !r->gateway.is_known)
		return; /* on this link all the same */
	l->is_relayed = true;
	if (r && !l->via[0])
		COPY(l->via, node_at(m, &r->gateway));
}

/* ---- links ---- */

static struct fm_topology_link *link_of(struct fm_topology *t, unsigned from, unsigned to)
{
	struct fm_topology_link *l;

	for (size_t i = 0; i < t->link_count; i++) {
		l = &t->links[i];
		if ((l->from == from && l->to == to) || (l->from == to && l->to == from))
			return l;
	}
	if (t->link_count == FM_TOPOLOGY_LINKS_MAX) {
		t->left_out++;
		return NULL;
	}
	l = &t->links[t->link_count++];
	*l = (struct fm_topology_link){.from = from, .to = to, .round_trip_us = FM_TOPOLOGY_NONE};
	return l;
}

static bool is_rail(const struct fm_topology_rail *r, const char *kind, const char *a,
		    const char *b)
{
	return strcmp(r->kind, kind) == 0 && ((strcmp(r->from, a) == 0 && strcmp(r->to, b) == 0) ||
					      (strcmp(r->from, b) == 0 && strcmp(r->to, a) == 0));
}

/* What the other end said already is the same rail; it is up if either end has connections. */
static void rail_add(struct fm_topology *t, struct fm_topology_link *l, unsigned port,
		     const struct fm_facts_rail *r)
{
	const char *kind = fm_text_of(&r->kind), *local = fm_text_of(&r->local),
		   *remote = fm_text_of(&r->remote);
	struct fm_topology_rail *out;
	size_t i = 0;

	while (i < l->rail_count && !is_rail(&l->rails[i], kind, local, remote))
		i++;
	if (i == FM_TOPOLOGY_RAILS_MAX) {
		t->left_out++;
		return;
	}
	out = &l->rails[i];
	if (i == l->rail_count) {
		l->rail_count++;
		COPY(out->kind, kind);
		COPY(out->from, l->from == port ? local : remote);
		COPY(out->to, l->from == port ? remote : local);
	}
	out->is_up |= fm_fact_is_true(&r->up);
	if (r->error.is_known && !out->error[0])
		COPY(out->error, r->error.text);
}

/* The link between two addresses of that node and a peer of it, made if it has to be; or NULL. */
static struct fm_topology_link *way(struct making *m, const struct fm_facts *f, unsigned node,
				    const struct fm_fact *peer, const struct fm_fact *local,
				    const struct fm_fact *remote, unsigned *from)
{
	unsigned there = peer->is_known ? fm_topology_node(m->t, peer->text)
					: FM_TOPOLOGY_NODES_MAX,
		 to;
	struct fm_topology_link *l;

	if (there == FM_TOPOLOGY_NODES_MAX)
		return NULL;
	*from = end_port(m, node, local);
	to = end_port(m, there, remote);
	if (*from == FM_TOPOLOGY_PORTS_MAX || to == FM_TOPOLOGY_PORTS_MAX)
		return NULL;
	l = link_of(m->t, *from, to);
	if (l)
		relay(m, f, local, remote, l);
	return l;
}

static void links(struct making *m, const struct fm_facts *f, unsigned node)
{
	struct fm_topology_link *l;
	unsigned from;

	for (size_t i = 0; i < f->rails_count; i++) {
		const struct fm_facts_rail *r = &f->rails[i];

		l = way(m, f, node, &r->peer, &r->local, &r->remote, &from);
		if (l)
			rail_add(m->t, l, from, r);
	}
	for (size_t i = 0; i < f->sessions_count; i++) {
		const struct fm_facts_session *s = &f->sessions[i];

		if (!s->local.is_known || !s->remote.is_known)
			continue;
		l = way(m, f, node, &s->peer, &s->local, &s->remote, &from);
		if (l && s->round_trip_us.is_known && s->round_trip_us.n < l->round_trip_us)
			l->round_trip_us = s->round_trip_us.n;
	}
}

/* A peer without a session is in no rail: it is there, and why nothing goes to it is known. */
static void peer(struct making *m, unsigned node, const struct fm_facts_session *s)
{
	unsigned there =
		s->peer.is_known ? fm_topology_node(m->t, s->peer.text) : FM_TOPOLOGY_NODES_MAX;
	struct fm_topology_apart *out;

	if (there == FM_TOPOLOGY_NODES_MAX || !s->connected.is_known || s->connected.n)
		return;
	if (m->t->apart_count == FM_TOPOLOGY_APART_MAX) {
		m->t->left_out++;
		return;
	}
	out = &m->t->apart[m->t->apart_count++];
	out->node = node;
	out->peer = there;
	COPY(out->why, fm_text_of(&s->error));
}

/* ---- storage ---- */

/* "traddr=10.0.0.9,trsvcid=4420,src_addr=10.0.0.1": that value, or "". */
static void value_of(const char *text, const char *key, char out[static FM_TOPOLOGY_NAME_MAX])
{
	const char *at = strstr(text, key);
	size_t len = at ? strcspn(at + strlen(key), ",") : 0;

	(void)fm_plain(at ? at + strlen(key) : "", len, out, FM_TOPOLOGY_NAME_MAX);
}

static void storage(struct making *m, const struct fm_facts *f, unsigned node,
		    const struct fm_facts_controller *c)
{
	struct fm_topology_storage *out;
	struct fm_fact target = {.is_known = true};
	const struct fm_facts_route *r;
	struct fm_network net;
	unsigned port;

	if (fm_fact_is(&c->transport, "pcie") || !c->transport.is_known)
		return;
	if (m->t->storage_count == FM_TOPOLOGY_STORAGE_MAX) {
		m->t->left_out++;
		return;
	}
	out = &m->t->storage[m->t->storage_count++];
	out->node = node;
	COPY(out->name, fm_text_of(&c->name));
	COPY(out->transport, c->transport.text);
	COPY(out->subsystem, fm_text_of(&c->subsystem));
	COPY(out->state, fm_text_of(&c->state));
	value_of(fm_text_of(&c->address), "traddr=", out->address);
	target.text = out->address;
	r = fm_net_of(&target, NULL, &net) ? route_to(f, &net) : NULL;
	if (!r || !r->interface.is_known)
		return;
	port = interface_port(m, node, f, &r->interface);
	if (port < FM_TOPOLOGY_PORTS_MAX)
		memcpy(out->port, m->t->ports[port].name, sizeof(out->port));
}

/* ---- all of it ---- */

static bool is_one_of(const unsigned *at, size_t count, unsigned node)
{
	for (size_t i = 0; i < count; i++)
		if (at[i] == node)
			return true;
	return false;
}

void fm_topology_make(const struct fm_facts_set *set, struct fm_topology *out)
{
	struct making m = {.set = set, .t = out};
	unsigned at[FM_FACTS_NODES_MAX];

	for (size_t n = 0; n < set->count; n++) {
		const struct fm_facts *f = set->at[n];

		at[n] = fm_topology_node(out, f->node.name.is_known ? f->node.name.text : "?");
		for (size_t i = 0; i < f->ports_count; i++)
			rdma_port(&m, at[n], f, &f->ports[i]);
	}
	for (size_t n = 0; n < set->count; n++) {
		links(&m, set->at[n], at[n]);
		for (size_t i = 0; i < set->at[n]->sessions_count; i++)
			peer(&m, at[n], &set->at[n]->sessions[i]);
		for (size_t i = 0; i < set->at[n]->controllers_count; i++)
			storage(&m, set->at[n], at[n], &set->at[n]->controllers[i]);
	}
	for (unsigned i = 0; i < out->node_count; i++)
		if (!is_one_of(at, set->count, i))
			COPY(out->nodes[i].why, "its facts are not known");
}
