package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/optool/optool/internal/wholefile"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/webpage"
)

// A reportFormat is a form of a run. It is written by write or, if it is no stream (a database), by file:
// one of them is nil. What a writer is given, and must not leave out, is said at reports.Recording; own are
// tables that the command has beside those of all runs: cases, coverage.
type reportFormat struct {
	name, usage string
	write       func(w io.Writer, rec *reports.Recording, own []reports.Sheet) error
	file        func(path string, rec *reports.Recording, own []reports.Sheet) error
	check       func(path string) error // why path cannot be written, nil if it can; nil for those that can be anywhere
	commands    []string                // that have it; nil for all
}

// reportFormats are all of them.
var reportFormats = []reportFormat{
	{name: "html", usage: "write a self-contained HTML page to `FILE`",
		write: func(w io.Writer, rec *reports.Recording, own []reports.Sheet) error {
			return webpage.Write(w, rec, own...)
		}},
	{name: "csv", usage: "write one row per result, with all fields, to `FILE`",
		write: func(w io.Writer, rec *reports.Recording, _ []reports.Sheet) error {
			return reports.WriteCSV(w, rec.ResultSheet())
		}},
	{name: "csv-bom", usage: "write --csv with a byte order mark for Excel to `FILE`",
		write: func(w io.Writer, rec *reports.Recording, _ []reports.Sheet) error {
			if _, err := io.WriteString(w, "\ufeff"); err != nil {
				return err
			}
			return reports.WriteCSV(w, rec.ResultSheet())
		}},
	workbook,
	{name: "junit", usage: "write JUnit XML for CI systems to `FILE`",
		write: func(w io.Writer, rec *reports.Recording, _ []reports.Sheet) error {
			return reports.WriteJUnit(w, rec)
		}},
	{name: "markdown", usage: "write Markdown for a comment or a ticket to `FILE`",
		write: func(w io.Writer, rec *reports.Recording, _ []reports.Sheet) error {
			return reports.WriteMarkdown(w, rec)
		}},
	database,
	{name: "write-known", usage: "write the failures to `FILE`, as a list for --known", commands: judging,
		write: func(w io.Writer, rec *reports.Recording, _ []reports.Sheet) error {
			return reports.WriteKnown(w, rec)
		}},
}

// judging are the commands whose failures --known and --write-known are about.
var judging = []string{"replay", "compare", "report"}

// A reportFile is where a report goes, and in which format.
type reportFile struct {
	format *reportFormat
	path   *string // to "" if it is not asked for
}

type reportFiles []reportFile

// addFlags adds a flag for each format, of the format's name, unless the command has one.
func (r *reportFiles) addFlags(cmd *cobra.Command) {
	for _, x := range reportFormats {
		if cmd.Flags().Lookup(x.name) == nil && (x.commands == nil || slices.Contains(x.commands, cmd.Name())) {
			r.add(x.name, cmd.Flags().String(x.name, "", x.usage))
		}
	}
}

// add adds a file of the format of that name, under another flag.
func (r *reportFiles) add(name string, path *string) {
	i := slices.IndexFunc(reportFormats, func(x reportFormat) bool { return x.name == name })
	*r = append(*r, reportFile{&reportFormats[i], path})
}

// path is the file of the format of that name, "" if it is not asked for.
func (r reportFiles) path(name string) string {
	for _, f := range r {
		if f.format.name == name {
			return *f.path
		}
	}
	return ""
}

// any reports whether any file is asked for.
func (r reportFiles) any() bool {
	return slices.ContainsFunc(r, func(f reportFile) bool { return *f.path != "" })
}

// writable is why a file cannot be written, nil if all can: what would fail after a long run fails before
// it. What is there stays as it is.
func (r reportFiles) writable() error {
	for _, f := range r {
		if *f.path == "" || *f.path == "-" {
			continue
		}
		if err := writable(*f.path); err != nil {
			return fmt.Errorf("--%s: %w", f.format.name, err)
		}
		if f.format.check != nil {
			if err := f.format.check(*f.path); err != nil {
				return fmt.Errorf("--%s: %w", f.format.name, err)
			}
		}
	}
	return nil
}

