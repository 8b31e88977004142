/* The writer fence of one session (S1, S17 to S20; semantics 7.4), as a model for spin.
 *
 * RUNS runs were accepted. Each of them claims the session with a compare-and-set on the snapshot
 * it has read, writes entries, starts one tool behind a stored intent, and ends. Every run may
 * crash with the whole process at any point; the next process closes what was left open and lets
 * the others go on. A newer run may take the session over at any point: then the old one must not
 * write any more.
 *
 * Faults that the properties must catch (a check that none trips is none):
 *   -DNO_FENCE    a commit does not compare the writer
 *   -DNO_CAS      a claim does not compare its snapshot
 *   -DTWO_STEPS   the writer is compared in one step and the entry written in the next
 *   -DRERUN       a tool whose intent is stored is started again after a restart
 *   -DEAGER       a tool is started before its intent is stored
 *   -DFORGET      a restart leaves the writer of the dead process open
 */

#ifndef RUNS
#define RUNS 3
#endif
#define CRASHES 2
#define NOBODY 255

/* What is stored. It survives. */
byte writer = NOBODY;     /* the active writer of the session */
bool over[RUNS];          /* the run has its end */
bool intent[RUNS];        /* its tool was announced */
byte writers = 0;         /* runs that have claimed and have no end */

/* What is not stored. */
byte process = 0;         /* counts the processes; who has another number is dead */
byte crashes = 0;
byte started[RUNS];       /* the outside world: how often the tool was started */

/* What went wrong, if something did. */
bool stranger = false;    /* an entry of a run that had not the session */
bool early = false;       /* a tool was started before it was announced */

/* A step of a run is of its process, or it is none: after a death the run begins anew. */
#define LIVES (me == process)

/* An entry is written if the store agrees that the run has the session. */
inline entry() {
#ifdef TWO_STEPS
	fine = (writer == id);
	atomic {
		if
		:: LIVES && fine -> stranger = stranger || (writer != id)
		:: else -> skip
		fi
	}
#else
	atomic {
#ifdef NO_FENCE
		fine = LIVES;
#else
		fine = LIVES && (writer == id);
#endif
		if
		:: fine -> stranger = stranger || (writer != id)
		:: else -> skip
		fi
	}
#endif
}

/* The end of a run is stored: once, whatever else comes. */
inline close(who) {
	if
	:: !over[who] -> over[who] = true
	:: else -> skip
	fi
}

proctype Run(byte id) {
	byte me = 0;
	byte seen = NOBODY;
	bool fine = false;

begin:
	/* After a death the next process goes on with what has no end. */
	atomic { me = process; fine = false }
	if
	:: over[id] -> goto gone
	:: else -> skip
	fi;

	/* The snapshot, then the claim: somebody may have come in between. */
	atomic {
		if
		:: LIVES && writer != id -> seen = writer
		:: else -> goto begin
		fi
	}
	atomic {
		if
		:: !LIVES -> goto begin
		:: LIVES && over[id] -> goto gone
#ifdef NO_CAS
		:: LIVES && !over[id] ->
#else
		:: LIVES && !over[id] && writer == seen ->
#endif
			/* The old writer ends in the same transaction. */
			if
			:: seen != NOBODY && !over[seen] -> close(seen); writers--
			:: else -> skip
			fi;
			writer = id;
			writers++
#ifndef NO_CAS
		:: LIVES && !over[id] && writer != seen -> goto begin
#endif
		fi
	}

	entry();
	if
	:: !fine -> goto lost
	:: else -> skip
	fi;

#ifdef EAGER
	atomic { started[id]++; early = early || !intent[id] }
#endif
	/* The intent is an entry like any other; only then the tool is started. */
	atomic {
		fine = LIVES && (writer == id);
		if
		:: fine && !intent[id] -> intent[id] = true
#ifdef RERUN
		:: fine && intent[id] -> skip
#else
		:: fine && intent[id] -> fine = false
#endif
		:: else -> skip
		fi
	}
#ifndef EAGER
	atomic {
		if
		:: fine && LIVES -> started[id]++; early = early || !intent[id]
		:: else -> skip
		fi
	}
#endif

	entry();

lost:
	/* Its end: as the writer, or it has one already because the session was taken from it. */
	atomic {
		if
		:: !LIVES -> goto begin
		:: LIVES && writer == id -> close(id); writers--; writer = NOBODY
		:: LIVES && writer != id -> assert(over[id])
		fi
	}
gone:
	skip
}

/* The machine dies at any time, and the next process makes the session whole first. */
active proctype Death() {
	do
	:: crashes < CRASHES ->
		atomic {
			crashes++;
			process++;
#ifndef FORGET
#ifdef RERUN
			/* The writer goes on where it was. */
			if
			:: writer != NOBODY -> writers--; writer = NOBODY
			:: else -> skip
			fi
#else
			if
			:: writer != NOBODY && !over[writer] -> close(writer); writers--; writer = NOBODY
			:: else -> writer = NOBODY
			fi
#endif
#endif
		}
	:: true -> break
	od
}

init {
	byte n = 0;
	atomic {
		do
		:: n < RUNS -> run Run(n); n++
		:: else -> break
		od
	}
}

#define ALL_OVER (over[0] && over[1] && (RUNS < 3 || over[RUNS - 1]))

ltl fenced   { [] (!stranger) }
ltl one      { [] (writers <= 1) }
ltl once     { [] (started[0] <= 1 && started[1] <= 1 && started[RUNS - 1] <= 1) }
ltl recorded { [] (!early) }
ltl ends     { <> ALL_OVER }
