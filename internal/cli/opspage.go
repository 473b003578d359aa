package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/optool/optool/ops/opdef"
)

const opsPageHead = "# Operators\n\n" +
	"%d overloads, %d public names. Written by `optool ops --markdown`. Error class: how far\n" +
	"a sound implementation may be from the reference.\n\n" +
	"| op | what it computes | gradient | error class | names | source |\n|---|---|---|---|---|---|\n"

// writeOpsPage writes a page in Markdown: one line per overload, sorted by name.
func writeOpsPage(w io.Writer, entries []*opdef.Entry) error {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b *opdef.Entry) int { return strings.Compare(a.Op(), b.Op()) })
	names := map[string]bool{}
	for _, e := range entries {
		for _, n := range e.Names {
			names[n] = true
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, opsPageHead, len(entries), len(names))
	cell := strings.NewReplacer("|", `\|`, "\n", " ")
	for _, e := range entries {
		for _, c := range []string{code(e.Op()), opText(e), gradientText(e), e.Error.Class.String(), shortNames(e),
			e.Doc.Source} {
			b.WriteString("| " + cell.Replace(c) + " ")
		}
		b.WriteString("|\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func code(s string) string { return "`" + s + "`" }

func opText(e *opdef.Entry) string {
	s := e.Doc.Summary
	if e.Doc.Formula != "" {
		s += ": " + code(e.Doc.Formula)
	}
	if e.Doc.Notes != "" {
		s += ". " + e.Doc.Notes
	}
	return s
}

func gradientText(e *opdef.Entry) string {
	switch {
	case e.Random != "":
		return "no: " + e.Random
	case e.HasGrad:
		return "yes"
	}
	if e.NoGrad == "" {
		return "no: gives no floating tensor"
	}
	return "no: " + e.NoGrad
}

// shortNames lists the public names as declarations write them, without "torch."
// where that is understood, as code since many have double underscores.
func shortNames(e *opdef.Entry) string {
	short := make([]string, len(e.Names))
	for i, n := range e.Names {
		short[i] = n
		if s := strings.TrimPrefix(n, "torch."); opdef.FullName(s) == n {
			short[i] = s
		}
	}
	return code(strings.Join(short, " "))
}
