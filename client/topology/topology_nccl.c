/* SPDX-License-Identifier: MIT */
/*
 * topology_nccl - what NCCL has to be told at the node that was asked: lines for a shell, each with
 * the reason before it. See topology.h.
 *
 * A value that does not fit all is not printed: NCCL chooses by itself then, and a comment says so.
 */
#include "client/topology/topology.h"

#include <string.h>

#define VALUE_MAX 2048u

/* Whether something that is up goes over the port, of that kind (NULL: of any). */
static bool is_used(const struct fm_topology *t, unsigned port, const char *kind)
{
	for (size_t i = 0; i < t->link_count; i++) {
		const struct fm_topology_link *l = &t->links[i];

		if (l->from != port && l->to != port)
			continue;
		for (size_t k = 0; k < l->rail_count; k++)
			if (l->rails[k].is_up && (!kind || strcmp(l->rails[k].kind, kind) == 0))
				return true;
	}
	return false;
}

/* How many of the other nodes that port reaches; relays count if they may. */
static unsigned reached(const struct fm_topology *t, unsigned port, bool is_relay_enough)
{
	bool has[FM_TOPOLOGY_NODES_MAX] = {false};
	unsigned count = 0;

	for (size_t i = 0; i < t->link_count; i++) {
		const struct fm_topology_link *l = &t->links[i];
		unsigned other = l->from == port ? l->to : l->from;

		if ((l->from == port || l->to == port) && fm_link_is_up(l) &&
		    (is_relay_enough || !l->is_relayed))
			has[t->ports[other].node] = true;
	}
	has[t->self] = false;
	for (size_t i = 0; i < t->node_count; i++)
		count += has[i];
	return count;
}

/* ---- NCCL_IB_HCA ---- */

static bool is_hca(const struct fm_topology *t, unsigned port, const struct fm_topology_function *f)
{
	return t->ports[port].node == t->self && f->device[0] &&
	       (f->address[0] || strcmp(t->ports[port].link_layer, "InfiniBand") == 0) &&
	       strcmp(t->ports[port].state, "ACTIVE") == 0 && is_used(t, port, "rdma");
}

/* "=a:1,b:1"; the number of them. */
static unsigned hcas(const struct fm_topology *t, char value[static VALUE_MAX])
{
	unsigned count = 0;
	size_t n = 0;

	value[0] = '\0';
	for (unsigned i = 0; i < t->port_count; i++)
		for (size_t k = 0; k < t->ports[i].function_count; k++) {
			const struct fm_topology_function *f = &t->ports[i].functions[k];

			if (!is_hca(t, i, f) || n + 300 > VALUE_MAX)
				continue;
			n += (size_t)snprintf(value + n, VALUE_MAX - n, "%s%s:%llu",
					      count ? "," : "=", f->device,
					      (unsigned long long)f->port);
			count++;
		}
	return count;
}

static void print_hcas(const struct fm_topology *t, FILE *out)
{
	bool is_anywhere = false;
	char value[VALUE_MAX];
	unsigned count = hcas(t, value);

	if (count == 0) {
		(void)fprintf(out,
			      "# NCCL_IB_HCA: no port of this node has an RDMA connection to a "
			      "peer just now.\n");
		return;
	}
	for (unsigned i = 0; i < t->port_count; i++)
		if (t->ports[i].node == t->self && is_used(t, i, "rdma") &&
		    reached(t, i, false) + 1 == t->node_count)
			is_anywhere = true;
	(void)fprintf(out,
		      "# %s over which this node has RDMA connections to its peers; \"=\": no "
		      "other whose name begins so.\n",
		      count == 1 ? "The function" : "The functions");
	if (!is_anywhere)
		(void)fprintf(out,
			      "# No port reaches every node by a cable: NCCL has to pair them as "
			      "they are cabled.\n");
	(void)fprintf(out, "export NCCL_IB_HCA=%s\n", value);
}

