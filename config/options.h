/* SPDX-License-Identifier: MIT */
/*
 * options - the one table of everything that can be configured, and what can be done with a row of
 * it.
 *
 * Parsing, checking, help, the example file and the manual page's section all read the same row, so
 * they cannot disagree. Rows of one section stand together. This file knows no file format: load.c
 * turns what it reads into struct fm_option_raw.
 */
#ifndef FM_CONFIG_OPTIONS_H
#define FM_CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define FM_OPTION_WHY_MAX 256
/* bytes; NVM Express Base Specification, "NVMe Qualified Names" */
#define FM_OPTION_NQN_MAX 223

enum fm_option_type {
	/* Texts, char *. Where the default is "", that is allowed too. */
	FM_OPTION_NAME,		/* a node's, store's or volume's name */
	FM_OPTION_DIRECTORY,	/* absolute, or "null:" */
	FM_OPTION_MOUNT_POINT,	/* absolute, not "/" */
	FM_OPTION_FILE,		/* relative ones belong to the configuration's directory */
	FM_OPTION_SOCKET,	/* absolute, short enough for a UNIX socket */
	FM_OPTION_GROUP,	/* a group of this machine */
	FM_OPTION_USER,		/* a user of this machine, not root */
	FM_OPTION_LISTEN,	/* address and port to bind */
	FM_OPTION_SERVE,	/* the same with an address that is said, as a number */
	FM_OPTION_ADDRESS,	/* host and port to dial */
	FM_OPTION_IP,		/* an address of this machine, no port */
	FM_OPTION_NQN,		/* how a target calls a subsystem, or a host itself */
	FM_OPTION_UUID,		/* put in lower case */
	FM_OPTION_NGUID,	/* put in lower case, without hyphens */
	FM_OPTION_WORD,		/* of an interface, a file system: at most max bytes */
	FM_OPTION_FLAGS,	/* mount options, with commas */
	FM_OPTION_TEXT_LAST = FM_OPTION_FLAGS,

	FM_OPTION_KEY,		/* uint8_t[32]: an Ed25519 public key in base64 */
	FM_OPTION_UINT,		/* unsigned */
	FM_OPTION_SIZE,		/* uint64_t, bytes; 0 for words[0], if there are words */
	FM_OPTION_POWER,	/* the same, a power of two */
	FM_OPTION_TIME,		/* uint64_t, nanoseconds */
	FM_OPTION_SECONDS,	/* int, whole seconds; -1 for words[0], if there are words */
	FM_OPTION_RATE,		/* uint64_t, bytes a second, 0 for none */
	FM_OPTION_BOOL,		/* bool */
	FM_OPTION_CHOICE,	/* unsigned: the place of the word among words */
	FM_OPTION_SET,		/* unsigned: bit n is set if the list holds words[n]; not empty */
	/* char **, NULL-terminated, at most max: who may read or write a store */
	FM_OPTION_WHO,
	FM_OPTION_ADDRESSES,	/* the same: hosts and ports to dial */
	FM_OPTION_NETWORKS,	/* the same: IP networks (mover/base/network.h) */
	FM_OPTION_NODES,	/* the same: names of nodes, or "*" for all peers */
};

struct fm_option {
	const char *path;		/* "mover.chunk"; in a list: "stores.quota" */
	enum fm_option_type type;
	size_t place;			/* in struct fm_config; in a list: in its element */
	uint64_t min;
	uint64_t max;
	/* the default; lists: words with blanks between; NULL: must be given */
	const char *standard;
	const char *const *words;	/* CHOICE, SET, SECONDS, SIZE and POWER */
	bool is_live;			/* a reload takes it over; others need a restart */
	const char *help;		/* one sentence, without a full stop */
};

extern const struct fm_option fm_options[];
extern const unsigned fm_option_count;

/* One value as a file or the table gives it. */
enum fm_option_raw_type { FM_RAW_TEXT, FM_RAW_INT, FM_RAW_BOOL, FM_RAW_LIST, FM_RAW_OTHER };

struct fm_option_raw {
	enum fm_option_raw_type type;
	const char *text;
	int64_t number;
	bool is_true;
	const char *const *items;	/* LIST: each a string */
	size_t count;
};

/* What the value of an option may depend on. */
struct fm_option_context {
	const char *dir;		/* for FM_OPTION_FILE */
};

/*
 * Check raw and put its value into its place under base (replacing and freeing what is there). Else
 * -EINVAL and why: what is wrong and what is allowed. -ENOMEM.
 */
int fm_option_set(const struct fm_option *o, void *base, const struct fm_option_context *ctx,
		  const struct fm_option_raw *raw, char why[static FM_OPTION_WHY_MAX]);

/* The same with the row's default, which must be there; a default that does not fit is our bug.
 * -ENOMEM. */
int fm_option_set_standard(const struct fm_option *o, void *base,
			   const struct fm_option_context *ctx);

/* Whether two of a kind hold the same value there. */
bool fm_option_is_equal(const struct fm_option *o, const void *a, const void *b);

/* Free what the value owns and clear it. */
void fm_option_clear(const struct fm_option *o, void *base);

/* "node", "stores"; name: the part behind it. */
bool fm_option_is_in(const struct fm_option *o, const char *section);

/* Whether both, of which that section is, hold the same values in all of it. */
bool fm_option_are_equal(const char *section, const void *a, const void *b);
const char *fm_option_name(const struct fm_option *o);

/* The row of that section and name, or NULL. */
const struct fm_option *fm_option_find(const char *section, const char *name);

/* The most similar name in that section, if it is similar at all, else NULL; section NULL: the most
 * similar section. */
const char *fm_option_nearest(const char *section, const char *name);

/* "4KiB .. 64MiB, a power of two", "one of auto, always, never". Cut to max. */
void fm_option_allowed(const struct fm_option *o, char *out, size_t max);

/* As it stands in a file: quoted, in brackets, or bare; NULL as the value: the default. Cut to
 * max. */
void fm_option_quote(const struct fm_option *o, const char *value, char *out, size_t max);

/*
 * For people: every row (help), a whole configuration with everything explained (example), the
 * section OPTIONS of fmove.conf(5).
 */
void fm_options_print_help(FILE *to);
void fm_options_print_example(FILE *to);
void fm_options_print_man(FILE *to);

#endif
