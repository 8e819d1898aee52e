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
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/cli/found.h"
#include "client/cli/interrupt.h"
#include "client/cli/joining.h"
#include "client/cli/setup.h"
#include "client/cli/system.h"
#include "client/cli/undo.h"
#include "config/address.h"
#include "config/config.h"
#include "config/files.h"
#include "config/invite.h"
#include "config/options.h"
#include "config/value.h"
#include "mover/base/err.h"
#include "mover/base/json.h"
#include "mover/base/shell.h"
#include "mover/join/join_addrs.h"

const struct fm_opt fm_opts_join[] = {
	FM_SETUP_OPTS,
	{"token-file", 0, FM_SETUP_TOKEN_FILE, "FILE",
	 "read the token from there, where no list of processes shows it (-: standard input)",
	 "FILE"},
	{"find", 0, FM_SETUP_FIND, NULL,
	 "join nobody: ask on the links of RDMA ports which nodes have invited somebody", NULL},
	{"any-port", 0, FM_SETUP_ANY_PORT, NULL, "with --find: on all other ports, too", NULL},
	{NULL, 0, 0, NULL, NULL, NULL},
};

#define TOKEN_ROOM 1024		/* the line that it ends, with blanks around it */

struct place {
	char host[FM_VALUE_HOST_MAX];
	uint16_t port;
};

struct invited {
	struct place places[FM_ADDRESSES_MAX];	/* tried in turn */
	unsigned place_count;
	const struct place *reached;	/* the one that answered */
	struct fm_invite invite;
};

/*
 * Reads the token from a file ("-" is standard input): its last word, so that it may hold the whole
 * line that init printed.
 */
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

/* Parses ADDRESS,ADDRESS. The text is cut. */
static int parse_places(struct fm_args *args, char *text, struct invited *out)
{
	char *rest = text;
	const char *one;

	out->place_count = 0;
	while ((one = strsep(&rest, ",")) != NULL) {
		struct place *p = &out->places[out->place_count];

		if (out->place_count == FM_ADDRESSES_MAX)
			return fm_usage(args, "more than %d addresses", FM_ADDRESSES_MAX);
		if (fm_value_address(one, false, p->host, sizeof(p->host), &p->port) < 0)
			return fm_usage(args, "%s: must be HOST:PORT or [ADDRESS]:PORT", one);
		out->place_count++;
	}
	return 0;
}

static int parse_invited(struct fm_args *args, const char *token_file, struct invited *out)
{
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
	args->status = parse_places(args, args->operands[0], out);
	if (args->status != 0)
		return -1;
	if (fm_invite_parse(token, &out->invite) < 0)
		args->status = fm_usage(args, "the token is not whole: copy the line that fmove "
					      "invite printed, all of it");
	else
		return 0;
	return -1;
}

/* Loads the configuration, or writes one. *is_new: it was written now. */
static int load_or_write(const struct fm_setup *setup, struct fm_undo *undo, struct fm_config **cfg,
			 bool *is_new, struct fm_err *err)
{
	uint8_t key[FM_CONFIG_KEY_LEN];
	char path[PATH_MAX];
	int ret = fm_setup_file(setup, path, err);

	if (ret < 0)
		return ret;
	*is_new = access(path, F_OK) < 0;
	if (*is_new)
		return fm_setup_write(setup, undo, cfg, key, err);
	ret = fm_config_load(path, cfg, err);
	if (ret == 0)
		ret = fm_setup_agrees(setup, *cfg, err);
	else
		*cfg = NULL;
	if (ret < 0)
		fm_config_free(*cfg);
	return ret;
}

/*
 * Asks one address. A node without a fixed port cannot be dialled, so the peer is told to wait for
 * it.
 */
static int ask_at(const struct fm_config *cfg, const struct invited *to, const struct place *place,
		  struct fm_join_answer *answer, enum fm_joining_end *end, struct fm_err *err)
{
	struct fm_joining joining = {
		.host = place->host, .port = place->port, .key_file = cfg->node.key_file,
		.cancel_fd = fm_interrupt_fd()};
	char host[FM_VALUE_HOST_MAX];

	memcpy(joining.key, to->invite.key, FM_KEY_LEN);
	memcpy(joining.request.secret, to->invite.secret, FM_JOIN_SECRET_LEN);
	snprintf(joining.request.name, sizeof(joining.request.name), "%s", cfg->node.name);
	snprintf(joining.request.address, sizeof(joining.request.address), "%s", cfg->node.address);
	(void)fm_value_address(cfg->node.listen, true, host, sizeof(host),
			       &joining.request.port); /* checked when loaded */
	joining.everywhere = fm_address_is_any(host) ? joining.request.port : 0;
	return fm_joining_run(&joining, answer, end, err);
}

/*
 * Asks one address after the other, until the inviting node answers. Another machine may have the
 * same address, and an address may lead nowhere from here. If none answers, the first error is
 * told.
 */
