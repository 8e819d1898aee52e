/* SPDX-License-Identifier: MIT */
/*
 * cmd_join - fmove join: become a peer of the node that printed "fmove join ADDRESS TOKEN".
 *
 * Writes a configuration and a key first if there is none yet, since the key is what is told. If
 * the inviting node then says no, what was written goes again, so that the same command, mended,
 * can be repeated.
 */
#include "client/cli/cmd.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/joining.h"
#include "client/cli/setup.h"
#include "config/address.h"
#include "config/config.h"
#include "config/files.h"
#include "config/invite.h"
#include "config/value.h"
#include "mover/base/err.h"
#include "mover/join/join_addrs.h"

const struct fm_opt fm_opts_join[] = {
	FM_SETUP_OPTS,
	{"token-file", 0, FM_SETUP_TOKEN_FILE, "FILE",
	 "read the token from there, where no list of processes shows it (-: standard input)",
	 "FILE"},
	{NULL, 0, 0, NULL, NULL, NULL},
};

#define TOKEN_ROOM 1024		/* the line that it ends, with blanks around it */

struct invited {
	char host[FM_VALUE_HOST_MAX];
	uint16_t port;
	struct fm_invite invite;
};

/* The last word in a file, "-" is standard input: the token alone, or the line that ends with
 * it. */
static int read_token(struct fm_args *args, const char *file, char text[static TOKEN_ROOM])
{
	bool is_stdin = strcmp(file, "-") == 0;
	FILE *f = is_stdin ? stdin : fopen(file, "re");
	size_t len, from;

	if (!f)
		return fm_usage(args, "%s: %s", file, fm_err_name(errno));
	len = fread(text, 1, TOKEN_ROOM - 1, f);
	if (ferror(f))
		len = 0;
	if (!is_stdin)
		(void)fclose(f);	/* only read */
	while (len > 0 && isspace((unsigned char)text[len - 1]))
		len--;
	text[len] = '\0';
	for (from = len; from > 0 && !isspace((unsigned char)text[from - 1]);)
		from--;
	memmove(text, text + from, len + 1 - from);
	return 0;
}

static int parse_invited(struct fm_args *args, const char *token_file, struct invited *out)
{
	const char *address = args->operands[0];
	char token[TOKEN_ROOM] = "";

	if (args->count == 1 && !token_file)
		args->status = fm_usage(
			args,
			"the token is missing: ADDRESS TOKEN, or ADDRESS and --token-file FILE");
	else if (args->count == 2 && token_file)
		args->status =
			fm_usage(args, "the token is in %s: leave out the one behind the address",
				 token_file);
	else if (token_file)
		args->status = read_token(args, token_file, token);
	if (args->status != 0)
		return -1;
	if (!token_file)
		/* a longer one is none */
		(void)snprintf(token, sizeof(token), "%s", args->operands[1]);
	if (fm_value_address(address, false, out->host, sizeof(out->host), &out->port) < 0)
		args->status = fm_usage(args, "%s: must be HOST:PORT or [ADDRESS]:PORT", address);
	else if (fm_invite_parse(token, &out->invite) < 0)
		args->status = fm_usage(args, "the token is not whole: copy the line that fmove "
					      "invite printed, all of it");
	else
		return 0;
	return -1;
}

/* *is_new: written here and now. */
static int load_or_write(const struct fm_setup *setup, struct fm_config **cfg, bool *is_new,
			 struct fm_err *err)
{
	uint8_t key[FM_CONFIG_KEY_LEN];
	char path[PATH_MAX];
	int ret = fm_setup_file(setup, path, err);

	if (ret < 0)
		return ret;
	*is_new = access(path, F_OK) < 0;
	if (*is_new)
		return fm_setup_write(setup, cfg, key, err);
	if (setup->node || setup->address || setup->user || setup->store_count)
		return fm_err_set(err, -EEXIST,
				  "%s is there already: change it there, and join without --node, "
				  "--address, --store, --user",
				  path);
	return fm_config_load(path, cfg, err);
}

/* A configuration without a fixed port cannot be dialled; the peer waits for us then. */
static int ask(const struct fm_config *cfg, const struct invited *to, struct fm_join_answer *answer,
	       bool *is_settled, struct fm_err *err)
{
	struct fm_joining joining = {
		.host = to->host, .port = to->port, .key_file = cfg->node.key_file};
	char host[FM_VALUE_HOST_MAX];

	memcpy(joining.key, to->invite.key, FM_KEY_LEN);
	memcpy(joining.request.secret, to->invite.secret, FM_JOIN_SECRET_LEN);
	snprintf(joining.request.name, sizeof(joining.request.name), "%s", cfg->node.name);
	snprintf(joining.request.address, sizeof(joining.request.address), "%s", cfg->node.address);
	(void)fm_value_address(cfg->node.listen, true, host, sizeof(host),
			       &joining.request.port); /* checked when loaded */
	joining.everywhere = fm_address_is_any(host) ? joining.request.port : 0;
	return fm_joining_run(&joining, answer, is_settled, err);
}

