/* SPDX-License-Identifier: MIT */
/* options_set - one value of the table: checked, set, compared, freed. See options.h. */
#include "config/options.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
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
#include "mover/base/network.h"
#include "mover/base/utf8.h"

#define WORD_CHARS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"

static bool is_text(const struct fm_option *o)
{
	return o->type <= FM_OPTION_TEXT_LAST;
}

static bool is_list(const struct fm_option *o)
{
	return o->type == FM_OPTION_WHO || o->type == FM_OPTION_ADDRESSES ||
	       o->type == FM_OPTION_NETWORKS || o->type == FM_OPTION_NODES;
}

static int refuse(char why[static FM_OPTION_WHY_MAX], const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static int refuse(char why[static FM_OPTION_WHY_MAX], const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why, FM_OPTION_WHY_MAX, fmt, args);
	va_end(args);
	return -EINVAL;
}

static int refuse_value(const struct fm_option *o, const struct fm_option_raw *raw,
			char why[static FM_OPTION_WHY_MAX])
{
	char allowed[160];

	fm_option_allowed(o, allowed, sizeof(allowed));
	switch (raw->type) {
	case FM_RAW_TEXT:
		return refuse(why, "\"%.60s\" is not allowed; must be %s", raw->text, allowed);
	case FM_RAW_INT:
		return refuse(why, "%" PRId64 " is not allowed; must be %s", raw->number, allowed);
	case FM_RAW_BOOL:
		return refuse(why, "%s is not allowed; must be %s", raw->is_true ? "true" : "false",
			      allowed);
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

/*
 * Copies an identity in one spelling, so that the same one is recognised: lower case, an NGUID
 * without hyphens.
 */
static char *copy_identity(const struct fm_option *o, const char *text)
{
	char *copy = copy_text(text), *to = copy;

	for (; copy && *text; text++)
		if (*text != '-' || o->type == FM_OPTION_UUID)
			*to++ = (char)tolower((unsigned char)*text);
	if (copy)
		*to = '\0';
	return copy;
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

/*
 * Whether the path has no empty, "." or ".." part. Then a directory has one spelling, and two
 * stores in one place are noticed.
 */
static bool is_plain_path(const char *path)
{
	if (path[0] != '/')
		return false;
	for (const char *at = path; at;) {
		const char *part = at + 1;
		size_t len = strcspn(part, "/");

		if ((len == 0 && path[1]) || (len == 1 && part[0] == '.') ||
		    (len == 2 && memcmp(part, "..", 2) == 0))
			return false;
		at = part[len] ? part + len : NULL;
	}
	return strlen(path) < PATH_MAX;
}

static bool is_dialled(const char *text)
{
	char host[FM_VALUE_HOST_MAX];
	uint16_t port;

	return fm_value_address(text, false, host, sizeof(host), &port) == 0;
}

/* Whether the text is an IP address. An IPv6 address may have a scope. */
static bool is_ip(const char *text)
{
	size_t len = strcspn(text, "%");
	char address[INET6_ADDRSTRLEN];
	struct in6_addr bytes;

	if (len >= sizeof(address))
		return false;
	memcpy(address, text, len);
	address[len] = '\0';
	if (inet_pton(AF_INET6, address, &bytes) != 1)
		return !text[len] && inet_pton(AF_INET, address, &bytes) == 1;
	return !text[len] || (text[len + 1] && strlen(text + len) <= 16 &&
			      strspn(text + len + 1, WORD_CHARS) == strlen(text + len + 1));
}

static bool is_socket(const char *text)
{
	return is_plain_path(text) && strlen(text) < sizeof(((struct sockaddr_un *)NULL)->sun_path);
}

/* Nobody is let in from outside by an address that was left out. */
static bool is_served(const char *text)
{
	const char *path = fm_value_unix(text);
	char host[FM_VALUE_HOST_MAX];
	uint16_t port;

	if (path)
		return is_socket(path);
	return fm_value_address(text, false, host, sizeof(host), &port) == 0 && is_ip(host);
}

static bool is_printable(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return false;
	return true;
}

/* Whether the text is an NQN. It goes to the kernel in a list with commas, and to terminals. */
static bool is_nqn(const char *text)
{
	size_t len = strlen(text);

	return len > 0 && len <= FM_OPTION_NQN_MAX && text[0] != ' ' && text[len - 1] != ' ' &&
	       !strchr(text, ',') && is_printable(text) && fm_is_utf8(text, len);
}

/* Whether the text has a hexadecimal digit for each 'x' of form, and its hyphens. */
static bool is_hex_like(const char *text, const char *form)
{
	for (; *text && *form; text++, form++)
		if (*form == 'x' ? !isxdigit((unsigned char)*text) : *text != *form)
			return false;
	return !*text && !*form;
}

static bool is_uuid(const char *text)
{
	return is_hex_like(text, "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx");
}

/*
 * Whether the text is printable and has no blanks or quotes, which would end it in fstab and units.
 */
static bool is_flags(const char *text)
{
	for (const char *c = text; *c; c++)
		if (!isgraph((unsigned char)*c) || strchr("\"'\\", *c))
			return false;
	return strlen(text) < 1024;
}

static bool is_allowed_text(const struct fm_option *o, const char *text)
{
	char host[FM_VALUE_HOST_MAX];
	uint16_t port;

	if (!text[0] && o->standard && !o->standard[0])
		return true;
	switch (o->type) {
	case FM_OPTION_NAME:
		return fm_value_is_name(text);
	case FM_OPTION_DIRECTORY:
		return is_plain_path(text) || strcmp(text, "null:") == 0;
	case FM_OPTION_FILE:
		return text[0] && strlen(text) < PATH_MAX;
	case FM_OPTION_SOCKET:
		return is_socket(text);
	case FM_OPTION_SERVE:
		return is_served(text);
	case FM_OPTION_LISTEN:
		return fm_value_address(text, true, host, sizeof(host), &port) == 0;
	case FM_OPTION_GROUP:
		return strlen(text) < 256;
	case FM_OPTION_USER:
		return text[0] && strlen(text) < 256 && strcmp(text, "root") != 0;
	case FM_OPTION_ADDRESS:
		return is_dialled(text);
	case FM_OPTION_MOUNT_POINT:
		return is_plain_path(text) && text[1] && is_printable(text) &&
		       fm_is_utf8(text, strlen(text));
	case FM_OPTION_IP:
		return is_ip(text);
	case FM_OPTION_NQN:
		return is_nqn(text);
	case FM_OPTION_UUID:
		return is_uuid(text);
	case FM_OPTION_NGUID:
		return is_uuid(text) || is_hex_like(text, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
	case FM_OPTION_WORD:
		return text[0] && strspn(text, WORD_CHARS) == strlen(text) &&
		       strlen(text) <= o->max;
	case FM_OPTION_FLAGS:
		return is_flags(text);
	default:
		abort();	/* not a text: our bug */
	}
}

static int find_word(const char *const *words, const char *text)
{
	for (int i = 0; words[i]; i++)
		if (strcmp(words[i], text) == 0)
			return i;
	return -EINVAL;
}

static int parse_seconds(const struct fm_option *o, const struct fm_option_raw *raw, uint64_t *v)
{
	uint64_t ns;

	if (raw->type != FM_RAW_TEXT)
		return -EINVAL;
	if (o->words && find_word(o->words, raw->text) == 0) {
		*v = (uint64_t)FM_CONFIG_NEVER;
		return 0;
	}
	if (fm_value_time(raw->text, &ns) < 0 || ns % FM_NS_PER_S != 0)
		return -EINVAL;
	*v = ns / FM_NS_PER_S;
	return *v >= o->min && *v <= o->max ? 0 : -EINVAL;
}

/*
 * Parses a SIZE, POWER, TIME or RATE: a number with a unit. A number without unit is bytes, where
 * nothing else can be meant.
 */
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

/*
 * Whether the text is "*", "peer:*", "peer:NAME", "user:NAME" or "group:NAME". Users and groups are
 * looked up when the store is opened.
 */
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

static bool is_item(const struct fm_option *o, const char *text)
{
	struct fm_network network;

	switch (o->type) {
	case FM_OPTION_WHO:
		return is_who(text);
	case FM_OPTION_NETWORKS:
		return fm_network_parse(text, &network) == 0;
	case FM_OPTION_NODES:
		return strcmp(text, "*") == 0 || fm_value_is_name(text);
	default:
		return is_dialled(text);
	}
}

static void free_list(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}

static int set_list(const struct fm_option *o, char ***place, const struct fm_option_raw *raw,
		    char why[static FM_OPTION_WHY_MAX])
{
	char **list;

	if (raw->type != FM_RAW_LIST)
		return refuse_value(o, raw, why);
	if (raw->count > o->max)
		return refuse(why, "%zu entries; at most %" PRIu64 " are allowed", raw->count,
			      o->max);
	list = FM_FAULT("config.alloc") ? NULL : calloc(raw->count + 1, sizeof(*list));
	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < raw->count; i++) {
		if (!is_item(o, raw->items[i])) {
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

/* Parses a value of a type that is stored as one number. */
static int parse_number(const struct fm_option *o, const struct fm_option_raw *raw, uint64_t *v)
{
	unsigned mask;
	int word;

	switch (o->type) {
	case FM_OPTION_UINT:
		*v = (uint64_t)raw->number;
		return raw->type == FM_RAW_INT && raw->number >= 0 && is_in_range(o, *v) ? 0
											 : -EINVAL;
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
	case FM_OPTION_SECONDS:
		return parse_seconds(o, raw, v);
	default:
		if (o->words && raw->type == FM_RAW_TEXT && find_word(o->words, raw->text) == 0) {
			*v = 0;
			return 0;
		}
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
	case FM_OPTION_SECONDS:
		*(int *)place = (int)v;
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

	if (is_text(o)) {
		if (raw->type != FM_RAW_TEXT || !is_allowed_text(o, raw->text))
			return refuse_value(o, raw, why);
		if (o->type == FM_OPTION_FILE && raw->text[0])
			return set_file(place, ctx->dir, raw->text);
		if (o->type == FM_OPTION_UUID || o->type == FM_OPTION_NGUID)
			return set_text(place, copy_identity(o, raw->text));
		return set_text(place, copy_text(raw->text));
	}
	switch (o->type) {
	case FM_OPTION_KEY:
		if (raw->type != FM_RAW_TEXT || set_key(place, raw->text) < 0)
			return refuse_value(o, raw, why);
		return 0;
	case FM_OPTION_WHO:
	case FM_OPTION_ADDRESSES:
	case FM_OPTION_NETWORKS:
	case FM_OPTION_NODES:
		return set_list(o, place, raw, why);
	default:
		if (parse_number(o, raw, &v) < 0)
			return refuse_value(o, raw, why);
		put_number(o, place, v);
		return 0;
	}
}

#define STANDARD_WORDS_MAX 8

/* Cuts the text at its blanks. The text is changed. */
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

int fm_option_set_standard(const struct fm_option *o, void *base,
			   const struct fm_option_context *ctx)
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
	} else if (o->type == FM_OPTION_SET || is_list(o)) {
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

	if (is_text(o))
		return strcmp(*(char *const *)a, *(char *const *)b) == 0;
	switch (o->type) {
	case FM_OPTION_WHO:
	case FM_OPTION_ADDRESSES:
	case FM_OPTION_NETWORKS:
	case FM_OPTION_NODES:
		return is_equal_list(*(char **const *)a, *(char **const *)b);
	case FM_OPTION_KEY:
		return memcmp(a, b, FM_CONFIG_KEY_LEN) == 0;
	case FM_OPTION_BOOL:
		return *(const bool *)a == *(const bool *)b;
	case FM_OPTION_UINT:
	case FM_OPTION_CHOICE:
	case FM_OPTION_SET:
		return *(const unsigned *)a == *(const unsigned *)b;
	case FM_OPTION_SECONDS:
		return *(const int *)a == *(const int *)b;
	default:
		return *(const uint64_t *)a == *(const uint64_t *)b;
	}
}

void fm_option_clear(const struct fm_option *o, void *base)
{
	void *place = (char *)base + o->place;

	if (is_text(o)) {
		free(*(char **)place);
		*(char **)place = NULL;
	} else if (is_list(o)) {
		free_list(*(char ***)place);
		*(char ***)place = NULL;
	}
}
