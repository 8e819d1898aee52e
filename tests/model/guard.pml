/* SPDX-License-Identifier: MIT */
/*
 * guard.pml - how fmove-nvmed keeps two nodes from having one volume read-write, as a model for spin. README.md says the rules, `run` tries it.
 *
 * Three nodes, or two (NODES); 0 and 1 may be named as the writer. A node is one process that takes one step at a time; what a person or a fault does to it is a
 * step too, as often as the limits (C_..., -D) allow. What a node publishes is one value. Who asks reads it at any moment between the beginning and the
 * end of the question, or never: a lost answer, a partition and an old answer are the same thing here, an answer that is not read or used late.
 *
 * From the step `calm` on nothing fails any more and every configuration names node 0. When nothing is left to do then, all must be mounted that is
 * wanted.
 */
#ifndef SHARED
#define SHARED 0	/* mode = "shared-read"; otherwise exclusive */
#endif
#ifndef PROT
#define PROT 0		/* a protection that works without statements (mmp, a confirmed reservation) */
#endif
#ifndef CALM
#define CALM 0		/* all becomes well at some moment, and is judged when nothing is left to do */
#endif
#ifndef C_CONFIG
#define C_CONFIG 0	/* a node's configuration names the other writer */
#endif
#ifndef C_RESTART
#define C_RESTART 0	/* fmove-nvmed is restarted */
#endif
#ifndef C_OFF
#define C_OFF 0		/* a node loses its power, and boots later */
#endif
#ifndef C_LOSE
#define C_LOSE 0	/* a node's state is lost, and fmove-nvmed restarted */
#endif
#ifndef C_SEAL
#define C_SEAL 0	/* a person seals */
#endif
#ifndef C_UNSEAL
#define C_UNSEAL 0
#endif
#ifndef C_ALL
#define C_ALL 9		/* of all these together */
#endif
#ifndef C_DOWN
#define C_DOWN 0	/* a person unmounts; it is mounted again */
#endif
#ifndef C_FORGET
#define C_FORGET 0	/* a person forgets a node that is off */
#endif
#ifndef C_FORCE
#define C_FORCE 0	/* a person forces a mount: nothing is promised from then on, but the end */
#endif
#ifndef SLOW
#define SLOW 0		/* other things may happen between the permission and the mount */
#endif
#ifndef READER_ASKS
#define READER_ASKS 0	/* a reader mounts the seal that it remembers only once it has heard its writer since the boot */
#endif
#ifndef NEW
#define NEW 0		/* begin with a volume that nobody ever had; otherwise node 0 has it mounted and all have heard of all */
#endif
#ifndef SEALERS
#define SEALERS 3	/* bits: at which nodes a person may seal */
#endif
#ifndef NODES
#define NODES 3		/* or 2: the third one is not there, and nobody counts it */
#endif
#define NUMBERS 15
#define ANNOUNCED_MAX 9	/* in the calm; more is two who refuse each other for ever */

#define N 3
#define NOT_MOUNTED 0
#define READ_ONLY 1
#define READ_WRITE 2
#define OPEN 0
#define WANTED 1
#define SEALED 2
#define BIT(j) (1 << (j))

/* ---- a statement: said, writer, what is mounted or about to be, sealed, never had it, number. 0: nothing is said ---- */

#define WRITER_IN(s) (((s) >> 1) & 1)
#define MOUNT_IN(s) (((s) >> 2) & 3)
#define SEALED_IN(s) (((s) >> 4) & 1)
#define NEVER_IN(s) (((s) >> 5) & 1)
#define NUMBER_IN(s) ((s) >> 6)

typedef row { short by[N] };

/* What the kernel has. It survives fmove-nvmed, not the machine. */
byte mounted[N];
byte mounted_number[N];
bool is_on[N];

/* On disk. A writer's number and seal are its own, a reader's what it heard of its writer. */
byte config[N];
byte number[N];
byte seal[N];
bool has_number[N];	/* of a writer: sealed.json has it */
bool is_used[N];	/* not "never had it": it had, or what it had is lost */
row heard[N];		/* the last word of each peer */
byte forgotten[N];	/* bits */

