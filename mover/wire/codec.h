/* SPDX-License-Identifier: MIT */
/*
 * codec - inside mover/wire only: how one type of control message is written, read and checked.
 *
 * Each message has its three functions side by side in a wire_NAME.c; codec.c has the table
 * and calls them. check() is the one place that knows the ranges: encoder and decoder both ask it,
 * so that what one side refuses the other can never have sent.
 */
#ifndef FM_WIRE_CODEC_H
#define FM_WIRE_CODEC_H

#include <stdbool.h>
#include <stdint.h>

#include "mover/base/bytes.h"
#include "mover/wire/wire.h"

#define FM_WIRE_CODE_MAX 4095		/* the kernel's own limit of an errno */
#define FM_WIRE_MODE_MAX 0777u
#define FM_WIRE_ENTRY_NAME_MAX 255

struct fm_wire_codec {
	const char *name;
	uint16_t flags;			/* bits that are allowed */
	bool is_extensible;		/* bytes behind the last field are ignored, not refused */
	/* The fields behind type and flags. */
	void (*put)(struct fm_writer *w, const struct fm_wire_msg *m);
	/* Fails only where it cannot go on: a count over its maximum, bytes that must be zero
	 * (nothing keeps those). */
	int (*get)(struct fm_reader *r, struct fm_wire_msg *m);
	/* 0, -ERANGE, -EPROTO (flags that exclude each other). NULL: every value will do. */
	int (*check)(const struct fm_wire_msg *m);
};

/* wire_session.c */
extern const struct fm_wire_codec fm_wire_codec_hello;
extern const struct fm_wire_codec fm_wire_codec_addrs;
extern const struct fm_wire_codec fm_wire_codec_tokens_want;
extern const struct fm_wire_codec fm_wire_codec_tokens;
extern const struct fm_wire_codec fm_wire_codec_ping;
extern const struct fm_wire_codec fm_wire_codec_pong;
extern const struct fm_wire_codec fm_wire_codec_bye;
extern const struct fm_wire_codec fm_wire_codec_received;
extern const struct fm_wire_codec fm_wire_codec_resume;

/* wire_xfer.c */
extern const struct fm_wire_codec fm_wire_codec_put;
extern const struct fm_wire_codec fm_wire_codec_ready;
extern const struct fm_wire_codec fm_wire_codec_get;
extern const struct fm_wire_codec fm_wire_codec_found;
extern const struct fm_wire_codec fm_wire_codec_finish;
extern const struct fm_wire_codec fm_wire_codec_done;
extern const struct fm_wire_codec fm_wire_codec_abort;
extern const struct fm_wire_codec fm_wire_codec_need;
extern const struct fm_wire_codec fm_wire_codec_commit;
extern const struct fm_wire_codec fm_wire_codec_kept;
extern const struct fm_wire_codec fm_wire_codec_window;
extern const struct fm_wire_codec fm_wire_codec_names;

/* wire_request.c */
extern const struct fm_wire_codec fm_wire_codec_request;
extern const struct fm_wire_codec fm_wire_codec_reply;
extern const struct fm_wire_codec fm_wire_codec_space;
extern const struct fm_wire_codec fm_wire_codec_groups;

/* wire_verify.c */
extern const struct fm_wire_codec fm_wire_codec_verify;
extern const struct fm_wire_codec fm_wire_codec_verified;

/* wire_volumes.c */
extern const struct fm_wire_codec fm_wire_codec_volumes_ask;
extern const struct fm_wire_codec fm_wire_codec_volumes;

/* wire_facts.c */
extern const struct fm_wire_codec fm_wire_codec_facts_ask;
extern const struct fm_wire_codec fm_wire_codec_facts;

/* wire_stage.c */
extern const struct fm_wire_codec fm_wire_codec_stage;

/* A string: 16-bit length, then its bytes. Its maximum is check()'s business; every one is below
 * 2^16. */
void fm_wire_put_str(struct fm_writer *w, const struct fm_wire_str *s);
void fm_wire_get_str(struct fm_reader *r, struct fm_wire_str *s);

void fm_wire_put_zeros(struct fm_writer *w, size_t len);

/* Skips len bytes; -ERANGE if one of them is not 0. */
int fm_wire_get_zeros(struct fm_reader *r, size_t len);

/* 0 .. max bytes without NUL. */
bool fm_wire_is_text(const struct fm_wire_str *s, size_t max);

/* min .. max bytes without NUL and '/'. */
bool fm_wire_is_name(const struct fm_wire_str *s, size_t min, size_t max);

/* A power of two, FM_WIRE_CHUNK_MIN .. FM_WIRE_CHUNK_MAX. */
bool fm_wire_is_chunk(uint32_t chunk);

/* 6, or 4 with the address first and zeros behind it. */
bool fm_wire_is_address(uint8_t family, const uint8_t address[static 16]);

#endif
