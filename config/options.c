/* SPDX-License-Identifier: MIT */
/* options - see options.h. Printing stands in options_print.c. */
#include "config/options.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "config/config.h"
#include "config/value.h"
#include "mover/base/env.h"
#include "mover/base/fault.h"

#define KIB UINT64_C(1024)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)
#define TIB (UINT64_C(1) << 40)

#define AT(member) offsetof(struct fm_config, member)
#define STORE(member) offsetof(struct fm_config_store, member)
#define PEER(member) offsetof(struct fm_config_peer, member)

static const char *const log_words[] = { "error", "warn", "info", "debug", NULL };
static const char *const mode_words[] = { "0600", "0660", "0666", NULL };
static const char *const pages_words[] = { "auto", "always", "never", NULL };
static const char *const io_words[] = { "auto", "io_uring", "threads", NULL };
static const char *const transport_words[] = { "rdma", "tcp", NULL };
static const char *const durability_words[] = { "disk", "memory", NULL };
static const char *const owner_words[] = { "service", "caller", NULL };

/* clang-format off */
/* One row: a line of values, a line of help. */
const struct fm_option fm_options[] = {
	{ "node.name", FM_OPTION_NAME, AT(node.name), 0, 0, NULL, NULL, false,
	  "This node's name, as its peers' entries and NODE:STORE/PATH say it" },
	{ "node.listen", FM_OPTION_LISTEN, AT(node.listen), 0, 0, "[::]:7471", NULL, false,
	  "Address and port for peers, over TCP and over RDMA; an empty host is every address, port 0 any free one" },
	{ "node.address", FM_OPTION_ADDRESS, AT(node.address), 0, 0, "", NULL, true,
	  "Where other nodes reach this one; it goes into invitations, \"\" lets fmove guess" },
	{ "node.key_file", FM_OPTION_FILE, AT(node.key_file), 0, 0, "node.key", NULL, false,
	  "This node's private key (see fmove keygen), readable by its owner only; relative to this file's directory" },
	{ "node.socket", FM_OPTION_SOCKET, AT(node.socket), 0, 0, "/run/fmove/fmoved.sock", NULL, false,
	  "The UNIX socket where fmove finds this daemon" },
	{ "node.socket_mode", FM_OPTION_CHOICE, AT(node.socket_mode), 0, 0, "0660", mode_words, false,
	  "Who may use that socket: the daemon's user, its group too, everybody; each with their own rights to files" },
	{ "node.socket_group", FM_OPTION_GROUP, AT(node.socket_group), 0, 0, "", NULL, false,
	  "The socket's group; \"\": the daemon's" },
	{ "node.log_level", FM_OPTION_CHOICE, AT(node.log_level), 0, 0, "info", log_words, true,
	  "How much is written to the log" },

	{ "memory.arena", FM_OPTION_SIZE, AT(memory.arena_bytes), 1 * MIB, 1 * TIB, "256MiB", NULL, false,
	  "Memory that transfers go through, allocated at start; a multiple of the slab" },
	{ "memory.total", FM_OPTION_SIZE, AT(memory.total_bytes), 64 * MIB, 2 * TIB, "512MiB", NULL, false,
	  "What the whole daemon may use, arena included" },
	{ "memory.slab", FM_OPTION_SIZE, AT(memory.slab_bytes), 64 * KIB, 1 * GIB, "16MiB", NULL, false,
	  "The piece of the arena that is lent to one connection; 1 to 64 chunks" },
	{ "memory.huge_pages", FM_OPTION_CHOICE, AT(memory.huge_pages), 0, 0, "auto", pages_words, false,
	  "Whether the arena is made of reserved huge pages; auto: if there are enough" },

	{ "mover.lanes", FM_OPTION_UINT, AT(mover.lanes), 0, 16, "0", NULL, false,
	  "Threads that move data; 0: a quarter of the cores, at least 2, at most 8" },
	{ "mover.chunk", FM_OPTION_POWER, AT(mover.chunk_bytes), 4 * KIB, 64 * MIB, "1MiB", NULL, false,
	  "Bytes that are read, checked, sent and written at once" },
	{ "mover.transports", FM_OPTION_SET, AT(mover.transports), 0, 0, "rdma tcp", transport_words, false,
	  "The transports that may be used; with both, RDMA wherever it works" },
	{ "mover.rdma_conns", FM_OPTION_UINT, AT(mover.rdma_conns), 1, 8, "2", NULL, false,
	  "Queue pairs per rail" },
	{ "mover.tcp_conns", FM_OPTION_UINT, AT(mover.tcp_conns), 1, 16, "4", NULL, false,
	  "TCP connections per rail" },
	{ "mover.dscp", FM_OPTION_UINT, AT(mover.dscp), 0, 63, "0", NULL, false,
	  "Differentiated services code point of data connections, RDMA and TCP" },
	{ "mover.rate_limit", FM_OPTION_RATE, AT(mover.rate_bytes), 1 * MIB, 1 * TIB, "0", NULL, true,
	  "What this node sends at most, over all transfers" },
	{ "mover.stall_timeout", FM_OPTION_TIME, AT(mover.stall_ns), 2 * FM_NS_PER_S, 600 * FM_NS_PER_S, "10s", NULL,
	  false,
	  "A peer that is silent for this long is lost" },
	{ "mover.io", FM_OPTION_CHOICE, AT(mover.io), 0, 0, "auto", io_words, false,
	  "How files are read and written; auto: io_uring, or threads where it is refused" },

	{ "stores.name", FM_OPTION_NAME, STORE(name), 0, 0, NULL, NULL, true,
	  "The store's name, as NODE:STORE/PATH says it" },
	{ "stores.directory", FM_OPTION_DIRECTORY, STORE(directory), 0, 0, NULL, NULL, true,
	  "Where its files are; it must exist. \"null:\" forgets what is put there, for measuring" },
	{ "stores.read", FM_OPTION_WHO, STORE(read), 0, FM_CONFIG_WHO_MAX, "*", NULL, true,
	  "Who may read" },
	{ "stores.write", FM_OPTION_WHO, STORE(write), 0, FM_CONFIG_WHO_MAX, "*", NULL, true,
	  "Who may write and remove" },
	{ "stores.durability", FM_OPTION_CHOICE, STORE(durability), 0, 0, "disk", durability_words, true,
	  "When a put is done: on disk, or as soon as it is checked and written" },
	{ "stores.replace", FM_OPTION_BOOL, STORE(may_replace), 0, 0, "false", NULL, true,
	  "Whether an existing file may be replaced without --force" },
	{ "stores.owner", FM_OPTION_CHOICE, STORE(owner), 0, 0, "service", owner_words, true,
	  "Who owns new files: the daemon's user, or the caller as the peer names it (needs CAP_CHOWN)" },
	{ "stores.quota", FM_OPTION_SIZE, STORE(quota_bytes), 0, 8192 * TIB, "0", NULL, true,
	  "What the store may hold; 0: as much as the file system has room for" },
	{ "stores.buffered", FM_OPTION_BOOL, STORE(is_buffered), 0, 0, "false", NULL, true,
	  "Never use O_DIRECT" },

	{ "peers.name", FM_OPTION_NAME, PEER(name), 0, 0, NULL, NULL, true,
	  "The peer's name, the node.name of its own configuration" },
	{ "peers.address", FM_OPTION_ADDRESS, PEER(address), 0, 0, "", NULL, true,
	  "Where to reach it; \"\": it dials this node" },
	{ "peers.key", FM_OPTION_KEY, PEER(key), 0, 0, NULL, NULL, true,
	  "Its public key: what fmove keygen printed there" },
};
/* clang-format on */