/* In memory, or below /run. */
byte fresh[N];		/* bits: heard since the boot, and since the configuration that is in force was said */
byte about[N];		/* what is about to be mounted */
bool is_going[N];	/* the mount is under way */
bool is_forced[N];
row held[N];		/* answers that were given and are not looked at yet: under way, or old */
short said[N];		/* what peers can read */
#ifdef MUTANT_NO_LIFT
bool is_refused[N];
#endif
#ifdef MUTANT_SEAL_UNASKED
bool is_written[N];	/* what is sealed it wrote itself */
#endif

/* Of the world. */
byte top;		/* the highest number there ever was: a clock knows more than any file */
bool is_excused;
bool is_calm;
byte announced;
byte c_config, c_restart, c_off, c_lose, c_seal, c_unseal, c_down, c_forget, c_force, c_all;

#define A(i) ((i + 1) % N)
#define B(i) ((i + 2) % N)
#define IS_WRITER(i) (config[i] == i)
#define MOST(i) (about[i] > mounted[i] -> about[i] : mounted[i])
#define WORD(i) (1 | (config[i] << 1) | (MOST(i) << 2) | ((SHARED && IS_WRITER(i) && has_number[i] && seal[i] == SEALED) << 4) | \
	((SHARED && !is_used[i]) << 5) | (number[i] << 6))
/* A writer listens to all, a reader to its writer: nothing else is used. */
#define LISTENS(i, j) (is_on[i] && (IS_WRITER(i) || (SHARED && config[i] == j)))
#define IS_NEWS(i, j) (LISTENS(i, j) && is_on[j] && said[j] != 0 && (said[j] != heard[i].by[j] || !(fresh[i] & BIT(j))))

/* ---- what refuses ---- */

#define FORBIDS(i, s) ((s) != 0 && (MOUNT_IN(s) == READ_WRITE || WRITER_IN(s) != config[i] || (SHARED && MOUNT_IN(s) == READ_ONLY)))
#define IS_FRESH(i, j) (fresh[i] & BIT(j))
#define COUNTS(i, j) (j < NODES && !(forgotten[i] & BIT(j)))
#ifdef MUTANT_RULE_7
#define HAS_LEFT(i, j) (heard[i].by[j] != 0 && (NUMBER_IN(heard[i].by[j]) >= number[i] || (IS_FRESH(i, j) && NEVER_IN(heard[i].by[j]))))
#else
#define HAS_LEFT(i, j) (heard[i].by[j] != 0 && NUMBER_IN(heard[i].by[j]) >= number[i])
#endif
#ifdef MUTANT_UNSEAL_BY_SILENCE
#define LETS_WRITE(i, j) (!FORBIDS(i, heard[i].by[j]) && (PROT || IS_FRESH(i, j)))
#else
#define LETS_WRITE(i, j) (!FORBIDS(i, heard[i].by[j]) && (PROT || IS_FRESH(i, j)) && (!SHARED || HAS_LEFT(i, j)))
#endif
#define IS_LET_WRITE(i, j) (!COUNTS(i, j) || LETS_WRITE(i, j))
#define MAY_WRITE(i) (IS_WRITER(i) && seal[i] == OPEN && (is_forced[i] || ((!SHARED || has_number[i]) && IS_LET_WRITE(i, A(i)) && IS_LET_WRITE(i, B(i)))))
#if READER_ASKS
#define HEARS_WRITER(i) IS_FRESH(i, config[i])
#else
#define HEARS_WRITER(i) true
#endif
#define MAY_READ(i) (SHARED && HEARS_WRITER(i) && !IS_WRITER(i) && seal[i] == SEALED && MOUNT_IN(heard[i].by[config[i]]) != READ_WRITE)

/* The writer, too, reads what it has sealed. Whoever has forgotten it while it was off may write meanwhile, so each node's word is wanted. */
#ifdef MUTANT_OWN_SEAL_UNASKED
#define LETS_READ(i, j) (heard[i].by[j] == 0 || (MOUNT_IN(heard[i].by[j]) != READ_WRITE && WRITER_IN(heard[i].by[j]) == config[i]))
#else
#define LETS_READ(i, j) (IS_FRESH(i, j) && heard[i].by[j] != 0 && MOUNT_IN(heard[i].by[j]) != READ_WRITE && WRITER_IN(heard[i].by[j]) == config[i])
#endif
#ifdef MUTANT_SEAL_UNASKED
#define IS_LET_READ(i, j) (!COUNTS(i, j) || is_written[i] || LETS_READ(i, j))
#else
#define IS_LET_READ(i, j) (!COUNTS(i, j) || LETS_READ(i, j))
#endif
#define MAY_READ_OWN(i) (SHARED && IS_WRITER(i) && seal[i] == SEALED && has_number[i] && IS_LET_READ(i, A(i)) && IS_LET_READ(i, B(i)))

