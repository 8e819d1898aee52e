/* SPDX-License-Identifier: MIT */
/*
 * topology - which port of which node reaches which, from the facts of one node or of several; a
 * plain structure, and the JSON document that fmove-topology(5) describes.
 *
 * Nobody labels cables: a link is what the daemons' rails go over. What two nodes say of one rail
 * is one rail. What is not known is empty, 0 or FM_TOPOLOGY_NONE. Drawings are made of this
 * structure alone, so a saved document draws as the nodes did. The document may come from a
 * stranger: it is bounded, and a value of another kind is refused. Any thread.
 */
#ifndef FM_TOPOLOGY_H
#define FM_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct fm_err;
struct fm_facts_set;

#define FM_TOPOLOGY_VERSION   1
#define FM_TOPOLOGY_BYTES_MAX (4u << 20) /* of a document */
#define FM_TOPOLOGY_NAME_MAX  256u	 /* of a name, with its end */

#define FM_TOPOLOGY_NODES_MAX	  256u
#define FM_TOPOLOGY_PORTS_MAX	  512u
#define FM_TOPOLOGY_FUNCTIONS_MAX 8u /* of one port */
#define FM_TOPOLOGY_LINKS_MAX	  1024u
#define FM_TOPOLOGY_RAILS_MAX	  32u /* of one link */
#define FM_TOPOLOGY_STORAGE_MAX	  256u
#define FM_TOPOLOGY_APART_MAX	  512u
#define FM_TOPOLOGY_NONE	  UINT64_MAX

struct fm_topology_node {
	char name[FM_TOPOLOGY_NAME_MAX];
	char why[FM_TOPOLOGY_NAME_MAX]; /* its facts are not known; "": they are */
};

/* One PCIe function of a port: what has an address, and what RDMA is done with. */
struct fm_topology_function {
	char interface[FM_TOPOLOGY_NAME_MAX];
	char device[FM_TOPOLOGY_NAME_MAX];  /* "": no RDMA */
	uint64_t port;			    /* of the device */
	char address[FM_TOPOLOGY_NAME_MAX]; /* the first that is not link-local */
	uint64_t gid_index;		    /* of that address, of RoCE v2 if there is one */
	uint64_t mtu;
	uint64_t rdma_mtu;
};

/* One cage of a card, or an interface. */
struct fm_topology_port {
	unsigned node;
	char name[FM_TOPOLOGY_NAME_MAX];
	char state[FM_TOPOLOGY_NAME_MAX];      /* of RDMA: "ACTIVE", "DOWN"; "" */
	char link_layer[FM_TOPOLOGY_NAME_MAX]; /* of RDMA */
	uint64_t rate_mbps;		       /* once, however many functions say it */
	struct fm_topology_function functions[FM_TOPOLOGY_FUNCTIONS_MAX];
	size_t function_count;
};

/* As the daemons have it: from an address of the first port to one of the second. */
struct fm_topology_rail {
	char kind[16];
	char from[FM_TOPOLOGY_NAME_MAX], to[FM_TOPOLOGY_NAME_MAX];
	bool is_up;
	char error[FM_TOPOLOGY_NAME_MAX];
};

struct fm_topology_link {
	unsigned from, to; /* ports */
	bool is_relayed;   /* the ends share no network: another node or a router is between */
	char via[FM_TOPOLOGY_NAME_MAX]; /* the node that passes it on; "": not known */
	uint64_t round_trip_us;		/* of the session, if it goes over this link */
	struct fm_topology_rail rails[FM_TOPOLOGY_RAILS_MAX];
	size_t rail_count;
};

/* A connection to an NVMe target. */
struct fm_topology_storage {
	unsigned node;
	char name[FM_TOPOLOGY_NAME_MAX]; /* of the controller */
	char port[FM_TOPOLOGY_NAME_MAX]; /* that it leaves by; "": not known */
	char transport[FM_TOPOLOGY_NAME_MAX], address[FM_TOPOLOGY_NAME_MAX];
	char subsystem[FM_TOPOLOGY_NAME_MAX], state[FM_TOPOLOGY_NAME_MAX];
};

/* Two nodes without a session, as the first has it. */
struct fm_topology_apart {
	unsigned node, peer;
	char why[FM_TOPOLOGY_NAME_MAX];
};

struct fm_topology {
	unsigned self; /* the node that was asked */
	struct fm_topology_node nodes[FM_TOPOLOGY_NODES_MAX];
	struct fm_topology_port ports[FM_TOPOLOGY_PORTS_MAX];
	struct fm_topology_link links[FM_TOPOLOGY_LINKS_MAX];
	struct fm_topology_storage storage[FM_TOPOLOGY_STORAGE_MAX];
	struct fm_topology_apart apart[FM_TOPOLOGY_APART_MAX];
	size_t node_count, port_count, link_count, storage_count, apart_count;
	uint64_t left_out; /* what found no room */
};

/* ---- making one ---- */

/* Zeros, large. NULL: no memory. Freed with free(). */
struct fm_topology *fm_topology_new(void);

/*
 * From the facts of one node, the first, and of those of its peers that are known. The others are
 * in it without their ports, until fm_topology_miss() says why.
 */
void fm_topology_make(const struct fm_facts_set *set, struct fm_topology *out);

/* Say why a node's facts are not known; one that no rail leads to is added. */
void fm_topology_miss(struct fm_topology *t, const char *node, const char *why);

/* ---- the parts, for whoever makes or reads one; the index, or the count's limit: no room ---- */

unsigned fm_topology_node(struct fm_topology *t, const char *name);
unsigned fm_topology_port(struct fm_topology *t, unsigned node, const char *name);

/* ---- the document ---- */

/* Its length, or -EMSGSIZE. */
int fm_topology_write(const struct fm_topology *t, char *buf, size_t cap);

/*
 * -EINVAL with the reason: no JSON, no topology, a value of another kind, a name that no node or
 * port has; -EOPNOTSUPP: of a newer version; -E2BIG; -ENOMEM. Unknown keys are passed over.
 */
int fm_topology_parse(const char *text, size_t len, struct fm_topology **out, struct fm_err *err);
int fm_topology_load(const char *path, struct fm_topology **out, struct fm_err *err);

/* ---- what is the same for all drawings ---- */

bool fm_link_is_up(const struct fm_topology_link *l);

/* The least of its functions that is known; 0. */
uint64_t fm_port_mtu(const struct fm_topology_port *p);

/*
 * Which ports hang together by direct links: segment[port] is the least of them. Two ports of a
 * segment are a cable; more of them can only be behind a switch.
 */
void fm_topology_segments(const struct fm_topology *t, unsigned segment[FM_TOPOLOGY_PORTS_MAX]);
unsigned fm_segment_size(const struct fm_topology *t, const unsigned *segment, unsigned which);

/* "RDMA, TCP; 2 of 4 rails up; through n2; round trip 0.12 ms". Returns out. */
const char *fm_link_text(const struct fm_topology_link *l, char *out, size_t cap);

/* ---- drawings ---- */

void fm_topology_draw(const struct fm_topology *t, FILE *out);
void fm_topology_dot(const struct fm_topology *t, FILE *out);

/* What NCCL has to be told at the node that was asked, as lines for a shell, with the reasons. */
void fm_topology_nccl(const struct fm_topology *t, FILE *out);

#endif
