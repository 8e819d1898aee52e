/* SPDX-License-Identifier: MIT */
/*
 * peers - what the other nodes say of the volumes that they have, as fmoved of this node passes it
 * on. Plain data, of strangers: it can only make us refuse. One thread.
 */
#ifndef FM_NVMETCP_PEERS_H
#define FM_NVMETCP_PEERS_H

#include <stdbool.h>
#include <stdint.h>

struct fm_err;
struct fm_json;

#define FM_PEER_NAME_MAX 64
#define FM_PEERS_WHY_MAX 256
#define FM_PEERS_NODES_MAX 256
/* volumes in one answer of one node; fmoved passes on no more */
#define FM_PEERS_EACH_MAX 256
#define FM_PEERS_VOLUMES_MAX 4096	/* of all nodes, that are kept */

/*
 * A node tells its mark (fm_peers_host()) as the wwid of an entry with this subsystem and the name
 * FM_PEER_HOST; the rest of the entry says nothing. A node that does not know this takes the entry
 * for a volume that it does not have.
 */
#define FM_PEER_HOST "host"
#define FM_PEER_HOST_SUBSYSTEM "fmove:host"

struct fm_peer_volume {
	char node[FM_PEER_NAME_MAX + 1];
	char name[FM_PEER_NAME_MAX + 1];
	char subsystem[224];
	char wwid[160];			/* "": it was never seen there */
	char writer[FM_PEER_NAME_MAX + 1];	/* whom its configuration names */
	bool is_mounted;		/* or about to be */
	bool is_read_write;
	bool is_sealed;			/* by that node, the writer */
	/* the writer: of the last seal; a reader: of what it has mounted */
	uint64_t epoch;
	bool is_stale;			/* it does not answer now: this is what it said last */
};

struct fm_peer_node {
	char node[FM_PEER_NAME_MAX + 1];
	char why[FM_PEERS_WHY_MAX];	/* why it does not answer; "": it does */
};

/* Zeroed: nobody is known. */
struct fm_peers {
	struct fm_peer_node *nodes;
	unsigned node_count;
	struct fm_peer_volume *volumes;
	unsigned volume_count;
	char why[FM_PEERS_WHY_MAX];	/* why nobody could be asked: fmoved does not answer; "" */
};

/*
 * One "volumes" event of fmove-api(7). A node that says what makes no sense, or more than
 * FM_PEERS_EACH_MAX, has said nothing: it is as one that does not answer, and the others are not
 * concerned. -EBADMSG: it is no such event; -E2BIG: too many nodes; -ENOMEM. Nothing of it is taken
 * then.
 */
int fm_peers_add(struct fm_peers *peers, const struct fm_json *event);

/* The mark of a host id. If two nodes have the same mark, targets take them for one host. */
#define FM_PEER_HOST_LEN 13
void fm_peers_host(const char *host_id, char out[static FM_PEER_HOST_LEN + 1]);

/* Whether that node has said last that it is this host. */
bool fm_peers_is_host(const struct fm_peers *peers, const char *node, const char *host);

/* Drops what is said of volumes that are not wanted. */
void fm_peers_filter(struct fm_peers *peers,
		     bool (*is_wanted)(const void *ctx, const struct fm_peer_volume *volume),
		     const void *ctx);

/*
 * Each node has its share of FM_PEERS_VOLUMES_MAX, so that none can use up what others need: one
 * that says more is as one that does not answer.
 */
void fm_peers_share(struct fm_peers *peers);

/*
 * Keeps what nodes said before that do not answer now, or are not listed any more, as stale.
 * -ENOMEM, -E2BIG: some of it is lost.
 */
int fm_peers_keep(struct fm_peers *peers, const struct fm_peers *before);

/*
 * All that was said, as the text of a file: an object with an event for each node; to be free()d,
 * NULL: no memory. And what such a text has: said before, so all of it is stale, and no node is
 * listed; peers is zeroed. -EINVAL: it is no object; -EBADMSG, -E2BIG: some of it is not there;
 * -ENOMEM.
 */
char *fm_peers_write(const struct fm_peers *peers);
int fm_peers_read(struct fm_peers *peers, const char *text, struct fm_err *err);

/* Why that node does not answer now; "": it does. */
const char *fm_peers_silent_why(const struct fm_peers *peers, const char *node);
bool fm_peers_are_silent(const struct fm_peers *peers, const char *node);

/* Whether fmoved has named it. */
bool fm_peers_are_listed(const struct fm_peers *peers, const char *node);

/* What it said is forgotten. */
void fm_peers_drop(struct fm_peers *peers, const char *node);

bool fm_peers_are_equal(const struct fm_peers *a, const struct fm_peers *b);

void fm_peers_clear(struct fm_peers *peers);

#endif