static int ask(const struct fm_config *cfg, struct invited *to, struct fm_join_answer *answer,
	       enum fm_joining_end *end, struct fm_err *err)
{
	struct fm_err why;
	int ret = 0;

	for (unsigned i = 0; i < to->place_count; i++) {
		fm_err_clear(&why);
		to->reached = &to->places[i];
		ret = ask_at(cfg, to, to->reached, answer, end, &why);
		if (ret == 0 || *end != FM_JOINING_NOT_THERE || ret == -ECANCELED) {
			*err = why;
			return ret;
		}
		if (i == 0)
			*err = why;
		if (i + 1 < to->place_count)
			fm_say("join: %s; the next address", why.text);
	}
	return err->code;
}

static const struct fm_config_peer *find_peer(const struct fm_config *cfg, const char *name)
{
	for (unsigned i = 0; i < cfg->peer_count; i++)
		if (strcmp(cfg->peers[i].name, name) == 0)
			return &cfg->peers[i];
	return NULL;
}

/* Adds the address that was dialled: it is known to work, whatever the node itself says. */
static void add_reached(struct fm_peer_file *peer, const struct place *place,
			char text[static FM_ADDRESS_TEXT_MAX])
{
	fm_address_print(place->host, place->port, text, FM_ADDRESS_TEXT_MAX);
	for (unsigned i = 0; i < peer->address_count; i++)
		if (strcmp(peer->addresses[i], text) == 0)
			return;
	if (peer->address_count < FM_CONFIG_PEER_ADDRESSES_MAX &&
	    strlen(text) < FM_PEER_FILE_FURTHER_MAX)
		peer->addresses[peer->address_count++] = text;
}

/*
 * Writes down the inviting node, by the name that it has, unless another peer has that name here.
 */
static int keep_peer(const struct fm_config *cfg, const struct invited *from,
		     const struct fm_join_answer *answer, struct fm_err *err)
{
	const struct fm_config_peer *there = find_peer(cfg, answer->name);
	char address[FM_ADDRESS_TEXT_MAX], text[FM_JOIN_ADDRS_MAX][FM_JOIN_ADDR_TEXT_MAX],
		host[FM_VALUE_HOST_MAX], reached[FM_ADDRESS_TEXT_MAX];
	struct fm_peer_file peer = {
		.name = answer->name, .address = address, .key = from->invite.key};
	uint16_t port;
	int ret;

	if (!fm_value_is_name(answer->name))
		return fm_err_set(err, -EPROTO, "the inviting node has a name that is none");
	if (answer->address[0] &&
	    fm_value_address(answer->address, false, host, sizeof(host), &port) == 0)
		snprintf(address, sizeof(address), "%s", answer->address);
	else
		fm_address_print(from->reached->host, from->reached->port, address,
				 sizeof(address));
	if (there && memcmp(there->key, peer.key, FM_CONFIG_KEY_LEN) != 0)
		return fm_err_set(
			err, -EEXIST,
			"%s:%u has another node named \"%s\": remove that entry, and join again",
			there->file, there->line, there->name);
	for (unsigned i = 0; i < answer->further.count; i++) {
		fm_join_addr_print(&answer->further.addr[i], text[i]);
		peer.addresses[peer.address_count++] = text[i];
	}
	add_reached(&peer, from->reached, reached);
	peer.may_replace = there != NULL;
	peer.may_bench = there && there->may_bench;
	ret = fm_peer_file_try(cfg->file, &peer, err);
	if (ret == 0)
		ret = fm_setup_daemons_dir(cfg, FM_CONFIG_PEERS_DIR, 0755, false, err);
	return ret < 0 ? ret : fm_peer_file_write(cfg->dir, &peer, err);
}

