/* SPDX-License-Identifier: MIT */
/* topology_json - a topology as a document and back; fmove-topology(5). See topology.h. */
#include "client/topology/topology.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mover/base/err.h"
#include "mover/base/json.h"
#include "mover/base/plain.h"
#include "mover/base/whole_file.h"

#define KEY_VERSION "fmove_topology"

/* ---- writing ---- */

static void nodes_write(struct fm_json_writer *w, const struct fm_topology *t)
{
	fm_jw_array(w, "nodes");
	for (size_t i = 0; i < t->node_count; i++) {
		fm_jw_object(w, NULL);
		fm_jw_text(w, "name", t->nodes[i].name);
		fm_jw_text(w, "unknown", t->nodes[i].why);
		fm_jw_object_end(w);
	}
	fm_jw_array_end(w);
}

static void function_write(struct fm_json_writer *w, const struct fm_topology_function *f)
{
	fm_jw_object(w, NULL);
	fm_jw_text(w, "interface", f->interface);
	fm_jw_text(w, "device", f->device);
	fm_jw_u64(w, "device_port", f->port);
	fm_jw_text(w, "address", f->address);
	fm_jw_u64_or_null(w, "gid_index", f->gid_index, FM_TOPOLOGY_NONE);
	fm_jw_u64_or_null(w, "mtu", f->mtu, 0);
	fm_jw_u64_or_null(w, "rdma_mtu", f->rdma_mtu, 0);
	fm_jw_object_end(w);
}

static void ports_write(struct fm_json_writer *w, const struct fm_topology *t)
{
	fm_jw_array(w, "ports");
	for (size_t i = 0; i < t->port_count; i++) {
		const struct fm_topology_port *p = &t->ports[i];

		fm_jw_object(w, NULL);
		fm_jw_text(w, "node", t->nodes[p->node].name);
		fm_jw_text(w, "name", p->name);
		fm_jw_text(w, "state", p->state);
		fm_jw_text(w, "link_layer", p->link_layer);
		fm_jw_u64_or_null(w, "rate_mbps", p->rate_mbps, 0);
		fm_jw_array(w, "functions");
		for (size_t k = 0; k < p->function_count; k++)
			function_write(w, &p->functions[k]);
		fm_jw_array_end(w);
		fm_jw_object_end(w);
	}
	fm_jw_array_end(w);
}

static void end_write(struct fm_json_writer *w, const char *key, const struct fm_topology *t,
		      unsigned port)
{
	fm_jw_object(w, key);
	fm_jw_text(w, "node", t->nodes[t->ports[port].node].name);
	fm_jw_text(w, "port", t->ports[port].name);
	fm_jw_object_end(w);
}

static void rail_write(struct fm_json_writer *w, const struct fm_topology_rail *r)
{
	fm_jw_object(w, NULL);
	fm_jw_text(w, "kind", r->kind);
	fm_jw_text(w, "from", r->from);
	fm_jw_text(w, "to", r->to);
	fm_jw_bool(w, "up", r->is_up);
	fm_jw_text(w, "error", r->error);
	fm_jw_object_end(w);
}

static void links_write(struct fm_json_writer *w, const struct fm_topology *t)
{
	fm_jw_array(w, "links");
	for (size_t i = 0; i < t->link_count; i++) {
		const struct fm_topology_link *l = &t->links[i];

		fm_jw_object(w, NULL);
		end_write(w, "from", t, l->from);
		end_write(w, "to", t, l->to);
		fm_jw_bool(w, "relayed", l->is_relayed);
		fm_jw_text(w, "via", l->via);
		fm_jw_u64_or_null(w, "round_trip_us", l->round_trip_us, FM_TOPOLOGY_NONE);
		fm_jw_array(w, "rails");
		for (size_t k = 0; k < l->rail_count; k++)
			rail_write(w, &l->rails[k]);
		fm_jw_array_end(w);
		fm_jw_object_end(w);
	}
	fm_jw_array_end(w);
}

