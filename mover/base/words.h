/* SPDX-License-Identifier: MIT */
/*
 * words - how options, states and kinds of a transfer are called: on the command line, in the local
 * API, in what the queue writes down and in the configuration.
 *
 * One table each, in the order of the enums on both sides of the local API, which assert that: the
 * word of a value stands at its place. A table ends with NULL, and the first word of an option is
 * what holds if none is said. Any thread.
 */
#ifndef FM_BASE_WORDS_H
#define FM_BASE_WORDS_H

/* enum fm_transport_want, enum fmove_transport. */
extern const char *const fm_words_transport[];
/* enum fm_durability, enum fmove_durability. */
extern const char *const fm_words_durability[];
/* enum fm_queue_priority, enum fmove_priority. */
extern const char *const fm_words_priority[];
/* enum fm_stage_freshness, enum fmove_freshness: that one can ask for, and that a copy has. */
extern const char *const fm_words_check[];
extern const char *const fm_words_freshness[];
/* Whether a put is read back: no, yes. */
extern const char *const fm_words_readback[];
/* enum fm_queue_state, enum fmove_job_state. */
extern const char *const fm_words_state[];
/* enum fm_kind. */
extern const char *const fm_words_kind[];
/* enum fm_encryption. */
extern const char *const fm_words_encryption[];

/* The value of a word, or -1. */
int fm_word_parse(const char *const words[], const char *text);

#endif
