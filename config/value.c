/* SPDX-License-Identifier: MIT */
/* value - see value.h. */
#include "config/value.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "mover/base/base64.h"

struct unit {
	const char *name;
	uint64_t num;		/* one unit is num / den */
	uint64_t den;
};

static const struct unit size_units[] = {
	{ "", 1, 1 },
	{ "B", 1, 1 },
	{ "kB", UINT64_C(1000), 1 },
	{ "MB", UINT64_C(1000000), 1 },
	{ "GB", UINT64_C(1000000000), 1 },
	{ "TB", UINT64_C(1000000000000), 1 },
	{ "KiB", UINT64_C(1) << 10, 1 },
	{ "MiB", UINT64_C(1) << 20, 1 },
	{ "GiB", UINT64_C(1) << 30, 1 },
	{ "TiB", UINT64_C(1) << 40, 1 },
	{ NULL, 0, 0 },
};

static const struct unit rate_units[] = {
	{ "B/s", 1, 1 },
	{ "kB/s", UINT64_C(1000), 1 },
	{ "MB/s", UINT64_C(1000000), 1 },
	{ "GB/s", UINT64_C(1000000000), 1 },
	{ "KiB/s", UINT64_C(1) << 10, 1 },
	{ "MiB/s", UINT64_C(1) << 20, 1 },
	{ "GiB/s", UINT64_C(1) << 30, 1 },
	{ "kbit/s", UINT64_C(1000), 8 },
	{ "Mbit/s", UINT64_C(1000000), 8 },
	{ "Gbit/s", UINT64_C(1000000000), 8 },
	{ NULL, 0, 0 },
};

static const struct unit time_units[] = {
	{ "ms", UINT64_C(1000000), 1 },
	{ "s", UINT64_C(1000000000), 1 },
	{ "min", UINT64_C(60000000000), 1 },
	{ "h", UINT64_C(3600000000000), 1 },
	{ NULL, 0, 0 },
};

/* What else a command line may say: times as systemd reads them, sizes and rates as rsync does. A
 * configuration says its units. */
static const struct unit typed_time_units[] = {
	{ "", UINT64_C(1000000000), 1 },
	{ "m", UINT64_C(60000000000), 1 },
	{ NULL, 0, 0 },
};

static const struct unit typed_size_units[] = {
	{ "k", UINT64_C(1) << 10, 1 },
	{ "K", UINT64_C(1) << 10, 1 },
	{ "M", UINT64_C(1) << 20, 1 },
	{ "G", UINT64_C(1) << 30, 1 },
	{ "T", UINT64_C(1) << 40, 1 },
	{ NULL, 0, 0 },
};

static const struct unit typed_rate_units[] = {
	{ "K/s", UINT64_C(1) << 10, 1 },
	{ "M/s", UINT64_C(1) << 20, 1 },
	{ "G/s", UINT64_C(1) << 30, 1 },
	{ NULL, 0, 0 },
};

/* Fractions have at most this many digits: more cannot be meant, and thousandths of a unit stay
 * exact in 64 bits. */
#define FRACTION_DIGITS_MAX 6

struct number {
	uint64_t whole;
	uint64_t fraction;	/* of scale */
	uint64_t scale;
};

/* Digits with an optional fraction. *end is behind them. */
static int parse_number(const char *text, struct number *n, const char **end)
{
	const char *at = text;

	*n = (struct number){ .scale = 1 };
	if (!isdigit((unsigned char)*at))
		return -EINVAL;
	for (; isdigit((unsigned char)*at); at++)
		if (__builtin_mul_overflow(n->whole, 10u, &n->whole) ||
		    __builtin_add_overflow(n->whole, (uint64_t)(*at - '0'), &n->whole))
			return -ERANGE;
	if (*at == '.') {
		const char *first = ++at;

		for (; isdigit((unsigned char)*at); at++) {
			if (at - first >= FRACTION_DIGITS_MAX)
				return -EINVAL;
			n->fraction = n->fraction * 10 + (uint64_t)(*at - '0');
			n->scale *= 10;
		}
		if (at == first)
			return -EINVAL;
	}
	*end = at;
	return 0;
}

static int parse_quantity(const char *text, const struct unit *units, uint64_t *out)
{
	const struct unit *u = units;
	struct number n;
	const char *rest;
	uint64_t v;
	int ret;

	ret = parse_number(text, &n, &rest);
	if (ret < 0)
		return ret;
	if (*rest == ' ')
		rest++;
	while (u->name && strcmp(u->name, rest) != 0)
		u++;
	if (!u->name)
		return -EINVAL;
	/* fraction < 10^6 and the largest unit below 2^42: this product fits. */
	if (__builtin_mul_overflow(n.whole, u->num, &v) ||
	    __builtin_add_overflow(v, n.fraction * u->num / n.scale, &v))
		return -ERANGE;
	*out = v / u->den;
	return 0;
}

int fm_value_size(const char *text, uint64_t *bytes)
{
	return parse_quantity(text, size_units, bytes);
}

int fm_value_time(const char *text, uint64_t *ns)
{
	return parse_quantity(text, time_units, ns);
}

