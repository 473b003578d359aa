package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/webpage"
	"github.com/optool/optool/reports/xlsx"
)

// A reportFormat is a form of a run, whose own tables stand beside those of all runs.
type reportFormat struct {
	name, usage string
	write       func(w io.Writer, rec *reports.Recording, own []reports.Sheet) error
}

// reportFormats are all of them.
var reportFormats = []reportFormat{
	{"html", "write a page that needs nothing else to `FILE`",
		func(w io.Writer, rec *reports.Recording, own []reports.Sheet) error {
			return webpage.Write(w, rec, own...)
		}},
	{"csv", "write one row a result with all fields to `FILE`",
		func(w io.Writer, rec *reports.Recording, _ []reports.Sheet) error {
			return reports.WriteCSV(w, rec.ResultSheet())
		}},
	{"xlsx", "write a workbook with summary, ops and results to `FILE`",
		func(w io.Writer, rec *reports.Recording, own []reports.Sheet) error {
			return xlsx.Write(w, allSheets(rec, own)...)
		}},
	{"junit", "write JUnit's XML to `FILE`",
		func(w io.Writer, rec *reports.Recording, _ []reports.Sheet) error { return reports.WriteJUnit(w, rec) }},
	{"markdown", "write Markdown for a comment to `FILE`",
		func(w io.Writer, rec *reports.Recording, _ []reports.Sheet) error {
			return reports.WriteMarkdown(w, rec)
		}},
}

// allSheets are the tables of a run, with those of ops unless it has its own.
func allSheets(rec *reports.Recording, own []reports.Sheet) []reports.Sheet {
	if own == nil {
		own = []reports.Sheet{rec.OpSheet()}
	}
	return append(append([]reports.Sheet{rec.SummarySheet()}, own...), rec.ResultSheet())
}

// writeReports writes a run to the file of each format, by its name; a file of - is w.
// It calls wrote with the name of each file.
func writeReports(w io.Writer, rec *reports.Recording, own []reports.Sheet, paths map[string]string,
	wrote func(path string)) error {
	for _, f := range reportFormats {
		write := func(w io.Writer) error { return f.write(w, rec, own) }
		path, err := paths[f.name], error(nil)
		switch path {
		case "":
			continue
		case "-":
			err = write(w)
		default:
			err = writeFile(path, write)
		}
		if err != nil {
			return err
		}
		wrote(path)
	}
	return nil
}

// writeFile creates a file and writes it; an error names it.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