const unsigned fm_option_count = sizeof(fm_options) / sizeof(fm_options[0]);
_Static_assert(sizeof(fm_options) / sizeof(fm_options[0]) <= FM_CONFIG_OPTIONS_MAX, "line_of has a place for each row");

const char *fm_option_name(const struct fm_option *o)
{
	return strchr(o->path, '.') + 1;
}

bool fm_option_is_in(const struct fm_option *o, const char *section)
{
	size_t len = strlen(section);

	return strncmp(o->path, section, len) == 0 && o->path[len] == '.';
}

const struct fm_option *fm_option_find(const char *section, const char *name)
{
	for (unsigned i = 0; i < fm_option_count; i++)
		if (fm_option_is_in(&fm_options[i], section) && strcmp(fm_option_name(&fm_options[i]), name) == 0)
			return &fm_options[i];
	return NULL;
}

#define NEAREST_LEN_MAX 32	/* longer words are not mistyped options */

/* How many letters must be changed, added or taken away: Levenshtein's distance, in one row of its table. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[NEAREST_LEN_MAX + 1];
	unsigned len_b = (unsigned)strlen(b);

	for (unsigned j = 0; j <= len_b; j++)
		row[j] = j;
	for (unsigned i = 1; a[i - 1]; i++) {
		unsigned diagonal = row[0];

		row[0] = i;
		for (unsigned j = 1; j <= len_b; j++) {
			unsigned change = diagonal + (a[i - 1] != b[j - 1]);
			unsigned add = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;

			diagonal = row[j];
			row[j] = change < add ? change : add;
		}
	}
	return row[len_b];
}

const char *fm_option_nearest(const char *section, const char *name)
{
	static const char *const sections[] = { "node", "memory", "mover", "stores", "peers" };
	unsigned count = section ? fm_option_count : sizeof(sections) / sizeof(sections[0]);
	const char *best = NULL;
	unsigned best_distance = (unsigned)strlen(name) / 2 + 1;	/* half of it wrong is another word */

	if (strlen(name) > NEAREST_LEN_MAX)
		return NULL;
	for (unsigned i = 0; i < count; i++) {
		const char *candidate = section ? fm_option_name(&fm_options[i]) : sections[i];
		unsigned d;

		if (section && !fm_option_is_in(&fm_options[i], section))
			continue;
		d = distance(name, candidate);
		if (d < best_distance) {
			best = candidate;
			best_distance = d;
		}
	}
	return best;
}