static const struct fm_config_peer *find_peer(const struct fm_config *cfg, const char *name)
{
	for (unsigned i = 0; i < cfg->peer_count; i++)
		if (strcmp(cfg->peers[i].name, name) == 0)
			return &cfg->peers[i];
	return NULL;
}

/* Write the inviting node down. Its name is its own business, unless somebody else has it here. */
static int keep_peer(const struct fm_config *cfg, const struct invited *from,
		     const struct fm_join_answer *answer, struct fm_err *err)
{
	const struct fm_config_peer *there = find_peer(cfg, answer->name);
	char address[FM_ADDRESS_TEXT_MAX], text[FM_JOIN_ADDRS_MAX][FM_JOIN_ADDR_TEXT_MAX],
		host[FM_VALUE_HOST_MAX];
	struct fm_peer_file peer = {
		.name = answer->name, .address = address, .key = from->invite.key};
	uint16_t port;

	if (!fm_value_is_name(answer->name))
		return fm_err_set(err, -EPROTO, "the inviting node has a name that is none");
	if (answer->address[0] &&
	    fm_value_address(answer->address, false, host, sizeof(host), &port) == 0)
		snprintf(address, sizeof(address), "%s", answer->address);
	else
		fm_address_print(from->host, from->port, address, sizeof(address));
	if (there && memcmp(there->key, peer.key, FM_CONFIG_KEY_LEN) != 0)
		return fm_err_set(
			err, -EEXIST,
			"%s:%u has another node named \"%s\": remove that entry, and join again",
			there->file, there->line, there->name);
	for (unsigned i = 0; i < answer->further.count; i++) {
		fm_join_addr_print(&answer->further.addr[i], text[i]);
		peer.addresses[peer.address_count++] = text[i];
	}
	peer.may_replace = there != NULL;
	return fm_peer_file_write(cfg->dir, &peer, err);
}

static void undo(const struct fm_config *cfg)
{
	/* made a moment ago; left behind they would only be in the way */
	(void)unlink(cfg->file);
	(void)unlink(cfg->node.key_file);
}

static void say_what_next(const struct fm_config *cfg, const struct fm_join_answer *answer,
			  bool is_new)
{
	char start[PATH_MAX + 32];

	fm_say("%s and %s know each other now.", cfg->node.name, answer->name);
	fm_setup_start_line(cfg, start, sizeof(start));
	if (is_new)
		fm_say("Wrote %s and %s. Start the daemon: %s", cfg->file, cfg->node.key_file,
		       start);
	else
		fm_say("If fmoved runs here, let it read that: systemctl reload fmoved, or kill "
		       "-HUP; if not: %s",
		       start);
	fm_say("The other nodes do not know of it. For each: \"fmove invite\" there, and the line "
	       "it prints here.");
}

static int join(const struct fm_config *cfg, const struct invited *to, bool is_new,
		struct fm_err *err)
{
	struct fm_join_answer answer;
	bool is_settled;
	int ret = ask(cfg, to, &answer, &is_settled, err);

	if (ret < 0 && is_new && is_settled)
		undo(cfg);
	if (ret < 0)
		return ret;
	ret = keep_peer(cfg, to, &answer, err);
	if (ret < 0)
		fm_err_wrap(err,
			    "%s took this node as a peer, but it could not be written down here",
			    answer.name);
	else
		say_what_next(cfg, &answer, is_new);
	return ret;
}

int fm_cmd_join(int argc, char **argv)
{
	struct fm_setup setup = { 0 };
	struct fm_err err = { 0 };
	struct fm_config *cfg;
	struct invited to;
	struct fm_args args;
	bool is_new;
	int ret;

	fm_args_begin(&args, "join", argc, argv);
	if (fm_setup_parse(&setup, &args, 1, 2) < 0 ||
	    parse_invited(&args, setup.token_file, &to) < 0)
		return args.status;
	ret = load_or_write(&setup, &cfg, &is_new, &err);
	if (ret < 0)
		return fm_fail("join", &err);
	ret = join(cfg, &to, is_new, &err);
	fm_config_free(cfg);
	return ret < 0 ? fm_fail("join", &err) : FM_EXIT_DONE;
}