/* The process that serves a socket, as far as this user is told; 0: none. */
static pid_t daemon_of(const char *socket_path)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct ucred peer = { .pid = 0 };
	socklen_t len = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return 0;
	/* cut if it is too long; then nobody serves it */
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s", socket_path);
	if (connect(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
		peer.pid = 0;
	(void)close(fd);	/* nothing was written */
	return peer.pid;
}

static void say_first_command(const struct fm_config *cfg, const char *other)
{
	char quoted[4 * PATH_MAX + 3];

	if (strcmp(cfg->node.socket, fm_option_find("node", "socket")->standard) == 0)
		fm_say("When fmoved runs, this lists the stores of %s: fmove ls %s:", other, other);
	else
		fm_say("When fmoved runs, this lists the stores of %s: fmove ls --socket %s %s:",
		       other, fm_shell_quote(cfg->node.socket, quoted, sizeof(quoted)), other);
}

static void say_what_next(const struct fm_setup *setup, const struct fm_config *cfg,
			  const char *other, bool is_new)
{
	pid_t pid = daemon_of(cfg->node.socket);
	char start[PATH_MAX + 128];

	fm_say("%s and %s know each other now.", cfg->node.name, other);
	fm_setup_start_line(cfg, start, sizeof(start));
	if (is_new)
		fm_say("Wrote %s and %s.", cfg->file, cfg->node.key_file);
	if (is_new && !fm_setup_is_started(setup))
		fm_say("Start the daemon: %s", start);
	if (is_new)
		fm_setup_say_group(cfg);
	else if (pid > 0)
		fm_say("Let the daemon read that: kill -HUP %d", (int)pid);
	else
		fm_say("Start the daemon: %s", start);
	/* The other node does not tell us whom it knows. */
	fm_say("If there are more nodes, they do not know %s yet. For each: \"fmove invite\" "
	       "there, and the line it prints here.",
	       cfg->node.name);
	say_first_command(cfg, other);
}

static void print_json(const struct fm_config *cfg, const char *other, bool is_new)
{
	struct fm_json_writer w;

	fm_jw_stream(&w, stdout);	/* fm_stdout_end() looks for errors */
	fm_jw_object(&w, NULL);
	fm_jw_text(&w, "node", cfg->node.name);
	fm_jw_text(&w, "peer", other);
	fm_jw_name(&w, "config", cfg->file, strlen(cfg->file));
	fm_jw_bool(&w, "new", is_new);
	fm_jw_u64(&w, "exit", FM_EXIT_DONE);
	fm_jw_object_end(&w);
	(void)printf("\n");
}

#define SAY_AGAIN "say the same again, with the token of a new fmove invite if this one was used"

/* What a join that fails takes away again. */
struct begun {
	struct fm_system sys;
	struct fm_undo undo;
	bool is_new;		/* the configuration was written here and now */
	bool is_kept;		/* the other node knows us, or may: all stays */
};

static int join(const struct fm_setup *setup, const struct fm_config *cfg, struct invited *to,
		struct begun *begun, struct fm_err *err)
{
	enum fm_joining_end end = FM_JOINING_NOT_THERE;
	struct fm_join_answer answer;
	int ret = ask(cfg, to, &answer, &end, err);

	begun->is_kept = ret == 0 || end == FM_JOINING_UNKNOWN;
	if (ret < 0 && begun->is_kept)
		return fm_err_wrap(err,
				   "nobody can tell whether it took this node, and what was "
				   "written here stays; " SAY_AGAIN);
	if (ret < 0)
		return ret;
	ret = keep_peer(cfg, to, &answer, err);
	if (ret < 0)
		return fm_err_wrap(err,
				   "%s took this node as a peer, but it could not be written down "
				   "here; what was written stays. Mend it, and " SAY_AGAIN,
				   answer.name);
	if (setup->is_system)
		ret = fm_system_start(&begun->sys, cfg->node.listen, err);
	if (ret == 0)
		say_what_next(setup, cfg, answer.name, begun->is_new);
	if (ret == 0 && setup->is_json)
		print_json(cfg, answer.name, begun->is_new);
	return ret;
}

static int begin_and_join(const struct fm_setup *setup, struct invited *to, struct fm_err *err)
{
	struct begun begun = { 0 };
	struct fm_config *cfg;
	int ret = fm_interrupt_start(err);

	if (ret == 0 && setup->is_system) {
		fm_system_plan(setup, stderr);
		ret = fm_system_begin(&begun.sys, err);
	}
	if (ret == 0)
		ret = fm_interrupt_check(err);
	if (ret == 0)
		ret = load_or_write(setup, &begun.undo, &cfg, &begun.is_new, err);
	if (ret == 0) {
		ret = join(setup, cfg, to, &begun, err);
		fm_config_free(cfg);
	}
	if (ret < 0 && !begun.is_kept) {
		fm_undo_all(&begun.undo);
		fm_system_undo(&begun.sys);
	}
	fm_undo_forget(&begun.undo);
	return ret;
}

/* Whether --find stands alone, and what belongs to it not without it. */
static bool is_find_well(const struct fm_setup *s, struct fm_args *args)
{
	if (s->is_any_port && !s->is_find)
		args->status = fm_usage(args, "--any-port belongs to --find");
	else if (s->is_find && (s->node || s->dir || s->addresses.count || s->user ||
				s->is_system || s->is_dry || s->store_count || s->token_file))
		args->status = fm_usage(args, "--find joins nobody: with it go only --any-port and "
					      "--json");
	else
		return true;
	return false;
}

int fm_cmd_join(int argc, char **argv)
{
	struct fm_setup setup = { 0 };
	struct fm_err err = { 0 };
	struct invited to;
	struct fm_args args;
	int ret;

	fm_args_begin(&args, "join", argc, argv);
	if (fm_setup_parse(&setup, &args, 1, 2) < 0 || !is_find_well(&setup, &args))
		return args.status;
	if (setup.is_find)
		return fm_found(setup.is_any_port, setup.is_json);
	if (parse_invited(&args, setup.token_file, &to) < 0)
		return args.status;
	ret = setup.is_dry ? fm_system_print_plan(&setup, &err)
			   : begin_and_join(&setup, &to, &err);
	if (ret < 0)
		return fm_fail("join", &err);
	return fm_stdout_end("join", FM_EXIT_DONE);
}
