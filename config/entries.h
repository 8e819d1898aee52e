/* SPDX-License-Identifier: MIT */
/*
 * entries - which peers have an entry, however wrong it or anything else of the configuration is.
 *
 * A peer whose entry was removed is shut out even where fm_config_load() finds a mistake. An entry
 * that cannot be read is none that was removed: a file of peers.d counts by its name alone, and
 * where fmove.conf cannot tell the names of all its peers, none of them is taken for removed. Any
 * thread; reading may block.
 */
#ifndef FM_CONFIG_ENTRIES_H
#define FM_CONFIG_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>

struct fm_config;

struct fm_config_entries {
	char **names;			/* of peers; sorted once they are read */
	size_t count;
	bool is_file_known;		/* all that stand in fmove.conf are among them */
	bool is_directory_known;	/* the same of peers.d */
};

/* Of the file and the peers.d beside it. What cannot be read is not known; never fails. */
void fm_config_entries_read(const char *file, struct fm_config_entries *out);

/* Whether the entry of this peer was removed. was: the configuration before; a peer that is not in
 * it had a file of peers.d. */
bool fm_config_entries_lack(const struct fm_config_entries *entries, const struct fm_config *was,
			    const char *name);

void fm_config_entries_free(struct fm_config_entries *entries);

/* -ENOMEM. */
int fm_config_entries_add(struct fm_config_entries *entries, const char *name, size_t len);

/* How much of a file's name in peers.d is its peer's; 0: the file is no entry. */
size_t fm_config_entry_name_len(const char *file_name);

/* load.c: add the names that fmove.conf has. -errno, or -EINVAL: not all can be told. */
int fm_config_entries_of_file(const char *file, struct fm_config_entries *entries);

#endif
