/* SPDX-License-Identifier: MIT */
/*
 * cache_format - the files in which a cache keeps its state, as bytes. fmove-cache(5) describes
 * them.
 *
 * No I/O. What is read is hostile: each get checks frame, CRC, lengths and every value before it
 * says 0; else -EBADMSG, and *out is not set. -ENOMEM.
 */
#ifndef FM_STAGING_CACHE_FORMAT_H
#define FM_STAGING_CACHE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "staging/cache_limits.h"
#include "staging/hold.h"

#define FM_CACHE_VERSION   1
#define FM_CACHE_FRAME_LEN 16u
#define FM_CACHE_CRC_LEN   4u

enum fm_cache_kind {
	FM_CACHE_KIND_HEAD = 1,
	FM_CACHE_KIND_DATASET = 2,
	FM_CACHE_KIND_USE = 3,
	FM_CACHE_KIND_EXTENTS = 4,
	FM_CACHE_KIND_HOLD = 5,
	FM_CACHE_KIND_NODE_HOLD = 6,
	FM_CACHE_KIND_AFAR = 7,
};

#define FM_CACHE_HEAD_LEN    (FM_CACHE_FRAME_LEN + FM_CACHE_CRC_LEN)
#define FM_CACHE_DATASET_LEN 140u /* before name and source */
#define FM_CACHE_USE_LEN     92u  /* before the pins */
#define FM_CACHE_USE_MAX                                                                           \
	(FM_CACHE_USE_LEN + FM_CACHE_PINS_MAX * 4 + 4 +                                            \
	 FM_CACHE_FAR_PINS_MAX * (4 + 1 + FM_CACHE_NODE_MAX) + FM_CACHE_CRC_LEN)
#define FM_CACHE_EXTENTS_LEN 32u  /* before the bits */
#define FM_CACHE_HOLD_LEN    80u  /* with the CRC */
#define FM_CACHE_NODE_HOLD_LEN 56u /* before the node */
#define FM_CACHE_HOLD_MAX    (FM_CACHE_NODE_HOLD_LEN + FM_CACHE_NODE_MAX + FM_CACHE_CRC_LEN)
#define FM_CACHE_AFAR_LEN    92u /* before the nodes */
#define FM_CACHE_AFAR_MAX                                                                          \
	(FM_CACHE_AFAR_LEN + FM_CACHE_AFAR_NODES * (1 + FM_CACHE_NODE_MAX) + FM_CACHE_CRC_LEN)
#define FM_CACHE_FILE_MAX    (FM_CACHE_EXTENTS_LEN + FM_CACHE_EXTENTS_MAX / 8 + FM_CACHE_CRC_LEN)

/*
 * The description of a dataset. It is written when the dataset is planned, and again, with its
 * version, when it is READY.
 */
struct fm_cache_dataset {
	uint64_t id;
	uint64_t base; /* the id of that with which it shares hard links; 0: none */
	uint64_t bytes;
	uint64_t shared;
	uint64_t files;
	int64_t created_ns;
	uint32_t extents;
	uint32_t cost;
	struct fm_cache_key listing;
	struct fm_cache_key version;
	char name[FM_CACHE_NAME_MAX + 1];
	char *source; /* the reader's of it: free() */
};

/* Both clocks: one may be set, and the other begins anew with each boot. boot_ns 0: not known. */
struct fm_cache_stamp {
	int64_t wall_ns; /* 0: never */
	uint64_t boot_ns;
};

/* A pin that another node asked for, in the name of a user. */
struct fm_cache_far_pin {
	uid_t uid;
	char node[FM_CACHE_NODE_MAX + 1];
};

/* What changes while it is here. */
struct fm_cache_use {
	uint64_t id;
	struct fm_cache_stamp requested;
	struct fm_cache_stamp used;
	struct fm_cache_stamp verified;
	uint8_t boot[FM_HOLD_BOOT_LEN]; /* for which boot_ns of all three counts */
	uint32_t pin_count;
	uid_t pins[FM_CACHE_PINS_MAX];
	uint32_t far_count;
	struct fm_cache_far_pin far[FM_CACHE_FAR_PINS_MAX];
};

/* A hold that ends with a process, or one for another node. */
struct fm_cache_hold_record {
	uint64_t id; /* of the dataset */
	uint64_t number;
	struct fm_hold_process process; /* not of one for another node */
	uid_t uid;
	int64_t since_ns;
	char node[FM_CACHE_NODE_MAX + 1]; /* that it is for; "": this one */
	uint64_t theirs; /* what that node calls it */
};

/* What a process of this node holds on others, where it is known by its listing. */
struct fm_cache_afar_record {
	uint64_t number; /* as in NODE_HOLD's `theirs`, there */
	struct fm_hold_process process;
	uid_t uid;
	struct fm_cache_key listing;
	unsigned count; /* nodes: at least 1 */
	char node[FM_CACHE_AFAR_NODES][FM_CACHE_NODE_MAX + 1];
};

static inline size_t fm_cache_bits_len(unsigned extents)
{
	return ((size_t)extents + 7) / 8;
}

/* How many bytes were put; len is enough (asserted). */
size_t fm_cache_put_head(uint8_t *out, size_t len);
size_t fm_cache_put_dataset(const struct fm_cache_dataset *in, uint8_t *out, size_t len);
size_t fm_cache_put_use(const struct fm_cache_use *in, uint8_t *out, size_t len);
size_t fm_cache_put_extents(uint64_t id, unsigned extents, const uint8_t *bits, uint8_t *out,
			    size_t len);
/* At most FM_CACHE_HOLD_MAX. */
size_t fm_cache_put_hold(const struct fm_cache_hold_record *in, uint8_t *out, size_t len);
/* At most FM_CACHE_AFAR_MAX. */
size_t fm_cache_put_afar(const struct fm_cache_afar_record *in, uint8_t *out, size_t len);

int fm_cache_get_head(const uint8_t *in, size_t len);
int fm_cache_get_dataset(const uint8_t *in, size_t len, struct fm_cache_dataset *out);
int fm_cache_get_use(const uint8_t *in, size_t len, struct fm_cache_use *out);
/* Of that dataset, which has so many extents. */
int fm_cache_get_extents(const uint8_t *in, size_t len, uint64_t id, unsigned extents,
			 uint8_t *bits);
int fm_cache_get_hold(const uint8_t *in, size_t len, struct fm_cache_hold_record *out);
int fm_cache_get_afar(const uint8_t *in, size_t len, struct fm_cache_afar_record *out);

/* Whether it can name a dataset: one component without a dot first, printable, not too long. */
bool fm_cache_is_name(const char *name);

/* 64 hexadecimal digits, lower case. */
#define FM_CACHE_HEX_LEN 64u
void fm_cache_key_print(const struct fm_cache_key *key, char out[static FM_CACHE_HEX_LEN + 1]);

#endif