static void storage_write(struct fm_json_writer *w, const struct fm_topology *t)
{
	fm_jw_array(w, "storage");
	for (size_t i = 0; i < t->storage_count; i++) {
		const struct fm_topology_storage *s = &t->storage[i];

		fm_jw_object(w, NULL);
		fm_jw_text(w, "node", t->nodes[s->node].name);
		fm_jw_text(w, "name", s->name);
		fm_jw_text(w, "port", s->port);
		fm_jw_text(w, "transport", s->transport);
		fm_jw_text(w, "address", s->address);
		fm_jw_text(w, "subsystem", s->subsystem);
		fm_jw_text(w, "state", s->state);
		fm_jw_object_end(w);
	}
	fm_jw_array_end(w);
}

static void apart_write(struct fm_json_writer *w, const struct fm_topology *t)
{
	fm_jw_array(w, "apart");
	for (size_t i = 0; i < t->apart_count; i++) {
		fm_jw_object(w, NULL);
		fm_jw_text(w, "node", t->nodes[t->apart[i].node].name);
		fm_jw_text(w, "peer", t->nodes[t->apart[i].peer].name);
		fm_jw_text(w, "why", t->apart[i].why);
		fm_jw_object_end(w);
	}
	fm_jw_array_end(w);
}

int fm_topology_write(const struct fm_topology *t, char *buf, size_t cap)
{
	struct fm_json_writer w;

	fm_jw_begin(&w, buf, cap);
	fm_jw_object(&w, NULL);
	fm_jw_u64(&w, KEY_VERSION, FM_TOPOLOGY_VERSION);
	fm_jw_text(&w, "node", t->node_count > 0 ? t->nodes[t->self].name : "");
	nodes_write(&w, t);
	ports_write(&w, t);
	links_write(&w, t);
	storage_write(&w, t);
	apart_write(&w, t);
	fm_jw_u64(&w, "left_out", t->left_out);
	fm_jw_object_end(&w);
	return fm_jw_end(&w);
}

/* ---- reading: the first thing that is wrong is kept ---- */

struct reading {
	struct fm_topology *t;
	const char *wrong; /* NULL: nothing */
	const char *key;
};

static void refuse(struct reading *r, const char *key, const char *wrong)
{
	if (!r->wrong) {
		r->wrong = wrong;
		r->key = key;
	}
}

/* Missing is "". */
static void text_of(struct reading *r, const struct fm_json *json, const char *key, char *out,
		    size_t cap)
{
	const struct fm_json *value = fm_json_get(json, key);
	const char *text = "";

	if (value && (fm_json_text(value, &text) < 0 || strlen(text) >= cap))
		refuse(r, key, "not a text, or a long one");
	else
		(void)fm_plain(text, strlen(text), out, cap);
}

#define TEXT(r, json, key, out) text_of(r, json, key, out, sizeof(out))

/* Of the kernel: it goes into lines for a shell. */
static void name_of(struct reading *r, const struct fm_json *json, const char *key,
		    char out[static FM_TOPOLOGY_NAME_MAX])
{
	text_of(r, json, key, out, FM_TOPOLOGY_NAME_MAX);
	if (*out == '-')
		refuse(r, key, "not a name of a device or an interface");
	for (const char *at = out; *at; at++)
		if (!isalnum((unsigned char)*at) && !strchr("_.:@-", *at))
			refuse(r, key, "not a name of a device or an interface");
}

static uint64_t number_of(struct reading *r, const struct fm_json *json, const char *key,
			  uint64_t none)
{
	const struct fm_json *value = fm_json_get(json, key);
	uint64_t n = none;

	if (value && fm_json_type(value) != FM_JSON_NULL && fm_json_u64(value, &n) < 0)
		refuse(r, key, "not a number");
	return n;
}

static bool bool_of(struct reading *r, const struct fm_json *json, const char *key)
{
	const struct fm_json *value = fm_json_get(json, key);
	bool is = false;

	if (value && fm_json_bool(value, &is) < 0)
		refuse(r, key, "neither true nor false");
	return is;
}

/* How many of that array may be read; what is more is refused. */
static size_t count_of(struct reading *r, const struct fm_json *json, const char *key, size_t max)
{
	const struct fm_json *array = fm_json_get(json, key);
	size_t count = fm_json_count(array);

	if (array && fm_json_type(array) != FM_JSON_ARRAY)
		refuse(r, key, "not an array");
	if (count > max)
		refuse(r, key, "has too many entries");
	return r->wrong ? 0 : count;
}

