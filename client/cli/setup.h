/* SPDX-License-Identifier: MIT */
/*
 * setup - a new node's configuration, key and directories, for `fmove init` and `fmove join`.
 *
 * Nothing that is there is overwritten, and a failure leaves nothing behind. As root the files that
 * the daemon must read or change become the service user's.
 */
#ifndef FM_CLIENT_SETUP_H
#define FM_CLIENT_SETUP_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/address.h"
#include "config/config.h"
#include "config/preflight.h"

struct fm_args;
struct fm_err;
struct fm_undo;

#define FM_SETUP_PORT 7471

struct fm_setup {
	const char *verb;		/* "init", "join" */
	const char *node;		/* NULL: the machine's name */
	const char *dir;		/* NULL: FM_CONFIG_DIR */
	struct fm_addresses addresses;	/* the first becomes node.address */
	/* NULL: FM_SERVICE_USER if it exists and we are root, else ourselves */
	const char *user;
	bool is_system;			/* make user and service, too (system.h) */
	bool is_dry;			/* say what would be done */
	bool is_json;			/* ... and what was done as an object */
	const char *stores[FM_CONFIG_STORES_MAX];	/* "NAME=DIR" */
	unsigned store_count;		/* 0: one store "data" */
	const char *token_file;		/* join: NULL: the token is an operand */
	bool is_find;			/* join: only list who has invited somebody ... */
	bool is_any_port;		/* ... on ports without RDMA, too */
};

/* The rows of struct fm_opt that say all this. */
enum {
	FM_SETUP_NODE = 1,
	FM_SETUP_ADDRESS,
	FM_SETUP_STORE,
	FM_SETUP_DIR,
	FM_SETUP_USER_NAME,
	FM_SETUP_SYSTEM,
	FM_SETUP_DRY,
	FM_SETUP_JSON,
	FM_SETUP_TOKEN_FILE,
	FM_SETUP_FIND,
	FM_SETUP_ANY_PORT
};

#define FM_SETUP_OPTS                                                                              \
	{"node", 0, FM_SETUP_NODE, "NAME", "this node's name (the machine's)", NULL},              \
		{"address",                                                                        \
		 0,                                                                                \
		 FM_SETUP_ADDRESS,                                                                 \
		 "HOST[:PORT]",                                                                    \
		 "where other nodes reach this one, may be said again (found by itself)",          \
		 NULL},                                                                            \
		{"store",                                                                          \
		 0,                                                                                \
		 FM_SETUP_STORE,                                                                   \
		 "NAME=DIR",                                                                       \
		 "a directory for others to read and write, may be said again (data)",             \
		 NULL},                                                                            \
		{"dir",                                                                            \
		 0,                                                                                \
		 FM_SETUP_DIR,                                                                     \
		 "DIR",                                                                            \
		 "where the configuration is, or goes (" FM_CONFIG_DIR ")",                        \
		 "FILE"},                                                                          \
		{"user",                                                                           \
		 0,                                                                                \
		 FM_SETUP_USER_NAME,                                                               \
		 "USER",                                                                           \
		 "whom fmoved runs as (" FM_SERVICE_USER ", where there is one)",                  \
		 NULL},                                                                            \
		{"system",                                                                         \
		 0,                                                                                \
		 FM_SETUP_SYSTEM,                                                                  \
		 NULL,                                                                             \
		 "as root: make the user " FM_SERVICE_USER ", too, and enable and start fmoved",   \
		 NULL},                                                                            \
		{"dry-run",                                                                        \
		 'n',                                                                              \
		 FM_SETUP_DRY,                                                                     \
		 NULL,                                                                             \
		 "say what would be done, and do nothing",                                         \
		 NULL},                                                                            \
	{                                                                                          \
		"json", 0, FM_SETUP_JSON, NULL,                                                    \
			"the answer as one JSON object on standard output", NULL                   \
	}

/* All arguments of a verb that has just these options and min .. max operands. -1: over, see
 * fm_args_end(). */
int fm_setup_parse(struct fm_setup *setup, struct fm_args *args, int min, int max);

/*
 * Whether a configuration that is there already says what the options do, so that a command that
 * did a part of its work can be said again. -EEXIST: which option says something else.
 */
int fm_setup_agrees(const struct fm_setup *setup, const struct fm_config *cfg, struct fm_err *err);

/* DIR/fmove.conf. */
int fm_setup_file(const struct fm_setup *setup, char path[static PATH_MAX], struct fm_err *err);

/* The i-th store, of which there is one at least, as "NAME=DIR". */
const char *fm_setup_store(const struct fm_setup *setup, unsigned i);
unsigned fm_setup_stores(const struct fm_setup *setup);

/*
 * Make everything, load it, and try it as the daemon's user. -EEXIST if there is a configuration or
 * a key; -EACCES if the daemon could not work, and each fault was said with the line that mends it.
 * A failure leaves nothing behind; later ones are for the caller, by undo. cfg is the caller's.
 */
int fm_setup_write(const struct fm_setup *setup, struct fm_undo *undo, struct fm_config **cfg,
		   uint8_t key[static FM_CONFIG_KEY_LEN], struct fm_err *err);

/*
 * Have a directory beside the configuration that is the daemon's, whom the key belongs to, though
 * root makes it. is_written: by the daemon; then -EPERM if one that is there is somebody else's.
 */
int fm_setup_daemons_dir(const struct fm_config *cfg, const char *name, mode_t mode,
			 bool is_written, struct fm_err *err);

/* The daemon: --system starts it, where systemd runs. */
bool fm_setup_is_started(const struct fm_setup *setup);

/* What to do so that the daemon runs with it (again), as a command line. */
void fm_setup_start_line(const struct fm_config *cfg, char *out, size_t max);

/* Who may use this node's fmoved beside root, where that is not obvious. */
void fm_setup_say_group(const struct fm_config *cfg);

/* One more --address of a verb. 0, or the exit status, and it was said. */
int fm_setup_add_address(struct fm_addresses *addresses, struct fm_args *args);

#endif