/* ---- setting values ---- */

static int refuse(char why[static FM_OPTION_WHY_MAX], const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static int refuse(char why[static FM_OPTION_WHY_MAX], const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, FM_OPTION_WHY_MAX, fmt, args);
	va_end(args);
	return -EINVAL;
}

static int refuse_value(const struct fm_option *o, const struct fm_option_raw *raw, char why[static FM_OPTION_WHY_MAX])
{
	char allowed[160];

	fm_option_allowed(o, allowed, sizeof(allowed));
	switch (raw->type) {
	case FM_RAW_TEXT:
		return refuse(why, "\"%.60s\" is not allowed; must be %s", raw->text, allowed);
	case FM_RAW_INT:
		return refuse(why, "%" PRId64 " is not allowed; must be %s", raw->number, allowed);
	case FM_RAW_BOOL:
		return refuse(why, "%s is not allowed; must be %s", raw->is_true ? "true" : "false", allowed);
	case FM_RAW_LIST:
	case FM_RAW_OTHER:
		break;
	}
	return refuse(why, "must be %s", allowed);
}

static char *copy_text(const char *text)
{
	return FM_FAULT("config.alloc") ? NULL : strdup(text);
}

static int set_text(char **place, char *text)
{
	if (!text)
		return -ENOMEM;
	free(*place);
	*place = text;
	return 0;
}

