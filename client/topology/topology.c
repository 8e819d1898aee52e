/* SPDX-License-Identifier: MIT */
/* topology - see topology.h: its parts, and what all drawings ask of it. */
#include "client/topology/topology.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/plain.h"
#include "mover/base/text.h"

struct fm_topology *fm_topology_new(void)
{
	return calloc(1, sizeof(struct fm_topology));
}

unsigned fm_topology_node(struct fm_topology *t, const char *name)
{
	char shown[sizeof(t->nodes[0].name)];
	unsigned i = 0;

	(void)fm_plain(name, strlen(name), shown, sizeof(shown));
	while (i < t->node_count && strcmp(t->nodes[i].name, shown) != 0)
		i++;
	if (i < t->node_count)
		return i;
	if (i == FM_TOPOLOGY_NODES_MAX) {
		t->left_out++;
		return i;
	}
	memcpy(t->nodes[i].name, shown, sizeof(shown));
	t->node_count++;
	return i;
}

unsigned fm_topology_port(struct fm_topology *t, unsigned node, const char *name)
{
	unsigned i = 0;

	while (i < t->port_count &&
	       (t->ports[i].node != node || strcmp(t->ports[i].name, name) != 0))
		i++;
	if (i < t->port_count)
		return i;
	if (i == FM_TOPOLOGY_PORTS_MAX) {
		t->left_out++;
		return i;
	}
	t->ports[i].node = node;
	(void)snprintf(t->ports[i].name, sizeof(t->ports[i].name), "%s", name);
	t->port_count++;
	return i;
}

void fm_topology_miss(struct fm_topology *t, const char *node, const char *why)
{
	unsigned i = fm_topology_node(t, node);

	if (i < FM_TOPOLOGY_NODES_MAX)
		(void)fm_plain(why, strlen(why), t->nodes[i].why, sizeof(t->nodes[i].why));
}

bool fm_link_is_up(const struct fm_topology_link *l)
{
	for (size_t i = 0; i < l->rail_count; i++)
		if (l->rails[i].is_up)
			return true;
	return false;
}

uint64_t fm_port_mtu(const struct fm_topology_port *p)
{
	uint64_t least = 0;

	for (size_t i = 0; i < p->function_count; i++)
		if (p->functions[i].mtu > 0 && (least == 0 || p->functions[i].mtu < least))
			least = p->functions[i].mtu;
	return least;
}

/* ---- segments ---- */

static void join(const struct fm_topology *t, unsigned *segment, unsigned a, unsigned b)
{
	unsigned low = a < b ? a : b, high = a < b ? b : a;

	for (unsigned i = 0; low != high && i < t->port_count; i++)
		if (segment[i] == high)
			segment[i] = low;
}

void fm_topology_segments(const struct fm_topology *t, unsigned segment[FM_TOPOLOGY_PORTS_MAX])
{
	for (unsigned i = 0; i < t->port_count; i++)
		segment[i] = i;
	for (size_t i = 0; i < t->link_count; i++)
		if (!t->links[i].is_relayed)
			join(t, segment, segment[t->links[i].from], segment[t->links[i].to]);
}

unsigned fm_segment_size(const struct fm_topology *t, const unsigned *segment, unsigned which)
{
	unsigned size = 0;

	for (unsigned i = 0; i < t->port_count; i++)
		size += segment[i] == which;
	return size;
}

/* ---- a link in words ---- */

static const char *kind_shown(const char *kind)
{
	return strcmp(kind, "rdma") == 0 ? "RDMA" : strcmp(kind, "tcp") == 0 ? "TCP" : kind;
}

/* Those that are up; RDMA before TCP, as it is used before. */
static void add_kinds(struct fm_text *out, const struct fm_topology_link *l)
{
	static const char *const kinds[] = {"rdma", "tcp"};
	bool is_any = false;

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (size_t i = 0; i < l->rail_count; i++)
			if (l->rails[i].is_up && strcmp(l->rails[i].kind, kinds[k]) == 0) {
				fm_text_add(out, "%s%s", is_any ? ", " : "", kind_shown(kinds[k]));
				is_any = true;
				break;
			}
	if (!is_any)
		fm_text_add(out, "down");
}

const char *fm_link_text(const struct fm_topology_link *l, char *out, size_t cap)
{
	struct fm_text line = {.at = out, .left = cap};
	size_t up = 0;

	out[0] = '\0';
	for (size_t i = 0; i < l->rail_count; i++)
		up += l->rails[i].is_up;
	add_kinds(&line, l);
	fm_text_add(&line, "; %zu of %zu rail%s up", up, l->rail_count,
		    l->rail_count == 1 ? "" : "s");
	if (l->is_relayed)
		fm_text_add(&line, "; through %s",
			    l->via[0] ? l->via : "a node or router that is not known");
	if (l->round_trip_us != FM_TOPOLOGY_NONE)
		fm_text_add(&line, "; round trip %.2f ms", (double)l->round_trip_us / 1000);
	for (size_t i = 0; i < l->rail_count; i++)
		if (!l->rails[i].is_up && l->rails[i].error[0]) {
			fm_text_add(&line, "; %s: %s", kind_shown(l->rails[i].kind),
				    l->rails[i].error);
			break;
		}
	return out;
}
