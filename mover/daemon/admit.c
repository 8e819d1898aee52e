/* SPDX-License-Identifier: MIT */
/*
 * admit - see admit.h.
 *
 * The files are read afresh each time: what is in there now is what the next start will say.
 * Nothing is told to a candidate before its token is good, and a token is used up only when nothing
 * else stands against it.
 */
#include "mover/daemon/admit.h"

#include <errno.h>
#include <string.h>

#include "config/config.h"
#include "config/files.h"
#include "config/invite.h"
#include "config/keys.h"
#include "config/value.h"
#include "mover/base/err.h"
#include "mover/join/join_addrs.h"

#define SAY_ANOTHER "give the new one another (--node NAME)"

_Static_assert(FM_JOIN_SECRET_LEN == FM_INVITE_SECRET_LEN, "one secret");
_Static_assert(FM_JOIN_NAME_MAX == FM_VALUE_NAME_MAX, "one length of names");
_Static_assert(FM_JOIN_ADDRS_MAX <= FM_CONFIG_PEER_ADDRESSES_MAX,
	       "a peer may have as many addresses as it tells");
_Static_assert(FM_KEY_LEN == FM_CONFIG_KEY_LEN, "one length of keys");

static int check_form(const struct fm_join_candidate *who, struct fm_err *err)
{
	const struct fm_join_request *r = &who->request;
	char host[FM_VALUE_HOST_MAX];
	uint16_t port;

	if (!fm_value_is_name(r->name))
		return fm_err_set(err, -EINVAL,
				  "the node's name is not allowed; it must be " FM_VALUE_NAME_FORM);
	if (r->address[0] && fm_value_address(r->address, false, host, sizeof(host), &port) < 0)
		return fm_err_set(err, -EINVAL,
				  "the node's address is not allowed; it must be HOST:PORT or "
				  "[ADDRESS]:PORT");
	return 0;
}

/* A machine that was copied, with its key: what is sent to the one would come to the other. */
static int check_own_key(const struct fm_config *cfg, const struct fm_join_candidate *who,
			 struct fm_err *err)
{
	uint8_t own[FM_KEY_LEN];

	if (fm_key_read(cfg->node.key_file, own, NULL) < 0 ||
	    memcmp(own, who->key, FM_KEY_LEN) != 0)
		return 0;
	return fm_err_set(err, -EEXIST,
			  "the node has the key of this one, as a copy of it has: remove its "
			  "configuration and its key, and join again");
}

/*
 * *known: the entry of this very node, which is a peer already and comes once more, perhaps from
 * another address; else NULL.
 */
static int check_taken(const struct fm_config *cfg, const struct fm_join_candidate *who,
		       const struct fm_config_peer **known, struct fm_err *err)
{
	const char *name = who->request.name;

	*known = NULL;
	if (strcmp(name, cfg->node.name) == 0)
		return fm_err_set(err, -EEXIST,
				  "the name \"%s\" is taken by this node itself: " SAY_ANOTHER,
				  name);
	for (unsigned i = 0; i < cfg->peer_count; i++) {
		const struct fm_config_peer *p = &cfg->peers[i];
		bool is_same_name = strcmp(p->name, name) == 0;
		bool is_same_key = memcmp(p->key, who->key, FM_KEY_LEN) == 0;

		if (is_same_name && is_same_key)
			*known = p;
		else if (is_same_name)
			return fm_err_set(err, -EEXIST,
					  "the name \"%s\" is taken by another node: " SAY_ANOTHER
					  ", or remove the other's entry first",
					  name);
		else if (is_same_key)
			return fm_err_set(err, -EEXIST,
					  "this node's key is known already, under the name \"%s\"",
					  p->name);
	}
	if (!*known && cfg->peer_count == FM_CONFIG_PEERS_MAX)
		return fm_err_set(err, -ENOSPC, "there are %d peers already", FM_CONFIG_PEERS_MAX);
	return 0;
}

static int admit_into(const struct fm_config *cfg, const struct fm_join_candidate *who,
		      struct fm_err *err)
{
	char text[FM_JOIN_ADDRS_MAX][FM_JOIN_ADDR_TEXT_MAX];
	const struct fm_join_addrs *further = &who->request.further;
	const struct fm_config_peer *known = NULL;
	struct fm_peer_file peer = {
		.name = who->request.name,
		.address = who->request.address,
		.key = who->key,
		.address_count = further->count,
	};
	int ret = fm_invite_check(cfg->dir, who->request.secret, err);

	for (unsigned i = 0; i < further->count; i++) {
		fm_join_addr_print(&further->addr[i], text[i]);
		peer.addresses[i] = text[i];
	}
	if (ret == 0)
		ret = check_form(who, err);
	if (ret == 0)
		ret = check_own_key(cfg, who, err);
	if (ret == 0)
		ret = check_taken(cfg, who, &known, err);
	peer.may_replace = known != NULL;
	peer.may_bench = known && known->may_bench;
	if (ret == 0)
		ret = fm_peer_file_try(cfg->file, &peer, err);
	if (ret == 0)
		ret = fm_invite_use(cfg->dir, who->request.secret, err);
	if (ret == 0)
		ret = fm_peer_file_write(cfg->dir, &peer, err);
	return ret < 0 ? ret : known != NULL;
}

int fm_admit(void *ctx, const struct fm_join_candidate *who, struct fm_err *err)
{
	struct fm_config *cfg;
	int ret = fm_config_load(ctx, &cfg, err);

	if (ret < 0) {
		fm_err_wrap(err, "this node's configuration has a mistake");
		return ret == -ENOENT ? -EINVAL : ret;	/* -ENOENT is for tokens */
	}
	ret = admit_into(cfg, who, err);
	fm_config_free(cfg);
	return ret;
}

void fm_admit_retract(void *ctx, const struct fm_join_candidate *who)
{
	struct fm_config *cfg;
	struct fm_err err;

	if (fm_config_load(ctx, &cfg, &err) < 0)
		return;		/* the next start will complain about the same */
	fm_peer_file_remove(cfg->dir, who->request.name);
	fm_config_free(cfg);
}
