/* SPDX-License-Identifier: MIT */
/*
 * topics - what `fmove help TOPIC` says of things that belong to no single command. Short: each
 * names the page that has all of it.
 */
#ifndef FM_CLIENT_TOPICS_H
#define FM_CLIENT_TOPICS_H

struct fm_topic {
	const char *name;	/* no verb's */
	const char *text;	/* paragraphs, to be wrapped */
};

/* Ended by a row without name. */
extern const struct fm_topic fm_topics[];

#endif
