// Package explanation prints one compared value in full: how its verdict was reached,
// how large the errors are, and where they lie.
package explanation

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/optool/optool/compare"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/tensor"
)

// An Explanation is a value and what is known of it.
type Explanation struct {
	Result  *reports.Result
	Rule    string           // what decided
	Profile *compare.Profile // nil where errors have no size: integers, values that are no tensors
	Causes  []reports.Cause
	// Settled says that no element is off by more than is allowed, and that the value is wrong only since a mistake
	// reproduces its errors.
	Settled bool
	// Unexplained says that the value is wrong and that causes were looked for.
	Unexplained bool
	Limit       func(index []int) (compare.Limit, error) // of an element; nil where there is none
	Again       string                                   // the command that prints it again
	Others      string                                   // what is known of the call's other wrong values
	Step        string                                   // the command that finds a changed value; "" if none may be
}

// Write prints it.
func (e *Explanation) Write(w io.Writer, st reports.Style) error {
	text := e.Judgement(st)
	if errors := e.Errors(st); errors != "" {
		text += "\n" + errors
	}
	if e.Again != "" {
		text += fmt.Sprintf("\nagain: %s\n", reports.Command(e.Again))
	}
	_, err := io.WriteString(w, text)
	return err
}

// Line is the verdict in one line: what there is to say of a value that is right, or that was not compared.
func (e *Explanation) Line() string {
	r := e.Result
	text := string(r.Verdict)
	if r.Target != "" {
		text = r.Target + ": " + text
	}
	if r.Reason != "" {
		return reports.OneLine(text + ": " + r.Reason)
	}
	if p := e.Profile; p != nil {
		text += fmt.Sprintf(", %d of %s are the exact value rounded", p.Equal, reports.Count(p.Numel, "element"))
	}
	if e.Rule != "" {
		text += ", rule: " + e.Rule
	}
	return reports.OneLine(text)
}

// Judgement is the verdict, and how it was reached.
func (e *Explanation) Judgement(st reports.Style) string {
	var b strings.Builder
	r := e.Result
	title := st.Wrap(reports.OneLine(r.Title()+", "+r.Target+": "+string(r.Verdict)), 2)
	fmt.Fprintf(&b, "%s%s\n", st.Bold(strings.TrimSuffix(title, string(r.Verdict))),
		st.Paint(r.Verdict, string(r.Verdict)))
	if r.Reason != "" {
		fmt.Fprintf(&b, "%s\n", st.Wrap(reports.OneLine(r.Reason), 0))
	}
	if r.DType != nil {
		fmt.Fprintf(&b, "%s %s, reference in %s\n", *r.DType, tensor.ShapeString(r.Shape), str(r.Reference))
	}
	if e.Rule != "" {
		fmt.Fprintf(&b, "rule: %s\n", e.Rule)
		if strings.Contains(e.Rule, "*S") {
			fmt.Fprintf(&b, "  %s\n", st.Wrap("ulp: spacing of the dtype at the exact value; S: sum of the magnitudes of "+
				"its n terms", 2))
		}
	}
	if e.Settled {
		fmt.Fprintf(&b, "%s\n", st.Wrap(fmt.Sprintf("No element is off by more than a result computed in %s may be: by "+
			"itself that is a warning. It fails because the mistake of the cause reproduces these errors, which rounding "+
			"would not.", str(r.DType)), 0))
	}
	for i := range e.Causes {
		label := e.Causes[i].Label() + ":"
		fmt.Fprintf(&b, "%s %s\n", st.Bold(label), st.Hang(label+" ", reports.OneLine(e.Causes[i].String()), 2))
	}
	if r.Replaced != "" {
		text := reports.OneLine(reports.ReplacedText(r.Op, r.Replaced, r.ReplacedAt))
		fmt.Fprintf(&b, "note: %s\n", st.Hang("note: ", text, 2))
	}
	caused := slices.ContainsFunc(e.Causes, func(c reports.Cause) bool { return !c.Pattern })
	if e.Unexplained && !caused {
		fmt.Fprintf(&b, "%s %s\n", st.Bold("cause:"), reports.NoneFound)
	}
	if e.Others != "" {
		const label = "also wrong:"
		fmt.Fprintf(&b, "%s %s\n", st.Bold(label), st.Hang(label+" ", reports.OneLine(e.Others), 2))
	}
	if e.Step != "" {
		fmt.Fprintf(&b, "  %s\n  %s\n", st.Wrap("The result is right. This command tells "+reports.KeptText+":", 2),
			reports.Command(e.Step))
	}
	return b.String()
}

// Errors are how large the errors are, and where they lie; "" if that is not known.
func (e *Explanation) Errors(st reports.Style) string {
	if e.Profile == nil || e.Profile.Numel == 0 {
		return ""
	}
	var b strings.Builder
	e.sizes(&b, st)
	e.places(&b, st)
	return b.String()
}