static int set_file(char **place, const char *dir, const char *file)
{
	char *joined;

	if (file[0] == '/' || strcmp(dir, ".") == 0)
		return set_text(place, copy_text(file));
	if (FM_FAULT("config.alloc") || asprintf(&joined, "%s/%s", dir, file) < 0)
		return -ENOMEM;
	return set_text(place, joined);
}

/* No empty, "." or ".." part: a directory has one spelling, so that two stores in one place are noticed. */
static bool is_plain_path(const char *path)
{
	if (path[0] != '/')
		return false;
	for (const char *at = path; at;) {
		const char *part = at + 1;
		size_t len = strcspn(part, "/");

		if ((len == 0 && path[1]) || (len == 1 && part[0] == '.') || (len == 2 && memcmp(part, "..", 2) == 0))
			return false;
		at = part[len] ? part + len : NULL;
	}
	return strlen(path) < PATH_MAX;
}

static bool is_allowed_text(const struct fm_option *o, const char *text)
{
	char host[FM_VALUE_HOST_MAX];
	uint16_t port;

	switch (o->type) {
	case FM_OPTION_NAME:
		return fm_value_is_name(text);
	case FM_OPTION_DIRECTORY:
		return is_plain_path(text) || strcmp(text, "null:") == 0;
	case FM_OPTION_FILE:
		return text[0] && strlen(text) < PATH_MAX;
	case FM_OPTION_SOCKET:
		return is_plain_path(text) && strlen(text) < sizeof(((struct sockaddr_un *)NULL)->sun_path);
	case FM_OPTION_LISTEN:
		return fm_value_address(text, true, host, sizeof(host), &port) == 0;
	case FM_OPTION_GROUP:
		return strlen(text) < 256;
	case FM_OPTION_ADDRESS:
		return !text[0] || fm_value_address(text, false, host, sizeof(host), &port) == 0;
	default:
		abort();	/* not a text: our bug */
	}
}

/* SIZE, POWER, TIME and RATE: text with a unit; a bare number of bytes too, where no unit can be meant. */
static int parse_quantity(const struct fm_option *o, const struct fm_option_raw *raw, uint64_t *v)
{
	bool is_bytes = o->type == FM_OPTION_SIZE || o->type == FM_OPTION_POWER;

	if (raw->type == FM_RAW_INT && (is_bytes || raw->number == 0) && raw->number >= 0) {
		*v = (uint64_t)raw->number;
		return 0;
	}
	if (raw->type != FM_RAW_TEXT)
		return -EINVAL;
	switch (o->type) {
	case FM_OPTION_TIME:
		return fm_value_time(raw->text, v);
	case FM_OPTION_RATE:
		return fm_value_rate(raw->text, v);
	default:
		return fm_value_size(raw->text, v);
	}
}

static bool is_in_range(const struct fm_option *o, uint64_t v)
{
	if (o->type == FM_OPTION_RATE && v == 0)
		return true;
	if (o->type == FM_OPTION_POWER && (v & (v - 1)) != 0)
		return false;
	return v >= o->min && v <= o->max;
}

static int find_word(const char *const *words, const char *text)
{
	for (int i = 0; words[i]; i++)
		if (strcmp(words[i], text) == 0)
			return i;
	return -EINVAL;
}

static int parse_set(const struct fm_option *o, const struct fm_option_raw *raw, unsigned *mask)
{
	*mask = 0;
	for (size_t i = 0; i < raw->count; i++) {
		int bit = find_word(o->words, raw->items[i]);

		if (bit < 0)
			return bit;
		*mask |= 1u << bit;
	}
	return *mask ? 0 : -EINVAL;
}

/* "*", "peer:*", "peer:NAME", "user:NAME", "group:NAME". Users and groups are looked up when the store is opened. */
static bool is_who(const char *text)
{
	if (strcmp(text, "*") == 0 || strcmp(text, "peer:*") == 0)
		return true;
	if (strncmp(text, "peer:", 5) == 0)
		return fm_value_is_name(text + 5);
	if (strncmp(text, "user:", 5) == 0)
		return text[5] && strlen(text) < 256;
	return strncmp(text, "group:", 6) == 0 && text[6] && strlen(text) < 256;
}

