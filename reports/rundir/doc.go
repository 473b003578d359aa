// Package rundir keeps a run in a directory, so that the run survives its process. The directory holds the settings,
// the finished calls, the calls in work, and the process that works in it:
//
//	settings.json   the settings that decide the results. Only a run with the same settings can continue
//	run.jsonl       the journal: JSON lines, which only grows. reports.ReadJournal finds the complete lines
//	started.jsonl   calls that were begun since the run was last opened, one JSON text a line
//	lock            host and process that work in it
//	tree.idx        names of the directories of the captures (capture.Index)
//	shards/I-of-N/  the same files for a part of a run
//
// It also holds the files that the run saves. Rundir changes a file in two ways only: it renames a complete file into
// place, or it appends. So nothing that was written is lost when the process dies.
package rundir