/* After a boot, before it has decided about the seal that it remembers. */
#if defined(WITHOUT_VOID) || !SHARED
#define IS_UNDECIDED(i) false
#else
#define IS_UNDECIDED(i) (said[i] == 0 && !IS_WRITER(i) && seal[i] == SEALED && mounted[i] == NOT_MOUNTED && about[i] == NOT_MOUNTED)
#endif

#ifdef MUTANT_ASK_BEFORE_SAY
#define IS_SAID(i) true
#define announce(i) skip
#else
#define IS_SAID(i) (said[i] == WORD(i))
#define announce(i) publish(i)
#endif
#define CAN_ASK(i, j) (held[i].by[j] == 0 && IS_SAID(i) && IS_NEWS(i, j))

/*
 * What was published is about to be another: who could have read it may have done so, and looks at it later. It is at this moment only that an old
 * answer begins to differ from one that is read when it is used, so no other moment of reading needs to be tried.
 */
inline may_hold(who, whose) {
	if
	:: CAN_ASK(who, whose) -> held[who].by[whose] = said[whose]
	:: true
	fi
}

inline publish(i) {
	may_hold(A(i), i);
	may_hold(B(i), i);
	said[i] = WORD(i)
}

/* A seal that is left must be heard once more. */
inline make_void(i) {
#ifndef WITHOUT_VOID
	seal[i] = OPEN;
	fresh[i] = fresh[i] & ~BIT(config[i])
#else
	skip
#endif
}

inline say(i) {
	if
	:: SHARED && !IS_WRITER(i) && seal[i] == SEALED && MOST(i) == NOT_MOUNTED && MOUNT_IN(said[i]) != NOT_MOUNTED -> make_void(i)
	:: else
	fi;
	publish(i)
}

/* At once where that only adds to the steps; a new configuration, and the first word after a boot, are steps of their own. */
inline tell(i) {
	if
	:: said[i] != 0 && WRITER_IN(said[i]) == config[i] && !(about[i] != NOT_MOUNTED && MOUNT_IN(said[i]) == NOT_MOUNTED) -> say(i)
	:: else
	fi
}

/* Higher numbers only: of a writer who came before, or whose state is older than ours, nothing is taken. */
inline listen(i, j) {
	if
	:: held[i].by[j] != 0 ->
		heard[i].by[j] = held[i].by[j];
		fresh[i] = fresh[i] | BIT(j);
#ifndef MUTANT_FORGET_STAYS
		forgotten[i] = forgotten[i] & ~BIT(j);
#endif
		held[i].by[j] = 0;
		if
		:: SHARED && IS_WRITER(i) && NUMBER_IN(heard[i].by[j]) > number[i] ->
			number[i] = NUMBER_IN(heard[i].by[j]);
			has_number[i] = false;
			seal[i] = OPEN
		:: SHARED && config[i] == j && WRITER_IN(heard[i].by[j]) == j && NUMBER_IN(heard[i].by[j]) >= number[i] ->
			number[i] = NUMBER_IN(heard[i].by[j]);
			seal[i] = (SEALED_IN(heard[i].by[j]) -> SEALED : OPEN)
		:: else
		fi;
		tell(i)
	:: else
	fi
}

#ifdef MUTANT_FORGET_STALE
/* Who does not answer does not count, as if what he said before were not. */
#define KEEPS(i, j) heard[i].by[j] = (heard[i].by[j] == 0 || !FORBIDS(i, heard[i].by[j]) -> heard[i].by[j] : 1 | (config[i] << 1) | (number[i] << 6))
#else
#define KEEPS(i, j) skip
#endif

/* Without a protection what was heard before does not count, so it need not be kept apart from nothing. */
inline forget_heard(i) {
	fresh[i] = 0;
#if !PROT
	heard[i].by[A(i)] = 0;
	heard[i].by[B(i)] = 0
#endif
}

