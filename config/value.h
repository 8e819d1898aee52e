/* SPDX-License-Identifier: MIT */
/*
 * value - how sizes, rates, times, names, addresses and keys are written, in the configuration and
 * on the command line.
 *
 * One grammar for both, so that "16MiB" means the same everywhere. Parsers take hostile text; they
 * set *out only on success and answer -EINVAL (not of this form) or -ERANGE (does not fit 64 bits).
 * No locale, no allocation. Any thread.
 */
#ifndef FM_CONFIG_VALUE_H
#define FM_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FM_VALUE_TEXT_MAX 48		/* any printed number with its unit */
#define FM_VALUE_NAME_MAX 63		/* bytes of a node's or store's name */
#define FM_VALUE_HOST_MAX 254
#define FM_VALUE_KEY_LEN 32
#define FM_VALUE_KEY_TEXT_MAX 45	/* its base64 with the terminator */

/* What each form looks like, for messages. */
#define FM_VALUE_TIME_FORM "a time such as \"500ms\", \"10s\" or \"2min\""
#define FM_VALUE_RATE_FORM "a rate such as \"1GB/s\" or \"10Gbit/s\", or 0 for none"
#define FM_VALUE_NAME_FORM "1 to 63 letters, digits, '.', '_' or '-', the first a letter or digit"

/* "4096", "1MiB", "16 MiB", "1.5GB". */
int fm_value_size(const char *text, uint64_t *bytes);

/* "500ms", "10s", "2min", "1h". */
int fm_value_time(const char *text, uint64_t *ns);

/* "1GB/s", "100MiB/s", "10Gbit/s", "0". */
int fm_value_rate(const char *text, uint64_t *bytes_per_s);

/* The same from a command line: besides "64k" (KiB); "10" (seconds) and "5m"; "100M/s" (MiB). */
int fm_value_size_typed(const char *text, uint64_t *bytes);
int fm_value_time_typed(const char *text, uint64_t *ns);
int fm_value_rate_typed(const char *text, uint64_t *bytes_per_s);

/* Whether it can name a node or a store. */
bool fm_value_is_name(const char *text);

/* "unix:PATH": the path, within text; NULL: it is something else. */
const char *fm_value_unix(const char *text);

/*
 * "HOST:PORT", "[HOST]:PORT"; with is_listen the host may be empty and the port 0. host is at most
 * host_max bytes with its end.
 */
int fm_value_address(const char *text, bool is_listen, char *host, size_t host_max, uint16_t *port);

/* Standard base64 with padding of exactly 32 bytes. */
int fm_value_key(const char *text, uint8_t key[static FM_VALUE_KEY_LEN]);
void fm_value_key_print(const uint8_t key[static FM_VALUE_KEY_LEN],
			char text[static FM_VALUE_KEY_TEXT_MAX]);

/* The shortest exact form: "16MiB", "1500B"; "10s", "1500ms". */
void fm_value_size_print(uint64_t bytes, char text[static FM_VALUE_TEXT_MAX]);
void fm_value_time_print(uint64_t ns, char text[static FM_VALUE_TEXT_MAX]);

#endif
