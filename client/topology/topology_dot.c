/* SPDX-License-Identifier: MIT */
/*
 * topology_dot - a topology as a graph for dot(1): a box for each node with its ports, a line for
 * each link, a diamond for each switch, a cylinder for each target. See topology.h.
 */
#include "client/topology/topology.h"

#include <string.h>

/* A quoted string of DOT: a backslash would begin an escape, a quote end it. */
static void quoted(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			(void)fputc('\\', out);
		(void)fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
	}
}

static void port_id(const struct fm_topology *t, unsigned port, FILE *out)
{
	(void)fprintf(out, "\"");
	quoted(out, t->nodes[t->ports[port].node].name);
	(void)fprintf(out, "/");
	quoted(out, t->ports[port].name);
	(void)fprintf(out, "\"");
}

static void port(const struct fm_topology *t, unsigned i, FILE *out)
{
	const struct fm_topology_port *p = &t->ports[i];

	(void)fprintf(out, "\t\t");
	port_id(t, i, out);
	(void)fprintf(out, " [label=\"");
	quoted(out, p->name);
	if (p->rate_mbps > 0)
		(void)fprintf(out, "\\n%g Gb/s", (double)p->rate_mbps / 1000);
	if (fm_port_mtu(p) > 0)
		(void)fprintf(out, "\\nMTU %llu", (unsigned long long)fm_port_mtu(p));
	for (size_t k = 0; k < p->function_count; k++) {
		(void)fprintf(out, "\\n");
		quoted(out, p->functions[k].device[0] ? p->functions[k].device
						      : p->functions[k].interface);
	}
	(void)fprintf(out, "\"];\n");
}

static void node(const struct fm_topology *t, unsigned n, FILE *out)
{
	(void)fprintf(out, "\tsubgraph \"cluster_%u\" {\n\t\tlabel=\"", n);
	quoted(out, t->nodes[n].name);
	if (t->nodes[n].why[0]) {
		(void)fprintf(out, "\\n");
		quoted(out, t->nodes[n].why);
	}
	(void)fprintf(out, "\";\n\t\t\"node %u\" [style=invis, width=0, height=0, label=\"\"];\n",
		      n);
	for (unsigned i = 0; i < t->port_count; i++)
		if (t->ports[i].node == n)
			port(t, i, out);
	(void)fprintf(out, "\t}\n");
}

static void link(const struct fm_topology *t, const struct fm_topology_link *l, FILE *out)
{
	char text[1024];

	(void)fprintf(out, "\t");
	port_id(t, l->from, out);
	(void)fprintf(out, " -- ");
	port_id(t, l->to, out);
	(void)fprintf(out, " [label=\"");
	quoted(out, fm_link_text(l, text, sizeof(text)));
	(void)fprintf(out, "\"%s%s];\n", l->is_relayed ? ", style=dashed" : "",
		      fm_link_is_up(l) ? "" : ", color=red");
}

static void apart(const struct fm_topology_apart *a, FILE *out)
{
	(void)fprintf(out, "\t\"node %u\" -- \"node %u\" [label=\"no session: ", a->node, a->peer);
	quoted(out, a->why);
	(void)fprintf(out, "\", style=dotted, color=red];\n");
}

/* Its links would be a line from each port to each. */
static void switches(const struct fm_topology *t, const unsigned *segment, FILE *out)
{
	unsigned count = 0;

	for (unsigned s = 0; s < t->port_count; s++) {
		if (segment[s] != s || fm_segment_size(t, segment, s) < 3)
			continue;
		count++;
		(void)fprintf(out, "\t\"switch %u\" [shape=diamond];\n", count);
		for (unsigned i = 0; i < t->port_count; i++)
			if (segment[i] == s) {
				(void)fprintf(out, "\t");
				port_id(t, i, out);
				(void)fprintf(out, " -- \"switch %u\";\n", count);
			}
	}
}

static void storage(const struct fm_topology *t, const struct fm_topology_storage *s, FILE *out)
{
	(void)fprintf(out, "\t\"target ");
	quoted(out, s->address);
	(void)fprintf(out, "\" [shape=cylinder];\n\t\"");
	if (s->port[0]) {
		quoted(out, t->nodes[s->node].name);
		(void)fprintf(out, "/");
		quoted(out, s->port);
	} else {
		(void)fprintf(out, "node %u", s->node);
	}
	(void)fprintf(out, "\" -- \"target ");
	quoted(out, s->address);
	(void)fprintf(out, "\" [label=\"");
	quoted(out, s->transport);
	(void)fprintf(out, " ");
	quoted(out, s->subsystem);
	(void)fprintf(out, "\", color=blue];\n");
}

void fm_topology_dot(const struct fm_topology *t, FILE *out)
{
	unsigned segment[FM_TOPOLOGY_PORTS_MAX];

	fm_topology_segments(t, segment);
	(void)fprintf(out, "graph fmove {\n\trankdir=LR;\n\tnode [shape=box];\n");
	for (unsigned n = 0; n < t->node_count; n++)
		node(t, n, out);
	switches(t, segment, out);
	for (size_t i = 0; i < t->link_count; i++) {
		const struct fm_topology_link *l = &t->links[i];

		/* A switch has them already, unless one is down. */
		if (l->is_relayed || !fm_link_is_up(l) ||
		    fm_segment_size(t, segment, segment[l->from]) < 3)
			link(t, l, out);
	}
	for (size_t i = 0; i < t->apart_count; i++)
		apart(&t->apart[i], out);
	for (size_t i = 0; i < t->storage_count; i++)
		storage(t, &t->storage[i], out);
	(void)fprintf(out, "}\n");
}