/* 0 if it is wrong. */
static unsigned node_of(struct reading *r, const struct fm_json *json, const char *key)
{
	char name[FM_TOPOLOGY_NAME_MAX] = "";

	TEXT(r, json, key, name);
	for (unsigned i = 0; i < r->t->node_count; i++)
		if (strcmp(r->t->nodes[i].name, name) == 0)
			return i;
	refuse(r, key, "names none of the nodes");
	return 0;
}

static unsigned end_of(struct reading *r, const struct fm_json *json, const char *key)
{
	const struct fm_json *end = fm_json_get(json, key);
	char name[FM_TOPOLOGY_NAME_MAX] = "";
	unsigned node = node_of(r, end, "node");

	TEXT(r, end, "port", name);
	for (unsigned i = 0; i < r->t->port_count; i++)
		if (r->t->ports[i].node == node && strcmp(r->t->ports[i].name, name) == 0)
			return i;
	refuse(r, key, "names none of the ports");
	return 0;
}

static void nodes_read(struct reading *r, const struct fm_json *json)
{
	size_t count = count_of(r, json, "nodes", FM_TOPOLOGY_NODES_MAX);

	for (size_t i = 0; i < count; i++) {
		const struct fm_json *at = fm_json_at(fm_json_get(json, "nodes"), i);
		char name[FM_TOPOLOGY_NAME_MAX] = "";

		TEXT(r, at, "name", name);
		if (fm_topology_node(r->t, name) != i) {
			refuse(r, "nodes", "has one name twice");
			return;
		}
		TEXT(r, at, "unknown", r->t->nodes[i].why);
	}
	if (r->t->node_count == 0)
		refuse(r, "nodes", "has none");
}

static void functions_read(struct reading *r, const struct fm_json *json,
			   struct fm_topology_port *p)
{
	p->function_count = count_of(r, json, "functions", FM_TOPOLOGY_FUNCTIONS_MAX);
	for (size_t i = 0; i < p->function_count; i++) {
		const struct fm_json *at = fm_json_at(fm_json_get(json, "functions"), i);
		struct fm_topology_function *f = &p->functions[i];

		name_of(r, at, "interface", f->interface);
		name_of(r, at, "device", f->device);
		f->port = number_of(r, at, "device_port", 0);
		TEXT(r, at, "address", f->address);
		f->gid_index = number_of(r, at, "gid_index", FM_TOPOLOGY_NONE);
		f->mtu = number_of(r, at, "mtu", 0);
		f->rdma_mtu = number_of(r, at, "rdma_mtu", 0);
	}
}

static void ports_read(struct reading *r, const struct fm_json *json)
{
	size_t count = count_of(r, json, "ports", FM_TOPOLOGY_PORTS_MAX);

	for (size_t i = 0; i < count && !r->wrong; i++) {
		const struct fm_json *at = fm_json_at(fm_json_get(json, "ports"), i);
		char name[FM_TOPOLOGY_NAME_MAX] = "";
		unsigned node = node_of(r, at, "node");
		struct fm_topology_port *p = &r->t->ports[i];

		TEXT(r, at, "name", name);
		if (fm_topology_port(r->t, node, name) != i) {
			refuse(r, "ports", "has one name twice at a node");
			return;
		}
		TEXT(r, at, "state", p->state);
		TEXT(r, at, "link_layer", p->link_layer);
		p->rate_mbps = number_of(r, at, "rate_mbps", 0);
		functions_read(r, at, p);
	}
}

static void rails_read(struct reading *r, const struct fm_json *json, struct fm_topology_link *l)
{
	l->rail_count = count_of(r, json, "rails", FM_TOPOLOGY_RAILS_MAX);
	for (size_t i = 0; i < l->rail_count; i++) {
		const struct fm_json *at = fm_json_at(fm_json_get(json, "rails"), i);
		struct fm_topology_rail *rail = &l->rails[i];

		TEXT(r, at, "kind", rail->kind);
		TEXT(r, at, "from", rail->from);
		TEXT(r, at, "to", rail->to);
		TEXT(r, at, "error", rail->error);
		rail->is_up = bool_of(r, at, "up");
	}
}

