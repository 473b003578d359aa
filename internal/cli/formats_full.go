//go:build !lite

package cli

import (
	"io"

	"github.com/optool/optool/reports"
	"github.com/optool/optool/reports/sqlite"
	"github.com/optool/optool/reports/xlsx"
)

var (
	workbook = reportFormat{name: "xlsx", usage: "write an Excel workbook to `FILE`",
		write: func(w io.Writer, rec *reports.Recording, own []reports.Sheet) error {
			return xlsx.Write(w, rec.WorkbookSheets(ownSheets(rec, own))...)
		}}
	database = reportFormat{name: "sqlite", usage: "write an SQLite database to `FILE`", check: sqlite.Check,
		file: func(path string, rec *reports.Recording, own []reports.Sheet) error {
			return sqlite.WriteFile(path, allSheets(rec, own)...)
		}}
)
