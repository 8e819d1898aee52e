/* SPDX-License-Identifier: MIT */
/*
 * collect_daemon - what the daemon of this node says of itself and its rails. See collect_priv.h.
 */
#include "mover/facts/collect_priv.h"

#include <string.h>

#include "mover/base/json.h"

/* Members of an answer: "", 0 or false of what is missing. */
static const char *text_of(const struct fm_json *json, const char *key)
{
	const char *text = "";

	(void)fm_json_text(fm_json_get(json, key), &text);
	return text;
}

static uint64_t number_of(const struct fm_json *json, const char *key)
{
	uint64_t n = 0;

	(void)fm_json_u64(fm_json_get(json, key), &n);
	return n;
}

static bool is_true(const struct fm_json *json, const char *key)
{
	bool is = false;

	(void)fm_json_bool(fm_json_get(json, key), &is);
	return is;
}

/* "fe80::1%eth0" without its scope. */
static void address(struct fm_fact *fact, const char *text)
{
	char ip[64];
	size_t len = strcspn(text, "%");

	if (len >= sizeof(ip))
		len = 0;
	memcpy(ip, text, len);
	ip[len] = '\0';
	fm_fact_text(fact, FM_FACT_ADDRESS, ip);
}

static void rail(struct fm_collect *c, const char *peer, const struct fm_json *from)
{
	struct fm_facts_rail *r = fm_facts_add(c->facts, c->facts->rails, &c->facts->rails_count);

	if (!r)
		return;
	fm_fact_text(&r->peer, FM_FACT_TEXT, peer);
	fm_fact_text(&r->kind, FM_FACT_TEXT, text_of(from, "kind"));
	fm_fact_text(&r->device, FM_FACT_NAME, text_of(from, "device"));
	address(&r->local, text_of(from, "local"));
	address(&r->remote, text_of(from, "remote"));
	fm_fact_number(&r->up, is_true(from, "up"));
	fm_fact_number(&r->mtu, number_of(from, "mtu"));
	fm_fact_number(&r->speed_mbps, number_of(from, "speed_mbps"));
	fm_fact_text(&r->error, FM_FACT_TEXT, text_of(from, "error"));
}

/* A peer that is not connected has a reason, or was never tried. */
static void session(struct fm_collect *c, const struct fm_json *peer)
{
	struct fm_facts_session *s =
		fm_facts_add(c->facts, c->facts->sessions, &c->facts->sessions_count);
	const struct fm_json *way = fm_json_get(peer, "session");

	if (!s)
		return;
	fm_fact_text(&s->peer, FM_FACT_TEXT, text_of(peer, "name"));
	fm_fact_number(&s->connected, is_true(peer, "connected"));
	fm_fact_text(&s->error, FM_FACT_TEXT, text_of(peer, "error"));
	if (!*text_of(way, "local"))
		return; /* no connection, or on its way from one cable to another */
	fm_fact_text(&s->device, FM_FACT_NAME, text_of(way, "device"));
	address(&s->local, text_of(way, "local"));
	address(&s->remote, text_of(way, "remote"));
	if (fm_json_get(way, "round_trip_us"))
		fm_fact_number(&s->round_trip_us, number_of(way, "round_trip_us"));
	else
		fm_fact_unknown(&s->round_trip_us, "no answer to a PING was timed yet");
}

void fm_collect_daemon(struct fm_collect *c)
{
	const struct fm_json *status = c->options->status, *peers = fm_json_get(status, "peers");
	struct fm_facts_daemon *d = &c->facts->daemon;
	const char *io = "";

	if (!status) {
		fm_fact_unknown(&d->io, "%s",
				c->options->status_why ? c->options->status_why
						       : "the daemon was not asked");
		fm_fact_unknown(&d->rdma, "%s", d->io.text ? d->io.text : "");
		fm_fact_unknown(&c->facts->rails_read, "%s", d->io.text ? d->io.text : "");
		fm_fact_unknown(&c->facts->sessions_read, "%s", d->io.text ? d->io.text : "");
		return;
	}
	fm_fact_text(&c->facts->node.name, FM_FACT_TEXT, text_of(status, "node"));
	(void)fm_json_text(fm_json_at(fm_json_get(status, "lanes"), 0),
			   &io); /* "" if there is no lane */
	fm_fact_text(&d->io, FM_FACT_TEXT, io);
	fm_fact_text(&d->rdma, FM_FACT_TEXT, text_of(status, "rdma"));
	fm_fact_number(&d->arena_bytes, number_of(status, "arena_bytes"));
	fm_fact_number(&c->facts->rails_read, 1);
	fm_fact_number(&c->facts->sessions_read, 1);
	for (size_t i = 0; i < fm_json_count(peers); i++) {
		const struct fm_json *peer = fm_json_at(peers, i),
				     *rails = fm_json_get(peer, "rails");

		session(c, peer);
		for (size_t k = 0; k < fm_json_count(rails); k++)
			rail(c, text_of(peer, "name"), fm_json_at(rails, k));
	}
}