inline drop_memory(i) {
	about[i] = NOT_MOUNTED;
	is_going[i] = false;
	is_forced[i] = false;
	held[i].by[0] = 0;
	held[i].by[1] = 0;
	held[i].by[2] = 0
#ifdef MUTANT_NO_LIFT
	; is_refused[i] = false
#endif
#ifdef MUTANT_SEAL_UNASKED
	; is_written[i] = false
#endif
}

inline judge() {
	assert(is_excused || (mounted[0] == READ_WRITE) + (mounted[1] == READ_WRITE) + (mounted[2] == READ_WRITE) <= 1);
	assert(is_excused || !(mounted[0] == READ_WRITE || mounted[1] == READ_WRITE) ||
		!(mounted[0] == READ_ONLY || mounted[1] == READ_ONLY || mounted[2] == READ_ONLY))
}

inline do_mount(i) {
	if
	:: PROT && about[i] == READ_WRITE && (mounted[A(i)] == READ_WRITE || mounted[B(i)] == READ_WRITE) -> skip
	:: else ->
		mounted[i] = about[i];
		mounted_number[i] = (about[i] == READ_ONLY -> number[i] : 0);
		is_used[i] = true
	fi;
	about[i] = NOT_MOUNTED;
	is_going[i] = false;
	is_forced[i] = false;
#ifdef MUTANT_ASK_BEFORE_SAY
	publish(i);
#endif
	tell(i);
	judge()
}

#define IS_LET(i) ((about[i] == READ_WRITE && MAY_WRITE(i)) || (about[i] == READ_ONLY && (MAY_READ(i) || MAY_READ_OWN(i))))

inline decide(i) {
	if
	:: IS_LET(i) ->
#if SLOW
		is_going[i] = true
#else
		do_mount(i)
#endif
	:: else ->
		about[i] = NOT_MOUNTED;
		tell(i)
#ifdef MUTANT_NO_LIFT
		; is_refused[i] = true
#endif
	fi
}

/* To forget is about what this node says now: who comes back may act upon what it said before, or upon what it says next. */
inline drop_forgotten(i) {
#ifdef MUTANT_FORGET_OVER_CONFIG
	skip
#else
	forgotten[i] = 0
#endif
}

inline configure(i, writer) {
	if
	:: config[i] != writer ->
#ifndef MUTANT_KEEP_NUMBER
		has_number[i] = false;
#endif
		config[i] = writer;
#ifndef MUTANT_KEEP_PERMISSION
		forget_heard(i);
#endif
		drop_forgotten(i);
		if
		:: !is_going[i] -> about[i] = NOT_MOUNTED
		:: else
		fi;
		held[i].by[0] = 0;
		held[i].by[1] = 0;
		held[i].by[2] = 0;
#ifdef MUTANT_KEEP_NUMBER
		seal[i] = (seal[i] == WANTED -> OPEN : seal[i])
#else
		seal[i] = OPEN
#endif
	:: else
	fi
}

inline lose_power(i) {
	drop_memory(i);
	is_on[i] = false;
	mounted[i] = NOT_MOUNTED;
	mounted_number[i] = 0;
	may_hold(A(i), i);
	may_hold(B(i), i);
	said[i] = 0;
	forget_heard(i)
}

inline lose_state(i) {
	drop_memory(i);
	number[i] = 0;
	mounted_number[i] = 0;
	seal[i] = OPEN;
	has_number[i] = false;
	is_used[i] = true;
	fresh[i] = 0;
	forgotten[i] = 0;
	heard[i].by[0] = 0;
	heard[i].by[1] = 0;
	heard[i].by[2] = 0
}

#ifdef MUTANT_SAY_REFUSED
#define IS_WORTH_SAYING(i) (IS_WRITER(i) && seal[i] == OPEN)
#else
#define IS_WORTH_SAYING(i) MAY_WRITE(i)
#endif
#ifdef MUTANT_NO_LIFT
#define IS_TRIED(i) (!is_refused[i])
#else
#define IS_TRIED(i) true
#endif
#ifdef MUTANT_UNSEAL_SAME_NUMBER
#define UNSEAL_STEP 0
#else
#define UNSEAL_STEP 1
#endif
#define NOTE_TOP(i) top = (number[i] > top -> number[i] : top)
#define KNOWS_ALL(i, j) (held[i].by[j] == 0 && !IS_NEWS(i, j))
#define IS_IDLE(i) (is_on[i] && about[i] == NOT_MOUNTED && mounted[i] == NOT_MOUNTED)
#define IS_RIGHT_READER(i) (seal[i] == SEALED && mounted_number[i] == number[i])

