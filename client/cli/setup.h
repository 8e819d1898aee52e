/* SPDX-License-Identifier: MIT */
/*
 * setup - a new node's configuration, key and directories, for `fmove init` and `fmove join`.
 *
 * Nothing that is there is overwritten. As root the files that the daemon must read or change
 * become the service user's.
 */
#ifndef FM_CLIENT_SETUP_H
#define FM_CLIENT_SETUP_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/config.h"

struct fm_args;
struct fm_err;

#define FM_SETUP_USER "fmove"		/* the service's user, where there is one */
#define FM_SETUP_PORT 7471

struct fm_setup {
	const char *node;		/* NULL: the machine's name */
	const char *dir;		/* NULL: FM_CONFIG_DIR */
	const char *address;		/* NULL: not said */
	/* NULL: FM_SETUP_USER if it exists and we are root, else ourselves */
	const char *user;
	const char *stores[FM_CONFIG_STORES_MAX];	/* "NAME=DIR" */
	unsigned store_count;		/* 0: one store "data" */
	const char *token_file;		/* join: NULL: the token is an operand */
};

/* The rows of struct fm_opt that say all this. */
enum {
	FM_SETUP_NODE = 1,
	FM_SETUP_ADDRESS,
	FM_SETUP_STORE,
	FM_SETUP_DIR,
	FM_SETUP_USER_NAME,
	FM_SETUP_TOKEN_FILE
};

#define FM_SETUP_OPTS                                                                              \
	{"node", 0, FM_SETUP_NODE, "NAME", "this node's name (the machine's)", NULL},              \
		{"address",                                                                        \
		 0,                                                                                \
		 FM_SETUP_ADDRESS,                                                                 \
		 "HOST:PORT",                                                                      \
		 "where other nodes reach this one (found by itself)",                             \
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
	{                                                                                          \
		"user", 0, FM_SETUP_USER_NAME, "USER",                                             \
			"whom fmoved runs as (" FM_SETUP_USER ", where there is one)", NULL        \
	}

/* All arguments of a verb that has just these options and min .. max operands. -1: over, see
 * fm_args_end(). */
int fm_setup_parse(struct fm_setup *setup, struct fm_args *args, int min, int max);

/* DIR/fmove.conf. */
int fm_setup_file(const struct fm_setup *setup, char path[static PATH_MAX], struct fm_err *err);

/* Make everything, then load it again. -EEXIST if there is a configuration or a key. cfg is the
 * caller's. */
int fm_setup_write(const struct fm_setup *setup, struct fm_config **cfg,
		   uint8_t key[static FM_CONFIG_KEY_LEN], struct fm_err *err);

/* What to do so that the daemon runs with it (again), as a command line. */
void fm_setup_start_line(const struct fm_config *cfg, char *out, size_t max);

#endif