static void free_list(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}

static int set_who(const struct fm_option *o, char ***place, const struct fm_option_raw *raw,
		   char why[static FM_OPTION_WHY_MAX])
{
	char **list;

	if (raw->count > o->max)
		return refuse(why, "%zu entries; at most %" PRIu64 " are allowed", raw->count, o->max);
	list = FM_FAULT("config.alloc") ? NULL : calloc(raw->count + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < raw->count; i++) {
		if (!is_who(raw->items[i])) {
			struct fm_option_raw item = { .type = FM_RAW_TEXT, .text = raw->items[i] };

			free_list(list);
			return refuse_value(o, &item, why);
		}
		list[i] = copy_text(raw->items[i]);
		if (!list[i]) {
			free_list(list);
			return -ENOMEM;
		}
	}
	free_list(*place);
	*place = list;
	return 0;
}

/* The types whose value is one number. */
static int parse_number(const struct fm_option *o, const struct fm_option_raw *raw, uint64_t *v)
{
	unsigned mask;
	int word;

	switch (o->type) {
	case FM_OPTION_UINT:
		*v = (uint64_t)raw->number;
		return raw->type == FM_RAW_INT && raw->number >= 0 && is_in_range(o, *v) ? 0 : -EINVAL;
	case FM_OPTION_BOOL:
		*v = raw->is_true;
		return raw->type == FM_RAW_BOOL ? 0 : -EINVAL;
	case FM_OPTION_CHOICE:
		word = raw->type == FM_RAW_TEXT ? find_word(o->words, raw->text) : -EINVAL;
		*v = (uint64_t)word;
		return word < 0 ? word : 0;
	case FM_OPTION_SET:
		if (raw->type != FM_RAW_LIST || parse_set(o, raw, &mask) < 0)
			return -EINVAL;
		*v = mask;
		return 0;
	default:
		return parse_quantity(o, raw, v) == 0 && is_in_range(o, *v) ? 0 : -EINVAL;
	}
}

static void put_number(const struct fm_option *o, void *place, uint64_t v)
{
	switch (o->type) {
	case FM_OPTION_UINT:
	case FM_OPTION_CHOICE:
	case FM_OPTION_SET:
		*(unsigned *)place = (unsigned)v;
		break;
	case FM_OPTION_BOOL:
		*(bool *)place = v != 0;
		break;
	default:
		*(uint64_t *)place = v;
		break;
	}
}

static int set_key(uint8_t *place, const char *text)
{
	uint8_t key[FM_VALUE_KEY_LEN];

	if (fm_value_key(text, key) < 0)
		return -EINVAL;
	memcpy(place, key, sizeof(key));
	return 0;
}

int fm_option_set(const struct fm_option *o, void *base, const struct fm_option_context *ctx,
		  const struct fm_option_raw *raw, char why[static FM_OPTION_WHY_MAX])
{
	void *place = (char *)base + o->place;
	uint64_t v = 0;

	switch (o->type) {
	case FM_OPTION_NAME:
	case FM_OPTION_DIRECTORY:
	case FM_OPTION_FILE:
	case FM_OPTION_SOCKET:
	case FM_OPTION_GROUP:
	case FM_OPTION_LISTEN:
	case FM_OPTION_ADDRESS:
		if (raw->type != FM_RAW_TEXT || !is_allowed_text(o, raw->text))
			return refuse_value(o, raw, why);
		if (o->type == FM_OPTION_FILE)
			return set_file(place, ctx->dir, raw->text);
		return set_text(place, copy_text(raw->text));
	case FM_OPTION_KEY:
		if (raw->type != FM_RAW_TEXT || set_key(place, raw->text) < 0)
			return refuse_value(o, raw, why);
		return 0;
	case FM_OPTION_WHO:
		return raw->type == FM_RAW_LIST ? set_who(o, place, raw, why) : refuse_value(o, raw, why);
	default:
		if (parse_number(o, raw, &v) < 0)
			return refuse_value(o, raw, why);
		put_number(o, place, v);
		return 0;
	}
}