/* What this node says must be of its present configuration before it forgets somebody, who may come back and read it. */
#ifdef MUTANT_FORGET_BEFORE_SAY
#define MAY_FORGET(i, j) true
#elif defined(FORGET_EACH_OTHER)
#define MAY_FORGET(i, j) IS_SAID(i)
#else
/* A person does not forget at a node that is forgotten itself the one that has forgotten it. */
#define MAY_FORGET(i, j) (IS_SAID(i) && !(forgotten[j] & BIT(i)))
#endif
#define CAN(counter, limit) (!is_calm && counter < limit && c_all < C_ALL)
#define SPEND(counter) counter++; c_all++

proctype node(byte i) {
end:	do
	/* What fmove-nvmed does. */
	:: atomic { is_on[i] && !IS_UNDECIDED(i) && said[i] != WORD(i) -> say(i) }
	:: atomic { SHARED && is_on[i] && IS_UNDECIDED(i) && !is_calm -> make_void(i); publish(i) }
	:: atomic { CAN_ASK(i, A(i)) -> held[i].by[A(i)] = said[A(i)]; listen(i, A(i)) }
	:: atomic { CAN_ASK(i, B(i)) -> held[i].by[B(i)] = said[B(i)]; listen(i, B(i)) }
	:: atomic { held[i].by[A(i)] != 0 -> listen(i, A(i)) }
	:: atomic { held[i].by[B(i)] != 0 -> listen(i, B(i)) }
	:: atomic { about[i] != NOT_MOUNTED && !is_going[i] && (!is_calm || (KNOWS_ALL(i, A(i)) && KNOWS_ALL(i, B(i)))) ->
			KEEPS(i, A(i)); KEEPS(i, B(i)); decide(i) }
	:: atomic { IS_IDLE(i) && IS_WORTH_SAYING(i) && IS_TRIED(i) ->
			about[i] = READ_WRITE; announce(i); announced = announced + is_calm; assert(announced <= ANNOUNCED_MAX) }
	:: atomic { SHARED && IS_IDLE(i) && (MAY_READ(i) || MAY_READ_OWN(i)) && IS_TRIED(i) ->
			about[i] = READ_ONLY; announce(i); announced = announced + is_calm; assert(announced <= ANNOUNCED_MAX) }
	:: atomic { is_going[i] -> do_mount(i) }
	:: atomic { is_on[i] && ((mounted[i] == READ_WRITE && (!IS_WRITER(i) || seal[i] != OPEN)) ||
			(mounted[i] == READ_ONLY && !IS_RIGHT_READER(i))) -> mounted[i] = NOT_MOUNTED; mounted_number[i] = 0; tell(i) }
#ifdef MUTANT_FORGET_STALE
	:: atomic { is_on[i] && IS_WRITER(i) && (FORBIDS(i, heard[i].by[A(i)]) || FORBIDS(i, heard[i].by[B(i)])) -> KEEPS(i, A(i)); KEEPS(i, B(i)) }
#endif
	/* What takes over or has lost its number takes one that is higher than any; it is open, and waits for the readers. */
	:: atomic { SHARED && is_on[i] && IS_WRITER(i) && !has_number[i] && about[i] == NOT_MOUNTED && top < NUMBERS ->
#ifdef MUTANT_NUMBER_OF_PEERS
			number[i] = number[i] + 1; NOTE_TOP(i);
#else
			top = top + 1; number[i] = top; drop_forgotten(i);
#endif
			has_number[i] = true; is_used[i] = true; seal[i] = OPEN; tell(i) }
	:: atomic { SHARED && is_on[i] && seal[i] == WANTED && IS_WRITER(i) && mounted[i] == NOT_MOUNTED && about[i] == NOT_MOUNTED && number[i] < NUMBERS ->
			number[i] = number[i] + 1; NOTE_TOP(i); seal[i] = SEALED; tell(i) }

	/* What people do. */
	:: atomic { CAN(c_seal, C_SEAL) && (SEALERS & BIT(i)) && is_on[i] && IS_WRITER(i) && has_number[i] && seal[i] == OPEN && mounted[i] == READ_WRITE ->
			SPEND(c_seal); seal[i] = WANTED; tell(i)
#ifdef MUTANT_SEAL_UNASKED
			; is_written[i] = true
#endif
			}
	:: atomic { CAN(c_unseal, C_UNSEAL) && is_on[i] && IS_WRITER(i) && has_number[i] && seal[i] == SEALED && number[i] < NUMBERS ->
			SPEND(c_unseal); number[i] = number[i] + UNSEAL_STEP; NOTE_TOP(i); drop_forgotten(i); seal[i] = OPEN; tell(i) }
	:: atomic { CAN(c_config, C_CONFIG) && is_on[i] -> SPEND(c_config); configure(i, 1 - config[i]) }
	:: atomic { CAN(c_down, C_DOWN) && is_on[i] && mounted[i] != NOT_MOUNTED -> SPEND(c_down); mounted[i] = NOT_MOUNTED; mounted_number[i] = 0; tell(i) }
	:: atomic { CAN(c_forget, C_FORGET) && is_on[i] && MAY_FORGET(i, A(i)) && !is_on[A(i)] && COUNTS(i, A(i)) -> SPEND(c_forget); forgotten[i] = forgotten[i] | BIT(A(i)) }
	:: atomic { CAN(c_forget, C_FORGET) && is_on[i] && MAY_FORGET(i, B(i)) && !is_on[B(i)] && COUNTS(i, B(i)) -> SPEND(c_forget); forgotten[i] = forgotten[i] | BIT(B(i)) }
	:: atomic { CAN(c_force, C_FORCE) && is_on[i] && IS_WRITER(i) -> SPEND(c_force); is_forced[i] = true; is_excused = true }

	/* What happens. */
	:: atomic { CAN(c_restart, C_RESTART) && is_on[i] -> SPEND(c_restart); drop_memory(i); tell(i) }
	:: atomic { CAN(c_off, C_OFF) && is_on[i] -> SPEND(c_off); lose_power(i) }
	:: atomic { !is_calm && !is_on[i] -> is_on[i] = true }
	:: atomic { CAN(c_lose, C_LOSE) && is_on[i] -> SPEND(c_lose); lose_state(i); tell(i) }
	od
}

