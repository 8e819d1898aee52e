/* SPDX-License-Identifier: MIT */
/*
 * files - writing the small files of a node's configuration: whole or not at all, on disk before
 * success is said.
 *
 * Files made as root in a directory of the service's user become that user's, or the daemon could
 * not read them. May block.
 */
#ifndef FM_CONFIG_FILES_H
#define FM_CONFIG_FILES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/config.h"

struct fm_err;

/* DIR/NAME into out. -ENAMETOOLONG, with a text. */
int fm_path_join(const char *dir, const char *name, char out[static PATH_MAX], struct fm_err *err);

struct fm_file_write {
	const char *path;
	mode_t mode;
	bool may_replace;	/* else -EEXIST */
	bool is_volatile;	/* whole, but not on disk yet: a power cut may take it */
};

int fm_file_write(const struct fm_file_write *how, const char *text, struct fm_err *err);

/* Make a directory and its parents; one that is there is fine. A new last one gets mode. */
int fm_dir_make(const char *path, mode_t mode, struct fm_err *err);

#define FM_PEER_FILE_FURTHER_MAX 64	/* of a further address, which is no name */

struct fm_peer_file {
	const char *name;
	const char *address;	/* "HOST:PORT" or "" */
	/* further ones; one that is `address` as well is left out */
	const char *addresses[FM_CONFIG_PEER_ADDRESSES_MAX];
	unsigned address_count;
	const uint8_t *key;	/* FM_CONFIG_KEY_LEN bytes */
	bool may_replace;
	bool may_bench;		/* what a person said of it (peers.bench), and joining does not */
};

/* -EINVAL, and why, if the configuration would have a mistake with it: nobody could start or reload
 * fmoved then. What fm_config_load() says if it has one already. */
int fm_peer_file_try(const char *config_file, const struct fm_peer_file *peer, struct fm_err *err);

/* Write DIR/peers.d/NAME.conf, making peers.d if need be. -EEXIST. */
int fm_peer_file_write(const char *dir, const struct fm_peer_file *peer, struct fm_err *err);

/* Undo it; one that is not there is fine. */
void fm_peer_file_remove(const char *dir, const char *name);

#endif