#define STANDARD_WORDS_MAX 8

/* Cut text, which is changed, at its blanks. */
static size_t split_words(char *text, const char **words)
{
	size_t n = 0;
	char *rest;

	for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
		assert(n < STANDARD_WORDS_MAX);
		words[n++] = word;
	}
	return n;
}

int fm_option_set_standard(const struct fm_option *o, void *base, const struct fm_option_context *ctx)
{
	struct fm_option_raw raw = { .type = FM_RAW_TEXT, .text = o->standard };
	const char *words[STANDARD_WORDS_MAX];
	char why[FM_OPTION_WHY_MAX];
	char copy[128];
	int ret;

	assert(o->standard && strlen(o->standard) < sizeof(copy));
	strcpy(copy, o->standard);
	if (o->type == FM_OPTION_UINT) {
		raw.type = FM_RAW_INT;
		raw.number = atoll(o->standard);
	} else if (o->type == FM_OPTION_BOOL) {
		raw.type = FM_RAW_BOOL;
		raw.is_true = strcmp(o->standard, "true") == 0;
	} else if (o->type == FM_OPTION_SET || o->type == FM_OPTION_WHO) {
		raw.type = FM_RAW_LIST;
		raw.count = split_words(copy, words);
		raw.items = words;
	}
	ret = fm_option_set(o, base, ctx, &raw, why);
	assert(ret != -EINVAL);
	return ret;
}

static bool is_equal_list(char *const *a, char *const *b)
{
	size_t i = 0;

	while (a[i] && b[i] && strcmp(a[i], b[i]) == 0)
		i++;
	return !a[i] && !b[i];
}

bool fm_option_is_equal(const struct fm_option *o, const void *base_a, const void *base_b)
{
	const void *a = (const char *)base_a + o->place;
	const void *b = (const char *)base_b + o->place;

	switch (o->type) {
	case FM_OPTION_NAME:
	case FM_OPTION_DIRECTORY:
	case FM_OPTION_FILE:
	case FM_OPTION_SOCKET:
	case FM_OPTION_GROUP:
	case FM_OPTION_LISTEN:
	case FM_OPTION_ADDRESS:
		return strcmp(*(char *const *)a, *(char *const *)b) == 0;
	case FM_OPTION_WHO:
		return is_equal_list(*(char **const *)a, *(char **const *)b);
	case FM_OPTION_KEY:
		return memcmp(a, b, FM_CONFIG_KEY_LEN) == 0;
	case FM_OPTION_BOOL:
		return *(const bool *)a == *(const bool *)b;
	case FM_OPTION_UINT:
	case FM_OPTION_CHOICE:
	case FM_OPTION_SET:
		return *(const unsigned *)a == *(const unsigned *)b;
	default:
		return *(const uint64_t *)a == *(const uint64_t *)b;
	}
}

void fm_option_clear(const struct fm_option *o, void *base)
{
	void *place = (char *)base + o->place;

	switch (o->type) {
	case FM_OPTION_NAME:
	case FM_OPTION_DIRECTORY:
	case FM_OPTION_FILE:
	case FM_OPTION_SOCKET:
	case FM_OPTION_GROUP:
	case FM_OPTION_LISTEN:
	case FM_OPTION_ADDRESS:
		free(*(char **)place);
		*(char **)place = NULL;
		break;
	case FM_OPTION_WHO:
		free_list(*(char ***)place);
		*(char ***)place = NULL;
		break;
	default:
		break;
	}
}