#define IS_DONE(i) (!is_on[i] || mounted[i] == READ_ONLY && mounted_number[i] == number[0])
#define IS_ALL_MOUNTED ((seal[0] == OPEN && mounted[0] == READ_WRITE && mounted[1] == NOT_MOUNTED && mounted[2] == NOT_MOUNTED) || \
	(seal[0] == SEALED && IS_DONE(0) && IS_DONE(1) && IS_DONE(2)))
#define IS_GONE(i) ((forgotten[0] & BIT(i)) && (i == 1 || (!is_on[1] || (forgotten[1] & BIT(i)))))
/* An answer of before it was forgotten would end that, and a person would have to see it, and forget it again. */
inline returns(i) {
	if
	:: IS_GONE(i) ->
		held[0].by[i] = 0;
		held[1].by[i] = 0;
		held[2].by[i] = 0
	:: else -> is_on[i] = true
	fi
}

inline begin(i) {
	is_on[i] = true;
#if !NEW
#if SHARED
	number[i] = 1;
	has_number[i] = (i == 0);
	is_used[i] = true;
	top = 1;
#endif
	mounted[i] = (i == 0 -> READ_WRITE : NOT_MOUNTED);
	said[i] = WORD(i)
#endif
}

inline begin_heard(i, j) {
	if
	:: LISTENS(i, j) && said[j] != 0 -> heard[i].by[j] = said[j]; fresh[i] = fresh[i] | BIT(j)
	:: else
	fi
}

init {
	atomic {
		begin(0); begin(1);
#if NODES == 3
		begin(2);
#endif
		begin_heard(0, 1); begin_heard(0, 2); begin_heard(1, 0); begin_heard(2, 0);
		run node(0); run node(1);
#if NODES == 3
		run node(2)
#endif
	}
#if CALM
	atomic {
		is_calm = true;
		configure(0, 0); configure(1, 0); configure(2, 0);
		/* Who is forgotten stays away for good; everybody else comes back. */
		returns(0); returns(1); returns(2)
	}
endcalm: timeout -> assert(IS_ALL_MOUNTED)
#endif
}