static void links_read(struct reading *r, const struct fm_json *json)
{
	size_t count = count_of(r, json, "links", FM_TOPOLOGY_LINKS_MAX);

	for (size_t i = 0; i < count && !r->wrong; i++) {
		const struct fm_json *at = fm_json_at(fm_json_get(json, "links"), i);
		struct fm_topology_link *l = &r->t->links[r->t->link_count++];

		l->from = end_of(r, at, "from");
		l->to = end_of(r, at, "to");
		l->is_relayed = bool_of(r, at, "relayed");
		TEXT(r, at, "via", l->via);
		l->round_trip_us = number_of(r, at, "round_trip_us", FM_TOPOLOGY_NONE);
		rails_read(r, at, l);
	}
}

static void storage_read(struct reading *r, const struct fm_json *json)
{
	size_t count = count_of(r, json, "storage", FM_TOPOLOGY_STORAGE_MAX);

	for (size_t i = 0; i < count && !r->wrong; i++) {
		const struct fm_json *at = fm_json_at(fm_json_get(json, "storage"), i);
		struct fm_topology_storage *s = &r->t->storage[r->t->storage_count++];

		s->node = node_of(r, at, "node");
		TEXT(r, at, "name", s->name);
		TEXT(r, at, "port", s->port);
		TEXT(r, at, "transport", s->transport);
		TEXT(r, at, "address", s->address);
		TEXT(r, at, "subsystem", s->subsystem);
		TEXT(r, at, "state", s->state);
	}
}

static void apart_read(struct reading *r, const struct fm_json *json)
{
	size_t count = count_of(r, json, "apart", FM_TOPOLOGY_APART_MAX);

	for (size_t i = 0; i < count && !r->wrong; i++) {
		const struct fm_json *at = fm_json_at(fm_json_get(json, "apart"), i);
		struct fm_topology_apart *a = &r->t->apart[r->t->apart_count++];

		a->node = node_of(r, at, "node");
		a->peer = node_of(r, at, "peer");
		TEXT(r, at, "why", a->why);
	}
}

static int all_read(const struct fm_json *json, struct fm_topology *t, struct fm_err *err)
{
	struct reading r = {.t = t};
	uint64_t version;

	if (fm_json_u64(fm_json_get(json, KEY_VERSION), &version) < 0 || version == 0)
		return fm_err_set(err, -EINVAL, "not a topology: \"%s\" is missing", KEY_VERSION);
	if (version > FM_TOPOLOGY_VERSION)
		return fm_err_set(err, -EOPNOTSUPP,
				  "a topology of version %llu, this fmove knows %d: use the fmove "
				  "that wrote it, or a newer one",
				  (unsigned long long)version, FM_TOPOLOGY_VERSION);
	nodes_read(&r, json);
	t->self = node_of(&r, json, "node");
	ports_read(&r, json);
	links_read(&r, json);
	storage_read(&r, json);
	apart_read(&r, json);
	t->left_out = number_of(&r, json, "left_out", 0);
	return r.wrong ? fm_err_set(err, -EINVAL, "%s: %s", r.key, r.wrong) : 0;
}

int fm_topology_parse(const char *text, size_t len, struct fm_topology **out, struct fm_err *err)
{
	struct fm_topology *t;
	struct fm_json *json;
	int ret;

	if (len > FM_TOPOLOGY_BYTES_MAX)
		return fm_err_set(err, -E2BIG, "longer than %u bytes", FM_TOPOLOGY_BYTES_MAX);
	ret = fm_json_parse(text, len, &json, err);
	if (ret < 0)
		return ret;
	t = fm_topology_new();
	ret = t ? all_read(json, t, err) : fm_err_set(err, -ENOMEM, "no memory for a topology");
	fm_json_free(json);
	if (ret < 0) {
		free(t);
		return ret;
	}
	*out = t;
	return 0;
}

int fm_topology_load(const char *path, struct fm_topology **out, struct fm_err *err)
{
	char *text = NULL;
	size_t len;
	int ret = fm_whole_file(path, FM_TOPOLOGY_BYTES_MAX, &text, &len, err);

	if (ret == 0)
		ret = fm_topology_parse(text, len, out, err);
	free(text);
	return ret < 0 ? fm_err_wrap(err, "%s", path), ret : 0;
}
