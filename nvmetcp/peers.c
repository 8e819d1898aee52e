/* SPDX-License-Identifier: MIT */
/* peers - see peers.h. */
#include "nvmetcp/peers.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/crc32c.h"
#include "mover/base/err.h"
#include "mover/base/fault.h"
#include "mover/base/json.h"
#include "mover/base/utf8.h"

/*
 * Room for one more; NULL: no memory. Few have no more room than they need, so that a look behind
 * the last one is found; of the 4,096 that there may be each would move all before it.
 */
static void *grow(void *array, unsigned count, size_t size)
{
	const unsigned exact = 16;

	if (FM_FAULT("peers.grow"))
		return NULL;
	if (count > exact && (count & (count - 1)) != 0)
		return array;
	return reallocarray(array, count < exact ? count + 1 : 2 * count, size);
}

static int take_text(const struct fm_json *from, const char *key, size_t least, char *to,
		     size_t cap)
{
	const char *text;

	if (fm_json_text(fm_json_get(from, key), &text) < 0 || strlen(text) < least ||
	    strlen(text) >= cap)
		return -EBADMSG;
	for (const char *at = text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			return -EBADMSG;
	strcpy(to, text);
	return 0;
}

static int take_volume(const struct fm_json *from, const char *node, struct fm_peer_volume *v)
{
	*v = (struct fm_peer_volume){ 0 };
	strcpy(v->node, node);
	if (take_text(from, "name", 1, v->name, sizeof(v->name)) < 0 ||
	    take_text(from, "subsystem", 1, v->subsystem, sizeof(v->subsystem)) < 0 ||
	    take_text(from, "wwid", 0, v->wwid, sizeof(v->wwid)) < 0 ||
	    take_text(from, "writer", 0, v->writer, sizeof(v->writer)) < 0)
		return -EBADMSG;
	if (fm_json_bool(fm_json_get(from, "mounted"), &v->is_mounted) < 0 ||
	    fm_json_bool(fm_json_get(from, "read_write"), &v->is_read_write) < 0 ||
	    fm_json_bool(fm_json_get(from, "sealed"), &v->is_sealed) < 0 ||
	    fm_json_u64(fm_json_get(from, "epoch"), &v->epoch) < 0)
		return -EBADMSG;
	return 0;
}

static int add_volume(struct fm_peers *peers, const struct fm_peer_volume *v)
{
	struct fm_peer_volume *more = grow(peers->volumes, peers->volume_count, sizeof(*more));

	if (!more)
		return -ENOMEM;
	peers->volumes = more;
	peers->volumes[peers->volume_count++] = *v;
	return 0;
}

static struct fm_peer_node *find_node(const struct fm_peers *peers, const char *node)
{
	for (unsigned i = 0; i < peers->node_count; i++)
		if (strcmp(peers->nodes[i].node, node) == 0)
			return &peers->nodes[i];
	return NULL;
}

static int add_node(struct fm_peers *peers, const char *node, const char *why)
{
	struct fm_peer_node *more, *known = find_node(peers, node);

	if (!known && peers->node_count >= FM_PEERS_NODES_MAX)
		return -E2BIG;
	if (!known) {
		more = grow(peers->nodes, peers->node_count, sizeof(*more));
		if (!more)
			return -ENOMEM;
		peers->nodes = more;
		known = &more[peers->node_count++];
		*known = (struct fm_peer_node){ 0 };
		(void)snprintf(known->node, sizeof(known->node), "%s", node);
	}
	(void)snprintf(known->why, sizeof(known->why), "%s", why);
	fm_utf8_mend(known->why);	/* cut anywhere, it could not be shown */
	return 0;
}

/* "" for an answer, else why there is none. */
static const char *why_of(const struct fm_json *event)
{
	const char *text;

	if (!fm_json_get(event, "code"))
		return "";
	return fm_json_text(fm_json_get(event, "text"), &text) == 0 && text[0] ? text
									       : "does not answer";
}

static unsigned count_of(const struct fm_peers *peers, const char *node)
{
	unsigned count = 0;

	for (unsigned i = 0; i < peers->volume_count; i++)
		count += strcmp(peers->volumes[i].node, node) == 0;
	return count;
}

static bool is_array(const struct fm_json *list)
{
	return list && fm_json_type(list) == FM_JSON_ARRAY;
}

/* Adds the volumes of one node: all of them, or none after an error. */
static int add_volumes(struct fm_peers *peers, const char *node, const struct fm_json *list)
{
	unsigned before = peers->volume_count;
	struct fm_peer_volume v;
	const struct fm_json *at;
	int ret = 0;

	if (!is_array(list))
		return -EBADMSG;
	if (fm_json_count(list) > FM_PEERS_EACH_MAX - count_of(peers, node))
		return -E2BIG;
	for (size_t i = 0; ret == 0 && (at = fm_json_at(list, i)); i++) {
		ret = take_volume(at, node, &v);
		if (ret == 0)
			ret = add_volume(peers, &v);
	}
	if (ret < 0)
		peers->volume_count = before;
	return ret;
}

int fm_peers_add(struct fm_peers *peers, const struct fm_json *event)
{
	const struct fm_json *list = fm_json_get(event, "volumes");
	unsigned before = peers->volume_count;
	char node[FM_PEER_NAME_MAX + 1] = "";
	const char *why = why_of(event);
	int ret = take_text(event, "node", 1, node, sizeof(node));

	if (ret == 0)
		ret = add_volumes(peers, node, list);
	if (ret == -ENOMEM || !is_array(list) || !node[0])
		return ret;
	if (ret == -E2BIG)
		why = "says too much of volumes";
	else if (ret < 0)
		why = "says what is not understood of volumes";
	ret = add_node(peers, node, why);
	if (ret < 0)
		peers->volume_count = before;
	return ret;
}

/* Enough to tell a copy, and too little to pass for that host at a target. */
void fm_peers_host(const char *host_id, char out[static FM_PEER_HOST_LEN + 1])
{
	char low[64];
	size_t len = 0;

	for (; host_id[len] && len < sizeof(low); len++)
		low[len] = (char)tolower((unsigned char)host_id[len]);
	(void)snprintf(out, FM_PEER_HOST_LEN + 1, "host.%08" PRIx32, fm_crc32c(0, low, len));
}

bool fm_peers_is_host(const struct fm_peers *peers, const char *node, const char *host)
{
	for (unsigned i = 0; i < peers->volume_count; i++) {
		const struct fm_peer_volume *p = &peers->volumes[i];

		if (strcmp(p->subsystem, FM_PEER_HOST_SUBSYSTEM) == 0 && strcmp(p->node, node) == 0)
			return strcmp(p->wwid, host) == 0;
	}
	return false;
}

void fm_peers_filter(struct fm_peers *peers,
		     bool (*is_wanted)(const void *ctx, const struct fm_peer_volume *volume),
		     const void *ctx)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < peers->volume_count; i++)
		if (is_wanted(ctx, &peers->volumes[i]))
			peers->volumes[kept++] = peers->volumes[i];
	peers->volume_count = kept;
}

