// Package reports prints the results of optool: op_tools' tables and CSV files, JSON lines, listings and summaries.
//
// Its only input are row structs, plain data without behaviour, and the series of package timing. It knows no captures,
// operators or comparisons, and decides nothing. Tables are those of op_tools (prettytable): the same columns in order
// of first appearance, the same row names, the same number formats.
package reports