/* ---- NCCL_IB_GID_INDEX ---- */

/* The index that all of them have. FM_TOPOLOGY_NONE: they differ, one is not known, or none is. */
static uint64_t common_gid(const struct fm_topology *t, bool *is_roce)
{
	uint64_t index = FM_TOPOLOGY_NONE;
	bool is_first = true, is_common = true;

	*is_roce = false;
	for (unsigned i = 0; i < t->port_count; i++)
		for (size_t k = 0; k < t->ports[i].function_count; k++) {
			const struct fm_topology_function *f = &t->ports[i].functions[k];

			if (!is_hca(t, i, f) || strcmp(t->ports[i].link_layer, "Ethernet") != 0)
				continue;
			is_common &= is_first || f->gid_index == index;
			index = f->gid_index;
			*is_roce = true;
			is_first = false;
		}
	return is_common ? index : FM_TOPOLOGY_NONE;
}

static void print_gid(const struct fm_topology *t, FILE *out)
{
	bool is_roce;
	uint64_t index = common_gid(t, &is_roce);

	if (!is_roce)
		(void)fprintf(out, "# NCCL_IB_GID_INDEX: there is no RoCE port in use, which alone "
				   "needs it.\n");
	else if (index == FM_TOPOLOGY_NONE)
		(void)fprintf(out, "# NCCL_IB_GID_INDEX: no one index is right for all of these; "
				   "leave it unset, NCCL 2.21 and later choose for each.\n");
	else
		(void)fprintf(out,
			      "# The entry of the address in use, in the table of each of these "
			      "ports.\nexport NCCL_IB_GID_INDEX=%llu\n",
			      (unsigned long long)index);
}

/* ---- NCCL_SOCKET_IFNAME ---- */

static const char *interface_of(const struct fm_topology_port *p)
{
	for (size_t i = 0; i < p->function_count; i++)
		if (p->functions[i].address[0] && p->functions[i].interface[0])
			return p->functions[i].interface;
	return NULL;
}

/* "=a,b": interfaces that reach every node; the number of them. */
static unsigned interfaces(const struct fm_topology *t, bool is_relay_enough,
			   char value[static VALUE_MAX])
{
	unsigned count = 0;
	size_t n = 0;

	value[0] = '\0';
	for (unsigned i = 0; i < t->port_count; i++) {
		const struct fm_topology_port *p = &t->ports[i];

		if (p->node != t->self || !interface_of(p) || n + 300 > VALUE_MAX ||
		    reached(t, i, is_relay_enough) + 1 != t->node_count)
			continue;
		n += (size_t)snprintf(value + n, VALUE_MAX - n, "%s%s", count ? "," : "=",
				      interface_of(p));
		count++;
	}
	return count;
}

static void print_interfaces(const struct fm_topology *t, FILE *out)
{
	char value[VALUE_MAX];

	if (t->node_count < 2)
		(void)fprintf(out, "# NCCL_SOCKET_IFNAME: this node has no peers.\n");
	else if (interfaces(t, false, value) > 0)
		(void)fprintf(out,
			      "# Over it every node is reached without a relay, which is what "
			      "NCCL's start needs.\nexport NCCL_SOCKET_IFNAME=%s\n",
			      value);
	else if (interfaces(t, true, value) > 0)
		(void)fprintf(out,
			      "# Over it every node is reached, some through another one, which "
			      "is enough for NCCL's start.\nexport NCCL_SOCKET_IFNAME=%s\n",
			      value);
	else
		(void)fprintf(out,
			      "# NCCL_SOCKET_IFNAME: no interface of this node has connections to "
			      "every node. NCCL's start needs one network\n# that all nodes have, "
			      "such as a LAN: name its interface.\n");
}

void fm_topology_nccl(const struct fm_topology *t, FILE *out)
{
	print_hcas(t, out);
	print_gid(t, out);
	print_interfaces(t, out);
}