void fm_peers_share(struct fm_peers *peers)
{
	unsigned share = FM_PEERS_VOLUMES_MAX / (peers->node_count > 0 ? peers->node_count : 1);

	for (unsigned i = 0; i < peers->node_count; i++) {
		struct fm_peer_node *n = &peers->nodes[i];

		if (count_of(peers, n->node) <= share)
			continue;
		fm_peers_drop(peers, n->node);
		(void)snprintf(n->why, sizeof(n->why), "says too much of volumes");
	}
}

const char *fm_peers_silent_why(const struct fm_peers *peers, const char *node)
{
	const struct fm_peer_node *known = find_node(peers, node);

	return known ? known->why : peers->why[0] ? peers->why : "is no peer of this node now";
}

bool fm_peers_are_silent(const struct fm_peers *peers, const char *node)
{
	return fm_peers_silent_why(peers, node)[0];
}

bool fm_peers_are_listed(const struct fm_peers *peers, const char *node)
{
	return find_node(peers, node);
}

void fm_peers_drop(struct fm_peers *peers, const char *node)
{
	unsigned kept = 0;

	for (unsigned i = 0; i < peers->volume_count; i++)
		if (strcmp(peers->volumes[i].node, node) != 0)
			peers->volumes[kept++] = peers->volumes[i];
	peers->volume_count = kept;
}