// writable is why writeFile cannot write a file, nil if it can.
func writable(path string) error { return naming(path, wholefile.Check(path)) }

// An artifact is a further file that a command writes at its end, if its flag names one.
type artifact struct {
	flag, path string
	write      func(io.Writer) error
}

type artifacts []artifact

// writable is why a file cannot be written, nil if all can.
func (as artifacts) writable() error {
	for _, x := range as {
		if x.path == "" {
			continue
		}
		if err := writable(x.path); err != nil {
			return fmt.Errorf("--%s: %w", x.flag, err)
		}
	}
	return nil
}

// writeAll writes the files. One that fails does not keep the others from being written.
func (as artifacts) writeAll() error {
	var failures []error
	for _, x := range as {
		if x.path == "" {
			continue
		}
		err := writeFile(x.path, func(w io.Writer) error {
			b := bufio.NewWriter(w)
			return cmp.Or(x.write(b), b.Flush())
		})
		if err != nil {
			failures = append(failures, fmt.Errorf("--%s: %w", x.flag, err))
		}
	}
	return errors.Join(failures...)
}

// check refuses what cannot be standard output: more than one file, or a database.
func (r reportFiles) check() error {
	n := 0
	for _, f := range r {
		switch {
		case *f.path != "-":
			continue
		case f.format.file != nil:
			return usageError("--%s: want a FILE, - is none", f.format.name)
		}
		n++
	}
	if n > 1 {
		return usageError("more than one file is -, standard output")
	}
	return nil
}

// stdout reports whether one of the files is standard output.
func (r reportFiles) stdout() bool {
	return slices.ContainsFunc(r, func(f reportFile) bool { return *f.path == "-" })
}

// ownSheets are the tables of the command of a run: those of operators, unless it has its own.
func ownSheets(rec *reports.Recording, own []reports.Sheet) []reports.Sheet {
	if own == nil {
		own = []reports.Sheet{rec.OpSheet()}
	}
	return append(slices.Clip(own), rec.ChangeSheets()...)
}

// allSheets are the tables of a database.
func allSheets(rec *reports.Recording, own []reports.Sheet) []reports.Sheet {
	return append(append([]reports.Sheet{rec.SummarySheet()}, ownSheets(rec, own)...), rec.ResultSheet())
}

// writeReports writes a run to files, each in its format; a file of - is w. One that fails does not keep
// the others from being written. It calls wrote with the name of each file.
func writeReports(w io.Writer, rec *reports.Recording, own []reports.Sheet, files reportFiles,
	wrote func(path string)) error {
	var failures []error
	for _, f := range files {
		path, err := *f.path, error(nil)
		write := func(w io.Writer) error { return cmp.Or(f.format.write(w, rec, own), rec.Results.Err()) }
		switch {
		case path == "":
			continue
		case f.format.file != nil:
			if err = f.format.file(path, rec, own); err == nil && rec.Results.Err() != nil {
				err = errors.Join(rec.Results.Err(), os.Remove(path))
			}
		case path == "-":
			err = write(w)
		default:
			err = writeFile(path, write)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("--%s: %w", f.format.name, err))
			continue
		}
		wrote(path)
	}
	return errors.Join(failures...)
}

// tellPages is what writeReports calls to say where a page is.
func (a *app) tellPages(files reportFiles) func(path string) {
	return func(path string) {
		for _, f := range files {
			if f.format.name == "html" && *f.path == path {
				a.tellPage(path)
			}
		}
	}
}

// tellPage says where a page is that people open.
func (a *app) tellPage(path string) {
	if path != "-" && !a.quiet {
		fmt.Fprintf(a.Err, "page written to %s\n", reports.OneLine(path))
	}
}

// writeFile writes a file that appears whole or not at all, or into what is there and is no
// plain file; an error names it.
func writeFile(path string, write func(io.Writer) error) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		device, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return naming(path, errors.Join(write(device), device.Close()))
	}
	return naming(path, wholefile.Write(path, func(w *os.File) error { return write(w) }))
}

// naming is an error that begins with the name of the file that was meant, whatever file it
// came from.
func naming(path string, err error) error {
	var p *fs.PathError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		err = p.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}
