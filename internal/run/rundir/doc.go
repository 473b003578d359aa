// Package rundir keeps a run in a directory, so that it survives its process: what it was
// told, what is finished, what was being worked on, and who works in it.
//
// A directory holds
//
//	settings.json   what decides the results; a run goes on only with the same
//	run.jsonl       the journal: JSON lines, grown only; reports.ReadJournal says what is whole in it
//	started.jsonl   calls that were begun since the run was last opened, one JSON text a line
//	lock            host and process that work in it
//	tree.idx        names of the directories of the captures (capture.Index)
//	shards/I-of-N/  the same for a part of a run, which has these files there instead
//
// and what the run saves. Only a file that a rename puts in place, or the end of one that
// grows, is ever changed, so nothing that was written is lost when the process dies.
package rundir
