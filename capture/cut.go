package capture

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A cutError says why a recording of `optool hook` is not whole.
type cutError struct{ error }

// A hookEnd is how a recording ended.
type hookEnd struct {
	asked     []int  // steps that were asked for, nil for all
	written   bool   // the recorder wrote its last event
	died      bool   // ... because the program was gone
	paused    bool   // no step was being recorded
	exception string // that ended the program, or left the block that was recorded
	last      hookEvent
}

// event notes what an event says of the end.
func (h *hookEnd) event(e *hookEvent) {
	switch e.Event {
	case "end":
		h.written, h.died = true, e.Complete != nil && !*e.Complete
	case "pause":
		h.paused = true
	case "step":
		h.paused = false
	case "exception":
		h.exception = e.Error
	case "call", "return", "raise", "grad_input", "grad_output":
		h.last = hookEvent{Event: e.Event, ID: e.ID}
	}
}

// cut is what is wrong with a recording at the end of its file, behind which there may be part of a line; nil if all of
// it is there. If the program died after the steps that were asked for, it is.
func (r *hookRun) cut(inLine bool, byID map[int]*hookCall) error {
	h := &r.end
	why := ""
	switch {
	case !inLine && !h.written && r.pid < 0 && len(r.calls) == 0:
		return errors.New("the recording is empty")
	case inLine:
		return cutError{errors.New("the recording ends inside a line: " + r.lost())}
	case !h.written:
		return cutError{errors.New("the recording has no end: " + r.lost())}
	case h.paused || !h.died && h.exception == "":
		return nil
	case h.exception != "":
		why = "the recorded program raised " + h.exception
	default:
		why = "the recorded program was killed, crashed or called os._exit"
	}
	return cutError{fmt.Errorf("%s%s", why, r.whole(byID[h.last.ID]))}
}

// lost says which calls are lost of a file that was cut.
func (r *hookRun) lost() string {
	last := -1
	for _, c := range r.calls {
		last = max(last, c.id)
	}
	if last < 0 {
		return "its calls are lost"
	}
	return fmt.Sprintf("calls after id %d are lost", last)
}

// whole says where a recording was cut, at an event of a call or at its beginning, and which of its steps are whole.
func (r *hookRun) whole(last *hookCall) string {
	steps := map[int]bool{}
	for _, c := range r.calls {
		steps[c.step] = true
	}
	if last == nil {
		return ": it has no calls"
	}
	at := max(slices.Max(slices.Collect(maps.Keys(steps))), -1)
	if r.counted != nil {
		at = max(at, *r.counted)
	}
	var text strings.Builder
	switch {
	case at >= 0 && !steps[at]:
		fmt.Fprintf(&text, " before the first call of step %d", at)
	default:
		if at >= 0 {
			fmt.Fprintf(&text, " in step %d,", at)
		}
		where := "after"
		switch r.end.last.Event {
		case "call":
			where = "inside"
		case "grad_input", "grad_output":
			where = "in the backward pass, at"
		}
		fmt.Fprintf(&text, " %s %s/%d", where, last.op, last.id)
	}
	text.WriteString(": what follows is missing")
	delete(steps, at)
	delete(steps, -1)
	if all := slices.Sorted(maps.Keys(steps)); len(all) > 0 {
		fmt.Fprintf(&text, "; %s whole", StepWords(all)+map[bool]string{true: " is", false: " are"}[len(all) == 1])
	}
	asked := slices.DeleteFunc(slices.Clone(r.end.asked), func(n int) bool { return n <= at })
	if slices.Sort(asked); len(asked) > 0 {
		fmt.Fprintf(&text, "; nothing of %s", StepWords(asked))
	}
	return text.String()
}

// StepWords is "step 1" or "steps 0-2, 5" for ascending numbers.
func StepWords(steps []int) string {
	var spans []string
	for i := 0; i < len(steps); {
		j := i
		for j+1 < len(steps) && steps[j+1] == steps[j]+1 {
			j++
		}
		if i == j {
			spans = append(spans, fmt.Sprint(steps[i]))
		} else {
			spans = append(spans, fmt.Sprintf("%d-%d", steps[i], steps[j]))
		}
		i = j + 1
	}
	if len(steps) == 1 {
		return "step " + spans[0]
	}
	return "steps " + strings.Join(spans, ", ")
}