func str(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// barWidth is the width of the longest bar, in columns.
const barWidth = 40

// sizes prints a histogram of the distances and what tolerances would pass.
func (e *Explanation) sizes(b *strings.Builder, st reports.Style) {
	p := e.Profile
	type row struct {
		name string
		n    int
	}
	rows := []row{{"equal", p.Equal}}
	octaves, others := reports.Distances(p.Octaves, p.OtherSign)
	for k, n := range octaves {
		if k > 0 || n > 0 {
			rows = append(rows, row{"< " + power(k) + " ulp", n})
		}
	}
	if others > 0 {
		rows = append(rows, row{"other sign", others})
	}
	if p.Infinite > 0 {
		rows = append(rows, row{"not finite", p.Infinite})
	}
	most := 0
	for _, r := range rows {
		most = max(most, r.n)
	}
	fmt.Fprintf(b, "distance from the nearest right value, %s\n", reports.Count(p.Numel, "element"))
	skipped := false
	for _, r := range rows {
		if r.n == 0 && r.name != "equal" {
			skipped = true
			continue
		}
		if skipped {
			fmt.Fprintf(b, "  %14s\n", "...")
			skipped = false
		}
		fmt.Fprintf(b, "  %14s  %9d  %s\n", r.name, r.n, bar(float64(r.n)/float64(max(most, 1))))
	}
	if p.Equal == p.Numel {
		return
	}
	var parts []string
	for _, share := range []float64{0.5, 0.9, 0.99, 0.999} {
		parts = append(parts, fmt.Sprintf("%g %%: %s", 100*share, within(p.Percentile(share))))
	}
	fmt.Fprintf(b, "percentiles: %s\n", st.Hang("percentiles: ", strings.Join(parts, ", "), 2))
	fmt.Fprintf(b, "smallest tolerance that would pass: atol %.3g, or rtol %.3g", p.MaxAbs, p.MaxRel)
	if p.Infinite > 0 {
		fmt.Fprint(b, ", apart from what is not finite")
	}
	b.WriteString("\n")
}

func power(k int) string {
	if k < 20 {
		return fmt.Sprint(1 << k)
	}
	return fmt.Sprintf("2^%d", k)
}

func within(ulps float64) string {
	switch {
	case ulps == 0:
		return "equal"
	case math.IsInf(ulps, 1):
		return "not finite"
	}
	return fmt.Sprintf("< %s ulp", power(math.Ilogb(ulps)))
}

// bar is a bar of blocks; a share above 0 is at least an eighth of one.
func bar(share float64) string {
	eighths := int(math.Round(share * 8 * barWidth))
	if share > 0 {
		eighths = max(eighths, 1)
	}
	s := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		s += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return s
}

// places prints the worst elements, the dimensions that hold them, and a map.
func (e *Explanation) places(b *strings.Builder, st reports.Style) {
	p := e.Profile
	if len(p.Worst) == 0 {
		return
	}
	fmt.Fprint(b, "\nworst elements\n")
	limit := e.Limit
	for _, d := range p.Worst {
		ulps := fmt.Sprintf("%.4g ulp", d.ULPs)
		if math.IsInf(d.ULPs, 1) {
			ulps = "not finite on one side"
		}
		fmt.Fprintf(b, "  %-16s got %-14.9g want %-14.9g %s\n", tensor.ShapeString(d.Index), d.Got, d.Want, ulps)
		if limit == nil {
			continue
		}
		l, err := limit(d.Index)
		if err != nil {
			limit = nil // what one cannot have the others lack too
			continue
		}
		far := ""
		if times := math.Abs(d.Got-d.Want) / l.Allowed; times > 0 && !math.IsInf(times, 0) {
			far = fmt.Sprintf("; off by %.3g times that", times)
		}
		fmt.Fprintf(b, "  %16s allowed %.4g", "", l.Allowed)
		if l.Other {
			fmt.Fprint(b, ", as another right result is off")
		} else if fmt.Fprintf(b, " = %g*%.4g", l.ULPs, l.Unit); l.Factor > 0 {
			fmt.Fprintf(b, " + %.4g*S, S = %.6g", l.Factor, l.Scale)
		}
		fmt.Fprintf(b, "%s\n", far)
	}
	for _, s := range p.Concentrated() {
		fmt.Fprintf(b, "%s\n", st.Bold("where: "+s))
	}
	e.picture(b, st)
}

// shades are errors of the map: none, and four quarters of the decades up to the worst.
var shades = []rune("·░▒▓█")

// picture draws the last two dimensions, those before laid over each other.
func (e *Explanation) picture(b *strings.Builder, st reports.Style) {
	p := e.Profile
	worst := 0.0
	for _, row := range p.Map {
		for _, u := range row {
			if !math.IsInf(u, 1) {
				worst = max(worst, u)
			}
		}
	}
	if len(p.Map) == 0 || len(p.Map)*len(p.Map[0]) < 4 {
		return
	}
	fmt.Fprint(b, "map of the last two dimensions (· within what is allowed, ░ to █ the worst, ! not finite)\n")
	for _, row := range p.Map {
		b.WriteString("  ")
		for i, u := range row {
			if st.Width > 0 && i >= st.Width-2 {
				break
			}
			switch {
			case u == 0:
				b.WriteRune(shades[0])
			case math.IsInf(u, 1):
				b.WriteRune('!')
			default:
				share := 1.0
				if worst > 1 {
					share = math.Log1p(u) / math.Log1p(worst)
				}
				b.WriteRune(shades[min(4, 1+int(4*share))])
			}
		}
		b.WriteString("\n")
	}
}
