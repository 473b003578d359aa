package view

import (
	"slices"
	"strings"

	"github.com/optool/optool/compare/verdict"
	"github.com/optool/optool/reports"
	"github.com/optool/optool/step"
)

// sendText says how to pass on the first wrong call.
func sendText(t *step.Trace, x Extra) string {
	e := t.Findings[slices.IndexFunc(t.Findings, (*step.Finding).IsWrong)].Call.Entry
	return reports.SendText(x.Send, &reports.Result{Replaced: e.Replaced, ReplacedAt: e.ReplacedAt})
}

// Facts are what reports of a step begin with, in the words of Screen: the first fault in order of execution and why,
// or that none was found; what the device repeats; the loss, and what the fault does to it.
func Facts(t *step.Trace, x Extra) (facts []reports.Fact) {
	x.Style = reports.Style{}
	add := func(name, text string) { facts = append(facts, reports.Fact{Name: name, Text: reports.OneLine(text)}) }
	first := t.First()
	if t.Runs != nil {
		if text := t.Runs.Faulty.String(); text != "" {
			defer func() {
				facts = slices.Insert(facts, min(1, len(facts)), reports.Fact{Name: "faults", Text: text})
			}()
		}
	}
	for _, c := range t.SavedWrong() {
		add("wrong", saved(c))
	}
	if first == nil {
		add("step", nothing(t))
	} else {
		head, text, _ := strings.Cut(judge(t).text, ": ")
		add(strings.ToLower(head), text)
		add("first fault in order of execution", string(first.Rule)+": "+sentence(first))
		for i := range first.Causes[:min(len(first.Causes), 2)] {
			add(first.Causes[i].Label()+" of the first fault", first.Causes[i].String())
		}
		todo, send := whatToDo(first)
		for i, line := range todo {
			if i == len(todo)-1 {
				line += " " + strings.Join(send, ", ")
			}
			add("what to do", line)
		}
		if x.Send != "" {
			add(reports.SendName, sendText(t, x))
		}
		var b strings.Builder
		behind(&b, first, x.Style)
		for line := range strings.Lines(b.String()) {
			add("what became of the first fault", strings.TrimSpace(line))
		}
		for _, g := range t.Doubted() {
			add("not judged", g.String())
		}
	}
	if own := t.Findings; len(own) > 0 && own[0].Rule == verdict.NonFinite && own[0] != first {
		add("first value that is not finite", sentence(own[0]))
	}
	for _, line := range stateWrites(t.StateWrites()) {
		add("note", line)
	}
	if t.Runs != nil {
		if text := t.Runs.Steps.String(runNames); text != "" {
			add("two runs", strings.TrimPrefix(text, "note: "))
		}
		for line := range strings.Lines(runsText(t)) {
			add("two runs", strings.TrimSpace(line))
		}
	}
	if _, n := t.Reruns(); n != nil {
		add("device "+x.Device, rerunsText(n))
		for _, text := range n.Instead {
			add("device "+x.Device, text)
		}
	}
	if s := t.MainStep(); s != nil {
		for line := range strings.Lines(loss(t, s, x)) {
			name, text := "effect on the loss", strings.TrimSpace(line)
			if rest, ok := strings.CutPrefix(text, "loss "); ok {
				name, text = "loss", rest
			}
			add(name, text)
		}
	}
	for _, line := range x.Imagine {
		add("effect on the loss", line)
	}
	return facts
}