int fm_peers_keep(struct fm_peers *peers, const struct fm_peers *before)
{
	int ret = 0;

	for (unsigned i = 0; ret == 0 && i < before->volume_count; i++) {
		struct fm_peer_volume v = before->volumes[i];

		v.is_stale = true;
		if (fm_peers_are_silent(peers, v.node))
			ret = peers->volume_count < FM_PEERS_VOLUMES_MAX ? add_volume(peers, &v)
									 : -E2BIG;
	}
	return ret;
}

/* ---- over a restart ---- */

static int write_volume(struct fm_json *all, const struct fm_peer_volume *v)
{
	struct fm_json *event = fm_json_part(all, v->node);

	if (!event) {
		event = fm_json_pack("{s:s, s:[]}", "node", v->node, "volumes");
		if (fm_json_set(all, v->node, event) < 0)
			return -ENOMEM;
	}
	return fm_json_add(fm_json_part(event, "volumes"),
			   fm_json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:I}", "name", v->name,
					"subsystem", v->subsystem, "wwid", v->wwid, "writer",
					v->writer, "mounted", v->is_mounted, "read_write",
					v->is_read_write, "sealed", v->is_sealed, "epoch",
					(long long)v->epoch));
}

char *fm_peers_write(const struct fm_peers *peers)
{
	struct fm_json *all = FM_FAULT("peers.write") ? NULL : fm_json_object();
	bool is_whole = all;
	char *text = NULL;

	for (unsigned i = 0; is_whole && i < peers->volume_count; i++)
		is_whole = write_volume(all, &peers->volumes[i]) == 0;
	if (is_whole)
		text = fm_json_dump(all, FM_JSON_SORTED_FILE);
	fm_json_free(all);
	return text;
}

struct reading {
	struct fm_peers *peers;
	int ret;		/* 0: all of it made sense */
};

/*
 * Reads the event of one node. If it makes no sense, those of the other nodes are read all the
 * same.
 */
static int read_event(void *ctx, const char *key, const struct fm_json *event)
{
	struct reading *r = ctx;
	char node[FM_PEER_NAME_MAX + 1];
	int ret = take_text(event, "node", 1, node, sizeof(node));

	(void)key;
	if (ret == 0)
		ret = r->peers->volume_count >= FM_PEERS_VOLUMES_MAX
			      ? -E2BIG
			      : add_volumes(r->peers, node, fm_json_get(event, "volumes"));
	r->ret = ret < 0 ? ret : r->ret;
	return 0;
}

int fm_peers_read(struct fm_peers *peers, const char *text, struct fm_err *err)
{
	struct reading r = { .peers = peers };
	struct fm_json *kept;
	int ret = fm_json_parse(text, strlen(text), &kept, err);

	if (ret < 0)
		return ret;
	(void)fm_json_each(kept, read_event, &r);
	fm_json_free(kept);
	for (unsigned i = 0; i < peers->volume_count; i++)
		peers->volumes[i].is_stale = true;
	free(peers->nodes);
	peers->nodes = NULL;
	peers->node_count = 0;
	return r.ret < 0 ? fm_err_set(err, r.ret, "some of it makes no sense") : 0;
}

static bool is_same_volume(const struct fm_peer_volume *a, const struct fm_peer_volume *b)
{
	return strcmp(a->node, b->node) == 0 && strcmp(a->name, b->name) == 0 &&
	       strcmp(a->subsystem, b->subsystem) == 0 && strcmp(a->wwid, b->wwid) == 0 &&
	       strcmp(a->writer, b->writer) == 0 && a->is_mounted == b->is_mounted &&
	       a->is_read_write == b->is_read_write && a->is_sealed == b->is_sealed &&
	       a->epoch == b->epoch && a->is_stale == b->is_stale;
}

bool fm_peers_are_equal(const struct fm_peers *a, const struct fm_peers *b)
{
	if (a->node_count != b->node_count || a->volume_count != b->volume_count ||
	    strcmp(a->why, b->why) != 0)
		return false;
	for (unsigned i = 0; i < a->node_count; i++)
		if (strcmp(a->nodes[i].node, b->nodes[i].node) != 0 ||
		    strcmp(a->nodes[i].why, b->nodes[i].why) != 0)
			return false;
	for (unsigned i = 0; i < a->volume_count; i++)
		if (!is_same_volume(&a->volumes[i], &b->volumes[i]))
			return false;
	return true;
}

void fm_peers_clear(struct fm_peers *peers)
{
	free(peers->nodes);
	free(peers->volumes);
	*peers = (struct fm_peers){ 0 };
}