int fm_value_rate(const char *text, uint64_t *bytes_per_s)
{
	if (strcmp(text, "0") == 0) {
		*bytes_per_s = 0;
		return 0;
	}
	return parse_quantity(text, rate_units, bytes_per_s);
}

int fm_value_size_typed(const char *text, uint64_t *bytes)
{
	int ret = fm_value_size(text, bytes);

	return ret == -EINVAL ? parse_quantity(text, typed_size_units, bytes) : ret;
}

int fm_value_time_typed(const char *text, uint64_t *ns)
{
	int ret = fm_value_time(text, ns);

	return ret == -EINVAL ? parse_quantity(text, typed_time_units, ns) : ret;
}

int fm_value_rate_typed(const char *text, uint64_t *bytes_per_s)
{
	int ret = fm_value_rate(text, bytes_per_s);

	return ret == -EINVAL ? parse_quantity(text, typed_rate_units, bytes_per_s) : ret;
}

bool fm_value_is_name(const char *text)
{
	size_t len = strlen(text);

	if (len == 0 || len > FM_VALUE_NAME_MAX || !isalnum((unsigned char)text[0]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("._-", text[i]))
			return false;
	return true;
}

static int parse_port(const char *text, bool may_be_zero, uint16_t *port)
{
	unsigned v = 0;

	if (!*text || strlen(text) > 5)
		return -EINVAL;
	for (; *text; text++) {
		if (!isdigit((unsigned char)*text))
			return -EINVAL;
		v = v * 10 + (unsigned)(*text - '0');
	}
	if (v > UINT16_MAX || (v == 0 && !may_be_zero))
		return -EINVAL;
	*port = (uint16_t)v;
	return 0;
}

/*
 * Whether the text is a host name or an IP address, with a scope such as %eth0: printable, without
 * what would end the value elsewhere.
 */
static bool is_host(const char *host, size_t len, bool is_bracketed)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)host[i]) &&
		    !strchr(is_bracketed ? "._-%:" : "._-%", host[i]))
			return false;
	return true;
}

const char *fm_value_unix(const char *text)
{
	static const char begin[] = "unix:";

	return strncmp(text, begin, sizeof(begin) - 1) == 0 ? text + sizeof(begin) - 1 : NULL;
}

int fm_value_address(const char *text, bool is_listen, char *host, size_t host_max, uint16_t *port)
{
	bool is_bracketed = text[0] == '[';
	const char *colon;
	const char *from = text;
	size_t len;
	uint16_t number;

	if (is_bracketed) {
		from++;
		colon = strchr(from, ']');
		if (!colon || colon[1] != ':')
			return -EINVAL;
		len = (size_t)(colon - from);
		colon++;
	} else {
		colon = strchr(from, ':');
		if (!colon)
			return -EINVAL;
		len = (size_t)(colon - from);
	}
	if (len >= host_max || len >= FM_VALUE_HOST_MAX ||
	    (len == 0 && (!is_listen || is_bracketed)))
		return -EINVAL;
	if (!is_host(from, len, is_bracketed) || parse_port(colon + 1, is_listen, &number) < 0)
		return -EINVAL;
	memcpy(host, from, len);
	host[len] = '\0';
	*port = number;
	return 0;
}

int fm_value_key(const char *text, uint8_t key[static FM_VALUE_KEY_LEN])
{
	return fm_base64_decode(FM_BASE64, text, key, FM_VALUE_KEY_LEN);
}

void fm_value_key_print(const uint8_t key[static FM_VALUE_KEY_LEN],
			char text[static FM_VALUE_KEY_TEXT_MAX])
{
	_Static_assert(FM_BASE64_ROOM(FM_VALUE_KEY_LEN) == FM_VALUE_KEY_TEXT_MAX,
		       "room for a key's text");
	fm_base64_encode(FM_BASE64, key, FM_VALUE_KEY_LEN, text);
}

/*
 * Prints bytes in the largest unit that divides them. Units go from large to small; the last
 * divides everything.
 */
static void print_exact(uint64_t v, const struct unit *const *candidates, size_t count, char *text)
{
	size_t i = 0;

	while (i + 1 < count && (v == 0 || v % candidates[i]->num != 0))
		i++;
	assert(candidates[i]->num > 0);
	snprintf(text, FM_VALUE_TEXT_MAX, "%" PRIu64 "%s", v / candidates[i]->num,
		 candidates[i]->name);
}

void fm_value_size_print(uint64_t bytes, char text[static FM_VALUE_TEXT_MAX])
{
	static const struct unit *const order[] = {&size_units[9], &size_units[8], &size_units[7],
						   &size_units[6], &size_units[1]};

	print_exact(bytes, order, sizeof(order) / sizeof(order[0]), text);
}

void fm_value_time_print(uint64_t ns, char text[static FM_VALUE_TEXT_MAX])
{
	static const struct unit *const order[] = {&time_units[3], &time_units[2], &time_units[1],
						   &time_units[0]};

	print_exact(ns, order, sizeof(order) / sizeof(order[0]), text);
}
